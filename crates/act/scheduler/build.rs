//! Compiles the BPF programs, and makes the Rust side of the structures that they share with the daemon.

use scx_cargo::BpfBuilder;

fn main() {
    for path in ["src/bpf", "../../base/kernel/include", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let clang = spry_clang::anywhere(&spry_clang::find("BPF_CLANG"));
    // SAFETY: a build script with one thread.
    unsafe {
        std::env::set_var("BPF_CLANG", clang);
    }
    // These headers are for the test that each header compiles alone.
    let headers = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys tells its headers");
    println!("cargo::rustc-env=SPRY_LIBBPF_HEADERS={headers}");
    let mut collect = BpfBuilder::new().expect("clang says its version");
    collect.enable_intf("src/bpf/common/intf.h", "intf.rs");
    collect.enable_skel("src/bpf/collect/collect.bpf.c", "collect");
    collect.build().expect("the collection compiles");
    let mut sched = BpfBuilder::new().expect("clang says its version");
    sched.enable_skel("src/bpf/sched/sched.bpf.c", "sched");
    sched.build().expect("the scheduler compiles");
}
