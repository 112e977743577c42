//! Guesses a CPU's next record from its last two, so that a record that repeats takes one byte
//! beside its time.
//!
//! Scheduling is repetitive: the same pair wakes each other, the same timer wakes the same task. Writer and
//! reader keep the same table, so a right guess need not be written.

use crate::format::{PREDICTED_BYTES_MAX, PREDICTIONS};

/// A record without its time: its first byte, the bytes that follow the time, and the number of these bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Shape(u64);

impl Shape {
    /// The shape of a record; `None` if the record is too long to be guessed.
    #[inline]
    pub(crate) fn new(first: u8, rest: &[u8]) -> Option<Shape> {
        if rest.len() > PREDICTED_BYTES_MAX {
            return None;
        }
        let rest_bits = rest.iter().rev().fold(0, |bits, &byte| (bits << 8) | u64::from(byte));
        Some(Shape::of(first, rest_bits, rest.len()))
    }

    /// The shape of a record with `len` bytes after the time, which begin at `at`.
    #[inline]
    pub(crate) fn at(first: u8, bytes: &[u8], at: usize, len: usize) -> Option<Shape> {
        match bytes.get(at..).and_then(|bytes| bytes.first_chunk()) {
            Some(eight) if len <= PREDICTED_BYTES_MAX => {
                let rest_bits = u64::from_le_bytes(*eight) & ((1 << (8 * len)) - 1);
                Some(Shape::of(first, rest_bits, len))
            }
            Some(_) => None,
            None => Shape::new(first, bytes.get(at..at + len)?),
        }
    }

    #[inline]
    fn of(first: u8, rest_bits: u64, len: usize) -> Shape {
        // The length makes every shape different from the empty one.
        Shape(((len as u64 + 1) << 56) | (rest_bits << 8) | u64::from(first))
    }

    /// The first byte, the rest in an array, and the rest's length; `None` for the empty shape.
    #[inline]
    pub(crate) fn parts(self) -> Option<(u8, [u8; 8], usize)> {
        let len = ((self.0 >> 56) as usize).checked_sub(1)?;
        Some((self.0 as u8, (self.0 >> 8).to_le_bytes(), len))
    }
}

/// A table of guesses: for each pair of records, the record that followed the pair last time. A block begins
/// with an empty table.
pub(crate) struct Predictor {
    table: Box<[Shape; PREDICTIONS]>,
    last: [u64; 2],
}

impl Default for Predictor {
    fn default() -> Predictor {
        Predictor { table: Box::new([Shape::default(); PREDICTIONS]), last: [0; 2] }
    }
}

impl Predictor {
    /// Clears the table and the last two records.
    pub(crate) fn clear(&mut self) {
        self.table.fill(Shape::default());
        self.last = [0; 2];
    }

    #[inline]
    fn place(&self) -> usize {
        let mixed = (self.last[0].rotate_left(23) ^ self.last[1]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - PREDICTIONS.trailing_zeros())) as usize
    }

    /// The guess for the next record; the empty shape if there is none.
    #[inline]
    pub(crate) fn guess(&self) -> Shape {
        self.table[self.place()]
    }

    /// Learns the next event's shape; `None` for a shape that is too long to be guessed.
    #[inline]
    pub(crate) fn learn(&mut self, shape: Option<Shape>) {
        if let Some(shape) = shape {
            let place = self.place();
            self.table[place] = shape;
        }
        self.confirm(shape.unwrap_or_default());
    }

    /// Notes that the next record had the guessed shape, so that the table stays as it is.
    #[inline]
    pub(crate) fn confirm(&mut self, shape: Shape) {
        self.last = [self.last[1], shape.0];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_followed_the_same_pair_is_guessed() {
        let mut predictor = Predictor::default();
        let shapes: Vec<_> = (0..6u8).map(|number| Shape::new(number, &[number % 3]).unwrap()).collect();
        let mut right = 0;
        for round in 0..10 {
            for &shape in &shapes {
                right += usize::from(round >= 2 && predictor.guess() == shape);
                predictor.learn(Some(shape));
            }
        }
        assert_eq!(right, 8 * shapes.len());
    }

    #[test]
    fn a_shape_gives_its_parts_back_and_a_long_record_has_none() {
        let shape = Shape::new(9, &[1, 2, 0]).unwrap();
        let (first, rest, len) = shape.parts().unwrap();
        assert_eq!((first, &rest[..len]), (9, &[1, 2, 0][..]));
        for after in 0..8 {
            let bytes = [&[7, 1, 2, 0][..], &vec![5; after]].concat();
            assert!(Shape::at(9, &bytes, 1, 3) == Some(shape), "{after} bytes follow");
            assert!(Shape::at(9, &[0; 20], after, 7).is_none());
        }
        assert!(Shape::new(9, &[0; 7]).is_none());
        assert_eq!(Shape::default().parts(), None);
        assert!(Shape::new(0, &[]).unwrap() != Shape::default());
    }
}
