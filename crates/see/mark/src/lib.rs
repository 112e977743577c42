//! A program's own events in Spry's traces.
//!
//! A mark is one write of at most [`MARK_BYTES_MAX`] bytes of text to [`MARK_PATH`], from any program in any
//! language. The file is a null device that a recorder of marks makes. Without the device a mark costs
//! nothing; without a running recorder it costs one system call.
//!
//! ```
//! spry_mark::mark("frame 17 shown");
//! ```

#![warn(missing_docs)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::sync::OnceLock;

/// The device file to which programs write their marks.
pub const MARK_PATH: &str = "/dev/spry-mark";

/// The most bytes of a mark; longer marks are cut.
pub const MARK_BYTES_MAX: usize = 128;

/// Makes a mark with this text on the calling thread; does nothing if no recorder has made the device yet.
///
/// The file is looked for once, at the first mark: start the recorder before the program.
pub fn mark(text: &str) {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    if let Some(mut file) = FILE.get_or_init(open).as_ref() {
        // The text is copied first: the recorder reads only resident memory, and text that no code has
        // touched yet may not be resident.
        let mut bytes = [0; MARK_BYTES_MAX];
        let len = text.len().min(MARK_BYTES_MAX);
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        // If a mark fails, there is no reader for the error.
        let _ = file.write_all(&bytes[..len]);
    }
}

fn open() -> Option<File> {
    let file = OpenOptions::new().write(true).open(MARK_PATH).ok()?;
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device()).then_some(file)
}
