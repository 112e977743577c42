//! Makes the Rust side of `wire.h` and `split.h`.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=include");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindgen::Builder::default()
        .header("include/wire.h")
        .header("include/split.h")
        .allowlist_item("(spry|SPRY)_.*")
        .derive_default(true)
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate_comments(false)
        .generate()
        .expect("bindgen reads the headers: is libclang installed (Debian: libclang-19-dev)?")
        .write_to_file(out.join("wire.rs"))
        .expect("OUT_DIR can be written");
    let include =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("include");
    println!("cargo::metadata=include={}", include.display());
}
