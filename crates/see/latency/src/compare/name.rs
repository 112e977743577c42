//! Short names that distinguish columns.

use spry_page::words::plain;

use crate::results::Results;

/// Endings of the names of files of results.
const ENDINGS: [&str; 2] = [".latency.json", ".json"];

/// Names for files: the shortest ends of the paths that distinguish all files, without endings; numbered
/// where paths are the same.
pub(crate) fn of_files(files: &[String]) -> Vec<String> {
    let bare = |file: &String| {
        let ending = ENDINGS.iter().find(|ending| file.ends_with(*ending)).map_or(0, |ending| ending.len());
        file[..file.len() - ending].to_owned()
    };
    let paths: Vec<String> = files.iter().map(bare).collect();
    let deepest = paths.iter().map(|path| path.split('/').count()).max().unwrap_or(1);
    let ends = |parts: usize| -> Vec<String> {
        let end = |path: &String| {
            let all: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            all[all.len().saturating_sub(parts)..].join("/")
        };
        paths.iter().map(end).collect()
    };
    let short = (1..=deepest).map(ends).find(|names| are_distinct(names));
    numbered(short.unwrap_or(paths).iter().map(|name| plain(name)).collect())
}

/// Names for setups: the settings in which the setups differ; the kernel, if they do not differ.
pub(crate) fn of_setups(setups: &[&Results]) -> Vec<String> {
    let all: Vec<[String; 7]> = setups.iter().map(|results| words(results)).collect();
    let differs = |at: usize| all.iter().any(|words| words[at] != all[0][at]);
    let mut differing: Vec<usize> = (0..7).filter(|&at| differs(at)).collect();
    if differing.is_empty() {
        differing.push(0);
    }
    let name = |words: &[String; 7]| {
        let told: Vec<&str> =
            differing.iter().map(|&at| words[at].as_str()).filter(|word| !word.is_empty()).collect();
        if told.is_empty() { "otherwise".to_owned() } else { plain(&told.join(" ")) }
    };
    numbered(all.iter().map(name).collect())
}

fn words(results: &Results) -> [String; 7] {
    let machine = &results.machine;
    [
        machine.kernel.clone(),
        machine.preemption.clone().unwrap_or_default(),
        machine.scheduler.clone().unwrap_or_default(),
        results.source.name().to_owned(),
        format!("{} Hz", results.rate_hz),
        format!("priority {}", results.priority),
        if results.load.is_empty() { "no load".to_owned() } else { results.load.join("+") },
    ]
}

fn are_distinct(names: &[String]) -> bool {
    names.iter().enumerate().all(|(at, name)| !name.is_empty() && !names[..at].contains(name))
}

/// Makes names unique: a repeated name gets a number.
fn numbered(names: Vec<String>) -> Vec<String> {
    let nth = |at: usize| names[..=at].iter().filter(|name| **name == names[at]).count();
    let name = |(at, name): (usize, &String)| match nth(at) {
        1 => name.clone(),
        nth => format!("{name} ({nth})"),
    };
    names.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::tests::results;

    fn named(files: &[&str]) -> Vec<String> {
        of_files(&files.iter().map(|file| (*file).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn names_are_as_long_as_they_must_be() {
        assert_eq!(named(&["runs/a.latency.json", "runs/b.json"]), ["a", "b"]);
        assert_eq!(named(&["old/1/x.json", "new/1/x.json"]), ["old/1/x", "new/1/x"]);
        assert_eq!(named(&["x.json", "./x.json"]), ["x", "./x"]);
        assert_eq!(named(&["x.json", "x.json", "x.json"]), ["x", "x (2)", "x (3)"]);
    }

    #[test]
    fn names_cannot_command_the_terminal() {
        assert_eq!(named(&["a\x1b[2J.json", "b.json"]), ["a?[2J", "b"]);
        let mut other = results("6.12", &[]);
        other.machine.scheduler = Some("x\x1b]0;y\x07".into());
        assert_eq!(of_setups(&[&results("6.12", &[]), &other]), ["otherwise", "x?]0;y?"]);
    }

    #[test]
    fn setups_are_named_by_what_they_differ_in() {
        let none = results("6.12", &[]);
        let mut full = none.clone();
        full.machine.preemption = Some("full".into());
        let mut loaded = full.clone();
        loaded.load = vec!["FS".into()];
        assert_eq!(of_setups(&[&none, &full, &loaded]), ["no load", "full no load", "full FS"]);
        assert_eq!(of_setups(&[&none]), ["6.12"]);
        assert_eq!(of_setups(&[&none, &results("7.3", &[])]), ["6.12", "7.3"]);
    }
}
