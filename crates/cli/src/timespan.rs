//! Times on the command line: a number of seconds, or a number with a unit.

use std::str::FromStr;
use std::time::Duration;

/// A length of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timespan(Duration);

impl Timespan {
    /// The time as a duration.
    pub fn duration(self) -> Duration {
        self.0
    }

    /// Reads a time from a text. A number without a unit means microseconds.
    ///
    /// # Errors
    /// If the text is not a time; the error says what is wrong.
    pub fn microseconds(text: &str) -> Result<Timespan, String> {
        let is_number = text.chars().all(|c| c.is_ascii_digit() || c == '.');
        if is_number { format!("{text}us").parse() } else { text.parse() }
    }

    /// The time in nanoseconds, but at most `u64::MAX`.
    pub fn ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl FromStr for Timespan {
    type Err = String;

    fn from_str(text: &str) -> Result<Timespan, String> {
        let wrong =
            || format!("`{text}` is no time: give seconds (10, 1.5) or a unit (300us, 20ms, 5s, 2min, 1h)");
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let unit_s = match unit {
            "" | "s" => 1.0,
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        Duration::try_from_secs_f64(number * unit_s).map(Timespan).map_err(|_| wrong())
    }
}

/// A number of nanoseconds in microseconds, exactly: `2800.001 us`.
pub fn us(ns: u64) -> String {
    match (ns / 1000, ns % 1000) {
        (us, 0) => format!("{us} us"),
        (us, rest) => format!("{us}.{rest:03} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_units_are_read() {
        let ns = |text: &str| text.parse::<Timespan>().map(Timespan::ns);
        assert_eq!(ns("10"), Ok(10_000_000_000));
        assert_eq!(ns("1.5s"), Ok(1_500_000_000));
        assert_eq!(ns("300us"), Ok(300_000));
        assert_eq!(ns("2min"), Ok(120_000_000_000));
    }

    #[test]
    fn a_number_alone_can_be_microseconds() {
        let ns = |text: &str| Timespan::microseconds(text).map(Timespan::ns);
        assert_eq!((ns("500"), ns("1.5"), ns("2ms")), (Ok(500_000), Ok(1_500), Ok(2_000_000)));
        assert!(ns("").is_err());
    }

    #[test]
    fn microseconds_are_printed_exactly() {
        assert_eq!([us(0), us(1), us(50_000), us(2_800_001)], ["0 us", "0.001 us", "50 us", "2800.001 us"]);
    }

    #[test]
    fn an_invalid_time_is_refused_with_the_allowed_units() {
        for text in ["", "abc", "-1", "1 fortnight", "1e9", "..", "99999999999999999999999h"] {
            let error = text.parse::<Timespan>().unwrap_err();
            assert!(error.contains("ms"), "{error}");
        }
    }
}
