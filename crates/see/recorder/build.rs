//! Compiles the BPF programs, against the running kernel's types or the types in `SPRY_VMLINUX_BTF`.
//! Generates the Rust side of the records that they share with the recorder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The objects to compile: the recorder, the latency sampler, the finder of a process' own number, and two
/// examples. The first makes delays for tests, the second measures the least cost of recording.
const OBJECTS: [&str; 5] =
    ["src/bpf/recorder", "src/bpf/split", "src/bpf/own", "examples/plant", "examples/floor"];

fn main() {
    for path in ["src/bpf", "examples", "../../base/kernel/include", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rerun-if-env-changed=SPRY_VMLINUX_BTF");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // These headers are for the test that compiles in other folders.
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells its headers");
    println!("cargo::rustc-env=SPRY_LIBBPF_HEADERS={headers}");
    vmlinux_header(&out);
    OBJECTS.into_iter().for_each(|name| compile(&out, name));
    shared_records(&out);
}

/// Writes `wire.rs`, the Rust side of the headers that the BPF programs and the recorder share.
fn shared_records(out: &Path) {
    bindgen::Builder::default()
        .header("src/bpf/wire.h")
        .header("src/bpf/split.h")
        .allowlist_item("(spry|SPRY)_.*")
        .derive_default(true)
        .derive_partialeq(true)
        .prepend_enum_name(false)
        .layout_tests(true)
        .generate_comments(false)
        .generate()
        .expect("bindgen reads the headers: is libclang installed (Debian: libclang-19-dev)?")
        .write_to_file(out.join("wire.rs"))
        .expect("OUT_DIR can be written");
}

/// Writes `vmlinux.h`, the types of a kernel. The programs relocate their accesses to the kernel they run on.
fn vmlinux_header(out: &Path) {
    let named = env::var("SPRY_VMLINUX_BTF").ok();
    // The running kernel's types are in sysfs, where a file has the time at which it was looked up last.
    if let Some(btf) = named.as_ref().filter(|btf| Path::new(btf).is_file()) {
        println!("cargo::rerun-if-changed={btf}");
    }
    let btf = named.unwrap_or_else(|| "/sys/kernel/btf/vmlinux".into());
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
    let status = Command::new(spry_clang::anywhere(&spry_clang::find("CLANG")))
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror"])
        .args(["-Wno-missing-declarations", "-Wno-unused-function"])
        .arg(format!("-D__TARGET_ARCH_{arch}"))
        .arg("-I")
        .arg(out)
        .arg("-I")
        .arg(env::var_os("DEP_BPF_INCLUDE").expect("libbpf-sys tells its headers"))
        .args(["-c", &source, "-o"])
        .arg(&object)
        .status()
        .expect("clang starts");
    assert!(status.success(), "clang failed on {source}");
    strip(&object);
}

/// Removes from an object the parts that only a debugger reads; the types (BTF) stay.
fn strip(object: &Path) {
    let strip =
        spry_clang::named("llvm-strip").find(|name| Command::new(name).arg("--version").output().is_ok());
    if let Some(tool) = strip {
        let status = Command::new(tool).arg("-g").arg(object).status().expect("llvm-strip starts");
        assert!(status.success(), "llvm-strip failed");
    }
}
