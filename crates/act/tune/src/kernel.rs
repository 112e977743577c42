//! Reads the knobs of the running kernel from its files and by its system calls.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::thread;

use spry_setting::Setting;
use spry_sys::attributes::Attributes;
use spry_sys::clock;
use spry_sys::schedule::{self, Children, Policy};

use crate::book;
use crate::error::{TuneError, of};

/// The kernel's switch that ends slices at their time instead of at the next tick.
pub(crate) const HRTICK: &str = "HRTICK";

/// Why this process cannot find out whether the switch is on.
const UNSEEN: &str =
    "whether this kernel's HRTICK is on can be seen by root alone, if the kernel is not locked down";

/// The directories of the kernel's knobs, and of the book of settings. The default is the running kernel;
/// tests have directories of their own.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The directory of the fair class' knobs.
    pub sched: PathBuf,
    /// The directory of the round-robin class' knobs.
    pub sysctl: PathBuf,
    /// The directory of sched_ext's state.
    pub sched_ext: PathBuf,
    /// The directory of the book. Root alone may read it.
    pub state: PathBuf,
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel {
            sched: "/sys/kernel/debug/sched".into(),
            sysctl: "/proc/sys/kernel".into(),
            sched_ext: "/sys/kernel/sched_ext".into(),
            state: "/run/spry/tune".into(),
        }
    }
}

/// Whether slices end at their time, between ticks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ends {
    /// Slices end at their time.
    OnTime,
    /// Slices end at their time, or would, with this setting. Other processes hold it, or it is not in force.
    With(Setting),
    /// Slices end at ticks only; the text says why.
    AtTicks(String),
    /// This user cannot find out; the text says why.
    Unknown(&'static str),
}

/// The kernel's result for a slice that a task asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SliceTrial {
    /// The slice of the calling thread before, ns.
    pub(crate) before_ns: u64,
    /// The slice that it was given, ns; 0 on kernels that have no slices of single tasks.
    pub(crate) given_ns: u64,
}

impl Kernel {
    /// The setting of the machine's slice.
    pub(crate) fn base_slice(&self, quantum_us: u64) -> Setting {
        let path = self.sched.join("base_slice_ns");
        Setting { path: path.to_string_lossy().into_owned(), value: (quantum_us * 1000).to_string() }
    }

    /// The setting of the round-robin quantum; on most kernels it is a number of ms.
    pub(crate) fn round_robin(&self, quantum_us: u64) -> Result<Setting, TuneError> {
        let fine = self.sysctl.join("sched_rr_timeslice_us");
        let (path, value) = match (fine.exists(), quantum_us % 1000) {
            (true, _) => (fine, quantum_us),
            (false, 0) => (self.sysctl.join("sched_rr_timeslice_ms"), quantum_us / 1000),
            (false, _) => return Err(TuneError::WholeMs),
        };
        Ok(Setting { path: path.to_string_lossy().into_owned(), value: value.to_string() })
    }

    /// Whether slices end at their time.
    pub(crate) fn ends(&self) -> Ends {
        if !clock::has_fine_timers() {
            return Ends::AtTicks("its timers expire at ticks only".to_owned());
        }
        let path = self.sched.join("features");
        let features = match fs::read_to_string(&path) {
            Ok(features) => features,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ends::Unknown(UNSEEN);
            }
            Err(_) => {
                return Ends::Unknown("whether this kernel's HRTICK is on is in debugfs, not mounted here");
            }
        };
        let has = |word: &str| features.split_whitespace().any(|found| found == word);
        let setting = Setting { path: path.to_string_lossy().into_owned(), value: HRTICK.to_owned() };
        if has(HRTICK) {
            let is_held = book::is_held(&self.state, &setting);
            return if is_held { Ends::With(setting) } else { Ends::OnTime };
        }
        if !has("NO_HRTICK") {
            return Ends::AtTicks("it has no HRTICK".to_owned());
        }
        match OpenOptions::new().write(true).open(&path) {
            Ok(_) => Ends::With(setting),
            Err(error) => Ends::AtTicks(format!("HRTICK is off, and {} refuses: {error}", path.display())),
        }
    }

    /// The name of a sched_ext scheduler that schedules all ordinary tasks.
    pub(crate) fn sched_ext_scheduler(&self) -> Option<String> {
        let read = |name: &str| fs::read_to_string(self.sched_ext.join(name)).unwrap_or_default();
        let has_all = read("state").trim() == "enabled" && read("switch_all").trim() != "0";
        has_all.then(|| read("root/ops").trim().to_owned())
    }
}

/// The kernel's tick, Hz, rounded.
pub(crate) fn own_tick_hz() -> u64 {
    let tick_ns = clock::tick_ns().max(1);
    (1_000_000_000 + tick_ns / 2) / tick_ns
}

/// The time between two ticks of the kernel, us, rounded up.
pub(crate) fn tick_us() -> u64 {
    clock::tick_ns().div_ceil(1000)
}

/// Asks the kernel for a slice, from a temporary thread. Returns the slices before and after.
///
/// # Errors
/// If the calling thread is in a class without slices.
pub(crate) fn try_slice(slice_ns: u64) -> Result<SliceTrial, TuneError> {
    let before = Attributes::of(0).map_err(of("asking for the class of this process"))?;
    if !before.is_fair() {
        return Err(TuneError::NotFair(class_name(&before)));
    }
    let ask = move || {
        // Kernels without slices of single tasks accept every slice.
        before.with_slice(slice_ns).give(0)?;
        Ok(Attributes::of(0)?.slice_ns())
    };
    let given_ns = in_thread(ask).map_err(of("asking for a slice"))?;
    Ok(SliceTrial { before_ns: before.slice_ns(), given_ns })
}

/// The kernel's quantum of a round-robin task, ns, by a temporary thread. `None` if this process may have
/// no such thread.
pub(crate) fn round_robin_ns() -> Option<u64> {
    let ask = || {
        schedule::set_policy(0, Policy::RoundRobin(1), Children::Same)?;
        schedule::round_robin_ns(0)
    };
    in_thread(ask).ok()
}

fn in_thread<T: Send + 'static>(ask: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    let thread = thread::Builder::new().name("tune".to_owned()).spawn(ask)?;
    thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread did not answer")))
}

/// The name of a class without slices.
fn class_name(attributes: &Attributes) -> &'static str {
    // The numbers of sched.h.
    match attributes.numbers().sched_policy {
        1 => "FIFO",
        2 => "round-robin",
        5 => "IDLE",
        6 => "DEADLINE",
        7 => "of sched_ext",
        _ => "that it has",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(features: Option<&str>) -> (tempfile::TempDir, Kernel) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_owned();
        if let Some(features) = features {
            fs::write(path.join("features"), features).expect("it can be written");
        }
        let kernel =
            Kernel { sched: path.clone(), sysctl: path.clone(), sched_ext: path.clone(), state: path };
        (dir, kernel)
    }

    #[test]
    fn slices_end_on_time_where_hrtick_is_on_or_can_be() {
        if !clock::has_fine_timers() {
            return;
        }
        assert_eq!(kernel(Some("A HRTICK B")).1.ends(), Ends::OnTime);
        let (_dir, off) = kernel(Some("A NO_HRTICK NO_HRTICK_DL"));
        assert!(matches!(off.ends(), Ends::With(setting) if setting.value == HRTICK));
        assert!(
            matches!(kernel(Some("A HRTICK_DL")).1.ends(), Ends::AtTicks(why) if why.contains("no HRTICK"))
        );
        assert!(matches!(kernel(None).1.ends(), Ends::Unknown(_)));
    }

    #[test]
    fn a_round_robin_quantum_is_in_us_where_the_kernel_has_that() {
        let (dir, kernel) = kernel(None);
        let ms = kernel.round_robin(3000).expect("whole milliseconds");
        assert!(ms.path.ends_with("sched_rr_timeslice_ms") && ms.value == "3", "{ms:?}");
        assert!(matches!(kernel.round_robin(1500), Err(TuneError::WholeMs)));
        fs::write(dir.path().join("sched_rr_timeslice_us"), "100000").expect("it can be written");
        let us = kernel.round_robin(1500).expect("whole microseconds");
        assert!(us.path.ends_with("sched_rr_timeslice_us") && us.value == "1500", "{us:?}");
    }

    #[test]
    fn a_sched_ext_scheduler_counts_if_it_has_all_ordinary_tasks() {
        let (dir, kernel) = kernel(None);
        let write =
            |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("it can be written");
        assert_eq!(kernel.sched_ext_scheduler(), None);
        write("state", "enabled\n");
        write("switch_all", "0\n");
        assert_eq!(kernel.sched_ext_scheduler(), None);
        write("switch_all", "1\n");
        fs::create_dir(dir.path().join("root")).expect("it can be made");
        write("root/ops", "simple\n");
        assert_eq!(kernel.sched_ext_scheduler().as_deref(), Some("simple"));
        write("state", "disabled\n");
        assert_eq!(kernel.sched_ext_scheduler(), None);
    }

    #[test]
    fn trying_a_slice_leaves_the_caller_s_own_as_it_is() {
        let before = Attributes::of(0).expect("it is there").slice_ns();
        let tried = try_slice(7_000_000).expect("a test is in a fair class");
        assert!([0, 7_000_000].contains(&tried.given_ns), "{tried:?}");
        assert_eq!(tried.before_ns, before);
        assert_eq!(Attributes::of(0).expect("it is there").slice_ns(), before);
        assert!((24..=100_000).contains(&own_tick_hz()) && tick_us() > 0);
    }

    #[test]
    fn a_command_without_slices_is_refused() {
        thread::spawn(|| {
            Attributes::idle().give(0).expect("any thread may");
            assert!(matches!(try_slice(1_000_000), Err(TuneError::NotFair("IDLE"))));
        })
        .join()
        .expect("the thread ends well");
    }
}
