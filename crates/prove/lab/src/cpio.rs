//! Archives in the `newc` format for the guest's first file system. The names are sorted, and the same
//! content always gives the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The modification time of every entry, in seconds since 1970. It is fixed, because another time would
/// change the guest's behaviour.
pub const MTIME_S: u32 = 1_767_225_600;

/// The content of an archive. The entries are written in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    mode: u32,
    device: (u32, u32),
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl Archive {
    /// Makes an empty archive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory and the directories above it.
    pub fn directory(&mut self, name: &str) -> &mut Self {
        for (at, _) in name.match_indices('/') {
            self.add_directory(&name[..at]);
        }
        self.add_directory(name);
        self
    }

    fn add_directory(&mut self, name: &str) {
        let entry = Entry { mode: 0o040_755, device: (0, 0), content: Content::Bytes(Vec::new()) };
        self.entries.entry(name.to_owned()).or_insert(entry);
    }

    fn parent(&mut self, name: &str) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.directory(parent);
        }
    }

    /// Adds a file of these bytes, with these permissions.
    pub fn bytes(&mut self, name: &str, permissions: u32, bytes: impl Into<Vec<u8>>) -> &mut Self {
        self.parent(name);
        let content = Content::Bytes(bytes.into());
        self.entries
            .insert(name.to_owned(), Entry { mode: 0o100_000 | permissions, device: (0, 0), content });
        self
    }

    /// Adds a file of this machine. Its content is read when the archive is written.
    pub fn file(&mut self, name: &str, permissions: u32, path: &Path) -> &mut Self {
        self.parent(name);
        let content = Content::File(path.to_owned());
        self.entries
            .insert(name.to_owned(), Entry { mode: 0o100_000 | permissions, device: (0, 0), content });
        self
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, name: &str, target: &str) -> &mut Self {
        self.parent(name);
        let content = Content::Bytes(target.as_bytes().to_vec());
        self.entries.insert(name.to_owned(), Entry { mode: 0o120_777, device: (0, 0), content });
        self
    }

    /// Adds a character device.
    pub fn device(&mut self, name: &str, major: u32, minor: u32) -> &mut Self {
        self.parent(name);
        let content = Content::Bytes(Vec::new());
        self.entries.insert(name.to_owned(), Entry { mode: 0o020_600, device: (major, minor), content });
        self
    }

    /// Adds a directory of this machine, with everything below it except special files, under another name.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn tree(&mut self, name: &str, path: &Path) -> io::Result<&mut Self> {
        self.directory(name);
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let inner = format!("{name}/{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                self.link(&inner, &fs::read_link(entry.path())?.to_string_lossy());
            } else if kind.is_dir() {
                self.tree(&inner, &entry.path())?;
            } else if kind.is_file() {
                self.file(&inner, entry.metadata()?.permissions().mode() & 0o777, &entry.path());
            }
        }
        Ok(self)
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// If a file cannot be read, or is 4 GiB or larger, or if the output fails.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for (number, (name, entry)) in (1_u32..).zip(&self.entries) {
            let read;
            let bytes = match &entry.content {
                Content::Bytes(bytes) => bytes,
                Content::File(path) => {
                    read = fs::read(path).map_err(|error| {
                        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
                    })?;
                    &read
                }
            };
            write_entry(out, number, name, entry, bytes)?;
        }
        let end = Entry { mode: 0, device: (0, 0), content: Content::Bytes(Vec::new()) };
        write_entry(out, 0, "TRAILER!!!", &end, &[])
    }
}

fn write_entry(out: &mut impl Write, number: u32, name: &str, entry: &Entry, bytes: &[u8]) -> io::Result<()> {
    let size = u32::try_from(bytes.len()).map_err(|_| io::Error::other(format!("{name} is too large")))?;
    let mtime = if number == 0 { 0 } else { MTIME_S };
    // The fields of the header: inode number, mode, owner, group, links, time, size, the device on which the
    // file lies (two numbers), the device that the file is (two numbers), the length of the name, checksum.
    let (major, minor) = entry.device;
    let fields = [number, entry.mode, 0, 0, 1, mtime, size, 0, 0, major, minor, name.len() as u32 + 1, 0];
    let mut header = String::from("070701");
    for field in fields {
        header.push_str(&format!("{field:08X}"));
    }
    header.push_str(name);
    header.push('\0');
    out.write_all(header.as_bytes())?;
    out.write_all(padding(header.len()))?;
    out.write_all(bytes)?;
    out.write_all(padding(bytes.len()))
}

fn padding(len: usize) -> &'static [u8] {
    &[0; 3][..len.wrapping_neg() % 4]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(archive: &Archive) -> Vec<u8> {
        let mut bytes = Vec::new();
        archive.write(&mut bytes).expect("memory takes everything");
        bytes
    }

    #[test]
    fn an_entry_has_the_bytes_that_the_format_asks_for() {
        let bytes = written(Archive::new().bytes("a", 0o644, *b"hello"));
        let header = "070701\
             00000001000081A4000000000000000000000001\
             6955B90000000005000000000000000000000000000000000000000200000000a\0";
        assert_eq!(&bytes[..header.len()], header.as_bytes());
        assert_eq!(&bytes[112..126], b"hello\0\0\x00070701");
        assert_eq!(bytes.len() % 4, 0);
        assert!(bytes.ends_with(b"TRAILER!!!\0\0\0\0"));
    }

    #[test]
    fn the_order_in_which_entries_are_added_does_not_show() {
        let mut first = Archive::new();
        first.bytes("b/x", 0o644, *b"1").link("a", "b/x").directory("c/d");
        let mut second = Archive::new();
        second.directory("c/d").link("a", "b/x").bytes("b/x", 0o644, *b"1");
        assert_eq!(written(&first), written(&second));
    }

    #[test]
    fn directories_come_before_what_they_hold() {
        let bytes = written(Archive::new().bytes("one/two/three", 0o644, Vec::new()));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let at = |name: &str| text.find(&format!("{name}\0")).expect("the name is there");
        assert!(at("one") < at("one/two") && at("one/two") < at("one/two/three"));
    }

    #[test]
    fn the_system_s_own_cpio_reads_an_archive() {
        use std::process::{Command, Stdio};
        let mut archive = Archive::new();
        archive.bytes("etc/motd", 0o600, *b"hi\n").link("etc/m", "motd");
        let mut cpio = Command::new("cpio")
            .args(["-t", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cpio can be started");
        cpio.stdin.take().expect("it is piped").write_all(&written(&archive)).expect("cpio reads");
        let output = cpio.wait_with_output().expect("cpio ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "etc\netc/m\netc/motd\n");
    }
}
