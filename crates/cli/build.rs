//! Puts the scenarios that come with Spry into the program, so that it finds them wherever it is.

use std::env;
use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    let dir = Path::new(&manifest).join("../../scenarios").canonicalize()?;
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".toml") {
            names.push(name);
        }
    }
    names.sort();
    let entry =
        |name: &String| format!("    ({name:?}, include_str!({:?})),", dir.join(name).display().to_string());
    let entries = names.iter().map(entry).collect::<Vec<_>>().join("\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo says where to write")).join("shipped.rs");
    fs::write(out, format!("&[\n{entries}\n]\n"))
}
