//! Finds the distribution's archive in apt's own configuration, in both of the formats that apt reads.

use std::fs;
use std::path::{Path, PathBuf};

/// An archive of packages, as configured for apt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The archive's address, which may have any method of apt.
    pub uri: String,
    /// The suites that apt's configuration names.
    pub suites: Vec<String>,
    /// The components that apt's configuration names.
    pub components: Vec<String>,
    /// The files of the keys that sign the archive; empty: the keys that apt trusts.
    pub signed_by: Vec<PathBuf>,
}

impl Source {
    /// Whether this may be Debian's own archive. It must have the component `main`, and a suite with a plain
    /// name: not a suite of security updates, and not a private suite.
    fn may_be_the_distribution_s(&self) -> bool {
        let plain =
            |suite: &String| suite.chars().all(|c| c.is_ascii_lowercase()) && suite != "stable-security";
        self.components.iter().any(|name| name == "main")
            && self.suites.iter().any(plain)
            && !self.uri.trim_end_matches('/').ends_with("security")
    }
}

/// The archives that may be the distribution's own, in descending order of likelihood. They are read from the
/// files in `etc_apt` (`/etc/apt`).
pub fn distribution(etc_apt: &Path) -> Vec<Source> {
    let mut files = vec![etc_apt.join("sources.list")];
    let mut parts: Vec<PathBuf> = fs::read_dir(etc_apt.join("sources.list.d"))
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    parts.sort();
    files.extend(parts);
    let mut found = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => found.extend(one_line(&text)),
            Some("sources") => found.extend(deb822(&text)),
            _ => {}
        }
    }
    found.retain(Source::may_be_the_distribution_s);
    // An archive is more likely if its address ends in the distribution's name.
    found.sort_by_key(|source| !source.uri.trim_end_matches('/').ends_with("debian"));
    found.dedup_by(|a, b| a.uri == b.uri);
    found
}

/// Reads the format with one line for each archive: `deb [key=value ...] uri suite component...`.
pub fn one_line(text: &str) -> Vec<Source> {
    text.lines().filter_map(one_source).collect()
}

fn one_source(line: &str) -> Option<Source> {
    let line = line.split('#').next()?.trim();
    let mut rest = line.strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
    let mut signed_by = Vec::new();
    if let Some(inner) = rest.strip_prefix('[') {
        let (options, after) = inner.split_once(']')?;
        for option in options.split_whitespace() {
            if let Some(keys) = option.strip_prefix("signed-by=") {
                signed_by.extend(keys.split(',').map(PathBuf::from));
            }
        }
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    let uri = words.next()?;
    let suites = vec![words.next()?];
    Some(Source { uri, suites, components: words.collect(), signed_by })
}

/// Reads the format that has a paragraph for each archive (deb822).
pub fn deb822(text: &str) -> Vec<Source> {
    // A comment may stand between the lines of a field.
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    plain.split(|line| line.trim().is_empty()).flat_map(paragraph).collect()
}

fn paragraph(lines: &[&str]) -> Vec<Source> {
    let field = |wanted: &str| {
        let mut value = String::new();
        let mut inside = false;
        for line in lines {
            if line.starts_with([' ', '\t']) {
                if inside {
                    value.push_str(line);
                }
            } else if let Some((name, rest)) = line.split_once(':') {
                inside = name.trim().eq_ignore_ascii_case(wanted);
                if inside {
                    value = rest.to_owned();
                }
            }
        }
        value.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let is_off = field("Enabled").first().is_some_and(|word| matches!(word.as_str(), "no" | "false" | "0"));
    if is_off || !field("Types").iter().any(|word| word == "deb") {
        return Vec::new();
    }
    let (suites, components) = (field("Suites"), field("Components"));
    // The field may also contain the keys themselves. Then it contains no paths.
    let signed_by: Vec<PathBuf> =
        field("Signed-By").into_iter().filter(|word| word.starts_with('/')).map(PathBuf::from).collect();
    let source = |uri| Source {
        uri,
        suites: suites.clone(),
        components: components.clone(),
        signed_by: signed_by.clone(),
    };
    field("URIs").into_iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAGRAPHS: &str = "Types: deb deb-src\n# dated\nURIs: http://mirror.example/debian\n\
        Suites: trixie trixie-updates\nComponents: main contrib\nSigned-By:\n /keys/a.gpg\n\n\
        Types: deb\nURIs: http://mirror.example/debian-security\nSuites: trixie-security\n\
        Components: main\n\n\
        Enabled: no\nTypes: deb\nURIs: http://off.example/debian\nSuites: trixie\nComponents: main\n";

    #[test]
    fn paragraphs_are_read_with_comments_and_continued_lines() {
        let found = deb822(PARAGRAPHS);
        assert_eq!(found.len(), 2, "the one that is switched off is left out");
        assert_eq!(found[0].uri, "http://mirror.example/debian");
        assert_eq!(found[0].suites, ["trixie", "trixie-updates"]);
        assert_eq!(found[0].signed_by, [PathBuf::from("/keys/a.gpg")]);
    }

    #[test]
    fn lines_are_read_with_options() {
        let text = "# deb http://no.example x main\n\
            deb [arch=amd64 signed-by=/k.gpg] mirror+file:/etc/mirrors bookworm main # here\n\
            deb-src http://src.example/debian bookworm main\n";
        let found = one_line(text);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].uri, "mirror+file:/etc/mirrors");
        assert_eq!(found[0].components, ["main"]);
        assert_eq!(found[0].signed_by, [PathBuf::from("/k.gpg")]);
    }

    #[test]
    fn the_distribution_s_archive_is_told_from_other_sources() {
        let etc = tempfile::tempdir().expect("a directory");
        let parts = etc.path().join("sources.list.d");
        fs::create_dir(&parts).expect("it can be made");
        let write = |name: &str, text: &str| fs::write(parts.join(name), text).expect("it can be written");
        write(
            "a.list",
            "deb https://other.example/apt nodistro-1 main\ndeb https://third.example/apt tool main\n",
        );
        write("debian.sources", PARAGRAPHS);
        write("old.list.save", "deb http://old.example/debian trixie main\n");
        let uris: Vec<String> = distribution(etc.path()).into_iter().map(|source| source.uri).collect();
        assert_eq!(uris, ["http://mirror.example/debian", "https://third.example/apt"]);
    }
}
