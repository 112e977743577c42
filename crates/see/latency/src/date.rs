//! A moment as a date of the calendar.

use spry_page::words::duration;

/// The wall clock counts as set if it has moved against the monotonic clock by more than this, ns.
const MOVED_MIN_NS: u64 = 1_000_000_000;

/// A note on a measurement in which the wall clock was set; `None` if it was not. `began_unix_ns` and
/// `now_unix_ns` are readings of the wall clock, `elapsed_ns` is the time between them by the
/// monotonic clock.
pub fn setting(began_unix_ns: u64, now_unix_ns: u64, elapsed_ns: u64) -> Option<String> {
    let expected_ns = began_unix_ns.saturating_add(elapsed_ns);
    let moved_ns = now_unix_ns.abs_diff(expected_ns);
    let way = if now_unix_ns > expected_ns { "forward" } else { "back" };
    (moved_ns > MOVED_MIN_NS).then(|| {
        format!(
            "the wall clock went {way} by {} meanwhile (it was set, or the machine was suspended): dates are by \
             the clock at the start",
            duration(moved_ns)
        )
    })
}

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
    fn a_wall_clock_that_was_set_is_told() {
        const S: u64 = 1_000_000_000;
        assert_eq!(setting(100 * S, 160 * S + 9_000_000, 60 * S), None);
        let forward = setting(100 * S, 3_760 * S, 60 * S);
        assert!(forward.is_some_and(|note| note.contains("went forward by 3600 s")));
        assert!(setting(100 * S, 0, 60 * S).is_some_and(|note| note.contains("went back by 160 s")));
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
