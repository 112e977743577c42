//! The measured machine: its processor, its caches, its clock, and the time that its hypervisor took.

use std::fs;
use std::path::{Path, PathBuf};

/// The properties of the machine before the measurement.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BenchMachine {
    /// The release of the kernel.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// The cycles of the time stamp counter per nanosecond. The counter has the nominal rate
    /// of the processor.
    pub cycles_per_ns: Option<f64>,
    /// The governor that sets the rate of the processor's clock; `None` if the rate cannot change or
    /// this is not known.
    pub governor: Option<String>,
    pub(crate) caches: Vec<(u32, usize)>,
}

/// The CPU time that was taken from the benchmark during the measurement.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Noise {
    /// The share of the CPU's time that the hypervisor took, percent; `None` if it is not known.
    pub stolen_percent: Option<f64>,
}

impl BenchMachine {
    /// Reads the machine's properties from the kernel.
    pub(crate) fn ask(cpu: u32, cycles_per_ns: Option<f64>) -> BenchMachine {
        let of_cpu = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}"));
        BenchMachine {
            kernel: line(Path::new("/proc/sys/kernel/osrelease")).unwrap_or_default(),
            processor: processor().unwrap_or_else(|| "unknown".to_owned()),
            cycles_per_ns,
            governor: governor(&of_cpu.join("cpufreq")),
            caches: caches(&of_cpu.join("cache")),
        }
    }

    /// The size of the data cache of a level; `None` if it is not known.
    pub fn cache_bytes(&self, level: u32) -> Option<usize> {
        self.caches.iter().find(|(known, _)| *known == level).map(|(_, bytes)| *bytes)
    }

    /// A warning if the rate of the processor's clock may change during the measurement.
    pub(crate) fn frequency_warning(&self, cpu: u32) -> Option<String> {
        let governor = self.governor.as_deref().filter(|name| *name != "performance")?;
        Some(format!(
            "CPU {cpu}'s clock rate may change meanwhile (governor {governor}): `cpupower frequency-set -g \
             performance` holds it"
        ))
    }
}

fn line(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = text.lines().find_map(|line| line.strip_prefix("model name"))?;
    Some(name.trim_start_matches([' ', '\t', ':']).to_owned())
}

/// The governor, if more than one can be chosen.
fn governor(policy: &Path) -> Option<String> {
    let number = |name: &str| line(&policy.join(name))?.parse::<u64>().ok();
    let governor = line(&policy.join("scaling_governor"))?;
    (number("scaling_min_freq") != number("scaling_max_freq")).then_some(governor)
}

/// The levels and sizes (bytes) of the caches that hold data.
fn caches(directory: &Path) -> Vec<(u32, usize)> {
    let one = |index: u32| {
        let of = |name: &str| line(&directory.join(format!("index{index}/{name}")));
        let bytes = bytes(&of("size")?)?;
        let level = of("level")?.parse().ok()?;
        Some((of("type")?, level, bytes))
    };
    let known = (0..16).filter_map(one).filter(|(kind, ..)| kind != "Instruction");
    known.map(|(_, level, bytes)| (level, bytes)).filter(|(_, bytes)| *bytes > 0).collect()
}

/// Reads a size with a unit, such as `32K`.
fn bytes(text: &str) -> Option<usize> {
    let number = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match text.strip_prefix(number)? {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    Some(number.parse::<usize>().ok()? << shift)
}

/// How a CPU has spent its time, in the kernel's units: the whole time, and the stolen time.
pub(crate) fn accounted(cpu: u32) -> Option<(u64, u64)> {
    accounted_in(&fs::read_to_string("/proc/stat").ok()?, cpu)
}

fn accounted_in(text: &str, cpu: u32) -> Option<(u64, u64)> {
    const STOLEN: usize = 7;
    let name = format!("cpu{cpu} ");
    let fields = text.lines().find_map(|line| line.strip_prefix(&name))?;
    let times = fields.split_whitespace().map(str::parse::<u64>).collect::<Result<Vec<_>, _>>().ok()?;
    // The times of guests follow after these, and are contained in these already.
    Some((times.iter().take(STOLEN + 1).sum(), *times.get(STOLEN)?))
}

impl Noise {
    /// The noise between two readings of [`accounted`].
    pub(crate) fn between(before: Option<(u64, u64)>, after: Option<(u64, u64)>) -> Noise {
        let percent = || {
            let (before, after) = (before?, after?);
            let all = after.0.checked_sub(before.0).filter(|&all| all > 0)?;
            Some(100.0 * after.1.checked_sub(before.1)? as f64 / all as f64)
        };
        Noise { stolen_percent: percent() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_those_that_hold_data() {
        let dir = tempfile::tempdir().unwrap();
        let kinds = [
            ("1", "Data", "32K"),
            ("1", "Instruction", "64K"),
            ("2", "Unified", "1M"),
            ("3", "Unified", "?"),
        ];
        for (index, (level, kind, size)) in kinds.into_iter().enumerate() {
            let path = dir.path().join(format!("index{index}"));
            fs::create_dir(&path).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(path.join(name), format!("{text}\n")).unwrap();
            }
        }
        assert_eq!(caches(dir.path()), [(1, 32 << 10), (2, 1 << 20)]);
        assert_eq!(caches(&dir.path().join("nothing")), []);
    }

    #[test]
    fn stolen_time_is_a_part_of_what_passed() {
        let before = accounted_in("cpu  1 1 1 1\ncpu1 100 0 50 800 10 0 5 35 7 0\n", 1);
        assert_eq!(before, Some((1_000, 35)));
        let after = accounted_in("cpu1 150 0 80 810 10 0 5 45 90 0\n", 1);
        assert_eq!(Noise::between(before, after).stolen_percent, Some(10.0));
        assert_eq!(Noise::between(before, before).stolen_percent, None);
        assert_eq!(accounted_in("cpu1 1 2 3\n", 1), None);
    }

    #[test]
    fn a_governor_without_a_choice_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let set = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        assert_eq!(governor(dir.path()), None);
        set("scaling_governor", "schedutil\n");
        set("scaling_min_freq", "800000\n");
        set("scaling_max_freq", "3000000\n");
        assert_eq!(governor(dir.path()).as_deref(), Some("schedutil"));
        set("scaling_min_freq", "3000000\n");
        assert_eq!(governor(dir.path()), None);
    }
}
