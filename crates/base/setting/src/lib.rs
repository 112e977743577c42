//! Settings of the kernel that are files: their values in force, and whether two are about the same thing.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};

/// The end of the path of a file that holds several switches: each is on by its name, and off by its
/// name after `NO_`.
const SWITCHES: &str = "/features";

/// A file of the kernel, and a value for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// The file, for example `/sys/kernel/debug/sched/base_slice_ns`.
    pub path: String,
    /// The value that is written into the file.
    pub value: String,
}

impl Setting {
    /// The setting that is in force: the same file with the value that it has now.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn in_force(&self) -> io::Result<Setting> {
        let content = fs::read_to_string(&self.path)?;
        Ok(Setting { path: self.path.clone(), value: self.value_in(&content) })
    }

    /// Puts the setting in force.
    ///
    /// # Errors
    /// If the file cannot be written, or the kernel refuses the value.
    pub fn write(&self) -> io::Result<()> {
        fs::write(&self.path, &self.value)
    }

    /// Whether both are about the same file, and in a file of several switches about the same switch.
    #[must_use]
    pub fn is_about_the_same(&self, other: &Setting) -> bool {
        self.path == other.path && self.switch() == other.switch()
    }

    /// The name of the switch, in a file that holds several switches; otherwise `None`.
    #[must_use]
    pub fn switch(&self) -> Option<&str> {
        let name = self.value.strip_prefix("NO_").unwrap_or(&self.value);
        self.path.ends_with(SWITCHES).then_some(name)
    }

    /// The value that restores the setting, from the content of its file. Some files list all possible values
    /// and mark one of them.
    fn value_in(&self, content: &str) -> String {
        if let Some(name) = self.switch() {
            let off = format!("NO_{name}");
            return if content.split_whitespace().any(|word| word == off) { off } else { name.to_owned() };
        }
        let marked = content.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        marked.map_or(content, |(choice, _)| choice).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(path: &str, value: &str) -> Setting {
        Setting { path: path.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn the_former_value_is_read_from_a_setting_s_file() {
        let before = |path: &str, value: &str, content: &str| setting(path, value).value_in(content);
        assert_eq!(before("/d/base_slice_ns", "3000000", "1400000\n"), "1400000");
        assert_eq!(before("/d/preempt", "full", "none voluntary (lazy)\n"), "lazy");
        assert_eq!(before("/d/features", "NO_PLACE_LAG", "PLACE_LAG NO_HRTICK"), "PLACE_LAG");
        assert_eq!(before("/d/features", "HRTICK", "PLACE_LAG NO_HRTICK"), "NO_HRTICK");
    }

    #[test]
    fn switches_of_one_file_are_different_settings() {
        let hrtick = setting("/d/features", "HRTICK");
        assert!(hrtick.is_about_the_same(&setting("/d/features", "NO_HRTICK")));
        assert!(!hrtick.is_about_the_same(&setting("/d/features", "HRTICK_DL")));
        assert!(setting("/d/base_slice_ns", "1").is_about_the_same(&setting("/d/base_slice_ns", "2")));
        assert!(!setting("/d/a", "1").is_about_the_same(&setting("/d/b", "1")));
    }
}
