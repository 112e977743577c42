//! Endless loops, which have no parameters.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// An endless loop that takes all the CPU time that it gets (thesis, section 4.3), and reports how long it
/// did not get the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stresser;

/// An endless loop that takes all the CPU time that it gets, and reports how much work it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker;

impl Parameters for Stresser {
    const NAME: &'static str = "stresser";
    const ABOUT: &'static str = "an endless loop that takes every cycle; it tells the longest time in which \
                                 it did not get a millisecond of work done";

    fn parse(_keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        Ok(Self)
    }
}

impl Parameters for Worker {
    const NAME: &'static str = "worker";
    const ABOUT: &'static str = "an endless loop that takes every cycle; it tells how much work it got done, \
                                 as the time that this takes alone";

    fn parse(_keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        Ok(Self)
    }
}
