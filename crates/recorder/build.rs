//! Compiles the BPF programs, against the running kernel's types or those that `SPRY_VMLINUX_BTF` names.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The recorder's, the latency sampler's, and that of an example that tests plant delays with.
const OBJECTS: [&str; 3] = ["src/bpf/recorder", "src/bpf/split", "examples/plant"];

/// The oldest clang that makes what the programs need.
const CLANG_MIN: u32 = 16;

/// Newer ones than this are found under the plain name.
const CLANG_MAX: u32 = 30;

fn main() {
    for path in ["src/bpf", "examples/plant.bpf.c", "../kernel/include", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=SPRY_VMLINUX_BTF");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    vmlinux_header(&out);
    OBJECTS.into_iter().for_each(|name| compile(&out, name));
}

/// Writes `vmlinux.h`, the types of a kernel. The programs relocate their accesses to the kernel they run on.
fn vmlinux_header(out: &Path) {
    let btf = env::var("SPRY_VMLINUX_BTF").unwrap_or_else(|_| "/sys/kernel/btf/vmlinux".into());
    if Path::new(&btf).is_file() {
        println!("cargo::rerun-if-changed={btf}");
    }
    let dump = ["bpftool", "/usr/sbin/bpftool"]
        .iter()
        .find_map(|tool| Command::new(tool).args(["btf", "dump", "file", &btf, "format", "c"]).output().ok());
    let Some(dump) = dump else { panic!("bpftool is missing (Debian: apt install bpftool)") };
    assert!(
        dump.status.success() && !dump.stdout.is_empty(),
        "bpftool cannot read kernel types from {btf}; set SPRY_VMLINUX_BTF to a vmlinux or a BTF file: {}",
        String::from_utf8_lossy(&dump.stderr)
    );
    fs::write(out.join("vmlinux.h"), dump.stdout).expect("OUT_DIR can be written");
}

fn compile(out: &Path, name: &str) {
    let arch = match env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it").as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        other => panic!("the recorder is not ported to {other}"),
    };
    let source = format!("{name}.bpf.c");
    let base = Path::new(&source).file_name().expect("the sources are files");
    let object = out.join(base).with_extension("o");
    let status = Command::new(clang())
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"])
        .args(["-Wno-missing-declarations", "-Wno-unused-function"])
        .arg(format!("-D__TARGET_ARCH_{arch}"))
        .arg("-I")
        .arg(out)
        .arg("-I")
        .arg(env::var_os("DEP_BPF_INCLUDE").expect("libbpf-sys tells its headers"))
        .arg("-I")
        .arg(env::var_os("DEP_SPRY_WIRE_INCLUDE").expect("spry-wire tells its headers"))
        .args(["-c", &source, "-o"])
        .arg(&object)
        .status()
        .expect("clang starts");
    assert!(status.success(), "clang failed on {source}");
    strip(&object);
}

/// The newest clang there is.
fn clang() -> String {
    if let Ok(clang) = env::var("CLANG") {
        return clang;
    }
    (CLANG_MIN..=CLANG_MAX)
        .rev()
        .map(|version| format!("clang-{version}"))
        .chain(["clang".into()])
        .find(|name| version_of(name).is_some_and(|version| version >= CLANG_MIN))
        .unwrap_or_else(|| panic!("no clang {CLANG_MIN} or newer (Debian 12: apt install clang-19)"))
}

fn version_of(clang: &str) -> Option<u32> {
    let text = String::from_utf8(Command::new(clang).arg("--version").output().ok()?.stdout).ok()?;
    text.split("version ").nth(1)?.split('.').next()?.parse().ok()
}

/// Takes out what only a debugger reads; the types (BTF) stay.
fn strip(object: &Path) {
    let newest = (CLANG_MIN..=CLANG_MAX)
        .rev()
        .map(|version| format!("llvm-strip-{version}"))
        .chain(["llvm-strip".into()])
        .find(|name| Command::new(name).arg("--version").output().is_ok());
    if let Some(tool) = newest {
        let status = Command::new(tool).arg("-g").arg(object).status().expect("llvm-strip starts");
        assert!(status.success(), "llvm-strip failed");
    }
}
