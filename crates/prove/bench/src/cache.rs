//! Measures the bandwidth of a cache, by memcpy within the cache.

use std::hint::black_box;

use spry_sys::clock::monotonic_ns;

use crate::error::{Error, Result};
use crate::report::Cache;
use crate::session::Session;

/// How many bytes a sample copies. This takes some tens of microseconds.
const SAMPLE_BYTES: usize = 1 << 20;

/// Measures the cache of a level. A sample is the copying rate in 10^6 bytes a second. Source and destination
/// together fill half of the cache.
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
            let began_ns = monotonic_ns();
            copy();
            (copies * block) as f64 / (monotonic_ns() - began_ns).max(1) as f64 * 1e3
        })
    })?;
    Ok(Cache { level, cache_bytes, block_bytes: block, figure })
}
