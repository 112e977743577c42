//! The movie player: a decoder, a queue of frames, and a displayer that an alarm wakes every 4 ms (Xine in the thesis,
//! sections 4.3 and 6.3.2; Etsion, Tsafrir, Feitelson 2003, sections 2.2 and 5).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Kind, Role};
use crate::metrics::{Metrics, Samples};
use crate::runner::RunError;
use crate::runner::stage::{Stage, Start};
use crate::runner::steps::frames_due;
use crate::runner::sys;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// The kind.
pub(super) struct Player;

impl Kind for Player {
    fn name(&self) -> &'static str {
        "player"
    }

    fn about(&self) -> &'static str {
        "a movie player of two threads; keys: fps, decode, queue, alarm, margin, skip"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        Ok(Box::new(Movie::parse(keys)?))
    }
}

/// Where frames are shown.
pub(crate) trait Screen {
    /// Shows a frame; it is back when the frame can be seen.
    fn show(&mut self, frame: u64) -> Result<(), RunError>;
}

/// The plain player's: showing takes no time.
struct Nowhere;

impl Screen for Nowhere {
    fn show(&mut self, _: u64) -> Result<(), RunError> {
        Ok(())
    }
}

/// A film and how it is played.
#[derive(Clone, Debug)]
pub(crate) struct Movie {
    /// How long a frame is shown, ns.
    frame_ns: u64,
    /// CPU time to decode one, ns.
    decode_ns: u64,
    /// How many decoded frames wait at most.
    queue: u32,
    /// The displayer's period, ns.
    alarm_ns: u64,
    /// A frame that is due in less than this is not begun, ns: by default the time that decoding it takes with all of
    /// the CPU.
    margin_ns: u64,
    /// How many frames are left out at once instead, so that there is some time in hand again.
    skip: u64,
}

/// What the two threads share.
struct Shared {
    frames: Mutex<VecDeque<u64>>,
    /// Places in the queue; the decoder waits on it.
    free: AtomicU32,
}

impl Shared {
    /// Takes the next frame out of the queue if it is due.
    fn take(&self, is_due: impl Fn(u64) -> bool) -> Option<u64> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let frame = *frames.front().filter(|&&frame| is_due(frame))?;
        frames.pop_front();
        drop(frames);
        self.free.fetch_add(1, Ordering::SeqCst);
        sys::futex_wake(&self.free, 1);
        Some(frame)
    }
}

impl Movie {
    /// Reads a film's keys.
    pub(crate) fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let fps = keys.number_within("fps", 0.1, 1000.0)?.unwrap_or(25.0);
        let decode = keys.number_within("decode", 0.0, 100.0)?.unwrap_or(0.6);
        let queue = keys.whole("queue")?.unwrap_or(8);
        if !(1..=4096).contains(&queue) {
            return Err(keys.mistake("queue", format!("\"queue\" must be from 1 to 4096, not {queue}")));
        }
        let alarm_ns = keys.duration_ns("alarm")?.unwrap_or(4_000_000);
        if alarm_ns < 10_000 {
            return Err(keys.mistake("alarm", "\"alarm\" must be 10us or more"));
        }
        let margin = keys.number_within("margin", 0.0, 1000.0)?.unwrap_or(decode);
        let skip = keys.whole("skip")?.unwrap_or(2);
        if !(1..=1000).contains(&skip) {
            return Err(keys.mistake("skip", format!("\"skip\" must be from 1 to 1000, not {skip}")));
        }
        let frame_ns = (1e9 / fps).round() as u64;
        Ok(Self {
            frame_ns,
            decode_ns: (frame_ns as f64 * decode).round() as u64,
            queue: queue as u32,
            alarm_ns,
            margin_ns: (frame_ns as f64 * margin).round() as u64,
            skip,
        })
    }

    /// When a frame is due: the first when the queue and the decoder's own hands could have been filled at the movie's rate.
    fn due_ns(&self, start: Start, frame: u64) -> u64 {
        start.t0_ns + (u64::from(self.queue) + 1 + frame) * self.frame_ns
    }

    fn decode(&self, stage: &Stage, shared: &Shared) -> Result<(), RunError> {
        let start = stage.start_line()?;
        let mut frame = 0;
        loop {
            while shared.free.load(Ordering::SeqCst) == 0 {
                if stage.over() {
                    return Ok(());
                }
                sys::futex_wait(&shared.free, 0, None);
            }
            let now_ns = stage.now_ns();
            while self.due_ns(start, frame) < now_ns + self.margin_ns {
                frame += self.skip;
            }
            stage.work(self.decode_ns);
            if stage.over() {
                return Ok(());
            }
            shared.free.fetch_sub(1, Ordering::SeqCst);
            shared.frames.lock().unwrap_or_else(PoisonError::into_inner).push_back(frame);
            frame += 1;
        }
    }

    fn display(&self, stage: &Stage, shared: &Shared, screen: &mut dyn Screen) -> Result<Metrics, RunError> {
        let mut late = Samples::with_capacity((stage.duration_ns() / self.alarm_ns + 16) as usize);
        let start = stage.start_line()?;
        let mut shown = 0;
        let mut alarm_ns = start.t0_ns;
        while !stage.over() {
            let past = stage.now_ns().saturating_sub(alarm_ns) / self.alarm_ns;
            alarm_ns += (past + 1) * self.alarm_ns;
            if stage.sleep_until(alarm_ns) == sys::Woke::Interrupted {
                continue;
            }
            let mut now_ns = stage.now_ns();
            if (start.measure_from_ns..start.measure_to_ns).contains(&alarm_ns) {
                late.push(now_ns - alarm_ns);
            }
            while let Some(frame) = shared.take(|frame| self.due_ns(start, frame) <= now_ns) {
                let due_ns = self.due_ns(start, frame);
                if now_ns > due_ns + self.frame_ns / 2 {
                    continue;
                }
                screen.show(frame)?;
                shown += u64::from((start.measure_from_ns..start.measure_to_ns).contains(&due_ns));
                now_ns = stage.now_ns();
            }
        }
        let mut metrics = Metrics::new();
        metrics.count("frames_shown", shown);
        // The frame before the first would have been due when the queue began to fill.
        let due = frames_due(Start { t0_ns: self.due_ns(start, 0), ..start }, self.frame_ns);
        metrics.count("frames_due", due);
        metrics.quantiles("wake_lateness_ns", &late, &["p50", "p99", "max"]);
        Ok(metrics)
    }
}

impl Role for Movie {
    fn threads(&self) -> u32 {
        2
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        self.play_on(stage, &mut Nowhere)
    }
}

impl Movie {
    /// Plays it on a screen.
    pub(crate) fn play_on(&self, stage: &Stage, screen: &mut dyn Screen) -> Result<Metrics, RunError> {
        let frames = Mutex::new(VecDeque::with_capacity(self.queue as usize + 1));
        let shared = Arc::new(Shared { frames, free: AtomicU32::new(self.queue) });
        let (movie, theirs) = (self.clone(), Arc::clone(&shared));
        let decoder = stage.spawn("decoder", move |stage| movie.decode(stage, &theirs))?;
        let shown = self.display(stage, &shared, screen);
        decoder.join()??;
        shown
    }
}
