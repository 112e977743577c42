//! Notifies the daemon at once when characters are typed into a terminal after a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use libbpf_rs::{MapHandle, RingBufferBuilder};

/// The longest time for which the thread goes on after `News` is dropped.
const LINGER: Duration = Duration::from_secs(2);

/// A thread that waits for messages of the BPF programs about terminals.
#[derive(Debug)]
pub(crate) struct News {
    is_over: Arc<AtomicBool>,
}

impl News {
    pub(crate) fn watch(map: MapHandle, notify: Arc<dyn Fn() + Send + Sync>) -> Result<News> {
        let is_over = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&is_over);
        let watch = move || {
            let mut builder = RingBufferBuilder::new();
            let told = |_: &[u8]| {
                notify();
                0
            };
            let added = builder.add(&map, told).is_ok();
            let Some(ring) = added.then(|| builder.build().ok()).flatten() else { return };
            while !watched.load(Ordering::Relaxed) {
                // An error means that the wait was interrupted; the loop then waits again.
                let _ = ring.poll(LINGER);
            }
        };
        thread::Builder::new().name("terminals".to_owned()).spawn(watch).context("watching terminals")?;
        Ok(News { is_over })
    }
}

impl Drop for News {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
