//! Durations, counts and dates as people read them.

/// A duration: `12.3 us`.
pub fn duration(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => return format!("{ns:.0} ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "us"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

/// A count with its thousands apart: `1,000,000`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time of day with its date: `2026-11-22 17:50:25 UTC`.
pub fn date(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// The Gregorian date of a day since 1970-01-01.
fn civil(mut day: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let mut year = 1970;
    loop {
        let days = if is_leap(year) { 366 } else { 365 };
        if day < days {
            break;
        }
        day -= days;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        let words =
            [0.4, 999.0, 1_000.0, 12_345.0, 99_960.0, 999_600.0, 45.2e6, 215.2e6, 3.5e9].map(duration);
        let expected =
            ["0 ns", "999 ns", "1.00 us", "12.3 us", "100 us", "1.00 ms", "45.2 ms", "215 ms", "3.50 s"];
        assert_eq!(words, expected);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 5_000_000].map(count), ["0", "999", "1,000", "5,000,000"]);
    }

    #[test]
    fn dates_are_the_calendars() {
        let dates =
            [0, 951_782_399, 951_782_400, 1_014_940_800, 1_795_369_825].map(|s: u64| date(s * 1_000_000_000));
        let expected = [
            "1970-01-01 00:00:00 UTC",
            "2000-02-28 23:59:59 UTC",
            "2000-02-29 00:00:00 UTC",
            "2002-03-01 00:00:00 UTC",
            "2026-11-22 17:50:25 UTC",
        ];
        assert_eq!(dates, expected);
    }
}
