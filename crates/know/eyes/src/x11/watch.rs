//! Looks at one display until its server or the daemon ends.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::unistd::alarm;
use spry_display::Synthetic;
use spry_display::wire::{End, Record as Tells};
use spry_policy::{Changes, Tgid};
use spry_sys::poll;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::Window;

use super::DisplayTask;
use super::clients::Clients;
use super::drawing::{Drawing, Evidence, Pace, Round};
use super::hands::{Hands, PATIENCE};
use super::link::{Door, Link, LinkError, Server};
use super::record::{Delivery, FakeInput, Record, RecordReport};
use super::relay::Worth;
use super::server;
use super::windows::Windows;
use crate::book::Book;
use crate::{confine, sys};

/// If cookies and server are not found within this time, seconds, the kernel ends the eyes: a file of cookies
/// can be in a file system of the user's that does not answer.
const FINDING_S: u32 = 5;
/// After a look that found something, the eyes look again no sooner than this, whatever happens, so that a
/// busy display costs little.
const PAUSE: Duration = Duration::from_millis(20);
/// When the eyes wake up because something happened, they wait for this time before they look.
const BREATH: Duration = Duration::from_millis(4);
/// At most so many deliveries wait until their windows are known and drawn. If windows never are, further
/// deliveries are lost.
const UNSEEN_MAX: usize = 256;

/// Looks at a server until the server ends or the daemon closes the pipe. Returns the reason.
pub(crate) fn watch(task: &DisplayTask, book: &mut Book) -> End {
    look(task, book).map_or_else(End::from, |()| End::Broken)
}

fn look(task: &DisplayTask, book: &mut Book) -> Result<(), LinkError> {
    alarm::set(FINDING_S);
    let door = Door::find(task)?;
    alarm::cancel();
    let evidence = if server::is_rootless(door.server) { Evidence::Windows } else { Evidence::Screen };
    // From here on the system calls are limited; only then is anything read that the server sends.
    confine::only_look()?;
    let link = Link::open(door)?;
    let (control, drawn) = (&link.control, &link.drawn);
    let windows = Windows::begin(control)?;
    let drawing = Drawing::begin(drawn, &windows, evidence)?;
    let hands = match task.synthetic {
        Synthetic::Ignored => Some(Hands::begin(control)?),
        Synthetic::Trusted => None,
    };
    let record = Record::begin(&link)?;
    book.tell(Tells::Watched(link.server))?;
    let (clients, unseen) = (Clients::default(), VecDeque::new());
    let mut watch = DisplayWatch { control, drawn, book, windows, drawing, hands, record, clients, unseen };
    watch.run()
}

struct DisplayWatch<'c> {
    control: &'c Server,
    drawn: &'c Server,
    book: &'c mut Book,
    windows: Windows,
    drawing: Drawing,
    hands: Option<Hands>,
    record: Record<'c>,
    clients: Clients,
    /// Input for windows that are not known or not drawn yet, each with the time at which it was read.
    unseen: VecDeque<(Instant, Tgid, Delivery)>,
}

impl DisplayWatch<'_> {
    /// Looks and sleeps a little, again and again. If there was nothing to see, it waits until there is.
    fn run(&mut self) -> Result<(), LinkError> {
        let (control, drawn) = (self.control, self.drawn);
        let mut round: Option<Round<'_>> = None;
        let (mut earliest, mut generation) = (Instant::now(), self.windows.generation());
        while !poll::is_unheard(self.book.as_fd()) {
            // Raw events are read before RECORD's events: so for each raw event of faked input RECORD's event
            // is there, too.
            let mut is_any = self.notices()?;
            is_any |= self.told()?;
            if let Some(round) = round.take() {
                is_any |= round.pace == Pace::Hurried;
                self.drawing.credit(drawn, round, &mut self.windows, self.book)?;
            }
            is_any |= self.windows.adopt(control, drawn)?;
            let pace = self.pace(generation, self.drawing.calm_until());
            generation = self.windows.generation();
            if let Some(pace) = pace {
                let asked = self.drawing.ask(drawn, &self.windows, pace)?;
                if asked.has_news(&self.windows, self.book) {
                    self.drawing.credit(drawn, asked, &mut self.windows, self.book)?;
                } else {
                    // The answers are read after the pause, when they have come.
                    round = Some(asked);
                }
                is_any |= pace == Pace::Hurried;
            }
            // Notices that came before an answer were read with it: no socket shows them any more. Whether
            // the eyes are calm is decided once: a finding here must not be left to a time that is over by
            // then.
            let calm = self.drawing.calm_until();
            let is_left = self.read_notices()? || self.pace(generation, calm).is_some();
            control.flush()?;
            drawn.flush()?;
            self.book.flush()?;
            let is_asked = round.as_ref().is_some_and(|round| round.pace == Pace::Hurried || calm.is_none());
            if is_any {
                earliest = Instant::now() + PAUSE;
            }
            if is_left || is_asked || self.is_waiting() {
                sys::wait(&[self.book.as_fd()], Some(PAUSE));
            } else if self.wait(calm) {
                // The effects of a key arrive before RECORD reports the key, so the eyes wait a little to see
                // both in one look.
                let rest = earliest.saturating_duration_since(Instant::now());
                sys::wait(&[self.book.as_fd()], Some(if rest.is_zero() { BREATH } else { rest }));
            }
        }
        Ok(())
    }

    /// Whether time alone decides about something, so that the eyes must look again even if nothing comes.
    fn is_waiting(&self) -> bool {
        !self.unseen.is_empty() || self.hands.as_ref().is_some_and(Hands::is_holding)
    }

    /// The pace at which the eyes ask for drawings, if they ask now. `generation` is the windows' generation
    /// at the last decision; windows that are drawn all the time wait until `calm`.
    fn pace(&self, generation: u64, calm: Option<Instant>) -> Option<Pace> {
        match self.drawing.pace(&self.windows, self.book)? {
            // Input waits for its window to be drawn, or windows have come, gone or moved: drawings are
            // compared with the windows as they were.
            Pace::Calm if !self.unseen.is_empty() || self.windows.generation() != generation => {
                Some(Pace::Hurried)
            }
            Pace::Calm if calm.is_some() => None,
            pace => Some(pace),
        }
    }

    /// Waits until there is something to see; drawings are not waited for before `calm`, if given. Returns
    /// whether there is something; if not, the time has come to ask for drawings.
    fn wait(&self, calm: Option<Instant>) -> bool {
        let [core, generic] = self.record.sockets();
        let mut sockets = vec![self.book.as_fd(), self.control.stream().as_fd(), core];
        let Some(until) = calm else {
            sockets.extend([generic, self.drawn.stream().as_fd()]);
            return sys::wait(&sockets, None);
        };
        // Movements of devices come on the other connections, too, except the repeats of a key that is held
        // down. So the notices that a film's program gets of its frames wake nothing.
        if self.hands.as_ref().is_none_or(Hands::holds_a_key) {
            sockets.push(generic);
        }
        sys::wait(&sockets, Some(until.saturating_duration_since(Instant::now())))
    }

    fn notices(&mut self) -> Result<bool, LinkError> {
        self.control.stream().look();
        self.drawn.stream().look();
        self.read_notices()
    }

    /// Takes in the notices that have been read and the notices that can be read at once.
    fn read_notices(&mut self) -> Result<bool, LinkError> {
        let mut is_any = false;
        while let Some(event) = self.control.poll_for_event()? {
            is_any = true;
            // An error comes of a window that was destroyed before it could be asked about.
            if let Event::Error(_) = event {
                continue;
            }
            self.windows.event(&event);
            if let Some(hands) = &mut self.hands {
                hands.event(self.control, &event)?;
            }
        }
        is_any |= self.drawing.hear(self.drawn, &mut self.windows)? && self.drawing.calm_until().is_none();
        Ok(is_any)
    }

    fn told(&mut self) -> Result<bool, LinkError> {
        let mut told = Vec::new();
        let is_any = self.record.read(&mut told)?;
        for one in told {
            match one {
                RecordReport::Delivered(delivered) => self.delivered(delivered)?,
                RecordReport::Faked(faked) => self.faked(faked)?,
                RecordReport::Gone(client) => self.clients.gone(client),
            }
        }
        self.look_again()?;
        if let Some(hands) = &mut self.hands {
            hands.settle(|tgid| credit(self.book, tgid));
        }
        Ok(is_any || self.is_waiting())
    }

    /// A client received input.
    fn delivered(&mut self, delivered: Delivery) -> Result<(), LinkError> {
        let is_own = self.windows.client(delivered.window) == delivered.client;
        // The user does not mean a client that listens at others' windows, unless the client passes on the
        // input.
        if !is_own && self.hands.is_none() {
            return Ok(());
        }
        let Some(tgid) = self.clients.tgid(self.control, delivered.client)? else { return Ok(()) };
        let is_relay = self.hands.as_ref().is_some_and(|hands| hands.is_relay(tgid));
        if is_own && self.is_seen(delivered.window)? {
            self.received(tgid, delivered, Worth::Own);
        } else if is_relay {
            self.received(tgid, delivered, Worth::Passage);
        } else if is_own && self.unseen.len() < UNSEEN_MAX {
            self.unseen.push_back((Instant::now(), tgid, delivered));
        }
        Ok(())
    }

    /// A client made input by XTEST, or sent an event.
    fn faked(&mut self, faked: FakeInput) -> Result<(), LinkError> {
        if self.hands.is_none() {
            return Ok(());
        }
        let tgid = self.clients.tgid(self.control, faked.client)?;
        let mut receiver = None;
        if let Some(window) = faked.to {
            let owner = self.clients.tgid(self.control, self.windows.client(window))?;
            if owner == tgid {
                // Toolkits send events from one of their windows to another.
                return Ok(());
            }
            receiver = if self.is_seen(window)? { owner } else { None };
        }
        if let Some(hands) = &mut self.hands {
            hands.faked(tgid, faked, receiver);
        }
        Ok(())
    }

    /// Whether a person can see the outermost window of the client around this window.
    fn is_seen(&mut self, window: Window) -> Result<bool, LinkError> {
        let outermost = self.windows.outermost(self.control, window)?;
        Ok(outermost.is_some_and(|outermost| self.windows.is_seen(outermost)))
    }

    /// Looks at the windows of waiting input again: the notice of a window, or its first drawing, may come
    /// later than the input.
    fn look_again(&mut self) -> Result<(), LinkError> {
        for (since, tgid, delivered) in std::mem::take(&mut self.unseen) {
            if self.is_seen(delivered.window)? {
                self.received(tgid, delivered, Worth::Own);
            } else if since.elapsed() < PATIENCE {
                self.unseen.push_back((since, tgid, delivered));
            }
        }
        Ok(())
    }

    fn received(&mut self, tgid: Tgid, delivered: Delivery, worth: Worth) {
        match &mut self.hands {
            Some(hands) => hands.delivered(tgid, delivered, worth),
            None => credit(self.book, tgid),
        }
    }
}

/// Credits a process with one event.
fn credit(book: &mut Book, tgid: Tgid) {
    book.credit(tgid, Changes { input: 1, output_ppm: 0 });
}
