//! The kernels that the lab builds: their tick rates, the times at which they tick, how their timers expire,
//! and their names.

use std::fmt;
use std::str::FromStr;

use super::edits::{Edits, RATES};
use super::firm::FIRM;
use crate::error::LabError;

/// The tick rates that the lab builds kernels for, Hz.
pub const RATES_HZ: [u32; 8] = [50, 100, 250, 300, 1000, 5000, 10_000, 20_000];
/// The tick rates that the kernel's own configuration offers, Hz. The source is edited for the others.
const STOCK_RATES_HZ: [u32; 4] = [100, 250, 300, 1000];
/// The greatest length of a patch's name in a kernel's name. A kernel's release has 64 characters at most.
const PATCH_NAME_LONGEST: usize = 20;

/// The times at which a kernel ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// Only while a CPU is busy. Timers expire when they are due (high-resolution timers).
    WhenBusy,
    /// Always. Timers expire at ticks, as in the papers' kernels (no high-resolution timers).
    Always,
}

/// How the timers of a built kernel's users expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timers {
    /// As the distribution's kernel has it: by the clock device's interrupt.
    Stock,
    /// Up to an overshoot late, at the return to user mode or by the interrupt (firm timers).
    Firm,
}

/// A kernel that the lab builds from the distribution's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The tick rate, Hz; one of [`RATES_HZ`].
    pub hz: u32,
    /// The times at which the kernel ticks.
    pub ticks: Ticks,
    /// How timers expire. Firm timers need a kernel that ticks only while it is busy.
    pub timers: Timers,
    /// The name of a user's patch that is applied to the source.
    pub patch: Option<String>,
}

impl Variant {
    /// The kernel of this tick rate that ticks while it is busy, without a patch.
    ///
    /// # Errors
    /// If the lab does not build kernels of this rate. The error lists the rates.
    pub fn of(hz: u32) -> Result<Self, LabError> {
        if RATES_HZ.contains(&hz) {
            return Ok(Self { hz, ticks: Ticks::WhenBusy, timers: Timers::Stock, patch: None });
        }
        let rates = RATES_HZ.map(|hz| hz.to_string()).join(", ");
        Err(LabError::Kernel(format!(
            "no kernel with {hz} ticks a second can be built: the rates are {rates} Hz"
        )))
    }

    /// The name under which a patch of this file is known: its letters and digits, in lower case.
    pub(super) fn patch_name(file: &std::path::Path) -> String {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let name: String = stem.chars().map(word).take(PATCH_NAME_LONGEST).collect();
        let name = name.trim_matches('-');
        if name.is_empty() { "patched".to_owned() } else { name.to_owned() }
    }

    /// The edits of the source that the kernel needs: for a tick rate that its own configuration lacks, and
    /// for firm timers.
    pub(super) fn edits(&self) -> impl Iterator<Item = &'static Edits> {
        let rates = (!STOCK_RATES_HZ.contains(&self.hz)).then_some(&RATES);
        let firm = (self.timers == Timers::Firm).then_some(&FIRM);
        rates.into_iter().chain(firm)
    }

    /// The command that builds the kernel.
    pub fn command(&self) -> String {
        let periodic = match self.ticks {
            Ticks::WhenBusy => "",
            Ticks::Always => " --periodic",
        };
        let firm = match self.timers {
            Timers::Stock => "",
            Timers::Firm => " --firm",
        };
        let patch = self.patch.as_deref().map(|name| format!(" --patch {name}.patch"));
        format!("spry lab kernel build --hz {}{periodic}{firm}{}", self.hz, patch.unwrap_or_default())
    }

    /// Whether a text is meant as the name of such a kernel: it begins with a number of Hz.
    pub(crate) fn is_meant_by(text: &str) -> bool {
        text.split_once("hz").is_some_and(|(hz, _)| !hz.is_empty() && hz.chars().all(|c| c.is_ascii_digit()))
            && !text.contains('/')
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hz, ticks, timers, patch } = self;
        let periodic = match ticks {
            Ticks::WhenBusy => "",
            Ticks::Always => "-periodic",
        };
        let firm = match timers {
            Timers::Stock => "",
            Timers::Firm => "-firm",
        };
        write!(f, "{hz}hz{periodic}{firm}")?;
        patch.iter().try_for_each(|name| write!(f, "+{name}"))
    }
}

impl FromStr for Variant {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let wrong = || {
            LabError::Kernel(format!(
                "`{text}` names no kernel of the lab: such a name is 1000hz, 1000hz-periodic, 1000hz-firm or \
                 1000hz-periodic+PATCH"
            ))
        };
        let (hz, rest) = text.split_once("hz").ok_or_else(wrong)?;
        let (how, patch) = match rest.split_once('+') {
            Some((how, name)) => (how, Some(name.to_owned())),
            None => (rest, None),
        };
        let (ticks, timers) = match how {
            "" => (Ticks::WhenBusy, Timers::Stock),
            "-periodic" => (Ticks::Always, Timers::Stock),
            "-firm" => (Ticks::WhenBusy, Timers::Firm),
            _ => return Err(wrong()),
        };
        let is_name =
            |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if !patch.iter().all(is_name) {
            return Err(wrong());
        }
        // A number with a sign or with zeros before it would be a second name of the same kernel.
        let rate: u32 = hz.parse().ok().filter(|rate: &u32| rate.to_string() == hz).ok_or_else(wrong)?;
        Ok(Self { ticks, timers, patch, ..Self::of(rate)? })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_name_reads_back_as_it_is_shown() {
        for name in [
            "50hz",
            "300hz",
            "20000hz",
            "20000hz-periodic",
            "1000hz+mine",
            "100hz-periodic+a-b",
            "100hz-firm",
            "1000hz-firm+mine",
        ] {
            let variant: Variant = name.parse().expect("it is a name");
            assert_eq!(variant.to_string(), name);
            assert!(Variant::is_meant_by(name));
        }
        for name in [
            "hz",
            "1000hz-",
            "100hz-periodic-firm",
            "100hz-firmer",
            "1000hz-periodic+",
            "1000hz+a/b",
            "1000hz+a b",
            "xhz",
            "0100hz",
            "+100hz",
        ] {
            assert!(name.parse::<Variant>().is_err(), "{name}");
        }
        assert!(!Variant::is_meant_by("./100hz") && !Variant::is_meant_by("newest"));
    }

    #[test]
    fn another_rate_is_refused_with_all_rates() {
        for error in [Variant::of(2000).map(drop), "0hz".parse::<Variant>().map(drop)] {
            let error = error.expect_err("it is none of them").to_string();
            assert!(
                error.ends_with("the rates are 50, 100, 250, 300, 1000, 5000, 10000, 20000 Hz"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_kernel_says_the_command_that_builds_it() {
        let command = |name: &str| name.parse::<Variant>().expect("it is a name").command();
        assert_eq!(command("100hz"), "spry lab kernel build --hz 100");
        assert_eq!(command("100hz-firm"), "spry lab kernel build --hz 100 --firm");
        let words = "spry lab kernel build --hz 20000 --periodic --patch mine.patch";
        assert_eq!(command("20000hz-periodic+mine"), words);
    }

    #[test]
    fn a_patch_is_known_by_the_letters_of_its_file() {
        for (file, name) in [
            ("patches/My Tick.patch", "my-tick"),
            ("0001-sched-a-very-long-subject-of-a-patch.patch", "0001-sched-a-very-lo"),
            ("--.patch", "patched"),
        ] {
            assert_eq!(Variant::patch_name(Path::new(file)), name);
            let name = format!("100hz+{name}");
            assert!(name.parse::<Variant>().is_ok(), "{name}");
        }
    }
}
