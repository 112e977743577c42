//! Numbers and foreign texts in words, the same in the terminal, in HTML and in pictures.

/// A text on one line without control characters, which a terminal could obey.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '?' } else { c }).collect()
}

/// Whether a character is a control character or turns the direction of writing.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A number with about three digits: two decimals below 10, one below 100, none from there on; a value of
/// zero is `0`. A value that is rounded to 0 gets no sign.
pub fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 9.995 => unsigned_zero(format!("{value:.2}")),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A duration with three digits: `31.2 ms`. The units are ns, us, ms and s; 1000 of one unit are written as
/// 1.00 of the next.
pub fn duration(ns: u64) -> String {
    duration_f64(ns as f64)
}

/// As [`duration`], for a duration that may have a fraction, such as a mean, and may be below 0.
pub fn duration_f64(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        // Nanoseconds get no decimals, and a rounded 0 gets no sign.
        size if size < 999.5 => return format!("{:.0} ns", ns.round() + 0.0),
        size if size < 999.5e3 => (ns / 1e3, "us"),
        size if size < 999.5e6 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// A round duration without decimals, for an axis: `10 us`. The units are those of [`duration`].
pub fn duration_round(ns: f64) -> String {
    match ns {
        _ if ns < 999.5 => unsigned_zero(format!("{ns:.0}")) + " ns",
        _ if ns < 999.5e3 => format!("{:.0} us", ns / 1e3),
        _ if ns < 999.5e6 => format!("{:.0} ms", ns / 1e6),
        _ => format!("{:.0} s", ns / 1e9),
    }
}

/// A time of seconds to days: `3.2 s`, `42 s`, `3 min`, `5 h`, `2 d`. A unit goes on until 2 of the next
/// (48 h for days); seconds have a decimal below 10.
pub fn span(seconds: f64) -> String {
    match seconds {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        _ if seconds < 119.5 => format!("{seconds:.0} s"),
        _ if seconds < 119.5 * 60.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 47.5 * 3_600.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{:.0} d", seconds / 86_400.0),
    }
}

/// An estimate of the time left: whole seconds below 100, from there on minutes, rounded up.
pub fn left(seconds: u64) -> String {
    if seconds < 100 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

/// A number with separators between its thousands: `1,234,567`.
pub fn count(number: u64) -> String {
    apart(&number.to_string())
}

/// A number that may have a fraction: three digits below 1,000; from there on a whole number with separators
/// between its thousands.
pub fn count_f64(number: f64) -> String {
    match number.abs() {
        size if size < 999.5 => digits(number),
        size => (if number < 0.0 { "-" } else { "" }).to_owned() + &apart(&format!("{size:.0}")),
    }
}

fn apart(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes, with one decimal from 1 KiB on: `1.5 MiB`. 1024.0 of one unit are written as
/// 1.0 of the next.
pub fn bytes(number: u64) -> String {
    if number < 1_024 {
        return format!("{number} B");
    }
    let mut value = number as f64 / 1_024.0;
    let mut unit = "KiB";
    for next in ["MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1_023.95 {
            break;
        }
        (value, unit) = (value / 1_024.0, next);
    }
    format!("{value:.1} {unit}")
}

/// A share, 0 to 1 or more, in percent: one decimal, and two decimals for a share above 0 and below 1 %:
/// `12.3 %`, `0.12 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 0.995 {
        unsigned_zero(format!("{percent:.2}")) + " %"
    } else {
        unsigned_zero(format!("{percent:.1}")) + " %"
    }
}

/// A rounded number without the sign that a value just below 0 leaves: `0.00`, not `-0.00`.
fn unsigned_zero(number: String) -> String {
    match number.strip_prefix('-') {
        Some(zero) if zero.bytes().all(|byte| matches!(byte, b'0' | b'.')) => zero.to_owned(),
        _ => number,
    }
}

/// A rate with two significant digits, but three decimals at most: `25`, `8.0`, `0.012`; a rate of zero is
/// `0`. The caller adds the units of the count and of the time.
pub fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        _ if rate < 0.0995 => format!("{rate:.3}"),
        _ if rate < 0.995 => format!("{rate:.2}"),
        _ if rate < 9.95 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_roll_over_to_the_next_unit() {
        let shown = [0, 999, 1_000, 9_994, 9_995, 12_345, 999_499, 31_249_000, 125_000_000_000];
        let want =
            ["0 ns", "999 ns", "1.00 us", "9.99 us", "10.0 us", "12.3 us", "999 us", "31.2 ms", "125 s"];
        assert_eq!(shown.map(duration), want);
        let rolled = [999_500, 999_950, 999_960, 999_999];
        assert_eq!(rolled.map(duration), ["1.00 ms"; 4]);
        assert_eq!([999_499_999, 999_500_000, 999_999_999].map(duration), ["999 ms", "1.00 s", "1.00 s"]);
        assert_eq!(duration(u64::MAX), "18446744074 s");
    }

    #[test]
    fn a_fraction_or_a_sign_changes_no_rule() {
        let shown = [0.4, 999.4, 999.6, 12_345.6, -31_249_000.0, -0.3].map(duration_f64);
        assert_eq!(shown, ["0 ns", "999 ns", "1.00 us", "12.3 us", "-31.2 ms", "0 ns"]);
    }

    #[test]
    fn round_durations_have_no_decimals() {
        let shown = [1.0, 100.0, 1e3, 1e6 - 1e-7, 1e7, 1e9, 1e11].map(duration_round);
        assert_eq!(shown, ["1 ns", "100 ns", "1 us", "1 ms", "10 ms", "1 s", "100 s"]);
    }

    #[test]
    fn spans_are_read_at_a_glance() {
        let shown = [0.0, 3.21, 9.96, 42.0, 119.4, 119.6, 600.0, 40_000.0, 172_800.0].map(span);
        assert_eq!(shown, ["0.0 s", "3.2 s", "10 s", "42 s", "119 s", "2 min", "10 min", "11 h", "2 d"]);
        assert_eq!([0, 99, 100, 121].map(left), ["0 s", "99 s", "2 min", "3 min"]);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        let shown = [0.0, 0.123, 45.67, 999.4, 999.6, 12_345.6, -1_234.0].map(count_f64);
        assert_eq!(shown, ["0", "0.12", "45.7", "999", "1,000", "12,346", "-1,234"]);
    }

    #[test]
    fn bytes_roll_over_to_the_next_unit() {
        let shown = [0, 1_023, 1_024, 1_048_524, 1_048_525, 1_572_864, 1 << 30, u64::MAX].map(bytes);
        let want = ["0 B", "1023 B", "1.0 KiB", "1023.9 KiB", "1.0 MiB", "1.5 MiB", "1.0 GiB", "16.0 EiB"];
        assert_eq!(shown, want);
    }

    #[test]
    fn small_shares_have_a_digit_more() {
        let shown = [0.0, 0.0012, 0.00994, 0.00996, 0.123, 1.0, 1.5, -0.0012].map(percent);
        assert_eq!(shown, ["0.0 %", "0.12 %", "0.99 %", "1.0 %", "12.3 %", "100.0 %", "150.0 %", "-0.12 %"]);
    }

    #[test]
    fn a_number_that_rounds_to_zero_has_no_sign() {
        let shown = [-0.000_01, -0.000_049, -0.0, 0.000_01, -0.000_06].map(percent);
        assert_eq!(shown, ["0.00 %", "0.00 %", "0.0 %", "0.00 %", "-0.01 %"]);
        assert_eq!([-0.001, -0.0, -0.004_9, -0.006].map(digits), ["0.00", "0", "0.00", "-0.01"]);
        assert_eq!([-0.3, -0.0].map(duration_round), ["0 ns", "0 ns"]);
    }

    #[test]
    fn rates_have_two_digits_that_count() {
        let shown = [0.0, 0.0001, 0.012, 0.0996, 0.25, 0.996, 8.0, 9.96, 25.2, 12_345.0].map(rate);
        assert_eq!(shown, ["0", "0.000", "0.012", "0.10", "0.25", "1.0", "8.0", "10", "25", "12345"]);
    }
}
