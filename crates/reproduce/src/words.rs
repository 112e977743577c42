//! Numbers in words.

/// A duration with three digits and its unit.
pub fn duration(ns: f64) -> String {
    match ns {
        _ if ns < 1e3 => format!("{ns:.0} ns"),
        _ if ns < 1e6 => format!("{} us", digits(ns / 1e3)),
        _ if ns < 1e9 => format!("{} ms", digits(ns / 1e6)),
        _ => format!("{} s", digits(ns / 1e9)),
    }
}

/// A power of ten of nanoseconds with its unit, for an axis.
pub fn duration_round(ns: f64) -> String {
    match ns {
        _ if ns < 999.0 => format!("{ns:.0} ns"),
        _ if ns < 999e3 => format!("{:.0} us", ns / 1e3),
        _ if ns < 999e6 => format!("{:.0} ms", ns / 1e6),
        _ => format!("{:.0} s", ns / 1e9),
    }
}

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

/// Percent, with more digits where they are few.
pub fn percent(value: f64) -> String {
    format!("{} %", digits(value))
}

/// A number with about three digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size > 0.0 || value != 0.0 => format!("{value:.2}"),
        _ => "0".to_owned(),
    }
}

/// Names in a row: `a`, `a and b`, `a, b and c`.
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

/// A number whose thousands are apart.
pub fn grouped(value: f64) -> String {
    if value.abs() < 1e4 {
        return digits(value);
    }
    let digits = format!("{value:.0}");
    let first = digits.len() % 3;
    let mut out = digits[..first].to_owned();
    for at in (first..digits.len()).step_by(3) {
        if !out.is_empty() {
            out.push(' ');
        }
        out += &digits[at..at + 3];
    }
    out
}
