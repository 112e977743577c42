//! The parameters of the kernel load.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// One write call copies a large buffer to a file, over and over (Goel et al. 2002, section 4.2.1: 8 MB, 90 %
/// of the time in the kernel).
#[derive(Clone, Debug, PartialEq)]
pub struct KernelLoad {
    /// The size of the buffer, bytes, 1 to 1 GiB.
    pub bytes: usize,
}

impl Parameters for KernelLoad {
    const NAME: &'static str = "kernel-load";
    const ABOUT: &'static str = "a large buffer written to a file by one call, repeated; keys: bytes";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let bytes = keys.bytes("bytes")?.unwrap_or(8 << 20);
        if !(1..=1 << 30).contains(&bytes) {
            return Err(keys.mistake("bytes", "\"bytes\" must be from 1 to 1 GiB"));
        }
        Ok(Self { bytes: bytes as usize })
    }
}
