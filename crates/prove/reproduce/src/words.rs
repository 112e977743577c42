//! Words for the figures of this crate: powers, lists of names, loads.

/// A power of ten with its exponent raised, for an axis.
pub fn power(value: f64) -> String {
    let raised = |digit: char| match digit {
        '-' => '\u{207b}',
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        _ => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
    };
    format!("10{}", (value.log10().round() as i32).to_string().chars().map(raised).collect::<String>())
}

/// A value that is already in percent, in words.
pub fn percent(percent: f64) -> String {
    spry_page::words::percent(percent / 100.0)
}

/// Names in a list: `a`, `a and b`, `a, b and c`.
pub fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A count of stressers in words.
pub fn stressers(count: u32) -> String {
    match count {
        1 => "1 stresser".to_owned(),
        _ => format!("{count} stressers"),
    }
}
