//! Counts the drawings of a window that is drawn all the time, such as a film's. The server counts, and the
//! eyes read its count a few times a second.
//!
//! A window's damage reports once that something was drawn, and then nothing until it is
//! asked. That shows each frame only if the eyes ask after each frame. So a window that was
//! drawn at several looks in a row gets a second damage, which reports every drawing by
//! itself; its notices wait in the socket until the eyes look. Each notice has a time.
//! Drawings within [`MOMENT_MS`] are one moment, as all drawings that the eyes see at one look
//! are one moment.

use std::time::{Duration, Instant};

use x11rb::protocol::damage::{Damage, NotifyEvent, ReportLevel};

/// Drawings within this time are one moment, ms. Eyes that do not pause look as often.
const MOMENT_MS: u32 = 20;
/// After so many looks in a row with the same finding a window is steady.
const STEADY: u32 = 5;
/// The longest time between two looks in a row.
const APART: Duration = Duration::from_millis(500);
/// If a window is drawn more often than this between two looks, its drawings are not counted for [`BUSY`]:
/// reading so many notices costs more than asking after each moment.
const NOTICES_MAX: u32 = 64;
const BUSY: Duration = Duration::from_secs(10);
/// The bit of a notice that is followed by another notice of the same drawing.
const MORE: u8 = 0x80;
/// Everything that was drawn, ppm.
const WHOLE_PPM: u64 = 1_000_000;

/// The finding of a look at a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finding {
    /// The window's own program drew something that a person may notice.
    Own,
    /// Nothing that counts: the drawing was in windows inside this window, too small, or where it
    /// cannot be seen.
    Nothing,
}

/// The number of moments at which something was drawn; and the sum of the pixels of all moments, as a part of
/// the pixels that were drawn at any of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Times {
    pub(super) moments: u32,
    parts_ppm: u64,
}

impl Times {
    /// Everything was drawn at one moment.
    pub(super) const ONCE: Times = Times { moments: 1, parts_ppm: WHOLE_PPM };

    /// The sum over the moments, pixels, if `pixels` were drawn at any of them.
    pub(super) fn of(self, pixels: u64) -> u64 {
        (u128::from(pixels) * u128::from(self.parts_ppm) / u128::from(WHOLE_PPM)) as u64
    }
}

/// The drawing in one window over several looks.
#[derive(Clone, Debug, Default)]
pub(super) struct Habit {
    latest: Option<(Instant, Finding)>,
    /// The number of looks in a row with the same finding.
    in_a_row: u32,
    tally: Option<Tally>,
    /// The time until which the drawings are not counted.
    busy_until: Option<Instant>,
}

impl Habit {
    /// Notes a look's finding. Returns whether the server is to count the window's drawings from now on.
    pub(super) fn saw(&mut self, found: Finding, now: Instant) -> bool {
        self.in_a_row = if self.is_like(found, now) { self.in_a_row.saturating_add(1) } else { 1 };
        self.latest = Some((now, found));
        let is_busy = self.busy_until.is_some_and(|until| now < until);
        found == Finding::Own && self.in_a_row >= STEADY && self.tally.is_none() && !is_busy
    }

    fn is_like(&self, found: Finding, now: Instant) -> bool {
        self.latest.is_some_and(|(then, before)| before == found && now.duration_since(then) <= APART)
    }

    /// Whether a later look at the window finds as much: its drawings are counted, or none of its recent
    /// drawings counts.
    pub(super) fn is_steady(&self, now: Instant) -> bool {
        let is_nothing = self.in_a_row >= STEADY && self.is_like(Finding::Nothing, now);
        self.tally.is_some() || is_nothing
    }

    /// Whether the server counts the window's drawings.
    pub(super) fn is_counted_by_the_server(&self) -> bool {
        self.tally.is_some()
    }

    /// Notes that the server counts from now on, by this damage.
    pub(super) fn count_by(&mut self, damage: Damage) {
        self.tally = Some(Tally { damage, is_begun: false, notices: 0, moments: Vec::new() });
    }

    /// Takes in a notice. Returns whether it belongs to the damage that counts.
    pub(super) fn is_counted(&mut self, drawn: &NotifyEvent) -> bool {
        let tally = self.tally.as_mut().filter(|tally| tally.damage == drawn.damage);
        tally.is_some_and(|tally| {
            tally.notice(drawn);
            true
        })
    }

    /// The damage that counts, if it must be given up because it reports too often.
    pub(super) fn too_much(&mut self, now: Instant) -> Option<Damage> {
        let is_too_much = |tally: &mut Tally| tally.notices > NOTICES_MAX;
        let tally = self.tally.take_if(is_too_much)?;
        self.busy_until = Some(now + BUSY);
        Some(tally.damage)
    }

    /// The moments since the last look. `pixels` were drawn in all; moments with fewer pixels than
    /// `least` do not count.
    pub(super) fn take(&mut self, pixels: u64, least: u64) -> Times {
        self.tally.as_mut().map_or(Times::ONCE, |tally| tally.take(pixels, least))
    }
}

/// A damage that reports every drawing, and its reports since the last look.
#[derive(Clone, Debug)]
struct Tally {
    damage: Damage,
    /// Whether the first report, which covers the whole window, is over.
    is_begun: bool,
    notices: u32,
    /// The moments, each with its begin by the server's clock, ms, and its pixels.
    moments: Vec<(u32, u64)>,
}

impl Tally {
    fn notice(&mut self, drawn: &NotifyEvent) {
        if !self.is_begun {
            self.is_begun = u8::from(drawn.level) & MORE == 0;
            return;
        }
        self.notices = self.notices.saturating_add(1);
        if self.notices > NOTICES_MAX {
            return;
        }
        let pixels = u64::from(drawn.area.width) * u64::from(drawn.area.height);
        match self.moments.last_mut() {
            Some((since_ms, sum)) if drawn.timestamp.wrapping_sub(*since_ms) < MOMENT_MS => *sum += pixels,
            _ => self.moments.push((drawn.timestamp, pixels)),
        }
    }

    fn take(&mut self, pixels: u64, least: u64) -> Times {
        self.notices = 0;
        let moments = std::mem::take(&mut self.moments).into_iter().map(|(_, sum)| sum.min(pixels));
        let moments: Vec<u64> = moments.filter(|&sum| sum >= least).collect();
        let sum: u64 = moments.iter().sum();
        let parts_ppm = u128::from(sum) * u128::from(WHOLE_PPM) / u128::from(pixels.max(1));
        Times { moments: moments.len() as u32, parts_ppm: parts_ppm as u64 }
    }
}

/// The level of reports of a damage that counts.
pub(super) const EVERY_DRAWING: ReportLevel = ReportLevel::RAW_RECTANGLES;

#[cfg(test)]
mod tests {
    use x11rb::protocol::xproto::Rectangle;

    use super::*;

    const COUNTS: Damage = 7;

    fn notice(timestamp: u32, width: u16, height: u16) -> NotifyEvent {
        let area = Rectangle { x: 0, y: 0, width, height };
        NotifyEvent {
            response_type: 0,
            level: EVERY_DRAWING,
            sequence: 0,
            drawable: 1,
            damage: COUNTS,
            timestamp,
            area,
            geometry: area,
        }
    }

    /// A habit of a window of 100x100 after its first report.
    fn counted() -> Habit {
        let mut habit = Habit::default();
        habit.count_by(COUNTS);
        assert!(habit.is_counted(&notice(0, 100, 100)));
        habit
    }

    #[test]
    fn each_frame_counts_the_area_that_it_covers_once() {
        let mut habit = counted();
        for frame in 0..5 {
            assert!(habit.is_counted(&notice(1_000 + 40 * frame, 100, 100)));
        }
        let times = habit.take(10_000, 32);
        assert_eq!((times.moments, times.of(10_000), times.of(5_000)), (5, 50_000, 25_000));
        assert_eq!(habit.take(10_000, 32).of(10_000), 0, "no frame counts twice");
    }

    #[test]
    fn pieces_drawn_within_a_moment_are_one_moment() {
        let mut habit = counted();
        // The clock of the server may go over its end meanwhile.
        for piece in 0..10 {
            assert!(habit.is_counted(&notice(u32::MAX.wrapping_add(piece), 100, 30)));
        }
        assert_eq!(habit.take(10_000, 32), Times { moments: 1, parts_ppm: 1_000_000 });
    }

    #[test]
    fn moments_of_too_few_pixels_do_not_count() {
        let mut habit = counted();
        assert!(habit.is_counted(&notice(0, 5, 6)) && habit.is_counted(&notice(40, 5, 7)));
        assert_eq!(habit.take(65, 32).moments, 1);
    }

    #[test]
    fn a_window_is_steady_after_some_looks_in_a_row() {
        let (mut habit, now) = (Habit::default(), Instant::now());
        let at = |ms| now + Duration::from_millis(ms);
        assert!((0..4).all(|look| !habit.saw(Finding::Own, at(40 * look))));
        assert!(habit.saw(Finding::Own, at(160)), "it is to be counted");
        assert!(!habit.is_steady(at(160)), "and is steady once it is");
        assert!((0..5).all(|look| !habit.saw(Finding::Nothing, at(200 + 40 * look))));
        assert!(habit.is_steady(at(400)));
        assert!(!habit.is_steady(at(400) + APART));
    }

    #[test]
    fn a_window_of_many_small_drawings_is_not_counted_for_a_while() {
        let (mut habit, now) = (counted(), Instant::now());
        for drawing in 0..NOTICES_MAX {
            assert!(habit.is_counted(&notice(drawing, 10, 10)));
        }
        assert_eq!(habit.too_much(now), None);
        assert!(habit.is_counted(&notice(100, 10, 10)));
        assert_eq!(habit.too_much(now), Some(COUNTS));
        assert!(!habit.is_counted(&notice(100, 10, 10)) && habit.take(100, 32) == Times::ONCE);
        assert!((0..9).all(|_| !habit.saw(Finding::Own, now)));
        assert!((0..4).all(|_| !habit.saw(Finding::Own, now + BUSY)) && habit.saw(Finding::Own, now + BUSY));
    }
}
