//! Digests: equal digests mean equal figures, digit for digit.

use serde_json::Value;

use crate::cache::digest_of;

/// The SHA-256 of some JSON, in hexadecimal. Neither the order of keys nor white space matters.
pub fn of_json(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    digest_of(text.as_bytes())
}

/// JSON with sorted keys and no white space; numbers as they are written.
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
        // printf '{"a":[1,2.5],"b":null}' | sha256sum
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
