//! The movie player: a decoder, a queue of frames, and a displayer that an alarm wakes every 4 ms (Xine in
//! the thesis, sections 4.3 and 6.3.2; Etsion, Tsafrir, Feitelson 2003, sections 2.2 and 5).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use spry_scenario::kinds::Player;
use spry_scenario::metrics::{Metrics, Samples};

use crate::RunError;
use crate::stage::{Stage, Start, Woke};

pub(super) fn play(film: &Player, stage: &Stage) -> Result<Metrics, RunError> {
    play_on(film, stage, &mut NoScreen)
}

/// The surface on which a player shows its frames.
pub(super) trait Screen {
    /// Shows a frame. Returns when the frame can be seen.
    fn show(&mut self, frame: u64) -> Result<(), RunError>;
}

/// The screen of the plain player, which has no display: showing a frame takes no time.
struct NoScreen;

impl Screen for NoScreen {
    fn show(&mut self, _: u64) -> Result<(), RunError> {
        Ok(())
    }
}

/// Plays a film on a screen.
pub(super) fn play_on(film: &Player, stage: &Stage, screen: &mut dyn Screen) -> Result<Metrics, RunError> {
    let frames = Mutex::new(VecDeque::with_capacity(film.queue as usize + 1));
    let shared = Arc::new(Shared { frames, free: AtomicU32::new(film.queue) });
    let (theirs, queue) = (film.clone(), Arc::clone(&shared));
    let decoder = stage.spawn("decoder", move |stage| decode(&theirs, stage, &queue))?;
    let shown = display(film, stage, &shared, screen);
    decoder.join()??;
    shown
}

/// The state that the decoder's thread and the displayer's thread share.
struct Shared {
    frames: Mutex<VecDeque<u64>>,
    /// How many free places the queue has. The decoder waits on this number while it is 0.
    free: AtomicU32,
}

impl Shared {
    /// Takes the next frame out of the queue if it is due.
    fn take(&self, stage: &Stage, is_due: impl Fn(u64) -> bool) -> Option<u64> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = *frames.front().filter(|&&frame| is_due(frame))?;
        frames.pop_front();
        drop(frames);
        self.free.fetch_add(1, Ordering::SeqCst);
        stage.wake_one(&self.free);
        Some(frame)
    }
}

/// The time at which a frame is due, ns. Before the first frame is due, the decoder has the time to fill the
/// queue and to decode one more frame at the movie's rate.
fn due_ns(film: &Player, start: Start, frame: u64) -> u64 {
    start.t0_ns + (u64::from(film.queue) + 1 + frame) * film.frame_ns
}

fn decode(film: &Player, stage: &Stage, shared: &Shared) -> Result<(), RunError> {
    let start = stage.start_line()?;
    let mut frame = 0;
    loop {
        while shared.free.load(Ordering::SeqCst) == 0 {
            if stage.over() {
                return Ok(());
            }
            stage.wait_on(&shared.free, 0);
        }
        let now_ns = stage.now_ns();
        while due_ns(film, start, frame) < now_ns + film.margin_ns {
            frame += film.skip;
        }
        stage.work(film.decode_ns);
        if stage.over() {
            return Ok(());
        }
        shared.free.fetch_sub(1, Ordering::SeqCst);
        shared.frames.lock().unwrap_or_else(PoisonError::into_inner).push_back(frame);
        frame += 1;
    }
}

fn display(
    film: &Player,
    stage: &Stage,
    shared: &Shared,
    screen: &mut dyn Screen,
) -> Result<Metrics, RunError> {
    let mut late = Samples::with_capacity((stage.duration_ns() / film.alarm_ns + 16) as usize);
    let start = stage.start_line()?;
    let mut shown = 0;
    let mut alarm_ns = start.t0_ns;
    while !stage.over() {
        let past = stage.now_ns().saturating_sub(alarm_ns) / film.alarm_ns;
        alarm_ns += (past + 1) * film.alarm_ns;
        if stage.sleep_until(alarm_ns) == Woke::Interrupted {
            continue;
        }
        let mut now_ns = stage.now_ns();
        if start.counts(alarm_ns) {
            late.push(now_ns - alarm_ns);
        }
        while let Some(frame) = shared.take(stage, |frame| due_ns(film, start, frame) <= now_ns) {
            let due_ns = due_ns(film, start, frame);
            if now_ns > due_ns + film.frame_ns / 2 {
                continue;
            }
            screen.show(frame)?;
            shown += u64::from(start.counts(due_ns));
            now_ns = stage.now_ns();
        }
    }
    let mut metrics = Metrics::new();
    metrics.count("frames_shown", shown);
    // The frame before the first would have been due when the queue began to fill.
    let first = Start { t0_ns: due_ns(film, start, 0), ..start };
    metrics.count("frames_due", first.frames_due(film.frame_ns));
    metrics.quantiles("wake_lateness_ns", &late, &["p50", "p99", "max"]);
    Ok(metrics)
}
