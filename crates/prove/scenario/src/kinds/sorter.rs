//! The parameters of the sorting application.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// Fills an array with random numbers and sorts it, over and over (Etsion, Tsafrir, Feitelson 2003, section
/// 3: an array of about half of the second-level cache).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sorter {
    /// How many numbers of 4 bytes the array has, from 2 to 2^24.
    pub numbers: u32,
}

/// Half of the paper's cache of 256 KiB, in numbers of 4 bytes.
const NUMBERS: u32 = (128 << 10) / 4;
/// The longest array, which takes 64 MiB.
const MOST: u32 = 1 << 24;

impl Parameters for Sorter {
    const NAME: &'static str = "sorter";
    const ABOUT: &'static str =
        "fills an array with numbers by chance and sorts it, over and over; key: numbers (of 4 bytes)";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let numbers = keys.whole("numbers")?.unwrap_or(u64::from(NUMBERS));
        match u32::try_from(numbers) {
            Ok(numbers @ 2..=MOST) => Ok(Self { numbers }),
            Ok(_) | Err(_) => Err(keys.mistake("numbers", format!("\"numbers\" must be 2 to {MOST}"))),
        }
    }
}
