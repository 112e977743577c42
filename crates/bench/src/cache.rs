//! The bandwidth of a cache: memcpy within it.

use std::hint::black_box;

use crate::error::{Error, Result};
use crate::report::Cache;
use crate::session::Session;
use crate::sys;

/// Bytes of a sample: what takes some tens of microseconds.
const SAMPLE_BYTES: usize = 1 << 20;

/// Measures a level's; a sample is 10^6 bytes copied a second. Source and destination together are half of the cache.
pub(crate) fn measure(session: &Session<'_>, level: u32) -> Result<Cache> {
    let cache_bytes = session.machine.cache_bytes(level).ok_or(Error::NoCache(level))?;
    let block = cache_bytes / 4;
    let source = vec![0x5au8; block];
    let mut destination = vec![0u8; block];
    let copies = (SAMPLE_BYTES / block).max(1);
    let mut copy = || {
        for _ in 0..copies {
            black_box(&mut destination[..]).copy_from_slice(black_box(&source));
        }
    };
    copy();
    let figure = session.collect(|| {
        session.alone(|| {
            let began_ns = sys::now_ns();
            copy();
            (copies * block) as f64 / (sys::now_ns() - began_ns).max(1) as f64 * 1e3
        })
    })?;
    Ok(Cache { level, cache_bytes, block_bytes: block, figure })
}
