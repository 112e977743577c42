//! The bytes of the bus' messages, for methods that take numbers and strings. Input is not trusted: each
//! length is checked against the bytes that there are.

use thiserror::Error;

/// The longest message that is read, bytes; longer messages are skipped.
pub const MESSAGE_MAX: usize = 4096;
/// How many bytes at the beginning of a message give its length.
pub const PREFIX: usize = 16;

/// Bytes that are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("these bytes are no message of the bus'")]
pub struct MalformedMessage;

/// The kinds of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A call of a method.
    Call,
    /// The result of a call.
    Return,
    /// The error of a call that failed.
    Error,
    /// A signal, which has no answer.
    Signal,
}

/// A message that was received. Absent texts are empty, and absent numbers 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub kind: Kind,
    /// Whether the sender waits for an answer.
    pub is_awaited: bool,
    pub serial: u32,
    pub answers: u32,
    pub path: String,
    pub interface: String,
    pub member: String,
    pub error: String,
    pub sender: String,
    pub signature: String,
    body: Vec<u8>,
    order: Order,
}

/// The length in bytes of the message that begins with this prefix.
///
/// # Errors
/// If the bytes do not begin a message.
pub fn length(prefix: &[u8; PREFIX]) -> Result<usize, MalformedMessage> {
    let mut cursor = Cursor::of(prefix, order(prefix[0])?);
    cursor.at = 4;
    let body = cursor.u32()? as usize;
    cursor.at = 12;
    let fields = cursor.u32()? as usize;
    // The protocol's own limits: 128 MiB for a message, 64 MiB for the header's fields.
    if body > 1 << 27 || fields > 1 << 26 {
        return Err(MalformedMessage);
    }
    Ok((PREFIX + fields).next_multiple_of(8) + body)
}

/// The byte order of numbers: the least or the most significant byte first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    Least,
    Most,
}

fn order(mark: u8) -> Result<Order, MalformedMessage> {
    match mark {
        b'l' => Ok(Order::Least),
        b'B' => Ok(Order::Most),
        _ => Err(MalformedMessage),
    }
}

impl Message {
    /// Reads a message from all of its bytes.
    ///
    /// # Errors
    /// If the bytes are not one whole message.
    pub fn read(bytes: &[u8]) -> Result<Message, MalformedMessage> {
        let prefix = bytes.first_chunk::<PREFIX>().ok_or(MalformedMessage)?;
        if length(prefix)? != bytes.len() || prefix[3] != 1 {
            return Err(MalformedMessage);
        }
        let kind = match prefix[1] {
            1 => Kind::Call,
            2 => Kind::Return,
            3 => Kind::Error,
            4 => Kind::Signal,
            _ => return Err(MalformedMessage),
        };
        let order = order(prefix[0])?;
        let mut cursor = Cursor::of(bytes, order);
        cursor.at = 8;
        let serial = cursor.u32()?;
        let end = PREFIX + cursor.u32()? as usize;
        let text = String::new;
        let mut message = Message {
            kind,
            is_awaited: prefix[2] & 1 == 0,
            serial,
            answers: 0,
            path: text(),
            interface: text(),
            member: text(),
            error: text(),
            sender: text(),
            signature: text(),
            body: bytes[end.next_multiple_of(8)..].to_vec(),
            order,
        };
        cursor.bytes = &bytes[..end];
        while cursor.at < end {
            message.field(&mut cursor)?;
        }
        Ok(message)
    }

    /// Reads one field of the header.
    fn field(&mut self, cursor: &mut Cursor<'_>) -> Result<(), MalformedMessage> {
        cursor.align(8)?;
        let code = cursor.u8()?;
        let place = match (code, cursor.signature()?) {
            (1, "o") => &mut self.path,
            (2, "s") => &mut self.interface,
            (3, "s") => &mut self.member,
            (4, "s") => &mut self.error,
            (7, "s") => &mut self.sender,
            (6, "s") => return cursor.text().map(drop),
            (8, "g") => {
                self.signature = cursor.signature()?.to_owned();
                return Ok(());
            }
            (5, "u") => {
                self.answers = cursor.u32()?;
                return Ok(());
            }
            // The number of descriptors that belong to the message; they are ignored.
            (9, "u") => return cursor.u32().map(drop),
            _ => return Err(MalformedMessage),
        };
        *place = cursor.text()?.to_owned();
        Ok(())
    }

    /// The arguments of the message.
    pub fn body(&self) -> Cursor<'_> {
        Cursor::of(&self.body, self.order)
    }
}

/// Values that are read one after another.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
}

impl<'a> Cursor<'a> {
    fn of(bytes: &'a [u8], order: Order) -> Cursor<'a> {
        Cursor { bytes, at: 0, order }
    }

    fn align(&mut self, to: usize) -> Result<(), MalformedMessage> {
        let next = self.at.next_multiple_of(to);
        let between = self.bytes.get(self.at..next).ok_or(MalformedMessage)?;
        self.at = next;
        if between.iter().all(|&byte| byte == 0) { Ok(()) } else { Err(MalformedMessage) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], MalformedMessage> {
        self.align(N)?;
        let found = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(MalformedMessage)?;
        self.at += N;
        Ok(*found)
    }

    fn u8(&mut self) -> Result<u8, MalformedMessage> {
        Ok(self.take::<1>()?[0])
    }

    /// Reads a number of the type `u`.
    pub fn u32(&mut self) -> Result<u32, MalformedMessage> {
        let bytes = self.take()?;
        Ok(match self.order {
            Order::Least => u32::from_le_bytes(bytes),
            Order::Most => u32::from_be_bytes(bytes),
        })
    }

    /// Reads a number of the type `i`.
    pub fn i32(&mut self) -> Result<i32, MalformedMessage> {
        Ok(self.u32()? as i32)
    }

    /// Reads a number of the type `t`.
    pub fn u64(&mut self) -> Result<u64, MalformedMessage> {
        let bytes = self.take()?;
        Ok(match self.order {
            Order::Least => u64::from_le_bytes(bytes),
            Order::Most => u64::from_be_bytes(bytes),
        })
    }

    /// Reads a text of the type `s` or `o`.
    pub fn text(&mut self) -> Result<&'a str, MalformedMessage> {
        let length = self.u32()? as usize;
        self.words(length)
    }

    fn signature(&mut self) -> Result<&'a str, MalformedMessage> {
        let length = self.u8()? as usize;
        self.words(length)
    }

    fn words(&mut self, length: usize) -> Result<&'a str, MalformedMessage> {
        let end = self.at.checked_add(length).ok_or(MalformedMessage)?;
        let text = self.bytes.get(self.at..end).ok_or(MalformedMessage)?;
        if self.bytes.get(end) != Some(&0) || text.contains(&0) {
            return Err(MalformedMessage);
        }
        self.at = end + 1;
        std::str::from_utf8(text).map_err(|_| MalformedMessage)
    }

    /// Checks that nothing is left.
    pub fn end(&self) -> Result<(), MalformedMessage> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(MalformedMessage) }
    }
}

/// Values that are written one after another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Values {
    signature: String,
    bytes: Vec<u8>,
}

impl Values {
    fn align(&mut self, to: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(to), 0);
    }

    fn put_u32(&mut self, number: u32) {
        self.align(4);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn put_text(&mut self, text: &str) {
        self.put_u32(text.len() as u32);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
    }

    fn put_signature(&mut self, signature: &str) {
        self.bytes.push(signature.len() as u8);
        self.bytes.extend_from_slice(signature.as_bytes());
        self.bytes.push(0);
    }

    /// Adds a number of the type `u`.
    #[must_use]
    pub fn u32(mut self, number: u32) -> Values {
        self.put_u32(number);
        self.signature.push('u');
        self
    }

    /// Adds a text of the type `s`.
    #[must_use]
    pub fn text(mut self, text: &str) -> Values {
        self.put_text(text);
        self.signature.push('s');
        self
    }

    /// Adds a number as a variant (the type `v`), which has its own type with it.
    #[must_use]
    pub fn variant(mut self, number: Number) -> Values {
        self.put_variant(number);
        self.signature.push('v');
        self
    }

    fn put_variant(&mut self, number: Number) {
        match number {
            Number::Int32(number) => {
                self.put_signature("i");
                self.put_u32(number as u32);
            }
            Number::Int64(number) => {
                self.put_signature("x");
                self.align(8);
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
    }

    /// Adds a table of names and numbers (the type `a{sv}`).
    #[must_use]
    pub fn table(mut self, rows: &[(&str, Number)]) -> Values {
        self.put_u32(0);
        let length_at = self.bytes.len() - 4;
        self.align(8);
        let began = self.bytes.len();
        for &(name, number) in rows {
            self.align(8);
            self.put_text(name);
            self.put_variant(number);
        }
        let length = (self.bytes.len() - began) as u32;
        self.bytes[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
        self.signature.push_str("a{sv}");
        self
    }
}

/// A number that a variant can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    Int32(i32),
    Int64(i64),
}

/// A message to be sent.
#[derive(Clone, Copy, Debug)]
pub enum OutgoingMessage<'a> {
    /// A call of one of the bus' own methods.
    ToBus { member: &'a str },
    /// The result of a call.
    Return { to: &'a Message },
    /// The error of a call that failed.
    Error { to: &'a Message, name: &'a str },
}

/// The bytes of a message.
pub fn written(serial: u32, sent: OutgoingMessage<'_>, values: &Values) -> Vec<u8> {
    const BUS: &str = "org.freedesktop.DBus";
    let (kind, flags) = match sent {
        OutgoingMessage::ToBus { .. } => (1, 0),
        OutgoingMessage::Return { .. } => (2, 1),
        OutgoingMessage::Error { .. } => (3, 1),
    };
    let mut out = Values::default();
    out.bytes.extend_from_slice(&[b'l', kind, flags, 1]);
    out.put_u32(values.bytes.len() as u32);
    out.put_u32(serial);
    out.put_u32(0);
    let field = |out: &mut Values, code: u8, kind: &str, text: &str| {
        out.align(8);
        out.bytes.push(code);
        out.put_signature(kind);
        if kind == "g" { out.put_signature(text) } else { out.put_text(text) }
    };
    match sent {
        OutgoingMessage::ToBus { member } => {
            field(&mut out, 1, "o", "/org/freedesktop/DBus");
            field(&mut out, 2, "s", BUS);
            field(&mut out, 3, "s", member);
            field(&mut out, 6, "s", BUS);
        }
        OutgoingMessage::Return { to } | OutgoingMessage::Error { to, .. } => {
            out.align(8);
            out.bytes.push(5);
            out.put_signature("u");
            out.put_u32(to.serial);
            field(&mut out, 6, "s", &to.sender);
        }
    }
    if let OutgoingMessage::Error { name, .. } = sent {
        field(&mut out, 4, "s", name);
    }
    if !values.signature.is_empty() {
        field(&mut out, 8, "g", &values.signature);
    }
    let fields = (out.bytes.len() - PREFIX) as u32;
    out.bytes[12..PREFIX].copy_from_slice(&fields.to_le_bytes());
    out.align(8);
    out.bytes.extend_from_slice(&values.bytes);
    out.bytes
}

#[cfg(test)]
mod tests;
