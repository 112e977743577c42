//! Reads the keys of a table as values of a type. A wrong value becomes a mistake with its line.

use crate::doc::{Entry, Node, Value};
use crate::expr;
use crate::mistake::{Mistake, unknown};

/// The keys of one table of a scenario, read one by one; `Keys::finish` finds keys that were never read.
pub struct Keys<'a> {
    node: &'a Node,
    file: &'a str,
    what: String,
    asked: Vec<&'static str>,
}

impl<'a> Keys<'a> {
    /// The keys of a table. Messages name the table as `what` ("task", "machine").
    pub(crate) fn new(node: &'a Node, file: &'a str, what: impl Into<String>) -> Result<Self, Mistake> {
        let what = what.into();
        if let Value::Table(_) = node.value {
            Ok(Self { node, file, what, asked: Vec::new() })
        } else {
            Err(Mistake::new(file, node.line, format!("{what} must be a table, not {}", node.value.what())))
        }
    }

    /// The line of the table.
    pub fn line(&self) -> usize {
        self.node.line
    }

    /// The name of the file in which the table is.
    pub(crate) fn file(&self) -> &'a str {
        self.file
    }

    pub(crate) fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.asked.push(key);
        self.node.get(key)
    }

    /// Makes a mistake that points to this key, or to the table if it does not have the key.
    pub fn mistake(&self, key: &str, text: impl Into<String>) -> Mistake {
        let entry = self.node.entries().iter().find(|entry| entry.key == key);
        Mistake::new(self.file, entry.map_or(self.node.line, |entry| entry.line), text)
    }

    /// Makes a mistake for a required key that is missing.
    pub fn missing(&self, key: &str) -> Mistake {
        self.mistake(key, format!("{} needs the key \"{key}\"", self.what))
    }

    fn wrong(&self, key: &str, node: &Node, wanted: &str) -> Mistake {
        self.mistake(key, format!("\"{key}\" must be {wanted}, not {}", shown(node)))
    }

    /// Reads a text. A number is taken as the text of its digits.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, Mistake> {
        let Some(node) = self.node(key) else { return Ok(None) };
        match &node.value {
            Value::Text(text) => Ok(Some(text.clone())),
            Value::Whole(number) => Ok(Some(number.to_string())),
            Value::Real(number) => Ok(Some(number.to_string())),
            _ => Err(self.wrong(key, node, "a text")),
        }
    }

    /// Reads a word that must be one of the allowed words.
    pub fn choice(
        &mut self,
        key: &'static str,
        allowed: &[&'static str],
    ) -> Result<Option<&'static str>, Mistake> {
        let Some(found) = self.text(key)? else { return Ok(None) };
        match allowed.iter().find(|&&word| word == found) {
            Some(word) => Ok(Some(word)),
            None => Err(self.mistake(key, unknown(key, &found, allowed))),
        }
    }

    /// Reads a number. A text is evaluated as an expression.
    pub fn number(&mut self, key: &'static str) -> Result<Option<f64>, Mistake> {
        let Some(node) = self.node(key) else { return Ok(None) };
        match &node.value {
            Value::Whole(number) => Ok(Some(*number as f64)),
            Value::Real(number) => Ok(Some(*number)),
            Value::Text(text) => {
                let found = expr::number(text);
                found.map(Some).map_err(|text| self.mistake(key, format!("\"{key}\": {text}")))
            }
            _ => Err(self.wrong(key, node, "a number")),
        }
    }

    /// Reads a whole number, 0 or more.
    pub fn whole(&mut self, key: &'static str) -> Result<Option<u64>, Mistake> {
        let Some(found) = self.signed(key)? else { return Ok(None) };
        let whole = u64::try_from(found);
        whole.map(Some).map_err(|_| self.mistake(key, format!("\"{key}\" must be 0 or more, not {found}")))
    }

    /// Reads a whole number of either sign.
    pub fn signed(&mut self, key: &'static str) -> Result<Option<i64>, Mistake> {
        let Some(found) = self.number(key)? else { return Ok(None) };
        if found.fract() != 0.0 || found.abs() > 2_f64.powi(53) {
            return Err(self.mistake(key, format!("\"{key}\" must be a whole number, not {found}")));
        }
        Ok(Some(found as i64))
    }

    /// Reads a number from `min` to `max`.
    pub fn number_within(&mut self, key: &'static str, min: f64, max: f64) -> Result<Option<f64>, Mistake> {
        let found = self.number(key)?;
        match found {
            Some(value) if !(min..=max).contains(&value) => {
                Err(self.mistake(key, format!("\"{key}\" must be from {min} to {max}, not {value}")))
            }
            _ => Ok(found),
        }
    }

    /// Reads a time that is written with its unit, in nanoseconds.
    pub fn duration_ns(&mut self, key: &'static str) -> Result<Option<u64>, Mistake> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Whole(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            _ => return Err(self.wrong(key, node, "a time such as \"4ms\"")),
        };
        let ns = expr::duration_ns(&text).map_err(|text| self.mistake(key, format!("\"{key}\": {text}")))?;
        if !(0.0..=1e18).contains(&ns) {
            return Err(self.mistake(key, format!("\"{key}\" must be a time of 0 or more, not \"{text}\"")));
        }
        Ok(Some(ns.round() as u64))
    }

    /// Reads a time that is written as a plain number of seconds or as an expression. Returns nanoseconds.
    pub(crate) fn seconds_ns(&mut self, key: &'static str) -> Result<Option<u64>, Mistake> {
        let Some(seconds) = self.number_within(key, 0.0, 1e8)? else { return Ok(None) };
        Ok(Some((seconds * 1e9).round() as u64))
    }

    /// Reads a number of bytes: a whole number, or a text such as "8MiB" or "64kB".
    pub fn bytes(&mut self, key: &'static str) -> Result<Option<u64>, Mistake> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let text = match &node.value {
            Value::Whole(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            _ => return Err(self.wrong(key, node, "a size such as \"8MiB\"")),
        };
        parse_bytes(&text).map(Some).ok_or_else(|| {
            self.mistake(
                key,
                format!("\"{key}\" must be a size in B, kB, MB, GB, KiB, MiB or GiB, not \"{text}\""),
            )
        })
    }

    /// Reads `true` or `false`.
    pub fn flag(&mut self, key: &'static str) -> Result<Option<bool>, Mistake> {
        let Some(node) = self.node(key) else { return Ok(None) };
        match &node.value {
            Value::Flag(flag) => Ok(Some(*flag)),
            Value::Text(text) if text == "true" => Ok(Some(true)),
            Value::Text(text) if text == "false" => Ok(Some(false)),
            _ => Err(self.wrong(key, node, "true or false")),
        }
    }

    /// Reads a list of texts. A single text is taken as a list of one.
    pub fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, Mistake> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let text = |node: &Node| match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Whole(number) => Some(number.to_string()),
            Value::Real(number) => Some(number.to_string()),
            _ => None,
        };
        let texts = match &node.value {
            Value::List(items) => items.iter().map(text).collect(),
            _ => text(node).map(|text| vec![text]),
        };
        texts.map(Some).ok_or_else(|| self.wrong(key, node, "a list of texts"))
    }

    /// Reads a list of whole numbers, 0 or more.
    pub fn wholes(&mut self, key: &'static str) -> Result<Option<Vec<u64>>, Mistake> {
        let Some(texts) = self.texts(key)? else { return Ok(None) };
        let numbers = texts.iter().map(|text| text.parse().ok()).collect::<Option<_>>();
        numbers
            .map(Some)
            .ok_or_else(|| self.mistake(key, format!("\"{key}\" must be a list of whole numbers, 0 or more")))
    }

    /// Fails at the first key of the table that was never read.
    pub(crate) fn finish(self) -> Result<(), Mistake> {
        let strange = |entry: &&Entry| !self.asked.contains(&entry.key.as_str());
        let Some(entry) = self.node.entries().iter().find(strange) else { return Ok(()) };
        let mut allowed = self.asked.clone();
        allowed.sort_unstable();
        allowed.dedup();
        let text = unknown(&format!("key of {}", self.what), &entry.key, &allowed);
        Err(Mistake::new(self.file, entry.line, text))
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let factor: u64 = match unit {
        "" | "B" => 1,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.trim().parse::<u64>().ok()?.checked_mul(factor)
}

/// A value in the form in which messages quote it.
fn shown(node: &Node) -> String {
    match &node.value {
        Value::Text(text) => format!("\"{text}\""),
        Value::Whole(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        other => other.what().to_owned(),
    }
}
