//! Variable-length integers: seven bits a byte, least significant first, as in LEB128.

/// Appends `value`.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The number of bytes that [`put`] appends for `value`.
pub const fn len(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Folds the sign into the lowest bit, so that small magnitudes stay short.
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`zigzag`].
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// A cursor over bytes that may be forged: every read is checked.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the first of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, position: 0 }
    }

    /// A cursor at `position` of `bytes`; past their end it reads nothing.
    pub const fn at(bytes: &'a [u8], position: usize) -> Cursor<'a> {
        Cursor { bytes, position }
    }

    /// The number of bytes that have been read.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// All the bytes, read or not.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether every byte has been read.
    pub const fn is_empty(&self) -> bool {
        self.position >= self.bytes.len()
    }

    /// The next byte; `None` at the end.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.position)?;
        self.position += 1;
        Some(byte)
    }

    /// One variable-length integer; `None` if it is cut off or longer than 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let second = self.byte()?;
        let low = u64::from(first & 0x7f) | (u64::from(second & 0x7f) << 7);
        if second < 0x80 {
            return Some(low);
        }
        self.long_varint(low)
    }

    fn long_varint(&mut self, mut value: u64) -> Option<u64> {
        for shift in (14..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        match self.byte()? {
            last @ 0..=1 => Some(value | (u64::from(last) << 63)),
            _ => None,
        }
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(len)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_comes_back() {
        let mut values: Vec<u64> = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1]).collect();
        values.push(u64::MAX);
        for value in values {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(bytes.len(), len(value), "{value:#x}");
            let mut cursor = Cursor::new(&bytes);
            assert_eq!(cursor.varint(), Some(value));
            assert!(cursor.is_empty());
            assert_eq!(Cursor::new(&bytes[..bytes.len() - 1]).varint(), None, "cut {value:#x}");
        }
    }

    #[test]
    fn more_than_64_bits_is_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(2);
        assert_eq!(Cursor::new(&bytes).varint(), None);
    }

    #[test]
    fn signs_fold() {
        for value in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
        assert!(zigzag(-3) < 8);
    }
}
