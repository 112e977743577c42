//! A display's thread: connects, watches until the server ends, and begins anew with the next one.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use spry_policy::{Changes, Tgid};
use x11rb::connection::Connection;
use x11rb::protocol::Event;

use super::clients::Clients;
use super::drawing::{Drawing, Evidence};
use super::hands::Hands;
use super::link::{Link, LinkError, Server};
use super::record::{Record, Told};
use super::server::Screen;
use super::windows::Windows;
use super::{Shared, Slot, lock, server, sockets};
use crate::{DeviceState, Synthetic, sys};

/// After having looked, the thread sleeps that long whatever happens, so that a busy display costs little.
const PAUSE: Duration = Duration::from_millis(20);
/// How long after the first of them it looks.
const BREATH: Duration = Duration::from_millis(4);
/// Between tries to connect to a server that is just starting.
const RETRY: Duration = Duration::from_millis(50);
/// A socket that nobody has answered at for that long is waited for no more: a new server makes a new one.
const STARTING: Duration = Duration::from_secs(10);
/// Between tries to connect to a server that does not let us in.
const REFUSED: Duration = Duration::from_secs(5);

/// Watches one display until its socket is gone, or all is over.
pub(super) fn keep_watching(shared: &Shared, slot: &Slot) {
    let mut since = Instant::now();
    while !shared.is_over() {
        slot.waker.clear();
        let outcome = Link::open(slot).and_then(|link| {
            let outcome = watch(&link, shared, slot);
            since = Instant::now();
            outcome
        });
        {
            let mut public = lock(&slot.public);
            public.server = None;
            public.sockets.clear();
        }
        if shared.is_over() {
            return;
        }
        let patience = match outcome {
            Ok(Ignored(why)) => {
                slot.set(DeviceState::Ignored(why));
                None
            }
            Err(LinkError::Nobody(_) | LinkError::Broken(_)) => {
                slot.set(DeviceState::Waiting);
                if !sockets::path(slot.number).exists() {
                    // Its next server makes a new one, which brings a new thread.
                    return;
                }
                (since.elapsed() < STARTING).then_some(RETRY)
            }
            Err(error) => {
                slot.set(DeviceState::Failed(error.to_string()));
                Some(REFUSED)
            }
        };
        sys::wait(&[slot.waker.as_fd().as_raw_fd()], patience);
        if patience.is_none() {
            since = Instant::now();
        }
    }
}

/// Why a display is left out.
struct Ignored(String);

/// Watches one server; ends when it does.
fn watch(link: &Link, shared: &Shared, slot: &Slot) -> Result<Ignored, LinkError> {
    let control = &link.control;
    let server = server::nested_server(link.listener, slot.number).unwrap_or(link.listener);
    let is_wanted = shared.only.is_some() || shared.synthetic == Synthetic::Trusted;
    if !is_wanted {
        match server::screen(server) {
            Screen::Seat => {}
            Screen::Virtual => {
                return Ok(Ignored(
                    "it has no screen or keyboard of this machine; name it to watch it".into(),
                ));
            }
            Screen::Unknown => {
                return Ok(Ignored(
                    "whether it has a screen cannot be seen without root; name it to watch it".into(),
                ));
            }
        }
    }
    if !server::shares_numbers(server) {
        return Ok(Ignored("its server numbers processes otherwise than this system (a container)".into()));
    }
    let evidence = if server::is_rootless(server) { Evidence::Windows } else { Evidence::Screen };
    let windows = Windows::begin(control)?;
    let drawing = Drawing::begin(control, &windows, evidence)?;
    let hands = match shared.synthetic {
        Synthetic::Ignored => Some(Hands::begin(control)?),
        Synthetic::Trusted => None,
    };
    let record = Record::begin(link)?;
    {
        let mut public = lock(&slot.public);
        public.server = Some(server);
        public.state = DeviceState::Watched;
    }
    let mut watch = Watch { control, slot, windows, drawing, hands, record, clients: Clients::default() };
    watch.run(shared)?;
    Err(LinkError::Broken("it is over".into()))
}

struct Watch<'c> {
    control: &'c Server,
    slot: &'c Slot,
    windows: Windows,
    drawing: Drawing,
    hands: Option<Hands>,
    record: Record,
    clients: Clients,
}

impl Watch<'_> {
    /// Looks, sleeps a little, looks; when there was nothing to see, waits until there is.
    fn run(&mut self, shared: &Shared) -> Result<(), LinkError> {
        let control = self.control;
        let [core, generic] = self.record.sockets();
        let sockets = [control.stream().as_raw_fd(), core, generic, self.slot.waker.as_fd().as_raw_fd()];
        let mut round = None;
        while !shared.is_over() {
            // Raw events before what RECORD tells: of each faked one RECORD has told by then.
            let mut is_any = self.notices()?;
            is_any |= self.told()?;
            if let Some(round) = round.take() {
                self.drawing.credit(round, &mut self.windows, &self.slot.ledger)?;
                is_any = true;
            }
            is_any |= self.windows.adopt(control)?;
            if self.drawing.is_due() {
                let asked = self.drawing.ask(control, &self.windows)?;
                if asked.has_news(&self.windows, &self.slot.ledger) {
                    self.drawing.credit(asked, &mut self.windows, &self.slot.ledger)?;
                } else {
                    // Read after the pause, when it is there.
                    round = Some(asked);
                }
                is_any = true;
            }
            control.flush()?;
            if is_any {
                sys::wait(&sockets[3..], Some(PAUSE));
            } else {
                sys::wait(&sockets, None);
                // What a key sets off comes before what is told of it.
                sys::wait(&sockets[3..], Some(BREATH));
            }
            self.slot.waker.clear();
        }
        Ok(())
    }

    fn notices(&mut self) -> Result<bool, LinkError> {
        let mut is_any = false;
        self.control.stream().look();
        while let Some(event) = self.control.poll_for_event()? {
            is_any = true;
            match &event {
                Event::DamageNotify(drawn) => self.drawing.event(drawn),
                // Of windows that were gone before they could be asked about.
                Event::Error(_) => {}
                _ => {
                    self.windows.event(&event);
                    if let Some(hands) = &mut self.hands {
                        hands.event(self.control, &event)?;
                    }
                }
            }
        }
        Ok(is_any)
    }

    fn told(&mut self) -> Result<bool, LinkError> {
        let Watch { control, windows, hands, record, clients, slot, .. } = self;
        let credit = |tgid: Tgid| slot.ledger.credit(tgid, Changes { input: 1, output_ppm: 0 });
        let is_any = record.read(|told| {
            match told {
                Told::Delivered(delivered) => {
                    // Who listens at others' windows is not whom the user means.
                    if windows.client(delivered.window) != delivered.client {
                        return Ok(());
                    }
                    let Some(tgid) = clients.tgid(control, delivered.client)? else { return Ok(()) };
                    match hands {
                        Some(hands) => hands.delivered(tgid, delivered),
                        None => credit(tgid),
                    }
                }
                Told::Faked(faked) => {
                    if let Some(hands) = hands {
                        hands.faked(faked);
                    }
                }
                Told::Gone(client) => clients.gone(client),
            }
            Ok(())
        })?;
        if let Some(hands) = hands {
            hands.settle(credit);
        }
        Ok(is_any)
    }
}
