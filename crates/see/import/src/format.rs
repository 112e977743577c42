//! Tracepoint formats, as the kernel that made the records described them: the place of each field.

use crate::input::Order;

/// The largest number of fields that are read of a tracepoint.
const FIELDS_MAX: usize = 256;

/// The location of a field's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Location {
    /// The value is at the field's offset.
    Here,
    /// The 32-bit word at the field's offset locates the value: its length in the upper half, its offset in
    /// the record in the lower half.
    Word,
    /// The same as [`Location::Word`], but the offset in the word counts from the end of the word.
    WordRelative,
}

#[derive(Clone, Debug)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
    is_signed: bool,
    location: Location,
}

/// The layout of one tracepoint's records.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) system: String,
    pub(crate) name: String,
    pub(crate) id: u16,
    fields: Vec<Field>,
    /// The kernel's format line for the printing of such a record.
    pub(crate) print: String,
}

impl Format {
    /// Reads a format from the text of the kernel's `format` file; `None` if the text is no such file.
    pub(crate) fn parse(system: &str, text: &str) -> Option<Format> {
        let (mut name, mut id, mut print) = (None, None, String::new());
        let mut fields = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("name: ") {
                name = Some(rest.trim().to_owned());
            } else if let Some(rest) = line.strip_prefix("ID: ") {
                id = rest.trim().parse().ok();
            } else if let Some(rest) = line.strip_prefix("print fmt: ") {
                rest.clone_into(&mut print);
            } else if let Some(rest) = line.trim_start().strip_prefix("field:") {
                fields.extend(parse_field(rest).filter(|_| fields.len() < FIELDS_MAX));
            }
        }
        Some(Format { system: system.to_owned(), name: name?, id: id?, fields, print })
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The place of the number with that name.
    pub(crate) fn number(&self, name: &str) -> Option<Number> {
        let field = self.field(name)?;
        let fits = matches!(field.size, 1 | 2 | 4 | 8) && field.location == Location::Here;
        fits.then_some(Number { offset: field.offset, size: field.size, is_signed: field.is_signed })
    }

    /// The place of the text with that name.
    pub(crate) fn text(&self, name: &str) -> Option<Text> {
        let Field { offset, size, location, .. } = *self.field(name)?;
        Some(Text { offset, size, location })
    }
}

/// `char prev_comm[16]; offset:8; size:16; signed:0;`, with tabs between.
fn parse_field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut offset, mut size, mut is_signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => is_signed = value == "1",
            _ => {}
        }
    }
    let location = if declaration.starts_with("__data_loc ") {
        Location::Word
    } else if declaration.starts_with("__rel_loc ") {
        Location::WordRelative
    } else {
        Location::Here
    };
    let last = declaration.rsplit([' ', '*']).next()?;
    let name = last.split('[').next()?.to_owned();
    Some(Field { name, offset: offset?, size: size?, is_signed, location })
}

/// The place of a number in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Number {
    offset: usize,
    size: usize,
    is_signed: bool,
}

impl Number {
    /// An unsigned number that all kernels have at this place in a record.
    pub(crate) const fn at(offset: usize, size: usize) -> Number {
        Number { offset, size, is_signed: false }
    }

    /// The number's value in a record; of an unsigned 64-bit number, its bits.
    #[inline]
    pub(crate) fn of(self, data: &[u8], order: Order) -> Option<i64> {
        let value = order.number_at(data, self.offset, self.size)?;
        let unused = 64 - 8 * self.size as u32;
        Some(if self.is_signed { ((value << unused) as i64) >> unused } else { value as i64 })
    }

    /// A thread's number in a record.
    #[inline]
    pub(crate) fn tid_of(self, data: &[u8], order: Order) -> Option<spry_trace::Tid> {
        self.of(data, order).and_then(|value| u32::try_from(value).ok()).map(spry_trace::Tid)
    }
}

/// The place of a text in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Text {
    offset: usize,
    size: usize,
    location: Location,
}

impl Text {
    /// The text's bytes in a record, padding included.
    #[inline]
    pub(crate) fn of(self, data: &[u8], order: Order) -> Option<&[u8]> {
        let base = match self.location {
            // A field of size 0 covers the rest of the record.
            Location::Here if self.size == 0 => return data.get(self.offset..),
            Location::Here => return data.get(self.offset..self.offset.checked_add(self.size)?),
            Location::Word => 0,
            Location::WordRelative => self.offset.checked_add(4)?,
        };
        let word = order.number_at(data, self.offset, 4)?;
        let start = base + (word & 0xffff) as usize;
        data.get(start..start + (word >> 16) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORK: &str = "name: sched_process_fork\nID: 366\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:void * timer;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:char comm[4];\toffset:24;\tsize:4;\tsigned:0;\n\nprint fmt: \"%d\", REC->parent_pid\n";

    fn record() -> Vec<u8> {
        let mut record = vec![0; 28];
        record[8..12].copy_from_slice(&((3u32 << 16) | 28).to_le_bytes());
        record[12..16].copy_from_slice(&(-2i32).to_le_bytes());
        record[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        record[24..28].copy_from_slice(b"abcd");
        record.extend_from_slice(b"sh\0");
        record
    }

    #[test]
    fn fields_are_where_the_format_says() {
        let format = Format::parse("sched", FORK).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_process_fork", 366));
        assert!(format.print.contains("REC"));
        let number = |name| format.number(name).unwrap().of(&record(), Order::Little);
        assert_eq!(number("parent_pid"), Some(-2));
        assert_eq!(number("timer"), Some(-1));
        let text = |name| format.text(name).unwrap().of(&record(), Order::Little).unwrap().to_vec();
        assert_eq!(text("parent_comm"), b"sh\0");
        assert_eq!(text("comm"), b"abcd");
    }

    #[test]
    fn a_field_beyond_the_record_has_no_value() {
        let format = Format::parse("sched", FORK).unwrap();
        let short = &record()[..14];
        assert_eq!(format.number("parent_pid").unwrap().of(short, Order::Little), None);
        assert_eq!(format.text("parent_comm").unwrap().of(short, Order::Little), None);
        assert_eq!(format.number("parent_comm"), None, "a text is no number");
    }

    #[test]
    fn a_text_that_is_no_format_is_none() {
        assert!(Format::parse("sched", "").is_none());
        assert!(Format::parse("sched", "name: x\nID: 99999999\n").is_none());
    }
}
