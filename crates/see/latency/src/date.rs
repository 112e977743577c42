//! A moment as a date of the calendar.

/// A time of day with its date: `2026-11-22 17:50:25 UTC`.
pub(crate) fn date(unix_ns: u64) -> String {
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
