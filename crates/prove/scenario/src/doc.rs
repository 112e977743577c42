//! A document, written as TOML or as JSON, as a tree of values with their line numbers.

use toml::de::{DeTable, DeValue};

use crate::mistake::Mistake;

/// A value and its line, from 1.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub line: usize,
    pub value: Value,
}

/// A value of a document: a single value, a list or a table.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Whole(i64),
    Real(f64),
    Flag(bool),
    List(Vec<Node>),
    Table(Vec<Entry>),
    Null,
}

/// A key of a table with its value. A table keeps its keys in the order in which they were written.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub line: usize,
    pub node: Node,
}

impl Value {
    /// The name of this kind of value in messages.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Whole(_) => "a whole number",
            Self::Real(_) => "a number",
            Self::Flag(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Null => "null",
        }
    }
}

impl Node {
    /// The entries of a table; empty if the value is not a table.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The value of a key of the table; `None` if the table does not have the key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }
}

/// Reads a document that is written as TOML.
pub(crate) fn from_toml(text: &str, file: &str) -> Result<Node, Mistake> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(0, |span| lines.of(span.start));
        Mistake::new(file, line, format!("this is not TOML: {}", error.message()))
    })?;
    let mut entries = Vec::new();
    table_entries(table.get_ref(), &lines, file, &mut entries)?;
    Ok(Node { line: 1, value: Value::Table(entries) })
}

fn table_entries(
    table: &DeTable<'_>,
    lines: &Lines,
    file: &str,
    entries: &mut Vec<Entry>,
) -> Result<(), Mistake> {
    for (key, value) in table {
        let line = lines.of(key.span().start);
        let node = node(value.get_ref(), lines.of(value.span().start), lines, file)?;
        entries.push(Entry { key: key.get_ref().to_string(), line, node });
    }
    // The parser gives the keys sorted by name. Messages and the scenario need them in the order of the text.
    entries.sort_by_key(|entry| entry.line);
    Ok(())
}

fn node(value: &DeValue<'_>, line: usize, lines: &Lines, file: &str) -> Result<Node, Mistake> {
    let wrong = |text: &str| Mistake::new(file, line, format!("{text} is no number that fits"));
    let value = match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => Value::Whole(
            i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| wrong(number.as_str()))?,
        ),
        DeValue::Float(number) => Value::Real(number.as_str().parse().map_err(|_| wrong(number.as_str()))?),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| node(item.get_ref(), lines.of(item.span().start), lines, file))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => {
            let mut entries = Vec::new();
            table_entries(table, lines, file, &mut entries)?;
            Value::Table(entries)
        }
    };
    Ok(Node { line, value })
}

/// The byte offsets at which lines begin. They give the line of any offset.
pub(crate) struct Lines(Vec<usize>);

impl Lines {
    pub(crate) fn new(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// The line, from 1, of a byte offset.
    pub(crate) fn of(&self, offset: usize) -> usize {
        self.0.partition_point(|&start| start <= offset)
    }
}
