//! Escapes text for HTML and SVG: a task may be named `</script>`.

/// Escapes a text that stands between tags or in a quoted attribute. Control characters, which XML cannot
/// write, become spaces.
pub fn escape(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

/// Escapes JSON inside a script element: nothing in the JSON can end the element or begin a comment.
pub fn escape_json(raw: &str) -> String {
    // In JSON these characters can only be inside strings, where the escapes mean the same.
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => safe += &format!("\\u{:04x}", u32::from(c)),
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_a_script_or_an_attribute() {
        assert_eq!(escape("</script>\"'&"), "&lt;/script&gt;&quot;&#39;&amp;");
        assert_eq!(escape_json("[\"</script><!--\"]"), "[\"\\u003c/script\\u003e\\u003c!--\"]");
    }

    #[test]
    fn a_character_that_xml_cannot_hold_becomes_a_space() {
        assert_eq!(escape("a\u{1}b\u{7f}c"), "a b c");
    }
}
