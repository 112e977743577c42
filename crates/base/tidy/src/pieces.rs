//! Splits Rust and C sources into code, comments and texts in quotes.

/// A piece of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Code between comments and literals.
    Code(&'a str),
    /// A comment with its marks, up to the end of its line or to `*/`.
    Comment(&'a str),
    /// A literal with its quotes: a string, or a character that is a quote or begins with a backslash.
    Quoted(&'a str),
}

/// The pieces of a source in order. Together they are the whole source.
pub fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    let mut pending = None;
    std::iter::from_fn(move || {
        if let Some(piece) = pending.take() {
            return Some(piece);
        }
        let (start, piece) = first_piece(rest).unwrap_or((rest.len(), Piece::Code("")));
        let (code, left) = rest.split_at(start);
        let (Piece::Code(taken) | Piece::Comment(taken) | Piece::Quoted(taken)) = piece;
        rest = &left[taken.len()..];
        if code.is_empty() {
            return (!taken.is_empty()).then_some(piece);
        }
        pending = (!taken.is_empty()).then_some(piece);
        Some(Piece::Code(code))
    })
}

/// The first comment or literal, and where it starts.
fn first_piece(text: &str) -> Option<(usize, Piece<'_>)> {
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1);
        if byte == b'/' && matches!(next, Some(b'/' | b'*')) {
            return Some((at, Piece::Comment(&text[at..at + comment_len(&text[at..])])));
        }
        if byte == b'"' || byte == b'\'' && (next == Some(&b'\\') || text[at + 1..].starts_with("\"'")) {
            let (marks, hashes) = marks(&text[..at]);
            let len = match hashes {
                Some(hashes) => raw_len(&text[at..], hashes),
                None if byte == b'\'' && next == Some(&b'"') => 3,
                None => string_len(&text[at..]),
            };
            return Some((at - marks, Piece::Quoted(&text[at - marks..at + len])));
        }
    }
    None
}

/// The length of the comment that `text` starts with, without the line's end.
fn comment_len(text: &str) -> usize {
    if text.starts_with("//") {
        text.find('\n').unwrap_or(text.len())
    } else {
        text.find("*/").map_or(text.len(), |end| end + 2)
    }
}

/// The length of a literal's marks (`b`, `c`, `r##`, `br`, `cr`), which end the code before its quote, and
/// the number of hashes if the literal is raw.
fn marks(before: &str) -> (usize, Option<usize>) {
    let bare = before.trim_end_matches('#');
    let hashes = before.len() - bare.len();
    let word_start = bare
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |at| at + bare[at..].chars().next().map_or(0, char::len_utf8));
    match &bare[word_start..] {
        "r" | "br" | "cr" => (before.len() - word_start, Some(hashes)),
        "b" | "c" if hashes == 0 => (1, None),
        _ => (0, None),
    }
}

/// The length of the literal that `text` starts with, both quotes included. A backslash hides the character
/// that follows it.
fn string_len(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw literal from its first quote on.
fn raw_len(text: &str, hashes: usize) -> usize {
    let end = format!("\"{}", "#".repeat(hashes));
    text[1..].find(&end).map_or(text.len(), |at| 1 + at + end.len())
}

/// The code of a source: comments and texts in quotes are left out, their line breaks are kept.
pub fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Code(text) => code.push_str(text),
            Piece::Comment(text) | Piece::Quoted(text) => code.extend(text.chars().filter(|&c| c == '\n')),
        }
    }
    code
}

/// The lines of a source's comments with the numbers of their lines, from 1. Marks of comments stay.
pub fn comment_lines(text: &str) -> Vec<(usize, &str)> {
    let mut lines = Vec::new();
    let mut number = 1;
    for piece in pieces(text) {
        match piece {
            Piece::Code(text) | Piece::Quoted(text) => number += text.matches('\n').count(),
            Piece::Comment(text) => {
                lines.extend(text.lines().enumerate().map(|(at, line)| (number + at, line)));
                number += text.matches('\n').count();
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{Piece, code_only, comment_lines, pieces};

    fn quoted(text: &str) -> Vec<&str> {
        let is_quoted = |piece| match piece {
            Piece::Quoted(text) => Some(text),
            Piece::Code(_) | Piece::Comment(_) => None,
        };
        pieces(text).filter_map(is_quoted).collect()
    }

    #[test]
    fn literals_of_every_form_are_found() {
        let text = r##"f("a\"b", b"c", r"d\", r#"e"f"#, '"', '\'', 'g') + &'a x // "h""##;
        assert_eq!(quoted(text), [r#""a\"b""#, r#"b"c""#, r#"r"d\""#, r##"r#"e"f"#"##, "'\"'", r"'\''"]);
    }

    #[test]
    fn names_that_end_like_marks_of_literals_are_code() {
        assert_eq!(code_only("r#type + number + b + bc"), "r#type + number + b + bc");
        assert_eq!(code_only("sub\"x\""), "sub");
    }

    #[test]
    fn lines_of_comments_have_their_numbers() {
        let text = "/* One\n * two */ code(\"// no\n\")\n// three\n";
        assert_eq!(comment_lines(text), [(1, "/* One"), (2, " * two */"), (4, "// three")]);
    }
}
