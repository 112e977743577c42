//! The memory that the guest shares with the lab. The guest writes its results there, so that it never waits
//! for a disk of the lab's machine.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use spry_lab::Stage;
use spry_lab::protocol::{ACCOUNT, Account, Failure, RESULTS_DIRECTORY, shared};

use crate::kernel::uptime_ms;

/// The vendor and the model of the PCI device that holds the shared memory.
const DEVICE: (&str, &str) = ("0x1af4", "0x1110");

/// The memory that the guest shares with the lab.
pub struct Shared {
    start: *mut u8,
    len: usize,
}

impl Shared {
    /// Finds the device of the shared memory and maps the memory.
    pub fn open() -> io::Result<Self> {
        let device = find()?;
        fs::write(device.join("enable"), "1")?;
        let file = OpenOptions::new().read(true).write(true).open(device.join("resource2"))?;
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: this makes a new mapping of a whole open file. It stays until the guest ends.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), len, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast(), len })
    }

    /// The job's files, if the shared memory holds a job.
    pub fn job(&mut self) -> Option<BTreeMap<String, Vec<u8>>> {
        shared::job(self.bytes())
    }

    /// Reports to the lab which stage the guest has reached.
    pub fn tell(&mut self, stage: Stage) {
        self.put_head(&shared::head(stage, 0, 0));
    }

    fn put_head(&mut self, head: &[u8; 24]) {
        fence(Ordering::SeqCst);
        self.bytes()[..24].copy_from_slice(head);
        fence(Ordering::SeqCst);
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has `len` bytes, is never removed, and is borrowed only through `self`. The lab
        // writes to the memory only before the machine continues, and reads it only later.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    /// Gives every result and the guest's own account to the lab. If the results do not fit, the
    /// account has a failure.
    pub fn hand_out(&mut self, mut account: Account) -> io::Result<()> {
        let mut paths = Vec::new();
        collect(Path::new(RESULTS_DIRECTORY), &mut paths)?;
        paths.sort();
        let room_mib = self.len >> 20;
        let mut writer = Writer { memory: &mut self.bytes()[shared::HEAD..], at: 0, files: 0 };
        // The account is written last, so some space is kept for it.
        let keep = 64 << 10;
        for path in &paths {
            let name = path.strip_prefix(RESULTS_DIRECTORY).unwrap_or(path).to_string_lossy().into_owned();
            let mut file = File::open(path)?;
            let len = file.metadata()?.len();
            if !writer.has_room(&name, len, keep) {
                let what =
                    format!("the results are larger than the {room_mib} MiB that they were given ({name})");
                account.failure.get_or_insert(Failure::Other(what));
                break;
            }
            writer.put(&name, len, &mut file)?;
        }
        account.ended_ms = uptime_ms();
        let mut text = serde_json::to_vec(&account).map_err(io::Error::other)?;
        if text.len() + 1024 > keep {
            account.failure = Some(Failure::Other("the guest's account is too long".to_owned()));
            account.commands.clear();
            text = serde_json::to_vec(&account).map_err(io::Error::other)?;
        }
        writer.put(ACCOUNT, text.len() as u64, &mut text.as_slice())?;
        let (files, bytes) = (writer.files, writer.at as u64);
        self.put_head(&shared::head(Stage::Done, files, bytes));
        Ok(())
    }
}

struct Writer<'a> {
    memory: &'a mut [u8],
    at: usize,
    files: u32,
}

impl Writer<'_> {
    fn has_room(&self, name: &str, len: u64, keep: usize) -> bool {
        let room = self.memory.len() - self.at;
        (len as usize).checked_add(12 + name.len() + keep).is_some_and(|needed| needed <= room)
    }

    fn put(&mut self, name: &str, len: u64, content: &mut impl Read) -> io::Result<()> {
        for part in [&shared::file_head(name, len)[..], name.as_bytes()] {
            self.memory[self.at..self.at + part.len()].copy_from_slice(part);
            self.at += part.len();
        }
        let end = self.at + len as usize;
        content.read_exact(&mut self.memory[self.at..end])?;
        self.at = end;
        self.files += 1;
        Ok(())
    }
}

fn find() -> io::Result<PathBuf> {
    for entry in fs::read_dir("/sys/bus/pci/devices")? {
        let path = entry?.path();
        let is = |name: &str, wanted: &str| {
            fs::read_to_string(path.join(name)).is_ok_and(|found| found.trim() == wanted)
        };
        if is("vendor", DEVICE.0) && is("device", DEVICE.1) {
            return Ok(path);
        }
    }
    Err(io::Error::other("there is no device to hand results out by"))
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), paths)?;
        } else if kind.is_file() {
            paths.push(entry.path());
        }
    }
    Ok(())
}
