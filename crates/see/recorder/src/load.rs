//! Chooses, loads and attaches the BPF programs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::slice;

use libbpf_rs::{
    ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenMapMut, OpenObject,
    PrintLevel,
};
use spry_kernel::{Functions, Kernel};
use spry_trace::{Group, Groups};

use crate::accounts::{self, Accounts, List};
use crate::error::{Error, Result, last_error, system};
use crate::limits;
use crate::mark::Target;
use crate::ring::{Control, Rings, SharedRing};
use crate::wire::{SPRY_CHUNK_BYTES, spry_knobs, spry_split_knobs, spry_stat};

/// The compiled programs, as an ELF object.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/recorder.bpf.o"));

/// Bytes of the ring of rare records, without and with stacks.
const SHARED_BYTES: u32 = 8 << 20;
const SHARED_BYTES_WITH_STACKS: u32 = 64 << 20;

/// Chunks in each of the maps that rings are made of; 64 take a CPU less than a millisecond to clear.
const PIECE_CHUNKS: u32 = 64;

/// Every program's tracepoint, and the groups that need it.
const PROGRAMS: &[(&str, &[Group])] = &[
    ("sched_switch", &[Group::Sched]),
    ("sched_waking", &[Group::Sched]),
    ("sched_wakeup", &[Group::Sched]),
    ("sched_wakeup_new", &[Group::Sched]),
    ("sched_migrate_task", &[Group::Sched]),
    ("sched_process_fork", &[Group::Sched]),
    ("sched_process_exec", &[Group::Sched]),
    ("sched_process_exit", &[Group::Sched]),
    ("task_rename", &[Group::Sched]),
    ("cpuhp_exit", &[Group::Sched]),
    ("hrtimer_expire_entry", &[Group::Sched, Group::Timer]),
    ("timer_expire_entry", &[Group::Timer]),
    ("irq_handler_entry", &[Group::Irq]),
    ("irq_handler_exit", &[Group::Irq]),
    ("softirq_entry", &[Group::Irq]),
    ("softirq_exit", &[Group::Irq]),
    ("local_timer_entry", &[Group::Irq]),
    ("local_timer_exit", &[Group::Irq]),
    ("reschedule_entry", &[Group::Irq]),
    ("reschedule_exit", &[Group::Irq]),
    ("call_function_entry", &[Group::Irq]),
    ("call_function_exit", &[Group::Irq]),
    ("call_function_single_entry", &[Group::Irq]),
    ("call_function_single_exit", &[Group::Irq]),
    ("irq_work_entry", &[Group::Irq]),
    ("irq_work_exit", &[Group::Irq]),
    ("sched_entry_tp", &[Group::Resched]),
    ("sched_exit_tp", &[Group::Resched]),
    ("sched_set_need_resched_tp", &[Group::Resched]),
    ("cpu_idle", &[Group::Idle]),
    ("sys_exit", &[Group::Ipc]),
    ("sys_enter", &[Group::Mark]),
];

/// The programs that the recorder runs itself, and not a tracepoint.
const ON_DEMAND: [&str; 2] = ["spry_tasks", accounts::WALK];

/// The tracepoints without which nothing can be recorded.
const NEEDED: [&str; 2] = ["sched_switch", "sched_waking"];

/// The tracepoint without which a group has no events.
const ESSENTIAL: [(Group, &str); 8] = [
    (Group::Sched, "sched_switch"),
    (Group::Timer, "hrtimer_expire_entry"),
    (Group::Irq, "irq_handler_entry"),
    (Group::Resched, "sched_set_need_resched_tp"),
    (Group::Ipc, "sys_exit"),
    (Group::Mark, "sys_enter"),
    (Group::Stack, "sched_switch"),
    (Group::Idle, "cpu_idle"),
];

/// The part of `groups` for which this kernel has tracepoints that do no harm.
pub(crate) fn available(kernel: &Kernel, groups: Groups) -> Groups {
    let has = |group| ESSENTIAL.iter().all(|&(of, name)| of != group || kernel.tracepoint(name).is_some());
    let harms = |group| group == Group::Resched && kernel.need_resched_recurses();
    groups.iter().filter(|&group| has(group) && !harms(group)).collect()
}

/// The programs in the kernel, attached but switched off.
pub(crate) struct LoadedPrograms {
    object: Object,
    groups: Groups,
    links: Vec<Link>,
    pieces: Vec<MapHandle>,
    ring_bytes: usize,
    shared_bytes: usize,
    cpus: usize,
    accounts: Accounts,
    knows_all_tasks: bool,
}

pub(crate) fn load(
    kernel: &Kernel,
    functions: &Functions,
    groups: Groups,
    ring_bytes: usize,
    node: Option<&Target>,
) -> Result<LoadedPrograms> {
    if !ring_bytes.is_power_of_two() || ring_bytes < 2 * SPRY_CHUNK_BYTES as usize {
        return Err(Error::RingSize(ring_bytes));
    }
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
    let cpus = libbpf_rs::num_possible_cpus().map_err(|error| Error::Load(error.to_string()))?;
    let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(refused)?;
    let tick_is_irq = crate::tick::comes_as_interrupt();
    let namespace = spry_sys::namespace::own_pid_namespace();
    let list = List::of(namespace, functions);
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let tracepoint = name.trim_start_matches("spry_");
        if name == accounts::WALK {
            program.set_autoload(list == List::Walk);
        }
        let Some((_, needing)) = PROGRAMS.iter().find(|(known, _)| *known == tracepoint) else { continue };
        let wanted = needing.iter().any(|&group| groups.contains(group))
            || (tick_is_irq && tracepoint == "local_timer_entry");
        program.set_autoload(wanted && kernel.tracepoint(tracepoint).is_some());
    }
    if let Some(missing) = NEEDED.into_iter().find(|name| kernel.tracepoint(name).is_none()) {
        return Err(Error::NoTracepoint(missing));
    }
    let shared_bytes = if groups.contains(Group::Stack) { SHARED_BYTES_WITH_STACKS } else { SHARED_BYTES };
    let limits = limits::of_the_scheduler();
    let knobs = spry_knobs {
        namespace_inode: namespace.unwrap_or(0),
        has_limit_waits: u8::from(limits.is_some()),
        ..knobs(kernel, functions, groups, ring_bytes, tick_is_irq, node)
    };
    let accounts_bytes = list.bytes();
    let failed = |error| match io_kind(&error) {
        Some(libc::ENOMEM) => Error::NoMemory(ring_bytes),
        _ => refused(error),
    };
    let pieces = make_pieces(&knobs, cpus).map_err(failed)?;
    size_maps(&mut open, &knobs, cpus, shared_bytes, accounts_bytes, &pieces).map_err(refused)?;
    limits::share(&mut open, limits.as_ref()).map_err(refused)?;
    let object = open.load().map_err(failed)?;
    let accounts = Accounts::new(list, &object, accounts_bytes)?;
    let mut loaded = LoadedPrograms {
        object,
        groups,
        links: Vec::new(),
        pieces,
        ring_bytes,
        shared_bytes: shared_bytes as usize,
        cpus,
        knows_all_tasks: namespace.is_none() || accounts.list() == List::Walk,
        accounts,
    };
    loaded.fill_in_pieces()?;
    loaded.attach()?;
    Ok(loaded)
}

fn knobs(
    kernel: &Kernel,
    functions: &Functions,
    groups: Groups,
    ring_bytes: usize,
    tick_is_irq: bool,
    node: Option<&Target>,
) -> spry_knobs {
    let chunks = ring_bytes as u32 / SPRY_CHUNK_BYTES;
    let function = |name: &str| functions.address(name).unwrap_or(0);
    let count = kernel.preempt_count();
    spry_knobs {
        chunk_mask: chunks - 1,
        chunks_shift: chunks.ilog2(),
        piece_shift: chunks.min(PIECE_CHUNKS).ilog2(),
        ring_bytes: ring_bytes as u64,
        has_prev_state: u8::from(kernel.tracepoint("sched_switch").is_some_and(|count| count >= 4)),
        has_wheel_clock: u8::from(kernel.tracepoint("timer_expire_entry").is_some_and(|count| count >= 2)),
        want_ticks: u8::from(groups.contains(Group::Sched) && !tick_is_irq),
        want_timers: u8::from(groups.contains(Group::Timer)),
        want_stacks: u8::from(groups.contains(Group::Stack)),
        want_irqs: u8::from(groups.contains(Group::Irq)),
        tick_is_irq: u8::from(tick_is_irq),
        // Before 6.9 the handler of the tick is named tick_sched_timer.
        tick_handler: functions.address("tick_nohz_handler").unwrap_or_else(|| function("tick_sched_timer")),
        sleep_handler: function("hrtimer_wakeup"),
        timerfd_handler: function("timerfd_tmrproc"),
        posix_handler: function("posix_timer_fn"),
        itimer_handler: function("it_real_fn"),
        process_timeout_handler: function("process_timeout"),
        mark_inode: node.map_or(0, |node| node.inode),
        mark_device: node.map_or(0, |node| node.device),
        count_from_rq: count.from_rq,
        hardirq_mask: count.hardirq_mask,
        channel_key: spry_sys::clock::unix_ns().wrapping_mul(0xd6e8_feb8_6659_fd93) | 1,
        ..spry_knobs::default()
    }
}

/// The memory of all CPUs' rings.
fn make_pieces(knobs: &spry_knobs, cpus: usize) -> libbpf_rs::Result<Vec<MapHandle>> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let chunks = 1 << knobs.piece_shift;
    let pieces = cpus << (knobs.chunks_shift - knobs.piece_shift);
    let make = |_| MapHandle::create(MapType::Array, Some("piece"), 4, SPRY_CHUNK_BYTES, chunks, &options);
    (0..pieces).map(make).collect()
}

fn size_maps(
    open: &mut OpenObject,
    knobs: &spry_knobs,
    cpus: usize,
    shared_bytes: u32,
    accounts_bytes: u32,
    pieces: &[MapHandle],
) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some("cpus") => map.set_max_entries(cpus as u32)?,
            Some("pieces") => {
                map.set_max_entries(pieces.len() as u32)?;
                map.set_inner_map_fd(pieces[0].as_fd())?;
            }
            Some("shared") => map.set_max_entries(shared_bytes)?,
            Some(accounts::MAP) => map.set_max_entries(accounts_bytes)?,
            Some(".rodata.knobs") => set_knobs(&mut map, knobs)?,
            _ => {}
        }
    }
    Ok(())
}

/// Knobs that programs read as constants: plain C structures without padding.
pub(crate) trait Knobs: Copy {}
impl Knobs for spry_knobs {}
impl Knobs for spry_split_knobs {}

/// Sets the constants of programs that are not loaded yet.
pub(crate) fn set_knobs<K: Knobs>(map: &mut OpenMapMut<'_>, knobs: &K) -> libbpf_rs::Result<()> {
    // SAFETY: plain data without padding that is read as the bytes it is made of.
    let bytes = unsafe { slice::from_raw_parts((&raw const *knobs).cast::<u8>(), size_of::<K>()) };
    map.set_initial_value(bytes)
}

/// An object's map of a name.
pub(crate) fn map<'object>(object: &'object Object, name: &str) -> Result<libbpf_rs::Map<'object>> {
    object
        .maps()
        .find(|map| map.name() == name)
        .ok_or_else(|| Error::Load(format!("the map {name} is missing")))
}

/// Converts the kernel's refusal to the error with its reason.
pub(crate) fn refused(error: libbpf_rs::Error) -> Error {
    match error.kind() {
        ErrorKind::PermissionDenied if !may_load_programs() => Error::NoPrivilege,
        ErrorKind::PermissionDenied => Error::BpfRefused(io::Error::from_raw_os_error(libc::EPERM)),
        _ if io_kind(&error) == Some(libc::ENOSYS) => {
            Error::BpfRefused(io::Error::from_raw_os_error(libc::ENOSYS))
        }
        _ => Error::Load(format!("{error:#}").replace('\n', " ")),
    }
}

/// Whether this process has CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN, which stands for both.
fn may_load_programs() -> bool {
    const SYS_ADMIN: u32 = 21;
    const PERFMON: u32 = 38;
    const BPF: u32 = 39;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let has = |capability: u32| effective & (1 << capability) != 0;
    has(SYS_ADMIN) || (has(BPF) && has(PERFMON))
}

fn io_kind(error: &libbpf_rs::Error) -> Option<i32> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return io.raw_os_error();
        }
        source = error.source();
    }
    None
}

impl LoadedPrograms {
    pub(crate) const fn groups(&self) -> Groups {
        self.groups
    }

    fn fill_in_pieces(&self) -> Result<()> {
        let pieces = self.map("pieces")?;
        for (number, piece) in (0_u32..).zip(&self.pieces) {
            let fd = piece.as_fd().as_raw_fd();
            pieces.update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY).map_err(refused)?;
        }
        Ok(())
    }

    fn attach(&mut self) -> Result<()> {
        for program in self.object.progs_mut() {
            if program.autoload() && !ON_DEMAND.iter().any(|name| program.name() == *name) {
                self.links.push(program.attach().map_err(refused)?);
            }
        }
        Ok(())
    }

    fn map(&self, name: &str) -> Result<libbpf_rs::Map<'_>> {
        map(&self.object, name)
    }

    pub(crate) fn control(&self) -> Result<Control> {
        Control::new(self.map(".data.control")?.as_fd()).map_err(system("mapping the recorder's switch"))
    }

    pub(crate) fn rings(&self) -> Result<Rings> {
        let pieces: Vec<_> = self.pieces.iter().map(AsFd::as_fd).collect();
        Rings::new(self.map("cpus")?.as_fd(), &pieces, self.ring_bytes, self.cpus)
            .map_err(system("mapping the rings"))
    }

    pub(crate) fn shared(&self) -> Result<SharedRing> {
        SharedRing::new(self.map("shared")?.as_fd(), self.shared_bytes)
            .map_err(system("mapping the shared ring"))
    }

    /// The kernel's account of every thread, or of every thread in the recorder's PID namespace.
    pub(crate) fn accounts(&self) -> Result<Vec<spry_stat>> {
        self.accounts.read(&self.object)
    }

    /// Whether the accounts cover all threads, whatever their PID namespace.
    pub(crate) const fn knows_all_tasks(&self) -> bool {
        self.knows_all_tasks
    }

    /// Events that were not recorded because their program was already running on the CPU.
    pub(crate) fn recursion_misses(&self) -> Result<u64> {
        let mut misses = 0;
        for program in self.object.progs_mut() {
            if program.autoload() {
                misses += recursion_misses(program.as_fd())?;
            }
        }
        Ok(misses)
    }
}

fn recursion_misses(program: BorrowedFd<'_>) -> Result<u64> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut len = size_of_val(&info) as u32;
    let program = program.as_raw_fd();
    // SAFETY: `info` is a valid place of `len` bytes for the answer.
    let status = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program, &mut info, &mut len) };
    if status != 0 { Err(last_error("asking for missed events")) } else { Ok(info.recursion_misses) }
}
