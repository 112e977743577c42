//! Reads JSON in the form of rt-app's files: with comments, with trailing commas, with keys that occur more
//! than once, and with keys that have no value. Texts and numbers are read by serde_json.

use crate::doc::{Entry, Lines, Node, Value};
use crate::mistake::Mistake;

/// How deep objects may be nested in a file.
const DEPTH_MAX: u32 = 64;

/// Reads a whole file. The order of the keys is kept, and also every occurrence of a repeated key.
pub(super) fn read(text: &str, file: &str) -> Result<Node, Mistake> {
    let mut reader = Reader { text, at: 0, lines: Lines::new(text), file };
    let node = reader.value(0)?;
    reader.space()?;
    if reader.at < text.len() {
        return Err(reader.mistake("there is more after the end of the object"));
    }
    Ok(node)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    lines: Lines,
    file: &'a str,
}

impl Reader<'_> {
    fn mistake(&self, text: &str) -> Mistake {
        let found: String = self.rest().chars().take_while(|c| !c.is_whitespace()).take(20).collect();
        let found = if found.is_empty() { "the end of the file".into() } else { format!("\"{found}\"") };
        Mistake::new(self.file, self.lines.of(self.at), format!("this is not JSON: {text}, at {found}"))
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Skips white space and comments.
    fn space(&mut self) -> Result<(), Mistake> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            let end = if self.rest().starts_with("/*") {
                self.rest()[2..].find("*/").map(|end| end + 4)
            } else if self.rest().starts_with("//") {
                Some(self.rest().find('\n').unwrap_or(self.rest().len()))
            } else {
                return Ok(());
            };
            self.at += end.ok_or_else(|| self.mistake("a comment does not end"))?;
        }
    }

    fn take(&mut self, sign: char) -> Result<bool, Mistake> {
        self.space()?;
        let found = self.rest().starts_with(sign);
        self.at += usize::from(found);
        Ok(found)
    }

    fn value(&mut self, depth: u32) -> Result<Node, Mistake> {
        self.space()?;
        if depth > DEPTH_MAX {
            return Err(self.mistake("too many objects within objects"));
        }
        let line = self.lines.of(self.at);
        let value = match self.rest().chars().next() {
            Some('{') => Value::Table(self.entries(depth)?),
            Some('[') => Value::List(self.items(depth)?),
            Some('"') => Value::Text(self.text()?),
            _ => self.word()?,
        };
        Ok(Node { line, value })
    }

    fn entries(&mut self, depth: u32) -> Result<Vec<Entry>, Mistake> {
        let mut entries = Vec::new();
        self.take('{')?;
        while !self.take('}')? {
            let line = self.lines.of(self.at);
            if !self.rest().starts_with('"') {
                return Err(self.mistake("a key in quotes or } is missing"));
            }
            let key = self.text()?;
            let node =
                if self.take(':')? { self.value(depth + 1)? } else { Node { line, value: Value::Null } };
            entries.push(Entry { key, line, node });
            if !self.take(',')? {
                self.space()?;
                if !self.rest().starts_with('}') {
                    return Err(self.mistake("a comma or } is missing"));
                }
            }
        }
        Ok(entries)
    }

    fn items(&mut self, depth: u32) -> Result<Vec<Node>, Mistake> {
        let mut items = Vec::new();
        self.take('[')?;
        while !self.take(']')? {
            items.push(self.value(depth + 1)?);
            if !self.take(',')? {
                self.space()?;
                if !self.rest().starts_with(']') {
                    return Err(self.mistake("a comma or ] is missing"));
                }
            }
        }
        Ok(items)
    }

    /// A text in quotes, with JSON's escapes. Control characters need no escape, as in rt-app's reader.
    fn text(&mut self) -> Result<String, Mistake> {
        let mut is_escaped = false;
        let end = self.rest().char_indices().skip(1).find(|&(_, sign)| {
            let is_end = sign == '\n' || (sign == '"' && !is_escaped);
            is_escaped = sign == '\\' && !is_escaped;
            is_end
        });
        let Some((at, '"')) = end else { return Err(self.mistake("a text does not end")) };
        let quoted = &self.rest()[..=at];
        let mut strict = String::with_capacity(quoted.len());
        for sign in quoted.chars() {
            match sign {
                '\0'..='\u{1f}' => strict += &format!("\\u{:04x}", u32::from(sign)),
                sign => strict.push(sign),
            }
        }
        let found =
            serde_json::from_str(&strict).map_err(|_| self.mistake("an escape is wrong in a text"))?;
        self.at += at + 1;
        Ok(found)
    }

    /// A number, true, false or null.
    fn word(&mut self) -> Result<Value, Mistake> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let value = match word {
            "true" | "True" => Value::Flag(true),
            "false" | "False" => Value::Flag(false),
            "null" => Value::Null,
            _ => match (serde_json::from_str(word), serde_json::from_str(word)) {
                (Ok(whole), _) => Value::Whole(whole),
                (_, Ok(number)) => Value::Real(number),
                _ => return Err(self.mistake("a value is missing")),
            },
        };
        self.at += end;
        Ok(value)
    }
}
