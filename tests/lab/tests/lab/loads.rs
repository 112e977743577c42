//! Tests loads on kernels with parts that this machine's kernel may lack: a compilation over the kernel's
//! own NFS server.

use std::collections::BTreeSet;

use serde_json::Value;
use spry_lab::{FileSource, Flavour, GuestCommand, Job, KernelChoice, MachineSpec};
use spry_lab_tests::{machine, printed, run, spry_script};

/// A machine with the kernel's NFS server and client, their programs, and a compiler.
fn machine_with_nfs() -> MachineSpec {
    MachineSpec {
        kernel: KernelChoice::Newest(Flavour::Generic),
        packages: ["nfs-kernel-server", "nfs-common", "gcc", "libc6-dev", "make"].map(str::to_owned).into(),
        modules: BTreeSet::from(["nfsd", "nfsv4"].map(str::to_owned)),
        ..MachineSpec::default()
    }
}

/// A job that has `spry`, and a program with one source file to compile.
fn job(text: &str) -> Job {
    let mut job = spry_script(text);
    let make = "all: main\n\nclean:\n\trm -f main\n";
    let source = "#include <stdio.h>\n\nint main(void)\n{\n\tputs(\"compiled\");\n\treturn 0;\n}\n";
    for (name, text) in [("Makefile", make), ("main.c", source)] {
        let bytes = FileSource::Bytes(text.as_bytes().to_vec());
        job.files.insert(format!("/spry/source/{name}"), bytes);
    }
    job.commands = job.commands.into_iter().map(|command| GuestCommand { limit_s: 200, ..command }).collect();
    job
}

const COMPILE: &str = r#"
export TMPDIR=/tmp SPRY_CACHE=/tmp/cache
/spry/bin/spry load nfs-compile --source /spry/source --duration 5 --json --disk 256M --memory 256M 2>/tmp/said || { cat /tmp/said >&2; exit 1; }
sleep 1
echo "threads: $(cat /proc/[0-9]*/comm 2>/dev/null | grep -cx nfsd)"
echo "mounts: $(grep -c nfs /proc/mounts)"
echo "left: $(ls -d /tmp/spry-load-* 2>/dev/null)"
"#;

#[test]
fn a_compilation_over_nfs_runs_and_leaves_no_server_or_mount() {
    let outcome = run(&machine(&machine_with_nfs()), &job(COMPILE)).expect("it runs");
    let said = printed(&outcome);
    let stderr = String::from_utf8_lossy(&outcome.files["0.stderr"]).into_owned();
    let line = said.lines().next().unwrap_or_default();
    let summary: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{said}{stderr}"));
    let load = &summary["loads"][0];
    assert_eq!(load["state"], "stopped", "{load}");
    assert!(load["operations"].as_u64().is_some_and(|count| count > 0), "{load}");
    assert!(said.contains("threads: 0\nmounts: 0\nleft: \n"), "{said}");
}

const KILLED: &str = r#"
export TMPDIR=/tmp SPRY_CACHE=/tmp/cache
threads() { cat /proc/[0-9]*/comm 2>/dev/null | grep -cx nfsd; }
/spry/bin/spry load nfs-compile --source /spry/source --disk 256M --memory 256M >/tmp/said 2>&1 &
spry=$!
for n in $(seq 100); do [ "$(threads)" -gt 0 ] && break; sleep 1; done
echo "before: $(threads)"
guardian=$(grep -lx spry-load-guard /proc/[0-9]*/comm | cut -d/ -f3)
kill -STOP $spry $guardian
kill -KILL $spry $guardian
sleep 2
echo "left: $(ls -d /tmp/spry-load-* | wc -l)"
/spry/bin/spry load clean | grep -c '^removed '
sleep 1
echo "after: $(threads), $(grep -c -e nfs -e netns /proc/mounts), $(ls -d /tmp/spry-load-* 2>/dev/null)"
"#;

#[test]
fn a_server_of_a_killed_run_and_guardian_is_cleaned_up() {
    let outcome = run(&machine(&machine_with_nfs()), &job(KILLED)).expect("it runs");
    let said = printed(&outcome);
    assert_eq!(said, "before: 2\nleft: 1\n1\nafter: 0, 0, \n");
}
