//! Tests a disk that is really full, at every step of a run. The failure must be reported as a full disk, and
//! no file may be left on the disk.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

use spry_lab::MachineSpec;
use spry_lab_tests::{lab, machine, programs, run, script};

/// Mounts a small disk for a cache, in a mount namespace of its own, and runs a command. The arguments
/// are: the size of the disk in KiB; its mount point; the cache from which all parts are taken except the
/// parts that must be made again; these parts; and the command. Prints the files that are left on the
/// disk.
const ON_A_SMALL_DISK: &str = r#"
set -eu
size=$1 disk=$2 cache=$3 anew=$4
shift 4
mount -t tmpfs -o "size=${size}k" tmpfs "$disk"
trap 'umount "$disk"' EXIT
for part in "$cache"/*; do
    case " runs locks building $anew " in
    *" ${part##*/} "*) ;;
    *) ln -s "$part" "$disk" ;;
    esac
done
code=0
SPRY_CACHE=$disk "$@" || code=$?
for part in runs building $anew; do
    [ ! -d "$disk/$part" ] || find "$disk/$part" -mindepth 1
done
exit $code
"#;

fn run_on_a_small_disk(kib: u32, anew: &str, directory: &Path) -> Output {
    let disk = directory.join("disk");
    std::fs::create_dir_all(&disk).expect("a directory for the disk");
    let mut command = Command::new("unshare");
    // Root does not need a user namespace. Such a namespace cannot be made below a changed root directory.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    command.args((!is_root).then_some("--map-root-user"));
    // Below a changed root directory a process cannot have mounts of its own. There the script itself
    // unmounts the disk.
    command.args([
        "--mount",
        "--propagation",
        "unchanged",
        "sh",
        "-c",
        ON_A_SMALL_DISK,
        "sh",
        &kib.to_string(),
    ]);
    command.arg(&disk).arg(lab().cache()).arg(anew);
    command.arg(programs().join("spry")).args(["run", "movie", "--on", "lab", "--quiet", "-o"]);
    command.arg(directory.join("results/kept")).output().expect("unshare starts")
}

fn assert_full(kib: u32, anew: &str) {
    // After this run the cache has all parts that a run needs. The command below makes some of them again.
    run(&machine(&MachineSpec::default()), &script("true")).expect("it runs");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let output = run_on_a_small_disk(kib, anew, directory.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the disk is full: no space left for"), "{said}");
    assert!(said.contains("SPRY_CACHE"), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "left behind");
    let kept = std::fs::read_dir(directory.path().join("results"));
    assert_eq!(kept.map_or(0, Iterator::count), 0, "no results are begun");
}

#[test]
fn a_disk_without_space_for_results_is_told() {
    // The results of the job need 64 MiB.
    assert_full(32 << 10, "");
}

#[test]
fn a_disk_without_space_for_a_saved_machine_is_told() {
    assert_full(128 << 10, "saved");
}

#[test]
fn a_disk_without_space_for_what_is_built_is_told() {
    assert_full(4 << 10, "initrds");
}
