//! The records that eyes send to the daemon: all of one length, with numbers only.
//!
//! Eyes run as the user of the display that they look at, so each record may be a lie. Reading a record
//! allocates nothing and cannot fail half-way; the daemon, which reads it, decides what a record may claim.

use spry_policy::{Changes, Tgid};

/// The length of a record, bytes. Records go through a pipe, which takes so few bytes whole.
pub const RECORD: usize = 24;

/// At most so many records are written and read at once: they are fewer bytes than a pipe takes whole.
pub const AT_ONCE: usize = 64;

/// The reason why eyes no longer see a display.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// No server answers at the socket.
    NoServer,
    /// The connection to the server broke, as it does when a server ends.
    Broken,
    /// The server does not let the eyes' user in.
    Refused,
    /// The server lacks an extension that the eyes need.
    NoExtension(Extension),
}

/// The extensions of X11 that the eyes need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extension {
    /// RECORD: the events that clients receive.
    Record,
    /// X-Resource: the process of a client.
    Resource,
    /// DAMAGE: the drawings of clients.
    Damage,
    /// XFIXES: regions.
    Fixes,
    /// XInput: the movements of input devices.
    Input,
    /// SHAPE: windows that are no rectangles.
    Shape,
}

/// One record from the eyes to the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// The display is watched; this process serves it.
    Watched(Tgid),
    /// A process received input or drew.
    Changes(Tgid, Changes),
    /// The eyes have ended; no further record follows.
    Ended(End),
}

/// Whether a display's server has a keyboard or a screen of this machine: one byte of a pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seat {
    /// The server reads a keyboard or a pointer of this machine, or shows its screen.
    Real,
    /// The server has none of them: no person at this machine sees its drawings.
    None,
    /// The descriptors of the server may not be looked at.
    Unknown,
}

impl From<Seat> for u8 {
    fn from(seat: Seat) -> u8 {
        match seat {
            Seat::Real => b'+',
            Seat::None => b'-',
            Seat::Unknown => b'?',
        }
    }
}

impl From<u8> for Seat {
    fn from(byte: u8) -> Seat {
        match byte {
            b'+' => Seat::Real,
            b'-' => Seat::None,
            _ => Seat::Unknown,
        }
    }
}

/// The error that bytes are no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no record")]
pub struct NoRecord;

const WATCHED: u32 = 1;
const CHANGES: u32 = 2;
const ENDED: u32 = 3;
/// The codes of the first three kinds of [`End`]; the codes of extensions follow.
const NO_SERVER: u32 = 0;
const BROKEN: u32 = 1;
const REFUSED: u32 = 2;
const NO_EXTENSION: u32 = 3;

impl Extension {
    const ALL: [Extension; 6] = [
        Extension::Record,
        Extension::Resource,
        Extension::Damage,
        Extension::Fixes,
        Extension::Input,
        Extension::Shape,
    ];

    /// The name of the extension in X11.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Extension::Record => "RECORD",
            Extension::Resource => "X-Resource",
            Extension::Damage => "DAMAGE",
            Extension::Fixes => "XFIXES",
            Extension::Input => "XInputExtension",
            Extension::Shape => "SHAPE",
        }
    }

    /// The extension that has this name in X11.
    #[must_use]
    pub fn named(name: &str) -> Option<Extension> {
        Extension::ALL.into_iter().find(|extension| extension.name() == name)
    }
}

impl End {
    const fn code(self) -> u32 {
        match self {
            End::NoServer => NO_SERVER,
            End::Broken => BROKEN,
            End::Refused => REFUSED,
            End::NoExtension(extension) => NO_EXTENSION + extension as u32,
        }
    }

    fn of_code(code: u32) -> Option<End> {
        match code {
            NO_SERVER => Some(End::NoServer),
            BROKEN => Some(End::Broken),
            REFUSED => Some(End::Refused),
            _ => Extension::ALL.get((code - NO_EXTENSION) as usize).copied().map(End::NoExtension),
        }
    }
}

impl From<Record> for [u8; RECORD] {
    fn from(record: Record) -> [u8; RECORD] {
        let (kind, number, input, output_ppm) = match record {
            Record::Watched(server) => (WATCHED, server.0, 0, 0),
            Record::Changes(tgid, changes) => (CHANGES, tgid.0, changes.input, changes.output_ppm),
            Record::Ended(end) => (ENDED, end.code(), 0, 0),
        };
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&number.to_ne_bytes());
        bytes[8..12].copy_from_slice(&input.to_ne_bytes());
        bytes[16..].copy_from_slice(&output_ppm.to_ne_bytes());
        bytes
    }
}

impl TryFrom<&[u8]> for Record {
    type Error = NoRecord;

    fn try_from(bytes: &[u8]) -> Result<Record, NoRecord> {
        let bytes: &[u8; RECORD] = bytes.try_into().map_err(|_| NoRecord)?;
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (number, input) = (word(4), word(8));
        let output_ppm = u64::from(word(16)) | u64::from(word(20)) << 32;
        let output_ppm = if cfg!(target_endian = "big") { output_ppm.rotate_left(32) } else { output_ppm };
        match word(0) {
            WATCHED => Ok(Record::Watched(Tgid(number))),
            CHANGES => Ok(Record::Changes(Tgid(number), Changes { input, output_ppm })),
            ENDED => End::of_code(number).map(Record::Ended).ok_or(NoRecord),
            _ => Err(NoRecord),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let ends = [End::NoServer, End::Broken, End::Refused].into_iter();
        let ends = ends.chain(Extension::ALL.map(End::NoExtension)).map(Record::Ended);
        let changes = Changes { input: 7, output_ppm: (1 << 40) + 3 };
        let others = [Record::Watched(Tgid(9)), Record::Changes(Tgid(u32::MAX), changes)];
        for record in ends.chain(others) {
            let bytes: [u8; RECORD] = record.into();
            assert_eq!(Record::try_from(&bytes[..]), Ok(record));
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_none() {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        for length in 0..64 {
            for _ in 0..200 {
                let mut bytes: Vec<u8> = (0..length).map(|_| byte()).collect();
                if let Some(kind) = bytes.first_mut() {
                    *kind &= 3;
                }
                assert!(Record::try_from(&bytes[..]).is_err() || length == RECORD);
            }
        }
    }
}
