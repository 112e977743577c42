//! `x11-typist`: types at another task's window and measures how long each key takes to be drawn.

use std::os::fd::RawFd;
use std::time::Duration;

use x11rb::protocol::xproto::Window;

use super::client::Client;
use super::clock::now_ns;
use super::damage::{Level, Sight, Watch};
use super::keys::{Key, Keyboard};
use super::{X11Error, clock, observer, target};
use crate::keys::Keys;
use crate::kinds::{Kind, Role};
use crate::metrics::{Metrics, Samples};
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::runner::sys::Woke;

/// The kind of task.
pub static TYPIST: Typist = Typist;

/// How long the task typed at may take to show a window.
const WINDOW_PATIENCE: Duration = Duration::from_secs(180);
/// How long the first key may take unless the scenario says: a program may still be setting up.
const FIRST_PATIENCE_NS: u64 = 30_000_000_000;
/// How long any other key may take before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between the keys that prepare a program, so that it draws each for itself.
const PREPARING_PAUSE: Duration = Duration::from_millis(40);
/// Typed over and over. The first line is short, so that a line ends soon.
const PROSE: &str = "dear reader
you ask how a film can play while the compiler works
the answer is that each letter of this shows at once
and that no frame is late whatever else is being done
";

/// Types 8 characters a second, as the thesis does (section 4.3). A key's response is the time from its injection to the first drawing
/// in the window by DAMAGE. Keys are injected by XTEST or, where the server is Xorg, by the keyboard that it reads from the kernel.
#[derive(Debug)]
pub struct Typist;

#[derive(Debug)]
struct Typing {
    target: String,
    interval_ns: u64,
    /// By how much of the interval keys come later, by chance: nobody types in step with a clock tick.
    jitter: f64,
    opening: String,
    preparing: usize,
    first_patience: Duration,
    /// When it begins and ends, ns after the beginning of what is measured; from the start to the end if unsaid.
    from_ns: Option<u64>,
    until_ns: Option<u64>,
}

impl Kind for Typist {
    fn name(&self) -> &'static str {
        "x11-typist"
    }

    fn about(&self) -> &'static str {
        "types at a task's window (by XTEST; by uinput where server = \"xorg\") until DAMAGE tells of each drawing; keys: target, rate, jitter, opening, preparing_keys, patience, from, until"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let target = observer::target(keys)?;
        let rate = keys.number_within("rate", 0.1, 100.0)?.unwrap_or(8.0);
        let interval_ns = (1e9 / rate).round() as u64;
        let jitter = keys.number_within("jitter", 0.0, 1.0)?.unwrap_or(0.2);
        let first_patience = Duration::from_nanos(keys.duration_ns("patience")?.unwrap_or(FIRST_PATIENCE_NS));
        let opening = keys.text("opening")?.unwrap_or_default();
        let preparing = usize::try_from(keys.whole("preparing_keys")?.unwrap_or(0)).unwrap_or(usize::MAX);
        let (from_ns, until_ns) = (keys.duration_ns("from")?, keys.duration_ns("until")?);
        Ok(Box::new(Typing {
            target,
            interval_ns,
            jitter,
            opening,
            preparing,
            first_patience,
            from_ns,
            until_ns,
        }))
    }
}

impl Role for Typing {
    fn needs_display(&self) -> bool {
        true
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let client = Client::connect(observer::display(stage)?)?;
        let window = target::wait_for(&client, &self.target, WINDOW_PATIENCE)?;
        let keyboard = Keyboard::read(&client)?;
        let watch = Watch::begin(client, window, Level::First)?;
        let mut hand = Hand { watch, window, keyboard, device: stage.keyboard(), target: &self.target };
        if self.from_ns.is_none() {
            hand.turn_to()?;
        }
        hand.prepare(&self.opening, self.preparing, self.first_patience)?;
        self.type_all(&mut hand, stage)
    }
}

impl Typing {
    fn type_all(&self, hand: &mut Hand<'_>, stage: &Stage) -> Result<Metrics, RunError> {
        let prose = PROSE.chars().map(|letter| hand.keyboard.key(letter)).collect::<Result<Vec<_>, _>>()?;
        let mut rng = stage.rng();
        let start = stage.start_line()?;
        let mut metrics = Metrics::new();
        observer::raise(&mut metrics);
        let after = |ns: u64| start.measure_from_ns + ns;
        let from_ns = self.from_ns.map_or(start.t0_ns, after);
        let until_ns = self.until_ns.map_or(start.measure_to_ns, after).min(start.measure_to_ns);
        if self.from_ns.is_some() {
            while !stage.over() && stage.sleep_until(from_ns) == Woke::Interrupted {}
            hand.turn_to()?;
        }
        let length_ns = until_ns.saturating_sub(from_ns);
        let mut responses =
            Samples::with_capacity(usize::try_from(length_ns / self.interval_ns + 2).unwrap_or(0));
        let (mut lost, mut drawn_ns) = (0, 0);
        for (number, key) in (0..).zip(prose.iter().cycle().skip(self.preparing)) {
            let late_ns = (rng.unit() * self.jitter * self.interval_ns as f64) as u64;
            let due_ns = from_ns + number * self.interval_ns + late_ns;
            // The last key has a whole interval to be drawn in.
            if due_ns + self.interval_ns > until_ns {
                break;
            }
            while !stage.over() && stage.sleep_until(due_ns) == Woke::Interrupted {}
            if stage.over() {
                break;
            }
            hand.rest()?;
            // A key that was held up by the one before waits since it was due, as a person's next letter would.
            let struck_ns = if drawn_ns > due_ns { due_ns } else { now_ns() };
            let patience_ns = clock::after(PATIENCE).min(until_ns);
            hand.press(*key)?;
            let drawn = hand.see(patience_ns)?;
            drawn_ns = drawn.unwrap_or_else(now_ns);
            if stage.measuring(due_ns) {
                lost += u64::from(drawn.is_none());
                responses.push(drawn_ns - struck_ns);
            }
        }
        metrics.count("keys_typed", responses.len() as u64);
        metrics.count("keys_lost", lost);
        metrics.quantiles("response_ns", &responses, &["p50", "p99", "max"]);
        Ok(metrics)
    }
}

/// What types and sees.
struct Hand<'a> {
    watch: Watch,
    window: Window,
    keyboard: Keyboard,
    /// The kernel's keyboard, if the server reads one.
    device: Option<RawFd>,
    target: &'a str,
}

impl Hand<'_> {
    /// Gives the window the keyboard.
    fn turn_to(&self) -> Result<(), X11Error> {
        self.watch.client().focus(self.window)
    }

    /// Types the opening, then the first letters, each once the one before has been drawn.
    fn prepare(&mut self, opening: &str, letters: usize, first: Duration) -> Result<(), X11Error> {
        // What opens may draw nothing, as the key that lets vi insert.
        for letter in opening.chars() {
            self.press(self.keyboard.key(letter)?)?;
            self.watch.client().sync()?;
            std::thread::sleep(PREPARING_PAUSE);
        }
        let mut patience = first;
        for letter in PROSE.chars().cycle().take(letters) {
            self.rest()?;
            self.press(self.keyboard.key(letter)?)?;
            if self.see(clock::after(patience))?.is_none() {
                let waited_s = patience.as_secs();
                return Err(X11Error::Deaf { task: self.target.into(), waited_s });
            }
            patience = PATIENCE;
            std::thread::sleep(PREPARING_PAUSE);
        }
        Ok(())
    }

    /// Forgets what was drawn before the next key: it is none of its answer.
    fn rest(&mut self) -> Result<(), X11Error> {
        while self.watch.next(0)?.is_some() {}
        self.watch.rearm()?;
        match self.device {
            // A key by XTEST is a request of the same connection, which the server does after this one.
            None => Ok(()),
            Some(_) => self.watch.client().sync(),
        }
    }

    /// Strikes a key.
    fn press(&mut self, key: Key) -> Result<(), X11Error> {
        match self.device {
            None => self.keyboard.strike(self.watch.client(), key),
            Some(door) => self.keyboard.strike_device(door, key),
        }
    }

    /// Waits until something is drawn: when, or nothing from `patience_ns` on.
    fn see(&mut self, patience_ns: u64) -> Result<Option<u64>, X11Error> {
        match self.watch.next(patience_ns)? {
            None => Ok(None),
            Some((_, Sight::Gone)) => Err(X11Error::TargetGone { task: self.target.into() }),
            Some((at_ns, _)) => Ok(Some(at_ns)),
        }
    }
}
