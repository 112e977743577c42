//! Digests of inputs and of measured values. Equal digests mean equal values, digit for digit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The SHA-256 of bytes, as 64 hexadecimal digits.
pub fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The SHA-256 of a file's content, as 64 hexadecimal digits.
///
/// # Errors
/// If the file cannot be read.
pub fn of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(&buffer[..read]);
    }
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The SHA-256 of a JSON value, in hexadecimal. Neither the order of the keys nor white space changes it.
pub fn of_json(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    of_bytes(text.as_bytes())
}

/// Writes JSON with sorted keys and without white space. Numbers stay as they are written.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|&(key, _)| key);
            text.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                *text += &Value::from(key.as_str()).to_string();
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                canonical(value, text);
            }
            text.push(']');
        }
        other => *text += &other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> String {
        of_json(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_digest_is_the_same_for_ever() {
        // The value comes from: printf '{"a":[1,2.5],"b":null}' | sha256sum
        let known = "f66b2c50ccae61e3";
        assert_eq!(digest(r#"{ "b": null, "a": [1, 2.5] }"#)[..16], *known);
    }

    #[test]
    fn any_digit_changes_a_digest_and_the_order_of_keys_does_not() {
        assert_eq!(digest(r#"{"a":1,"b":{"d":2,"c":3}}"#), digest(r#"{"b":{"c":3,"d":2},"a":1}"#));
        assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":2}"#));
        assert_ne!(digest(r#"{"a":[1,2]}"#), digest(r#"{"a":[2,1]}"#));
    }
}
