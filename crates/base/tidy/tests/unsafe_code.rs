//! Where `unsafe` code may be: where the kernel's calls are made safe, where memory is shared with BPF
//! programs, and in guardians. Every other place is named here with its reason.

use spry_tidy::{code_only, sources, words};

/// The places that may hold `unsafe` code, and why. A folder ends in a slash.
const PLACES: &[(&str, &str)] = &[
    ("crates/base/sys/src/", "it makes the kernel's calls safe"),
    // Memory that is shared with BPF programs.
    ("crates/see/recorder/src/ring.rs", "the rings"),
    ("crates/see/recorder/src/split/", "the ring and the seats"),
    ("crates/see/recorder/src/decode.rs", "records as the programs wrote them"),
    ("crates/see/recorder/src/accounts.rs", "records as the programs wrote them"),
    ("crates/see/recorder/src/wire.rs", "records as the programs wrote them"),
    ("crates/see/recorder/src/load.rs", "what the programs are given, and what libbpf tells of them"),
    ("crates/act/scheduler/src/mapping.rs", "the maps"),
    ("crates/act/scheduler/src/nodes.rs", "the maps"),
    ("crates/act/scheduler/src/collect/", "the maps, and what the programs are asked"),
    ("crates/act/scheduler/src/scx/", "the maps, and what the programs are asked"),
    ("crates/act/scheduler/build.rs", "the environment of a build"),
    ("crates/act/scheduler/examples/round.rs", "a map that it fills in the place of the programs"),
    ("crates/act/reserve/src/c.rs", "what a program in C hands over"),
    ("crates/act/timer-c/src/lib.rs", "what a program in C hands over"),
    ("crates/act/timer/src/ring.rs", "a timer slack of 64 bits, which rustix cuts to 32"),
    ("crates/act/timer/src/tokio.rs", "a descriptor that tokio watches"),
    // Guardians.
    ("crates/act/scheduler/src/guardian/", "the daemon's, and the memory that both share"),
    ("crates/act/tune/src/guardian.rs", "the knobs': it is forked beside other threads"),
    ("crates/act/tune/src/tuned/tests.rs", "a process that is killed while it holds knobs"),
    ("crates/prove/load/src/guardian.rs", "the loads': it is forked beside other threads"),
    // The first process of a virtual machine.
    (
        "crates/prove/lab/src/bin/spry-guest/kernel.rs",
        "its emulator's port, its random numbers, its messages",
    ),
    ("crates/prove/lab/src/bin/spry-guest/results.rs", "its emulator's memory"),
    // Code that runs in scenarios.
    ("crates/prove/runner/src/work.rs", "a unit of work: so many instructions"),
    ("crates/prove/runner/src/stage/process.rs", "forks that are measured, so nothing is asked before them"),
    // Programs that load a scheduler as any program can.
    ("tests/attacks/examples/attack.rs", "relays of forks, as raw as they can be"),
    ("tests/attacks/src/lib.rs", "memory that forked processes share"),
    ("tests/storm/src/act.rs", "it forks beside other threads"),
    ("tests/lab/examples/even.rs", "a loop of so many instructions"),
    ("tests/lab/examples/expiries.rs", "timers of every kind, as the C library has them"),
    ("tests/lab/examples/firm.rs", "a loop of so many instructions"),
    // Tests in which processes make single calls, so that no other call is in the recorded or collected data.
    ("crates/see/recorder/examples/plant.rs", "single calls"),
    ("crates/see/recorder/tests/system/", "single calls"),
    ("crates/act/scheduler/tests/collect/", "single calls"),
    ("crates/act/scheduler/tests/fair/", "it forks beside other threads"),
    ("crates/act/scheduler/tests/terminals.rs", "single calls"),
    ("crates/see/analysis/tests/memory.rs", "an allocator that counts"),
    ("crates/act/timer/tests/steady.rs", "an allocator that counts, and operations of a ring"),
    ("tests/timers/tests/io_uring.rs", "operations of a ring, and signals"),
    ("tests/timers/tests/io_uring_refusals.rs", "filters of system calls"),
];

#[test]
fn unsafe_code_is_only_where_it_must_be() {
    let is_at = |path: &str, place: &str| path == place || place.ends_with('/') && path.starts_with(place);
    let holds = |text: &str| words(&code_only(text)).any(|word| word == "unsafe");
    let mut used = vec![false; PLACES.len()];
    let mut others = Vec::new();
    let sources = sources();
    for source in sources.iter().filter(|source| source.has_extension(&["rs"]) && holds(&source.text)) {
        let path = source.path.to_str().expect("names are plain");
        match PLACES.iter().position(|(place, _)| is_at(path, place)) {
            Some(at) => used[at] = true,
            None => others.push(path),
        }
    }
    assert!(others.is_empty(), "call the kernel through `spry-sys`, or say here why not: {others:#?}");
    let unused: Vec<&str> =
        PLACES.iter().zip(used).filter(|(_, used)| !used).map(|((place, _), _)| *place).collect();
    assert!(unused.is_empty(), "nothing is unsafe there any more: {unused:#?}");
}
