//! The kernel's accounts of all threads, from the list that has all of them: the iterator's or the walk's.

use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{Iter, Object, ProgramInput, ProgramMut};
use spry_kernel::Functions;

use crate::error::{Error, Result, system};
use crate::load::{map, refused};
use crate::ring::{ReadExtent, SharedRing, page_bytes};
use crate::wire::spry_stat;

/// The program that walks over all tasks, and the functions of the kernel that it needs.
pub(crate) const WALK: &str = "spry_walk";
const WALK_NEEDS: [&str; 2] = ["bpf_iter_task_new", "bpf_rcu_read_lock"];

/// The map of the walk's accounts; below, its room for threads that begin later, and its limit, bytes.
pub(crate) const MAP: &str = "accounts";
const BYTES_MORE: u32 = 1 << 20;
const BYTES_MAX: u32 = 256 << 20;
/// The ring's own part of each account, bytes.
const HEAD_BYTES: u32 = 8;

/// The list of threads that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum List {
    /// The task iterator's list: the threads of the reader's PID namespace. In the outermost namespace these
    /// are all threads.
    Iterator,
    /// The walk's list, which has all threads.
    Walk,
}

impl List {
    /// The list for a recorder in a PID namespace of this inode, or, with `None`, in the outermost namespace.
    pub(crate) fn of(namespace: Option<u32>, functions: &Functions) -> List {
        let can_walk = || WALK_NEEDS.iter().all(|name| functions.address(name).is_some());
        if namespace.is_some() && can_walk() { List::Walk } else { List::Iterator }
    }

    /// Bytes of the walk's map: enough for all threads that exist, and some more.
    pub(crate) fn bytes(self) -> u32 {
        match self {
            List::Iterator => page_bytes() as u32,
            List::Walk => {
                let each = size_of::<spry_stat>() as u32 + HEAD_BYTES;
                let needed = threads().saturating_mul(each).saturating_mul(2).saturating_add(BYTES_MORE);
                needed.min(BYTES_MAX).next_power_of_two()
            }
        }
    }
}

/// The number of threads on the whole machine; 0 if it is unknown.
fn threads() -> u32 {
    let line = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let number = || line.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok();
    number().unwrap_or(0)
}

/// The reader of the list.
pub(crate) struct Accounts {
    list: List,
    /// The walk's ring.
    ring: Option<Mutex<SharedRing>>,
}

impl Accounts {
    pub(crate) fn new(list: List, object: &Object, bytes: u32) -> Result<Accounts> {
        let ring = match list {
            List::Iterator => None,
            List::Walk => Some(
                SharedRing::new(map(object, MAP)?.as_fd(), bytes as usize)
                    .map_err(system("mapping the ring of accounts"))?,
            ),
        };
        Ok(Accounts { list, ring: ring.map(Mutex::new) })
    }

    pub(crate) const fn list(&self) -> List {
        self.list
    }

    /// The account of every thread that the list has.
    pub(crate) fn read(&self, object: &Object) -> Result<Vec<spry_stat>> {
        match &self.ring {
            None => iterate(&program(object, "spry_tasks")?),
            Some(ring) => {
                let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
                walk(&program(object, WALK)?, &mut ring)
            }
        }
    }
}

fn program<'object>(object: &'object Object, name: &str) -> Result<ProgramMut<'object>> {
    let found = object.progs_mut().find(|program| program.name() == name);
    found.ok_or_else(|| Error::Load(format!("the program {name} is missing")))
}

fn iterate(program: &ProgramMut<'_>) -> Result<Vec<spry_stat>> {
    let link = program.attach().map_err(refused)?;
    let mut bytes = Vec::new();
    Iter::new(&link)
        .map_err(refused)?
        .read_to_end(&mut bytes)
        .map_err(system("reading the threads that exist"))?;
    Ok(bytes
        .chunks_exact(size_of::<spry_stat>())
        // SAFETY: the chunk has the size of the record, which is plain data; it need not be aligned.
        .map(|chunk| unsafe { chunk.as_ptr().cast::<spry_stat>().read_unaligned() })
        .collect())
}

/// Lets the program write all accounts into its ring, and takes them out. Threads that began after the ring
/// was made may find no room; their names come with their forks.
fn walk(program: &ProgramMut<'_>, ring: &mut SharedRing) -> Result<Vec<spry_stat>> {
    program.test_run(ProgramInput::default()).map_err(refused)?;
    let mut accounts = Vec::new();
    let reached = ring.read(|words| {
        if size_of_val(words) >= size_of::<spry_stat>() {
            // SAFETY: there are enough bytes, and the record is plain data of which any bytes make one.
            accounts.push(unsafe { words.as_ptr().cast::<spry_stat>().read_unaligned() });
        }
    });
    match reached {
        ReadExtent::Everything => Ok(accounts),
        ReadExtent::Unfinished => Err(Error::Load("the walk over all tasks did not end".into())),
    }
}
