//! The CPUs on which samples are taken.

use std::str::FromStr;

use spry_sys::cpus::allowed_cpus;

use crate::error::{Error, Result};
use crate::source::Source;

/// The sampling threads and their CPUs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// A thread bound to each CPU that this process may use; for a real-time clock a thread that
    /// is bound to none.
    #[default]
    Each,
    /// A thread bound to each of these CPUs.
    Cpus(Vec<u32>),
    /// A thread that the scheduler may move.
    Any,
}

impl FromStr for Placement {
    type Err = String;

    /// `any`, or CPUs and ranges of them: `0,2-3`.
    fn from_str(text: &str) -> std::result::Result<Placement, String> {
        if text == "any" {
            return Ok(Placement::Any);
        }
        let wrong = || format!("`{text}` is no list of CPUs: give numbers and ranges (0,2-3), or `any`");
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.parse::<u16>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            cpus.extend((first..=last).map(u32::from));
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Placement::Cpus(cpus))
    }
}

/// The CPU of each thread.
pub(crate) fn threads(placement: &Placement, source: Source) -> Result<Vec<Option<u32>>> {
    let threads = match placement {
        Placement::Any => vec![None],
        Placement::Each if source == Source::Rtc => vec![None],
        Placement::Each => allowed_cpus().into_iter().map(Some).collect(),
        Placement::Cpus(cpus) => cpus.iter().copied().map(Some).collect(),
    };
    match threads.len() {
        0 => Err(Error::Config("there is no CPU to sample on")),
        1 => Ok(threads),
        _ if source == Source::Rtc => Err(Error::RtcThreads),
        _ => Ok(threads),
    }
}

/// A list of CPUs as text with ranges: `0-3,6`.
pub(crate) fn list(cpus: &[u32]) -> String {
    let runs = cpus.chunk_by(|one, next| one + 1 == *next);
    let words = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_written() {
        assert_eq!("any".parse(), Ok(Placement::Any));
        assert_eq!("3,0-1,1".parse(), Ok(Placement::Cpus(vec![0, 1, 3])));
        assert_eq!(list(&[0, 1, 3, 5, 6, 7]), "0-1,3,5-7");
        for wrong in ["", "a", "1-", "3-1", "-1", "0,,1", "99999"] {
            assert!(wrong.parse::<Placement>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_real_time_clock_wakes_one_thread() {
        assert_eq!(threads(&Placement::Each, Source::Rtc).unwrap(), [None]);
        assert!(matches!(threads(&Placement::Cpus(vec![0, 1]), Source::Rtc), Err(Error::RtcThreads)));
        assert_eq!(threads(&Placement::Cpus(vec![1]), Source::Rtc).unwrap(), [Some(1)]);
    }
}
