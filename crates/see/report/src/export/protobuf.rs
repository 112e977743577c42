//! The part of the protobuf wire encoding that the Perfetto export writes.
//!
//! The encoding is written here instead of using a library: the export only writes. Every message is fixed at
//! compile time and none is needed as a struct. Tags, varints and lengths go straight into one buffer,
//! without an allocation for each event.

/// Fields of one message, encoded.
#[derive(Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    /// An unsigned, boolean or enumerated field.
    pub(super) fn uint(&mut self, field: u64, value: impl Into<u64>) -> &mut Message {
        self.varint((field << 3) | VARINT);
        self.varint(value.into());
        self
    }

    /// An `int32` or `int64` field: negative numbers take ten bytes, as the encoding prescribes.
    pub(super) fn int(&mut self, field: u64, value: i64) -> &mut Message {
        self.uint(field, value as u64)
    }

    /// A string field.
    pub(super) fn string(&mut self, field: u64, text: &str) -> &mut Message {
        self.varint((field << 3) | LENGTH_DELIMITED);
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
        self
    }

    /// A field that is a message, which `fill` writes.
    pub(super) fn message(&mut self, field: u64, fill: impl FnOnce(&mut Message)) -> &mut Message {
        self.varint((field << 3) | LENGTH_DELIMITED);
        // Nearly every message here is shorter than 128 bytes: one byte is left for the length, and widened
        // if need be.
        let length_at = self.bytes.len();
        self.bytes.push(0);
        fill(self);
        let (length, width) = encode_varint((self.bytes.len() - length_at - 1) as u64);
        self.bytes.splice(length_at..=length_at, length[..width].iter().copied());
        self
    }

    /// The fields of another message of the same type.
    pub(super) fn append(&mut self, other: &Message) {
        self.bytes.extend_from_slice(&other.bytes);
    }

    /// The encoded fields.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the message and keeps its buffer.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Whether the message has no field.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn varint(&mut self, value: u64) {
        let (bytes, width) = encode_varint(value);
        self.bytes.extend_from_slice(&bytes[..width]);
    }
}

/// A varint and its width in bytes.
fn encode_varint(mut value: u64) -> ([u8; 10], usize) {
    let mut bytes = [0; 10];
    let mut width = 0;
    loop {
        bytes[width] = value as u8 & 0x7f;
        value >>= 7;
        width += 1;
        if value == 0 {
            return (bytes, width);
        }
        bytes[width - 1] |= 0x80;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_examples_encode_as_published() {
        // protobuf.dev, "Encoding": field 1 = 150; field 2 = "testing"; field 3 = {field 1 = 150}.
        let mut message = Message::default();
        message.uint(1, 150u64).string(2, "testing").message(3, |inner| {
            inner.uint(1, 150u64);
        });
        assert_eq!(message.bytes(), b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01");
    }

    #[test]
    fn a_long_inner_message_gets_a_wide_length() {
        let text = "x".repeat(300);
        let mut message = Message::default();
        message.message(1, |inner| {
            inner.string(2, &text);
        });
        assert_eq!(message.bytes()[..6], [0x0a, 0xaf, 0x02, 0x12, 0xac, 0x02]);
        assert_eq!(message.bytes().len(), 306);
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let mut message = Message::default();
        message.int(1, -1);
        assert_eq!(message.bytes(), [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }
}
