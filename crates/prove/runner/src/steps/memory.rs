//! Memory accesses of a task: it fills a buffer, reads a buffer, or follows a chain of pointers.

use std::hint::black_box;

use spry_scenario::program::{Access, Memory, Order};

/// How many bytes or links a thread goes through before it checks again whether the run is over.
const BETWEEN_LOOKS: u64 = 1 << 20;

/// The buffers of a thread: one for each pair of a size and a manner of access.
#[derive(Default)]
pub(crate) struct Buffers(Vec<(usize, Access, Buffer)>);

enum Buffer {
    Bytes(Vec<u8>),
    /// `links`: for each word, the index of the word to which it leads. `at`: the word at which the
    /// last walk stopped.
    Chain {
        links: Vec<usize>,
        at: usize,
    },
}

impl Buffers {
    /// Makes the buffer that a step needs, and writes to all of it, so that all its pages exist.
    pub(crate) fn add(&mut self, memory: &Memory) {
        if self.find(memory).is_some() {
            return;
        }
        let buffer = match memory.access {
            Access::Write | Access::Read => Buffer::Bytes(vec![0x5a; memory.size]),
            Access::Chase { stride, order } => {
                Buffer::Chain { links: chain(memory.size, stride, order), at: 0 }
            }
        };
        self.0.push((memory.size, memory.access, buffer));
    }

    fn find(&mut self, memory: &Memory) -> Option<&mut Buffer> {
        let found =
            self.0.iter_mut().find(|(size, access, _)| *size == memory.size && *access == memory.access);
        found.map(|(_, _, buffer)| buffer)
    }

    /// Goes through the buffer of a step, in the step's manner, for the step's count of bytes or links. Stops
    /// when the run is over.
    pub(crate) fn go_through(&mut self, memory: &Memory, over: &dyn Fn() -> bool) {
        let Some(buffer) = self.find(memory) else { return };
        let mut left = memory.count;
        while left > 0 && !over() {
            let count = left.min(BETWEEN_LOOKS);
            match buffer {
                Buffer::Bytes(bytes) if memory.access == Access::Write => {
                    let part = (count as usize).min(bytes.len());
                    bytes[..part].fill(black_box(0xa5));
                    black_box(&mut *bytes);
                    left -= part as u64;
                    continue;
                }
                Buffer::Bytes(bytes) => {
                    let part = (count as usize).min(bytes.len());
                    black_box(bytes[..part].iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)));
                    left -= part as u64;
                    continue;
                }
                Buffer::Chain { links, at } => {
                    for _ in 0..count {
                        *at = links[*at];
                    }
                    black_box(*at);
                }
            }
            left -= count;
        }
    }
}

/// Makes a closed chain through all places of the buffer that are `stride` bytes apart.
fn chain(size: usize, stride: usize, order: Order) -> Vec<usize> {
    let words = stride / size_of::<usize>();
    let count = (size / stride).max(1);
    let places: Vec<usize> = match order {
        Order::Sequential => (0..count).collect(),
        Order::Scattered => {
            // The numbers below a power of two, with their bits reversed, visit every place once. Each place
            // is far from the preceding place.
            let bits = usize::BITS - (count - 1).leading_zeros();
            let reversed = |at: usize| if bits == 0 { 0 } else { at.reverse_bits() >> (usize::BITS - bits) };
            (0..1_usize << bits).map(reversed).filter(|&place| place < count).collect()
        }
    };
    let mut links = vec![0; (count * words).max(1)];
    for (here, next) in places.iter().zip(places.iter().cycle().skip(1)) {
        links[here * words] = next * words;
    }
    links
}
