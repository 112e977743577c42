//! Writes small traces with events of nearly every kind as inputs of the fuzzer: `fuzz-seeds DIRECTORY`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

use spry_trace::Compression;

fn main() -> std::io::Result<()> {
    let directory = PathBuf::from(std::env::args_os().nth(1).expect("usage: fuzz-seeds DIRECTORY"));
    for seed in 1..=8 {
        for (name, compression) in [("plain", Compression::None), ("zstd", Compression::Zstd(1))] {
            let bytes = common::file(&common::events(seed, 20 * seed as usize), compression);
            std::fs::write(directory.join(format!("{name}-{seed}")), bytes)?;
        }
    }
    Ok(())
}
