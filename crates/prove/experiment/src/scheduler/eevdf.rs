//! The settings of EEVDF, the kernel's own fair scheduler, as files of debugfs.

use super::{SchedulerError, Setting};

const ALLOWED: &str = "it has base_slice_us=N (100 to 1000000), features=NAME or NO_NAME (several joined by \
                       +), preempt=none, voluntary, full or lazy";

/// Reads settings such as `base_slice_us=3000,features=NO_RUN_TO_PARITY+NO_WAKEUP_PREEMPTION,preempt=full`.
pub(super) fn settings(text: &str) -> Result<Vec<Setting>, SchedulerError> {
    let mut settings = Vec::new();
    for setting in text.split(',').filter(|setting| !setting.is_empty()) {
        let wrong =
            || SchedulerError::Setting { setting: setting.to_owned(), scheduler: "eevdf", allowed: ALLOWED };
        let (key, value) = setting.split_once('=').ok_or_else(wrong)?;
        match key {
            "base_slice_us" => {
                let us: u64 = value.parse().map_err(|_| wrong())?;
                if !(100..=1_000_000).contains(&us) {
                    return Err(wrong());
                }
                settings.push(file("base_slice_ns", &(us * 1000).to_string()));
            }
            "features" => {
                for feature in value.split('+') {
                    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
                    if feature.is_empty() || !feature.chars().all(is_name) {
                        return Err(wrong());
                    }
                    settings.push(file("features", feature));
                }
            }
            "preempt" if ["none", "voluntary", "full", "lazy"].contains(&value) => {
                settings.push(file("preempt", value));
            }
            _ => return Err(wrong()),
        }
    }
    Ok(settings)
}

fn file(name: &str, value: &str) -> Setting {
    Setting { path: format!("/sys/kernel/debug/sched/{name}"), value: value.to_owned() }
}
