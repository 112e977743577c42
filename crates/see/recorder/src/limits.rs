//! Finds the notes of a sched_ext scheduler about tasks that wait for the limits of their cgroups.

use std::os::fd::AsFd;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapHandle, MapType, OpenObject};

/// The name of the map, in schedulers and in the recorder.
const MAP: &str = "spry_limits";
/// Bytes of a task's note: `struct spry_limit_wait` of `limits.bpf.h`.
const NOTE_BYTES: u32 = 48;

/// The map of the scheduler that was loaded last; `None` if there is no such map, or none that this process
/// has the right to find.
pub(crate) fn of_the_scheduler() -> Option<MapHandle> {
    let is_it = |map: &libbpf_rs::query::MapInfo| {
        map.name.to_str() == Ok(MAP) && map.ty == MapType::TaskStorage && map.value_size == NOTE_BYTES
    };
    let last = MapInfoIter::default().filter(is_it).max_by_key(|map| map.id)?;
    MapHandle::from_map_id(last.id).ok()
}

/// Makes the programs read the scheduler's map. Without a scheduler, they have no map.
pub(crate) fn share(open: &mut OpenObject, limits: Option<&MapHandle>) -> libbpf_rs::Result<()> {
    for mut map in open.maps_mut().filter(|map| map.name() == MAP) {
        match limits {
            Some(limits) => map.reuse_fd(limits.as_fd())?,
            None => map.set_autocreate(false)?,
        }
    }
    Ok(())
}
