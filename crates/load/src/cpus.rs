//! A list of CPUs, as the kernel writes them: `0,2-3`.

use std::fmt;
use std::io;
use std::mem;
use std::str::FromStr;

use crate::error::{LoadError, checked};

/// CPUs, in ascending order, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    /// The CPUs that the calling thread may use.
    ///
    /// # Errors
    /// Where the kernel does not say.
    pub fn allowed() -> io::Result<Self> {
        // SAFETY: a set of CPUs is plain bits, for which all zeroes is a value.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        // SAFETY: the set is as large as is said.
        checked(unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) })?;
        // SAFETY: the numbers are below the set's size.
        let is_set = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &set) };
        Ok(Self((0..libc::CPU_SETSIZE as usize).filter(is_set).collect()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Has the calling thread and what it starts run on these alone.
    ///
    /// # Errors
    /// Where none of them is there, or they are not for this process.
    pub(crate) fn pin(&self) -> io::Result<()> {
        // SAFETY: as above.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        for &cpu in &self.0 {
            // SAFETY: the numbers are below the set's size.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        // SAFETY: the set is as large as is said.
        checked(unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) }).map(|_| ())
    }

    /// Whether every one of these may be used.
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
            let number = |word: &str| word.trim().parse::<usize>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            if first > last || last >= libc::CPU_SETSIZE as usize {
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
    fn what_is_no_list_is_refused_with_an_example() {
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
