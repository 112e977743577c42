//! Probes the kernel's permissions on this machine, with a thread that is made for this and then ends.

use std::thread;

use super::plan::{PermittedChanges, SERVER_PRIORITY, SLICE_FIRST_NS};
use crate::guardian::settings::{OTHER, ROUND_ROBIN, Settings, base_slice_ns};

/// The permitted changes, and a warning for each change that is not permitted.
pub fn probe() -> (PermittedChanges, Vec<String>) {
    let tried = thread::Builder::new().name("probe".to_owned()).spawn(try_all).map(thread::JoinHandle::join);
    match tried {
        Ok(Ok(found)) => found,
        _ => {
            let nothing = PermittedChanges { nice_least: 0, real_time: false, slice: false };
            (
                nothing,
                vec!["no thread could be made to find out what is allowed: nothing is changed".to_owned()],
            )
        }
    }
}

fn try_all() -> (PermittedChanges, Vec<String>) {
    let mut warnings = Vec::new();
    let tid = spry_sys::process::tid();
    let base_slice_ns = base_slice_ns();
    let usual = Settings { policy: OTHER, ..Settings::default() };
    let slice = base_slice_ns != 0
        && Settings { slice_ns: SLICE_FIRST_NS, ..usual }.schedule(tid).is_ok()
        && Settings::scheduling_of(tid, base_slice_ns).is_ok_and(|now| now.slice_ns == SLICE_FIRST_NS);
    if !slice {
        warnings.push(
            "this kernel takes no slices for ordinary tasks (6.12 and later do): \
                       a woken program may wait for a tick"
                .to_owned(),
        );
    }
    let real_time = Settings { policy: ROUND_ROBIN, priority: SERVER_PRIORITY, reset_on_fork: 1, ..usual };
    let real_time = real_time.schedule(tid).is_ok();
    _ = usual.schedule(tid);
    if !real_time {
        warnings.push(
            "real-time priority is not permitted here (it takes CAP_SYS_NICE, and in a control group some \
             real-time budget): the display server is raised by weight alone"
                .to_owned(),
        );
    }
    let own = Settings::scheduling_of(tid, base_slice_ns).map_or(0, |now| now.nice);
    let may = |nice: &i32| Settings { nice: *nice, ..usual }.schedule(tid).is_ok();
    let nice_least = (-20..=own).find(may).unwrap_or(own);
    if nice_least > -20 {
        warnings.push(format!(
            "nice values below {nice_least} are not permitted here (it takes CAP_SYS_NICE or a lower \
             RLIMIT_NICE): programs in use get less of the CPU than they should"
        ));
    }
    (PermittedChanges { nice_least, real_time, slice }, warnings)
}
