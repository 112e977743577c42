//! Presses keys as a person would: by the XTEST extension, or by a keyboard that the kernel provides.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use x11rb::protocol::xproto::{
    ConnectionExt as _, KEY_PRESS_EVENT, KEY_RELEASE_EVENT, KeyButMask, KeyPressEvent,
};
use x11rb::protocol::xtest::{self, ConnectionExt as _};

use super::client::Client;
use super::{X11Error, uinput};

/// An X server's code of a key is the kernel's code plus this number.
const FIRST_CODE: u8 = 8;
/// The key symbol of Return.
const RETURN: u32 = 0xff0d;
/// The key symbol of Escape.
const ESCAPE: u32 = 0xff1b;
/// The key symbol of the left Shift.
const SHIFT: u32 = 0xffe1;

/// How a character is typed: the code of its key, and whether Shift is held down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    code: u8,
    shifted: ShiftState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ShiftState {
    No,
    Yes,
}

/// The server's keyboard: the key for each character.
#[derive(Debug)]
pub struct Keyboard {
    keys: BTreeMap<u32, Key>,
    letters: BTreeMap<Key, char>,
    shift: u8,
}

impl Keyboard {
    /// Reads the server's keyboard map.
    ///
    /// # Errors
    /// If the server has no XTEST or no Shift key.
    pub fn read(client: &Client) -> Result<Self, X11Error> {
        client.require(xtest::X11_EXTENSION_NAME)?;
        let setup = x11rb::connection::Connection::setup(client.connection());
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let map = client.connection().get_keyboard_mapping(first, last - first + 1)?.reply()?;
        let (mut keys, mut letters) = (BTreeMap::new(), BTreeMap::new());
        for (code, symbols) in
            (first..=last).zip(map.keysyms.chunks(usize::from(map.keysyms_per_keycode.max(1))))
        {
            for (symbol, shifted) in symbols.iter().zip([ShiftState::No, ShiftState::Yes]) {
                let key = Key { code, shifted };
                keys.entry(*symbol).or_insert(key);
                let letter = if *symbol == RETURN { Some('\n') } else { char::from_u32(*symbol) };
                if let Some(letter) = letter.filter(|letter| ('\n'..='\u{ff}').contains(letter)) {
                    letters.entry(key).or_insert(letter);
                }
            }
        }
        let shift = keys.get(&SHIFT).ok_or(X11Error::NoKey('⇧'))?.code;
        Ok(Self { keys, letters, shift })
    }

    /// The key that types a character. It can be any character of Latin-1; a line feed means Return, and
    /// `\u{1b}` means Escape.
    ///
    /// # Errors
    /// [`X11Error::NoKey`] if the keyboard map has no key for the character.
    pub fn key(&self, character: char) -> Result<Key, X11Error> {
        let symbol = match character {
            '\n' => RETURN,
            '\u{1b}' => ESCAPE,
            other => other.into(),
        };
        self.keys.get(&symbol).copied().ok_or(X11Error::NoKey(character))
    }

    /// The character that a pressed key types; `None` if it types none.
    #[must_use]
    pub fn letter(&self, press: &KeyPressEvent) -> Option<char> {
        let shifted = if press.state.contains(KeyButMask::SHIFT) { ShiftState::Yes } else { ShiftState::No };
        self.letters.get(&Key { code: press.detail, shifted }).copied()
    }

    /// Presses a key of the kernel's keyboard and releases it. The X server reads that keyboard.
    ///
    /// # Errors
    /// If the kernel refuses the write.
    pub fn strike_device(&self, door: BorrowedFd<'_>, key: Key) -> Result<(), X11Error> {
        let code = |code: u8| u16::from(code.saturating_sub(FIRST_CODE));
        let done = match key.shifted {
            ShiftState::No => uinput::strike(door, &[code(key.code)]),
            ShiftState::Yes => uinput::strike(door, &[code(self.shift), code(key.code)]),
        };
        done.map_err(|source| X11Error::Kernel { what: "pressing a key", source })
    }

    /// Presses a key and releases it. The requests are sent to the server with the client's next flush.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn strike(&self, client: &Client, key: Key) -> Result<(), X11Error> {
        let fake = |kind, code| -> Result<(), X11Error> {
            client.connection().xtest_fake_input(kind, code, x11rb::CURRENT_TIME, x11rb::NONE, 0, 0, 0)?;
            Ok(())
        };
        match key.shifted {
            ShiftState::No => {
                fake(KEY_PRESS_EVENT, key.code)?;
                fake(KEY_RELEASE_EVENT, key.code)
            }
            ShiftState::Yes => {
                fake(KEY_PRESS_EVENT, self.shift)?;
                fake(KEY_PRESS_EVENT, key.code)?;
                fake(KEY_RELEASE_EVENT, key.code)?;
                fake(KEY_RELEASE_EVENT, self.shift)
            }
        }
    }
}
