//! Each header of the BPF programs compiles alone: it includes all that it uses, so other headers may include
//! it in any order.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scx_cargo::ClangInfo;

/// Clang's errors on a header that is compiled by itself; `None` if there are none.
fn compile(clang: &ClangInfo, header: &Path) -> Option<String> {
    let arch = clang.kernel_target().expect("an architecture that kernels have");
    let ours = Path::new(env!("OUT_DIR")).join("scx_utils-bpf_h");
    let include = |path: PathBuf| format!("-I{}", path.display());
    let output = Command::new(&clang.clang)
        .args(clang.determine_base_cflags().expect("clang tells its own"))
        .args(["-fsyntax-only", "-xc", "-target", "bpf", "-Wall", "-Werror"])
        .args(["-Wno-unused-function", "-Wno-compare-distinct-pointer-types"])
        .arg(format!("-D__SCX_TARGET_ARCH_{arch}"))
        .args([ours.join("arch").join(&arch), ours.clone(), ours.join("bpf-compat")].map(include))
        .arg(include(env!("SPRY_LIBBPF_HEADERS").into()))
        .arg(header)
        .output()
        .expect("clang starts");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn each_header_compiles_alone() {
    let clang = ClangInfo::new().expect("clang is found (BPF_CLANG names another)");
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bpf");
    let folders = ["collect", "common", "sched"].map(|name| fs::read_dir(programs.join(name)));
    let files = folders.into_iter().flat_map(|folder| folder.expect("the programs are there"));
    let files = files.map(|entry| entry.expect("a folder can be read").path());
    let headers: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "h")).collect();
    assert!(headers.len() > 20, "{headers:?}");
    let wrong: Vec<String> = headers.iter().filter_map(|header| compile(&clang, header)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
