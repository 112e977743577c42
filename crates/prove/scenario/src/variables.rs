//! The variables of a scenario: their allowed values, and the replacement of their names in the document.

use crate::doc::{Entry, Node, Value};
use crate::expr;
use crate::keys::Keys;
use crate::mistake::{Mistake, unknown};
use crate::model::{AllowedValues, Variable};

/// Reads the table `[variables]` and gives the variables the values that were set from outside.
pub(crate) fn read(root: &Node, file: &str, sets: &[(String, String)]) -> Result<Vec<Variable>, Mistake> {
    let mut variables = Vec::new();
    if let Some(table) = root.get("variables") {
        Keys::new(table, file, "[variables]")?;
        for entry in table.entries() {
            variables.push(variable(entry, file)?);
        }
    }
    for (name, value) in sets {
        let Some(variable) = variables.iter_mut().find(|variable| &variable.name == name) else {
            return Err(Mistake::new(file, 0, no_such(name, &variables)));
        };
        if let Some(wrong) = variable.allowed.refuses(value) {
            let text = format!("{name} = {value}: {wrong}; it must be {}", variable.allowed);
            return Err(Mistake::new(file, 0, text));
        }
        variable.value.clone_from(value);
    }
    Ok(variables)
}

fn no_such(name: &str, variables: &[Variable]) -> String {
    let names: Vec<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
    if names.is_empty() {
        format!("there is no variable \"{name}\": the scenario has none")
    } else {
        unknown("variable", name, &names)
    }
}

fn variable(entry: &Entry, file: &str) -> Result<Variable, Mistake> {
    let name = entry.key.clone();
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let text = format!("\"{name}\" is no name for a variable: letters, digits and _ are");
        return Err(Mistake::new(file, entry.line, text));
    }
    let mut keys = Keys::new(&entry.node, file, format!("variable \"{name}\""))?;
    let whole = matches!(entry.node.get("default").map(|node| &node.value), Some(Value::Whole(_)));
    let number = whole || matches!(entry.node.get("default").map(|node| &node.value), Some(Value::Real(_)));
    let default = keys.text("default")?.ok_or_else(|| keys.missing("default"))?;
    let (min, max) = (keys.number("min")?, keys.number("max")?);
    let values = keys.texts("values")?;
    let about = keys.text("about")?.unwrap_or_default();
    let allowed = match values {
        Some(words) => AllowedValues::OneOf(words),
        None if number => AllowedValues::Number {
            min: min.unwrap_or(f64::NEG_INFINITY),
            max: max.unwrap_or(f64::INFINITY),
            whole,
        },
        None => AllowedValues::Text,
    };
    if let Some(wrong) = allowed.refuses(&default) {
        let text = format!("the default of \"{name}\", {default}: {wrong}; it must be {allowed}");
        return Err(keys.mistake("default", text));
    }
    keys.finish()?;
    Ok(Variable { name, value: default.clone(), default, allowed, about })
}

impl AllowedValues {
    /// The reason why the variable cannot have a value; `None` if it can.
    fn refuses(&self, value: &str) -> Option<String> {
        match self {
            Self::Text => None,
            Self::OneOf(words) if words.iter().any(|word| word == value) => None,
            Self::OneOf(_) => Some("this is none of its values".into()),
            Self::Number { min, max, whole } => match expr::number(value) {
                Err(text) => Some(text),
                Ok(number) if *whole && number.fract() != 0.0 => Some("this is not whole".into()),
                Ok(number) if !(*min..=*max).contains(&number) => Some("this is out of its range".into()),
                Ok(_) => None,
            },
        }
    }
}

/// Replaces `$name` and `${name}` in every text of the document by the values of the variables.
pub(crate) fn put_in(node: &mut Node, variables: &[Variable], file: &str) -> Result<(), Mistake> {
    match &mut node.value {
        Value::Text(text) if text.contains('$') => {
            *text = replaced(text, variables).map_err(|text| Mistake::new(file, node.line, text))?;
            Ok(())
        }
        Value::List(items) => items.iter_mut().try_for_each(|item| put_in(item, variables, file)),
        Value::Table(entries) => {
            entries.iter_mut().try_for_each(|entry| put_in(&mut entry.node, variables, file))
        }
        _ => Ok(()),
    }
}

fn replaced(text: &str, variables: &[Variable]) -> Result<String, String> {
    let mut done = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        done += &rest[..at];
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('$') {
            done.push('$');
            rest = after;
            continue;
        }
        let (name, after) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or(format!("\"{text}\": a brace is not closed"))?,
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                after.split_at(end.unwrap_or(after.len()))
            }
        };
        let Some(variable) = variables.iter().find(|variable| variable.name == name) else {
            return Err(no_such(name, variables));
        };
        done += &variable.value;
        rest = after;
    }
    Ok(done + rest)
}
