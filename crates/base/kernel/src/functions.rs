//! The kernel's functions, read from `/proc/kallsyms`, which shows no addresses to users without privileges.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};

const SYMBOLS: &str = "/proc/kallsyms";

/// The kernel's functions in order of address.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    sorted: Vec<(u64, String)>,
}

impl Functions {
    /// The functions of the running kernel; none if the kernel does not show their addresses.
    pub fn read() -> Functions {
        Functions::parse(&fs::read_to_string(SYMBOLS).unwrap_or_default())
    }

    fn parse(text: &str) -> Functions {
        let found = text.lines().filter_map(parse).filter(|(_, name)| !name.starts_with("__pfx_"));
        let mut sorted: Vec<_> = found.map(|(address, name)| (address, name.to_owned())).collect();
        sorted.sort();
        Functions { sorted }
    }

    /// The address of a function; `None` if the kernel has no function of that name.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.sorted.iter().find(|(_, found)| found == name).map(|&(address, _)| address)
    }

    /// The addresses and names of all functions, the lowest address first.
    pub fn into_sorted(self) -> Vec<(u64, String)> {
        self.sorted
    }
}

/// The address of one function, for a caller that needs no other; `None` if the kernel has no function of
/// that name, or does not show its address.
pub fn function(name: &str) -> Option<u64> {
    // The kernel makes each line when it is read, so nothing after the function's line is read.
    let (mut lines, mut line) = (BufReader::new(File::open(SYMBOLS).ok()?), String::new());
    while lines.read_line(&mut line).ok()? > 0 {
        if let Some((address, _)) = parse(&line).filter(|&(_, found)| found == name) {
            return Some(address);
        }
        line.clear();
    }
    None
}

/// The address and the name of a line, if the line is about a function and shows its address.
fn parse(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_function = matches!(words.next()?, "t" | "T");
    (is_function && address != 0).then_some((address, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_sorted_of_address_and_nothing_else_is() {
        let text = "\
ffffffff81000200 T schedule
ffffffff810001f0 t __pfx_schedule
ffffffff82000000 D jiffies
ffffffff81000100 t tick_nohz_handler
ffffffffc0000000 t uinput_open\t[uinput]
";
        let functions = Functions::parse(text);
        assert_eq!(functions.address("schedule"), Some(0xffff_ffff_8100_0200));
        assert_eq!(functions.address("jiffies"), None);
        let names: Vec<String> = functions.into_sorted().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["tick_nohz_handler", "schedule", "uinput_open"]);
    }

    #[test]
    fn an_address_that_is_hidden_is_none() {
        assert_eq!(Functions::parse("0000000000000000 T schedule\n").address("schedule"), None);
    }
}
