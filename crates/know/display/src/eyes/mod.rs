//! Displays of X11, looked at by processes of their users.
//!
//! One thread (`keeper`) finds displays ([`crate::places`]) and asks the kernel which process listens there
//! (`listener`). Another process checks whether that server has a keyboard or a screen of this machine; then
//! the thread decides which user the server serves (`seat`). It starts eyes (`child`), and counts their
//! reports as far as these are possible (`watched`). The thread never reads a byte that a server or a client
//! wrote, and waits for none of these processes.

mod child;
mod ended;
mod keeper;
mod listener;
mod pen;
mod seat;
mod station;
mod watched;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use spry_policy::{Device, DeviceOwner, Place, Server, Tgid};
use spry_sys::poll::Waker;

use crate::ledger::Ledger;
use crate::places;
use crate::{DeviceError, DeviceKind, DeviceState, DeviceStatus, Notify, Observations, Synthetic};
use child::Program;
use watched::Claims;

/// The longest time that the keeper may take to end the processes that it started; it waits for nothing that
/// a user could delay.
const ENDING: Duration = Duration::from_secs(1);

/// The warning for a display that root named.
const FREE: &str = "its input is not held to what the devices of this machine gave, as it was named by hand";

/// The warning for a display with input that no device explains.
const UNEXPLAINED: &str = "its eyes tell of input that the devices of this machine did not give: \
                           it does not count (where its server grabs the devices, \
                           as with the option GrabDevice of Xorg, end that)";

/// All displays of this machine, or the display that was named.
#[derive(Debug)]
pub(crate) struct Displays {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

/// The state that the keeper's thread and [`Displays`] share.
struct Shared {
    only: Option<u32>,
    synthetic: Synthetic,
    notify: Notify,
    program: Option<Program>,
    is_over: AtomicBool,
    keeper: Waker,
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// The state of one display that [`Displays`] shows.
#[derive(Debug)]
struct Slot {
    number: u32,
    ledger: Ledger,
    public: Mutex<Public>,
}

#[derive(Debug)]
struct Public {
    state: DeviceState,
    server: Option<Tgid>,
    eyes: Option<Tgid>,
    owner_uid: Option<u32>,
    warnings: Vec<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The value can be read even if a thread panicked while it held the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Displays {
    pub(crate) fn open(
        only: Option<&str>,
        synthetic: Synthetic,
        notify: Notify,
    ) -> Result<Displays, DeviceError> {
        let only = only
            .map(|name| places::number(name).ok_or_else(|| DeviceError::Name(name.into())))
            .transpose()?;
        let shared = Arc::new(Shared {
            only,
            synthetic,
            notify,
            program: Program::find()?,
            is_over: AtomicBool::new(false),
            keeper: Waker::new()?,
            slots: Mutex::new(Vec::new()),
        });
        let theirs = Arc::clone(&shared);
        let keeper =
            thread::Builder::new().name("spry-displays".into()).spawn(move || keeper::keep(&theirs))?;
        Ok(Displays { shared, keeper: Some(keeper) })
    }

    pub(crate) fn take(&self, seen: &mut Observations) {
        for slot in lock(&self.shared.slots).iter() {
            let (server, owner_uid) = {
                let public = lock(&slot.public);
                (public.server, public.owner_uid)
            };
            let whose = owner_uid.map_or(DeviceOwner::Unknown, DeviceOwner::User);
            let device = Device { place: Place::Display(slot.number), whose };
            seen.servers.extend(server.map(|tgid| Server { tgid, device: Some(device) }));
            seen.samples.extend(slot.ledger.take(device));
        }
    }

    pub(crate) fn status(&self) -> Vec<DeviceStatus> {
        let slots = lock(&self.shared.slots);
        let mut list: Vec<(u32, DeviceStatus)> =
            slots.iter().map(|slot| (slot.number, slot.status())).collect();
        list.sort_by_key(|(number, _)| *number);
        list.into_iter().map(|(_, status)| status).collect()
    }

    pub(crate) fn helpers(&self) -> Vec<Tgid> {
        lock(&self.shared.slots).iter().filter_map(|slot| lock(&slot.public).eyes).collect()
    }
}

impl Drop for Displays {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.keeper.wake();
        let until = Instant::now() + ENDING;
        if let Some(keeper) = self.keeper.take() {
            while !keeper.is_finished() && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            if keeper.is_finished() {
                // A panic of the thread was printed already, so it is not passed on. The processes that the
                // thread started end with it.
                let _ = keeper.join();
            }
        }
    }
}

impl Slot {
    fn new(number: u32, notify: Notify) -> Slot {
        let public = Public {
            state: DeviceState::Waiting,
            server: None,
            eyes: None,
            owner_uid: None,
            warnings: Vec::new(),
        };
        Slot { number, ledger: Ledger::new(notify), public: Mutex::new(public) }
    }

    /// Notes that the display's eyes see it.
    fn is_watched(&self, server: Tgid, claims: Claims) {
        let mut public = lock(&self.public);
        public.server = Some(server);
        public.state = DeviceState::Watched;
        public.warnings = match claims {
            Claims::Devices => Vec::new(),
            Claims::Free => vec![FREE.to_owned()],
        };
    }

    /// Notes that the display's eyes report input that no device explains.
    fn is_unexplained(&self) {
        lock(&self.public).warnings = vec![UNEXPLAINED.to_owned()];
    }

    /// Notes that no eyes look at the display any more.
    fn is_left(&self) {
        let mut public = lock(&self.public);
        (public.server, public.eyes) = (None, None);
    }

    fn status(&self) -> DeviceStatus {
        let public = lock(&self.public);
        DeviceStatus {
            name: format!(":{}", self.number),
            kind: DeviceKind::X11,
            state: public.state.clone(),
            server_tgid: public.server.map(|tgid| tgid.0),
            owner_uid: public.owner_uid,
            warnings: public.warnings.clone(),
            clients: self.ledger.status(),
        }
    }
}
