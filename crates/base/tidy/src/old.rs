//! The list of old offences against the rules of style: a line for each file, with numbers that only shrink.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::style::{Rule, offences};
use crate::{Source, root};

/// The path of the list from the root of the tree.
pub const OLD_STYLE: &str = "crates/base/tidy/old-style.txt";

/// How many lines of each file may break each rule: by the paths from the root of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Old(BTreeMap<String, BTreeMap<Rule, usize>>);

impl Old {
    /// Reads the list of the tree.
    ///
    /// # Panics
    /// If the list cannot be read, or has a line that is not in its form.
    pub fn read() -> Old {
        let path = root().join(OLD_STYLE);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Old::parse(&text).unwrap_or_else(|line| panic!("{OLD_STYLE}: `{line}` is not `PATH RULE=COUNT ...`"))
    }

    /// Reads a list. Fails with the first line that is not in the list's form or not in order.
    pub fn parse(text: &str) -> Result<Old, String> {
        let mut old = Old::default();
        let mut last = "";
        for line in text.lines() {
            let mut fields = line.split(' ');
            let path = fields.next().filter(|&path| path > last).ok_or(line)?;
            let count = |field: &str| {
                let (name, count) = field.split_once('=')?;
                let rule = Rule::ALL.into_iter().find(|rule| rule.name() == name)?;
                Some((rule, count.parse().ok().filter(|&count| count > 0)?))
            };
            let counts = fields.map(count).collect::<Option<BTreeMap<_, _>>>().ok_or(line)?;
            old.0.insert(path.to_owned(), counts);
            last = path;
        }
        Ok(old)
    }

    /// Counts the offences of the sources.
    pub fn count(sources: &[Source]) -> Old {
        let mut old = Old::default();
        for source in sources {
            let found = Rule::ALL.map(|rule| (rule, offences(source, rule).len()));
            let counts: BTreeMap<Rule, usize> = found.into_iter().filter(|&(_, count)| count > 0).collect();
            if !counts.is_empty() {
                old.0.insert(source.path.display().to_string(), counts);
            }
        }
        old
    }

    /// The list with each number lowered to the number in another list.
    #[must_use]
    pub fn lowered_to(&self, other: &Old) -> Old {
        let lower = |(path, counts): (&String, &BTreeMap<Rule, usize>)| {
            let least = |(&rule, &count): (&Rule, &usize)| (rule, count.min(other.get(path, rule)));
            let counts: BTreeMap<Rule, usize> =
                counts.iter().map(least).filter(|&(_, count)| count > 0).collect();
            (!counts.is_empty()).then(|| (path.clone(), counts))
        };
        Old(self.0.iter().filter_map(lower).collect())
    }

    /// The text of the list: a line for each file, in the order of the paths.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (path, counts) in &self.0 {
            let counts = counts.iter().map(|(rule, count)| format!(" {}={count}", rule.name()));
            writeln!(text, "{path}{}", counts.collect::<String>()).expect("a string takes everything");
        }
        text
    }

    fn get(&self, path: &str, rule: Rule) -> usize {
        self.0.get(path).and_then(|counts| counts.get(&rule)).copied().unwrap_or(0)
    }

    /// The files with more or fewer offences against a rule than the list allows, one line a file.
    pub fn complaints(&self, sources: &[Source], rule: Rule) -> Vec<String> {
        let mut complaints = Vec::new();
        for source in sources {
            let path = source.path.display().to_string();
            let found = offences(source, rule);
            let allowed = self.get(&path, rule);
            if found.len() > allowed {
                let demand = rule.demand();
                complaints
                    .push(format!("{path}: {demand}: {allowed} old, now {} in lines {found:?}", found.len()));
            } else if found.len() < allowed {
                complaints.push(format!("{path}: {}={allowed}, now {}: {LOWER}", rule.name(), found.len()));
            }
        }
        let is_there = |path: &str| sources.iter().any(|source| source.path == Path::new(path));
        let gone = self.0.keys().filter(|path| self.get(path, rule) > 0 && !is_there(path));
        complaints.extend(
            gone.map(|path| format!("{path}: there is no such file: remove its line in {OLD_STYLE}")),
        );
        complaints
    }
}

/// The advice for a file that has fewer offences than the list allows.
const LOWER: &str =
    "lower the number in crates/base/tidy/old-style.txt (cargo run -p spry-tidy --example lower)";

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Old, Rule};
    use crate::Source;

    fn sources() -> [Source; 1] {
        [Source { path: PathBuf::from("a.rs"), text: "/// Both.\nA,\n/// None.\nB,\n".to_owned() }]
    }

    fn complaints(list: &str) -> Vec<String> {
        Old::parse(list).expect("the list has its form").complaints(&sources(), Rule::Docs)
    }

    #[test]
    fn a_file_may_have_neither_more_nor_less_than_its_number() {
        assert_eq!(complaints("a.rs docs=2\n"), [""; 0]);
        assert!(complaints("")[0].contains("[1, 3]"));
        assert!(complaints("a.rs docs=1\n")[0].contains("1 old, now 2"));
        assert!(complaints("a.rs docs=3\n")[0].contains("lower the number"));
        assert!(complaints("a.rs docs=2\nb.rs docs=1\n")[0].contains("no such file"));
    }

    #[test]
    fn the_list_only_shrinks() {
        let now = Old::count(&sources());
        let lowered = |list: &str| Old::parse(list).expect("it has its form").lowered_to(&now).text();
        assert_eq!(now.text(), "a.rs docs=2\n");
        assert_eq!(lowered("a.rs subjects=3 docs=9\nb.rs tests=1\n"), "a.rs docs=2\n");
        assert_eq!(lowered("a.rs docs=1\n"), "a.rs docs=1\n");
    }

    #[test]
    fn a_list_out_of_order_is_refused() {
        for list in
            ["b.rs docs=1\na.rs docs=1\n", "a.rs docs=1\na.rs tests=1\n", "a.rs words=1", "a.rs docs=0"]
        {
            assert!(Old::parse(list).is_err(), "{list}");
        }
    }
}
