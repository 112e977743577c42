//! Compiles the BPF programs and makes the Rust side of the layouts that they share with the daemon.

use scx_cargo::BpfBuilder;

fn main() {
    for path in ["src/bpf", "../kernel/include", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    // For the check that each header compiles alone.
    let headers = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells its headers");
    println!("cargo::rustc-env=SPRY_LIBBPF_HEADERS={headers}");
    let mut collect = BpfBuilder::new().expect("clang is found (BPF_CLANG names another)");
    collect.enable_intf("src/bpf/intf.h", "intf.rs");
    collect.enable_skel("src/bpf/collect.bpf.c", "collect");
    collect.build().expect("the collection compiles");
    let mut sched = BpfBuilder::new().expect("clang is found (BPF_CLANG names another)");
    sched.enable_skel("src/bpf/sched.bpf.c", "sched");
    sched.build().expect("the scheduler compiles");
}
