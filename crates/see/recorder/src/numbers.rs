//! The numbers of processes inside and outside of PID namespaces.
//!
//! The kernel's records have the numbers of the outermost namespace. A recorder in another namespace has
//! another number there, and `/proc` may list all processes by other numbers.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use libbpf_rs::{Iter, ObjectBuilder};
use spry_trace::Tgid;
use spry_trace::event::TaskInfo;

use crate::error::{Result, system};
use crate::load::{map, refused};
use crate::ring::{Mapping, page_bytes};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/own.bpf.o"));

/// This process' number outside all PID namespaces.
pub(crate) fn own_tgid() -> Result<Tgid> {
    if spry_sys::namespace::own_pid_namespace().is_none() {
        return Ok(Tgid(std::process::id()));
    }
    let object =
        ObjectBuilder::default().open_memory(OBJECT).and_then(|open| open.load()).map_err(refused)?;
    let mut bytes = Vec::new();
    for program in object.progs_mut() {
        let link = program.attach().map_err(refused)?;
        let mut tasks = Iter::new(&link).map_err(refused)?;
        tasks.read_to_end(&mut bytes).map_err(system("asking for this process' number"))?;
    }
    let mapping = Mapping::new(map(&object, ".data.own")?.as_fd(), 0, page_bytes(), libc::PROT_READ)
        .map_err(system("reading this process' number"))?;
    Ok(Tgid(mapping.word(0).load(Ordering::Relaxed) as u32))
}

/// The numbers by which `/proc` lists processes. They depend on the PID namespace in which it was mounted.
pub(crate) enum Listing {
    /// The numbers of the outermost namespace.
    Outermost,
    /// The numbers of the recorder's own namespace; the map has the known numbers, by outermost number.
    Own(HashMap<Tgid, Tgid>),
    /// The numbers of neither namespace: no process is found.
    Neither,
}

impl Listing {
    /// Finds out by which number `/proc` lists this process. `own` is its number in the outermost namespace.
    pub(crate) fn of(own: Tgid) -> Listing {
        let listed = fs::read_link("/proc/self").ok();
        let listed = listed.and_then(|link| link.to_str()?.parse().ok()).map(Tgid);
        match listed {
            Some(listed) if listed == own => Listing::Outermost,
            Some(Tgid(listed)) if listed == std::process::id() => Listing::Own(HashMap::new()),
            Some(_) | None => Listing::Neither,
        }
    }

    /// Learns the numbers of a task's process.
    pub(crate) fn learn(&mut self, info: &TaskInfo) {
        if let (Listing::Own(known), Some(inner)) = (self, info.inner) {
            known.insert(info.tgid, inner.tgid);
        }
    }

    /// The number by which `/proc` lists a process of this number in the outermost namespace.
    pub(crate) fn number(&self, tgid: Tgid) -> Option<Tgid> {
        match self {
            Listing::Outermost => Some(tgid),
            Listing::Own(known) => known.get(&tgid).copied(),
            Listing::Neither => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spry_trace::Tid;
    use spry_trace::event::{Comm, Numbers};

    #[test]
    fn proc_lists_a_process_by_the_numbers_of_its_own_mount() {
        let own = Tgid(std::process::id());
        assert_eq!(Listing::of(own).number(Tgid(7)), Some(Tgid(7)));
        let mut listing = Listing::of(Tgid(own.0 + 1));
        let info = TaskInfo::new(Tid(70), Tgid(70), Comm::new(b"inside"));
        listing.learn(&TaskInfo { inner: Some(Numbers { tid: Tid(3), tgid: Tgid(3) }), ..info });
        listing.learn(&TaskInfo::new(Tid(80), Tgid(80), Comm::new(b"outside")));
        assert_eq!([70, 80, 3].map(|tgid| listing.number(Tgid(tgid))), [Some(Tgid(3)), None, None]);
        assert_eq!(Listing::Neither.number(own), None);
    }
}
