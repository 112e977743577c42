//! Text made safe inside HTML: a task may be named `</script>`.

/// Text between tags or in a quoted attribute.
pub(super) fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            _ => safe.push(c),
        }
    }
    safe
}

/// JSON inside a script element: nothing in it can end the element or begin a comment.
pub(super) fn json(raw: &str) -> String {
    // These characters can only be inside strings of JSON, where the escapes mean the same.
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
        assert_eq!(text("</script>\"'&"), "&lt;/script&gt;&quot;&#39;&amp;");
        assert_eq!(json("[\"</script><!--\"]"), "[\"\\u003c/script\\u003e\\u003c!--\"]");
    }
}
