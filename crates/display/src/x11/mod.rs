//! Displays of X11, observed on servers that know nothing of it.
//!
//! A thread looks for servers ([`Displays`]), and each server has one of its own (`watch`). What clients receive comes from RECORD
//! (`record`), what hands did from XInput's raw events (`hands`), what clients draw from DAMAGE (`drawing`, `windows`), and X-Resource says
//! which process a client is (`clients`).

mod auth;
mod clients;
mod drawing;
mod hands;
mod link;
mod record;
mod server;
mod sockets;
mod stream;
mod watch;
mod windows;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use spry_policy::Tgid;

use crate::ledger::Ledger;
use crate::sys::{self, Waker};
use crate::{DeviceError, DeviceKind, DeviceState, DeviceStatus, Notify, Seen, Synthetic};
use sockets::{Place, SOCKETS_MAX};

/// Between looks for a place of sockets that is not there.
const PLACE_LOOK: Duration = Duration::from_millis(250);

/// All displays of this machine, or one.
#[derive(Debug)]
pub(crate) struct Displays {
    shared: Arc<Shared>,
    finder: Option<JoinHandle<()>>,
}

/// What the finder, the watchers and the door share.
struct Shared {
    only: Option<u32>,
    synthetic: Synthetic,
    notify: Notify,
    is_over: AtomicBool,
    finder: Waker,
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// One display.
#[derive(Debug)]
struct Slot {
    number: u32,
    waker: Waker,
    ledger: Ledger,
    public: Mutex<Public>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the door shows of a display.
#[derive(Debug)]
struct Public {
    state: DeviceState,
    server: Option<Tgid>,
    warnings: Vec<String>,
    /// What the thread may wait at, to be shut when it has to end.
    sockets: Vec<UnixStream>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Whoever panicked left a value that can be read.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Displays {
    pub(crate) fn open(
        only: Option<&str>,
        synthetic: Synthetic,
        notify: Notify,
    ) -> Result<Displays, DeviceError> {
        let only = only
            .map(|name| sockets::number(name).ok_or_else(|| DeviceError::Name(name.into())))
            .transpose()?;
        let shared = Arc::new(Shared {
            only,
            synthetic,
            notify,
            is_over: AtomicBool::new(false),
            finder: Waker::new()?,
            slots: Mutex::new(Vec::new()),
        });
        let theirs = Arc::clone(&shared);
        let finder = thread::Builder::new().name("spry-displays".into()).spawn(move || find(&theirs))?;
        Ok(Displays { shared, finder: Some(finder) })
    }

    pub(crate) fn take(&self, seen: &mut Seen) {
        for slot in lock(&self.shared.slots).iter() {
            let server = lock(&slot.public).server;
            seen.servers.extend(server);
            seen.samples.extend(slot.ledger.take());
        }
    }

    pub(crate) fn status(&self) -> Vec<DeviceStatus> {
        let slots = lock(&self.shared.slots);
        let mut list: Vec<(u32, DeviceStatus)> =
            slots.iter().map(|slot| (slot.number, slot.status())).collect();
        list.sort_by_key(|(number, _)| *number);
        list.into_iter().map(|(_, status)| status).collect()
    }
}

impl Drop for Displays {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.finder.wake();
        if let Some(finder) = self.finder.take() {
            // It has no panics to hand on that were not printed.
            let _ = finder.join();
        }
        let slots: Vec<Arc<Slot>> = lock(&self.shared.slots).clone();
        for slot in &slots {
            slot.waker.wake();
            for socket in &lock(&slot.public).sockets {
                let _ = socket.shutdown(std::net::Shutdown::Both);
            }
        }
        for slot in &slots {
            let thread = lock(&slot.thread).take();
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

impl Slot {
    fn new(number: u32, notify: Notify) -> io::Result<Slot> {
        let public =
            Public { state: DeviceState::Waiting, server: None, warnings: Vec::new(), sockets: Vec::new() };
        Ok(Slot {
            number,
            waker: Waker::new()?,
            ledger: Ledger::new(notify),
            public: Mutex::new(public),
            thread: Mutex::new(None),
        })
    }

    fn set(&self, state: DeviceState) {
        lock(&self.public).state = state;
    }

    fn status(&self) -> DeviceStatus {
        let public = lock(&self.public);
        DeviceStatus {
            name: format!(":{}", self.number),
            kind: DeviceKind::X11,
            state: public.state.clone(),
            server_tgid: public.server.map(|tgid| tgid.0),
            warnings: public.warnings.clone(),
            clients: self.ledger.status(),
        }
    }
}

/// Finds displays: those that are there, then those that appear.
fn find(shared: &Arc<Shared>) {
    let mut place: Option<Place> = None;
    while !shared.is_over() {
        match &mut place {
            None => {
                place = Place::watch();
                if place.is_some() {
                    sockets::present().into_iter().for_each(|number| appeared(shared, number));
                }
            }
            Some(watched) => match watched.appeared() {
                Some(numbers) => numbers.into_iter().for_each(|number| appeared(shared, number)),
                None => place = None,
            },
        }
        let patience = place.is_none().then_some(PLACE_LOOK);
        let descriptors = place.as_ref().map(AsRawFd::as_raw_fd);
        let own = std::os::fd::AsFd::as_fd(&shared.finder).as_raw_fd();
        sys::wait(&descriptors.into_iter().chain([own]).collect::<Vec<_>>(), patience);
    }
}

/// A display's socket has been made: whoever watches that display tries again, or somebody begins.
fn appeared(shared: &Arc<Shared>, number: u32) {
    if shared.only.is_some_and(|only| only != number) {
        return;
    }
    let mut slots = lock(&shared.slots);
    // Those whose display is gone for good have ended.
    slots.retain(|slot| lock(&slot.thread).as_ref().is_some_and(|thread| !thread.is_finished()));
    if let Some(slot) = slots.iter().find(|slot| slot.number == number) {
        slot.waker.wake();
        return;
    }
    if slots.len() >= SOCKETS_MAX {
        return;
    }
    // Where the kernel gives no thread now, the display's next server is the next chance.
    let Ok(slot) = Slot::new(number, Arc::clone(&shared.notify)).map(Arc::new) else { return };
    let (theirs, own) = (Arc::clone(shared), Arc::clone(&slot));
    let thread = thread::Builder::new()
        .name(format!("spry-display{number}"))
        .spawn(move || watch::keep_watching(&theirs, &own));
    if let Ok(thread) = thread {
        *lock(&slot.thread) = Some(thread);
        slots.push(slot);
    }
}
