//! A list of CPUs in the kernel's format: `0,2-3`.

use std::fmt;
use std::io;
use std::str::FromStr;

use spry_sys::cpus::Cpus;

use crate::error::LoadError;

/// A list of CPUs in ascending order. It has at least one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// The CPUs that the calling thread may use.
    ///
    /// # Errors
    /// If the kernel refuses the call.
    pub fn allowed() -> io::Result<Self> {
        Ok(Self(Cpus::allowed()?.numbers().collect()))
    }

    /// How many CPUs the list has.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Makes the calling thread, and the processes that it starts, run only on these CPUs.
    ///
    /// # Errors
    /// If none of the CPUs exists, or this process may not use them.
    pub(crate) fn pin(&self) -> io::Result<()> {
        Cpus::of(self.0.iter().copied())?.hold(0)
    }

    /// Checks that this process may use every CPU of the list.
    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let allowed = Self::allowed().map_err(crate::error::of("asking for this process' CPUs"))?;
        match self.0.iter().find(|cpu| !allowed.0.contains(cpu)) {
            Some(cpu) => {
                Err(LoadError::Cpus(format!("there is no CPU {cpu} to run on: there are {allowed}")))
            }
            None => Ok(()),
        }
    }
}

impl FromStr for CpuList {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let wrong = || LoadError::Cpus(format!("`{text}` is no list of CPUs: write 0,2-3"));
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |word: &str| word.trim().parse::<u32>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last >= Cpus::END {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_are_read_in_order_and_once() {
        let cpus: CpuList = "3,0-1,1".parse().expect("a list");
        assert_eq!((cpus.to_string().as_str(), cpus.count()), ("0,1,3", 3));
    }

    #[test]
    fn an_invalid_cpu_list_is_refused_with_an_example() {
        for text in ["", "a", "3-1", "1,", "-1", "99999"] {
            let error = text.parse::<CpuList>().expect_err(text).to_string();
            assert!(error.contains("0,2-3"), "{error}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let beyond: CpuList = "1023".parse().expect("a list");
        assert!(beyond.check().expect_err("no such CPU").to_string().contains("1023"));
        assert!(CpuList::allowed().expect("the kernel says").check().is_ok());
    }
}
