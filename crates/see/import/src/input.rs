//! Numbers, texts and blocks out of a stream, in the file's own order of bytes.

use std::io::{self, Read};

/// The order of the bytes of a number in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Least significant first.
    Little,
    /// Most significant first.
    Big,
}

impl Order {
    /// The number that at most eight bytes stand for.
    pub(crate) fn number(self, bytes: &[u8]) -> u64 {
        let join = |number: u64, &byte: &u8| (number << 8) | u64::from(byte);
        match self {
            Order::Little => bytes.iter().rev().fold(0, join),
            Order::Big => bytes.iter().fold(0, join),
        }
    }

    /// The number of `len` bytes at a place; `None` where the data ends before.
    pub(crate) fn number_at(self, data: &[u8], at: usize, len: usize) -> Option<u64> {
        data.get(at..at.checked_add(len)?).map(|bytes| self.number(bytes))
    }
}

/// The longest text, bytes; a longer text is an error.
const TEXT_BYTES_MAX: usize = 4096;

/// Reads numbers, texts and blocks in turn. If the source ends early, the error is `UnexpectedEof`.
pub(crate) struct Input<R> {
    source: R,
    order: Order,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R, order: Order) -> Input<R> {
        Input { source, order }
    }

    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn set_order(&mut self, order: Order) {
        self.order = order;
    }

    fn number(&mut self, len: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.source.read_exact(&mut bytes[..len])?;
        Ok(self.order.number(&bytes[..len]))
    }

    pub(crate) fn u8(&mut self) -> io::Result<u8> {
        self.number(1).map(|number| number as u8)
    }

    pub(crate) fn u16(&mut self) -> io::Result<u16> {
        self.number(2).map(|number| number as u16)
    }

    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        self.number(4).map(|number| number as u32)
    }

    pub(crate) fn u64(&mut self) -> io::Result<u64> {
        self.number(8)
    }

    /// Reads a text, up to the next zero byte.
    pub(crate) fn text(&mut self) -> io::Result<String> {
        let mut text = Vec::new();
        loop {
            match self.u8()? {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                _ if text.len() >= TEXT_BYTES_MAX => return Err(io::ErrorKind::InvalidData.into()),
                byte => text.push(byte),
            }
        }
    }

    /// Reads `len` bytes. Takes no more memory than the source has bytes, and fails without taking any if
    /// `len` is more than `most`.
    pub(crate) fn block(&mut self, len: u64, most: u64) -> io::Result<Vec<u8>> {
        if len > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut block = Vec::new();
        self.source.by_ref().take(len).read_to_end(&mut block)?;
        if (block.len() as u64) < len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(block)
    }

    /// Passes over `len` bytes.
    pub(crate) fn skip(&mut self, len: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.source.by_ref().take(len), &mut io::sink())?;
        if skipped < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl Input<&[u8]> {
    pub(crate) fn is_at_end(&self) -> bool {
        self.source.is_empty()
    }
}
