//! `x11-typist`: types at another task's window and measures how long each key takes to be drawn.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use spry_scenario::kinds::x11::Typist;
use spry_scenario::metrics::{Metrics, Samples};
use x11rb::protocol::xproto::Window;

use super::observer;
use crate::RunError;
use crate::stage::Stage;
use crate::x11::client::Client;
use crate::x11::damage::{DamageWatch, Level, Sight};
use crate::x11::keys::{Key, Keyboard};
use crate::x11::{X11Error, target};

/// How long the target task may take to show its window.
const WINDOW_PATIENCE: Duration = Duration::from_secs(180);
/// How long the answer to any other key may take before the key counts as lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause between two keys that prepare a program, so that the program draws each of them on its own.
const PREPARING_PAUSE: Duration = Duration::from_millis(40);
/// The text that is typed over and over. The first line is short, so that a line ends soon.
const PROSE: &str = "dear reader
you ask how a film can play while the compiler works
the answer is that each letter of this shows at once
and that no frame is late whatever else is being done
";

/// Types at a window. A key's response is the time from its injection to the first drawing in the window
/// by DAMAGE. Keys are injected by XTEST or, where the server is Xorg, by the keyboard that it reads
/// from the kernel.
pub(in crate::kinds) fn play(typing: &Typist, stage: &Stage) -> Result<Metrics, RunError> {
    let client = Client::connect(observer::display(stage)?)?;
    let window = target::wait_for(&client, &typing.target, WINDOW_PATIENCE)?;
    let keyboard = Keyboard::read(&client)?;
    let watch = DamageWatch::begin(client, window, Level::First)?;
    let device = stage.keyboard();
    let mut hand = Hand { stage, watch, window, keyboard, device, target: &typing.target };
    if typing.from_ns.is_none() {
        hand.turn_to()?;
    }
    hand.prepare(&typing.opening, typing.preparing, Duration::from_nanos(typing.first_patience_ns))?;
    type_all(typing, &mut hand)
}

fn type_all(typing: &Typist, hand: &mut Hand<'_>) -> Result<Metrics, RunError> {
    let stage = hand.stage;
    let prose = PROSE.chars().map(|letter| hand.keyboard.key(letter)).collect::<Result<Vec<_>, _>>()?;
    let mut rng = stage.rng();
    let start = stage.start_line()?;
    let mut metrics = Metrics::new();
    observer::raise(stage, &mut metrics);
    let after = |ns: u64| start.measure_from_ns + ns;
    let from_ns = typing.from_ns.map_or(start.t0_ns, after);
    let until_ns = typing.until_ns.map_or(start.measure_to_ns, after).min(start.measure_to_ns);
    if typing.from_ns.is_some() {
        stage.sleep_through(from_ns);
        hand.turn_to()?;
    }
    let length_ns = until_ns.saturating_sub(from_ns);
    let mut responses =
        Samples::with_capacity(usize::try_from(length_ns / typing.interval_ns + 2).unwrap_or(0));
    let (mut lost, mut drawn_ns) = (0, 0);
    for (number, key) in (0..).zip(prose.iter().cycle().skip(typing.preparing)) {
        let late_ns = (rng.unit() * typing.jitter * typing.interval_ns as f64) as u64;
        let due_ns = from_ns + number * typing.interval_ns + late_ns;
        // The last key must still have a whole interval in which it can be drawn.
        if due_ns + typing.interval_ns > until_ns {
            break;
        }
        stage.sleep_through(due_ns);
        if stage.over() {
            break;
        }
        hand.rest()?;
        // If the answer to the preceding key came after this key was due, this key is typed late. Then its
        // response counts from its due time, as a person would feel it.
        let struck_ns = if drawn_ns > due_ns { due_ns } else { stage.now_ns() };
        let patience_ns = stage.after(PATIENCE).min(until_ns);
        hand.press(*key)?;
        let drawn = hand.see(patience_ns)?;
        drawn_ns = drawn.unwrap_or_else(|| stage.now_ns());
        if start.counts(due_ns) {
            lost += u64::from(drawn.is_none());
            responses.push(drawn_ns - struck_ns);
        }
    }
    metrics.count("keys_typed", responses.len() as u64);
    metrics.count("keys_lost", lost);
    metrics.quantiles("response_ns", &responses, &["p50", "p99", "max"]);
    Ok(metrics)
}

/// The typist: the keyboard on which it types and the watch over its window.
struct Hand<'a> {
    stage: &'a Stage,
    watch: DamageWatch,
    window: Window,
    keyboard: Keyboard,
    /// The descriptor of the kernel's keyboard; `None` if the X server reads no such keyboard.
    device: Option<BorrowedFd<'a>>,
    target: &'a str,
}

impl Hand<'_> {
    /// Gives the window the keyboard focus.
    fn turn_to(&self) -> Result<(), X11Error> {
        self.watch.client().focus(self.window)
    }

    /// Types the opening, then the first letters. Each letter is typed after the preceding letter
    /// has been drawn.
    fn prepare(&mut self, opening: &str, letters: usize, first: Duration) -> Result<(), X11Error> {
        // A character of the opening may draw nothing, for instance the key that makes vi insert text.
        for letter in opening.chars() {
            self.press(self.keyboard.key(letter)?)?;
            self.watch.client().sync()?;
            self.stage.pause(PREPARING_PAUSE);
        }
        let mut patience = first;
        for letter in PROSE.chars().cycle().take(letters) {
            self.rest()?;
            self.press(self.keyboard.key(letter)?)?;
            if self.see(self.stage.after(patience))?.is_none() {
                let waited_s = patience.as_secs();
                return Err(X11Error::Deaf { task: self.target.into(), waited_s });
            }
            patience = PATIENCE;
            self.stage.pause(PREPARING_PAUSE);
        }
        Ok(())
    }

    /// Discards the drawings before the next key, because they are not an answer to the next key.
    fn rest(&mut self) -> Result<(), X11Error> {
        while self.watch.next(0)?.is_some() {}
        self.watch.rearm()?;
        match self.device {
            // A key by XTEST is a request on the same connection, and the server processes it after this
            // request.
            None => Ok(()),
            Some(_) => self.watch.client().sync(),
        }
    }

    /// Presses and releases a key.
    fn press(&mut self, key: Key) -> Result<(), X11Error> {
        match self.device {
            None => self.keyboard.strike(self.watch.client(), key),
            Some(door) => self.keyboard.strike_device(door, key),
        }
    }

    /// Waits until the window's program draws something. Returns the time of the drawing, ns; `None` if the
    /// program drew nothing until the time `patience_ns`.
    fn see(&mut self, patience_ns: u64) -> Result<Option<u64>, X11Error> {
        match self.watch.next(patience_ns)? {
            None => Ok(None),
            Some((_, Sight::Gone)) => Err(X11Error::TargetGone { task: self.target.into() }),
            Some((at_ns, _)) => Ok(Some(at_ns)),
        }
    }
}
