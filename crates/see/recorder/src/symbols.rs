//! Names for addresses in the code: kernel functions, and for programs the file and the offset in it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use spry_trace::Tgid;
use spry_trace::event::TaskInfo;

use crate::decode::RawStack;
use crate::numbers::Listing;
use crate::programs::Programs;

/// The most processes with maps in memory at a time.
const PROCESSES_MAX: usize = 512;

/// Names kept at a time.
const NAMES_MAX: usize = 1 << 16;

/// A process's maps are not read again sooner than this, ns.
const MAPS_AGE_MIN_NS: u64 = 500_000_000;

/// Kernel frames inside this function belong to the recorder's own program, and are left out.
const WAY_IN: &str = "__schedule";

/// The last function of the kernel itself; modules and BPF programs, which come and go, are behind it.
const LAST_OF_KERNEL: &str = "_etext";

/// The beginning of the names of BPF programs' functions.
const OF_PROGRAM: &str = "bpf_prog_";

/// The beginning of the names of the kernel's interrupt entries, on x86 and on 64-bit Arm.
const INTERRUPT_ENTRIES: [&str; 3] = ["asm_sysvec_", "asm_common_interrupt", "el1h_64_irq"];

/// A part of a process's memory that is mapped from a file.
struct FileMapping {
    start: u64,
    end: u64,
    /// The offset in the file of the address `start`, bytes.
    offset: u64,
    file: Arc<str>,
}

/// Turns addresses into names and remembers them.
pub(crate) struct Symbols {
    kernel: Vec<(u64, String)>,
    /// The end of the kernel's own functions.
    kernel_end: u64,
    programs: Programs,
    kernel_names: HashMap<u64, Arc<str>>,
    processes: HashMap<Tgid, Process>,
    listing: Listing,
}

#[derive(Default)]
struct Process {
    maps: Vec<FileMapping>,
    maps_read_ns: Option<u64>,
    names: HashMap<u64, Arc<str>>,
}

impl Symbols {
    /// Takes the kernel's functions, in order of address, and the numbers by which `/proc` lists processes.
    pub(crate) fn new(kernel: Vec<(u64, String)>, listing: Listing) -> Symbols {
        let kernel_end =
            kernel.iter().find(|(_, name)| name == LAST_OF_KERNEL).map_or(u64::MAX, |&(address, _)| address);
        Symbols {
            kernel,
            kernel_end,
            programs: Programs::default(),
            kernel_names: HashMap::new(),
            processes: HashMap::new(),
            listing,
        }
    }

    /// Learns the numbers of a task's process.
    pub(crate) fn learn(&mut self, info: &TaskInfo) {
        self.listing.learn(info);
    }

    /// Forgets a process, since another process has its number now.
    pub(crate) fn forget(&mut self, tgid: Tgid) {
        self.processes.remove(&tgid);
    }

    /// The names of a stack's frames, kernel first, the innermost first, and the number of kernel frames.
    pub(crate) fn frames(&mut self, raw: &RawStack, time_ns: u64) -> (Box<[Arc<str>]>, usize) {
        self.frames_after(raw, time_ns, |names| names.iter().position(|name| &**name == WAY_IN).unwrap_or(0))
    }

    /// The same as [`Symbols::frames`] for a stack that was taken in an interrupt, without the
    /// interrupt's frames.
    pub(crate) fn interrupted(&mut self, raw: &RawStack, time_ns: u64) -> (Box<[Arc<str>]>, usize) {
        let is_entry = |name: &Arc<str>| INTERRUPT_ENTRIES.iter().any(|entry| name.starts_with(entry));
        self.frames_after(raw, time_ns, |names| names.iter().position(is_entry).map_or(0, |at| at + 1))
    }

    fn frames_after(
        &mut self,
        raw: &RawStack,
        time_ns: u64,
        own: impl Fn(&[Arc<str>]) -> usize,
    ) -> (Box<[Arc<str>]>, usize) {
        let mut frames: Vec<_> =
            raw.kernel.iter().map(|&address| self.kernel_name(address, time_ns)).collect();
        frames.drain(..own(&frames));
        let of_kernel = frames.len();
        frames.extend(self.user_names(raw.tgid, &raw.user, time_ns));
        (frames.into(), of_kernel)
    }

    /// The name of the kernel's function at an address at this time; BPF programs come and go.
    pub(crate) fn kernel_name(&mut self, address: u64, time_ns: u64) -> Arc<str> {
        if address >= self.kernel_end {
            return self.name_behind_kernel(address, time_ns);
        }
        if self.kernel_names.len() >= NAMES_MAX {
            self.kernel_names.clear();
        }
        if let Some(name) = self.kernel_names.get(&address) {
            return Arc::clone(name);
        }
        let name: Arc<str> = self.listed(address).map_or_else(|| hexadecimal(address), Arc::from);
        self.kernel_names.insert(address, Arc::clone(&name));
        name
    }

    /// The last function at or before an address, in the list of functions from the start.
    fn listed(&self, address: u64) -> Option<&str> {
        let after = self.kernel.partition_point(|&(start, _)| start <= address);
        Some(&self.kernel[after.checked_sub(1)?].1)
    }

    /// The name of a function of a module or a BPF program. A program may have been loaded since the list was
    /// made; the function before it in the list is then unrelated to it.
    fn name_behind_kernel(&mut self, address: u64, time_ns: u64) -> Arc<str> {
        if let Some(name) = self.programs.name(address, time_ns) {
            return name;
        }
        let is_known_to_end = |name: &str| self.programs.is_any_known() && name.starts_with(OF_PROGRAM);
        self.listed(address)
            .filter(|name| !is_known_to_end(name))
            .map_or_else(|| hexadecimal(address), Arc::from)
    }

    fn user_names(&mut self, tgid: Tgid, addresses: &[u64], time_ns: u64) -> Vec<Arc<str>> {
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        let process = self.processes.entry(tgid).or_default();
        if process.names.len() >= NAMES_MAX {
            process.names.clear();
        }
        // A process maps more files as it runs: its maps are read again when an address is in none of the
        // known maps, and only then. The kernel needs so long to list the maps of a large process that the
        // list delays samples.
        let is_new = process.maps_read_ns.is_none_or(|read_ns| time_ns > read_ns + MAPS_AGE_MIN_NS);
        if is_new && addresses.iter().any(|&address| process.place(address).is_none()) {
            process.maps = self.listing.number(tgid).map(read_maps).unwrap_or_default();
            process.maps_read_ns = Some(time_ns);
        }
        addresses.iter().map(|&address| process.name(address)).collect()
    }
}

impl Process {
    fn place(&self, address: u64) -> Option<&FileMapping> {
        let after = self.maps.partition_point(|mapped| mapped.start <= address);
        self.maps.get(after.checked_sub(1)?).filter(|mapped| address < mapped.end)
    }

    fn name(&mut self, address: u64) -> Arc<str> {
        if let Some(name) = self.names.get(&address) {
            return Arc::clone(name);
        }
        let name: Arc<str> = match self.place(address) {
            Some(mapped) => format!("{}+{:#x}", mapped.file, address - mapped.start + mapped.offset).into(),
            None => hexadecimal(address),
        };
        self.names.insert(address, Arc::clone(&name));
        name
    }
}

fn hexadecimal(address: u64) -> Arc<str> {
    format!("{address:#x}").into()
}

fn read_maps(tgid: Tgid) -> Vec<FileMapping> {
    parse_maps(&fs::read_to_string(format!("/proc/{tgid}/maps")).unwrap_or_default())
}

fn parse_maps(text: &str) -> Vec<FileMapping> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let (start, end) = words.next()?.split_once('-')?;
            let is_code = words.next()?.contains('x');
            let offset = u64::from_str_radix(words.next()?, 16).ok()?;
            let file = words.nth(2).unwrap_or("[anonymous]");
            is_code.then_some(())?;
            Some(FileMapping {
                start: u64::from_str_radix(start, 16).ok()?,
                end: u64::from_str_radix(end, 16).ok()?,
                offset,
                file: Path::new(file).file_name().map_or(file, |name| name.to_str().unwrap_or(file)).into(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_a_program_is_named_by_file_and_place() {
        let maps = "55d0-55d8 r--p 00000000 fd:00 1 /usr/bin/vi\n\
                    1000-3000 r-xp 00005000 fd:00 1 /usr/lib/libc.so.6\n7000-8000 r-xp 00000000 00:00 0\n";
        let mut process = Process { maps: parse_maps(maps), ..Process::default() };
        assert_eq!(&*process.name(0x1010), "libc.so.6+0x5010");
        assert_eq!(&*process.name(0x7004), "[anonymous]+0x4");
        assert_eq!(&*process.name(0x9000), "0x9000");
    }

    #[test]
    fn the_recorders_own_frames_are_left_out() {
        let kernel = [(100, "bpf_prog"), (200, "__schedule"), (300, "schedule"), (400, "pipe_read")];
        let kernel = kernel.map(|(address, name)| (address, name.to_owned())).to_vec();
        let raw = RawStack {
            tid: spry_trace::Tid(u32::MAX),
            tgid: Tgid(u32::MAX),
            kernel: vec![110, 220, 330, 440],
            user: vec![],
        };
        let (frames, of_kernel) = Symbols::new(kernel, Listing::Outermost).frames(&raw, 0);
        assert_eq!(of_kernel, 3);
        assert_eq!(
            frames.iter().map(|name| &**name).collect::<Vec<_>>(),
            ["__schedule", "schedule", "pipe_read"]
        );
    }

    #[test]
    fn a_module_s_function_beyond_the_kernel_s_is_named_too() {
        let kernel = [(100, "schedule"), (200, "_etext"), (300, "uinput_open")];
        let kernel = kernel.map(|(address, name)| (address, name.to_owned())).to_vec();
        let mut symbols = Symbols::new(kernel, Listing::Outermost);
        assert_eq!(
            [110, 310].map(|address| symbols.kernel_name(address, 0).to_string()),
            ["schedule", "uinput_open"]
        );
        assert_eq!(&*symbols.kernel_name(10, 0), "0xa");
    }
}
