//! Loads run, keep within their bounds, and leave no process, mount or file behind, however they end.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_system_tests::{need_root, spry};
use tempfile::TempDir;

/// The longest time that a step of these tests may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Directories for the loads, and for the notes that Spry writes of its runs.
struct Place {
    home: TempDir,
}

impl Place {
    fn new() -> Place {
        need_root();
        let place = Place { home: tempfile::tempdir().expect("scratch space") };
        for directory in [place.dir(), place.cache(), place.source()] {
            fs::create_dir(directory).expect("it can be made");
        }
        fs::write(place.source().join("main.c"), "int main(void) { return 0; }\n").expect("a program");
        place.makefile("all: main\n\nclean:\n\trm -f main\n");
        place
    }

    fn makefile(&self, text: &str) {
        fs::write(self.source().join("Makefile"), text).expect("it can be written");
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("dir")
    }

    fn cache(&self) -> PathBuf {
        self.home.path().join("cache")
    }

    fn source(&self) -> PathBuf {
        self.home.path().join("source")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(spry());
        command.arg("load").args(words).args(["--json", "--dir"]).arg(self.dir());
        command.arg("--source").arg(self.source()).env("SPRY_CACHE", self.cache());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("spry starts")
    }

    fn start(&self, words: &[&str]) -> Family {
        let mut command = self.command(words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spry starts");
        let mut family = Family { child, guardian: 0, crew: 0, namespace: PathBuf::new() };
        wait_for("the loads", || family.find());
        family
    }

    /// Fails if a file, a mount or a note of a run is left.
    #[track_caller]
    fn is_clean(&self) {
        let names = |path: PathBuf| fs::read_dir(path).map(Iterator::count).unwrap_or(0);
        assert_eq!(names(self.dir()), 0, "files are left");
        assert!(names(self.cache().join("loads")) <= 1, "something is still written down");
        let mounts = fs::read_to_string("/proc/mounts").expect("the kernel lists mounts");
        assert!(!mounts.contains(&*self.home.path().to_string_lossy()), "{mounts}");
    }
}

/// A process `spry load` and all processes that it has started.
struct Family {
    child: Child,
    guardian: u32,
    crew: u32,
    namespace: PathBuf,
}

impl Family {
    /// Returns whether the guardian, the crew and at least one process of a load exist.
    fn find(&mut self) -> bool {
        let named = |parent: u32| processes().into_iter().find(|&found| parent_of(found) == Some(parent));
        let Some(guardian) = named(self.child.id()) else { return false };
        let Some(crew) = named(guardian) else { return false };
        let Ok(namespace) = fs::read_link(format!("/proc/{crew}/ns/pid")) else { return false };
        (self.guardian, self.crew, self.namespace) = (guardian, crew, namespace);
        self.members().len() > 1
    }

    /// The processes in the loads' namespace.
    fn members(&self) -> Vec<u32> {
        let is_in = |process: &u32| {
            fs::read_link(format!("/proc/{process}/ns/pid")).is_ok_and(|found| found == self.namespace)
        };
        processes().into_iter().filter(is_in).collect()
    }

    fn signal(&self, process: u32, signal: libc::c_int) {
        spry_sys::signal::send_number(process, signal)
            .unwrap_or_else(|error| panic!("process {process}: {error}"));
    }

    /// Fails if a process of the family is left after some time.
    #[track_caller]
    fn is_gone(&self) {
        wait_for("the end of all processes", || {
            self.members().is_empty() && name_of(self.guardian) != "spry-load-guard"
        });
    }

    fn end(self) -> (ExitStatus, String, String) {
        let output = self.child.wait_with_output().expect("it ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("spry prints UTF-8");
        (output.status, text(output.stdout), text(output.stderr))
    }
}

#[track_caller]
fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < until, "{what} did not come within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("the kernel lists processes");
    entries.filter_map(|entry| entry.ok()?.file_name().to_string_lossy().parse().ok()).collect()
}

fn name_of(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned()
}

fn field(process: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn parent_of(process: u32) -> Option<u32> {
    field(process, "PPid")?.parse().ok()
}

fn summary(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_str(text.trim()).unwrap_or_else(|_| panic!("{text}{said}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn runs_for_two_seconds(name: &str) {
    let place = Place::new();
    let found = summary(&place.run(&[name, "--duration", "2"]));
    let load = &found["loads"][0];
    assert_eq!((&load["name"], &load["state"]), (&Value::from(name), &Value::from("stopped")), "{load}");
    assert!(load["operations"].as_u64().is_some_and(|count| count > 0), "{load}");
    assert!(found["running_ns"].as_u64().is_some_and(|ns| ns >= 2_000_000_000), "{found}");
    place.is_clean();
}

#[test]
fn fuse_compile_compiles_and_leaves_nothing() {
    runs_for_two_seconds("fuse-compile");
}

#[test]
fn ttcp_sends_and_leaves_nothing() {
    runs_for_two_seconds("ttcp");
}

#[test]
fn fifos_mmap_passes_data_and_leaves_nothing() {
    runs_for_two_seconds("fifos-mmap");
}

#[test]
fn p3_fpu_calculates_and_leaves_nothing() {
    runs_for_two_seconds("p3-fpu");
}

#[test]
fn fs_torments_files_and_leaves_nothing() {
    runs_for_two_seconds("fs");
}

#[test]
fn crashme_crashes_children_and_leaves_nothing() {
    runs_for_two_seconds("crashme");
}

#[test]
fn user_cpu_loops_and_leaves_nothing() {
    runs_for_two_seconds("user-cpu");
}

#[test]
fn kernel_cpu_writes_and_leaves_nothing() {
    runs_for_two_seconds("kernel-cpu");
}

#[test]
fn file_system_copies_and_leaves_nothing() {
    runs_for_two_seconds("file-system");
}

#[test]
fn all_run_beside_each_other_within_their_bounds() {
    let place = Place::new();
    let found = summary(&place.run(&["all", "--duration", "4", "--memory", "512M", "--disk", "512M"]));
    let loads = found["loads"].as_array().expect("a list");
    assert_eq!(loads.len(), 9, "one compilation and eight others: {found}");
    assert!(loads.iter().all(|load| load["state"] == "stopped"), "{found}");
    let figure = |name: &str| found[name].as_u64().expect("a number");
    assert!((1 << 20..=512 << 20).contains(&figure("memory_bytes_max")), "{found}");
    assert!((1 << 20..=512 << 20).contains(&figure("disk_bytes_max")), "{found}");
    place.is_clean();
}

/// The memory and the disk space of a family, as measured from outside; files without a name count, too.
fn taken(family: &Family, dir: &Path) -> (u64, u64) {
    let kib = |process: u32, name: &str| {
        field(process, name).and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0)
    };
    let memory = |process: u32| (kib(process, "RssAnon") + kib(process, "RssShmem")) << 10;
    let members = family.members();
    let device = fs::metadata(dir).expect("it is there").dev();
    let open =
        members.iter().filter_map(|process| fs::read_dir(format!("/proc/{process}/fd")).ok()).flatten();
    let open = open.filter_map(|entry| fs::metadata(entry.ok()?.path()).ok());
    let nameless: BTreeSet<(u64, u64)> = open
        .filter(|found| found.nlink() == 0 && found.dev() == device)
        .map(|found| (found.ino(), found.blocks() * 512))
        .collect();
    let du = Command::new("du").args(["-s", "-x", "--block-size=1"]).arg(dir).output().expect("du starts");
    let du = String::from_utf8_lossy(&du.stdout)
        .split_whitespace()
        .next()
        .map_or(0, |word| word.parse().unwrap_or(0));
    (members.into_iter().map(memory).sum(), du + nameless.into_iter().map(|(_, bytes)| bytes).sum::<u64>())
}

#[test]
fn memory_and_disk_bounds_hold_as_seen_from_outside() {
    let place = Place::new();
    let words = ["fs", "fifos-mmap", "kernel-cpu", "file-system", "--memory", "160M", "--disk", "256M"];
    let family = place.start(&words);
    let (mut memory, mut disk) = (0, 0);
    for _ in 0..25 {
        let now = taken(&family, &place.dir());
        (memory, disk) = (memory.max(now.0), disk.max(now.1));
        thread::sleep(Duration::from_millis(200));
    }
    family.signal(family.child.id(), libc::SIGINT);
    let (status, _, said) = family.end();
    assert!(status.success(), "{said}");
    assert!((4 << 20..=160 << 20).contains(&memory), "{memory} bytes of memory");
    assert!((16 << 20..=256 << 20).contains(&disk), "{disk} bytes of disk space");
    place.is_clean();
}

#[test]
fn a_compilation_that_fills_the_disk_is_ended_and_told() {
    let place = Place::new();
    place.makefile("all:\n\tfor n in 1 2 3 4 5 6 7 8 9; do head -c 50M /dev/zero >$$n; done; sleep 60\n");
    let output = place.run(&["fuse-compile", "--disk", "150M"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("--disk"), "{}", said(&output));
    place.is_clean();
}

#[test]
fn a_compilation_that_fills_memory_is_ended_and_told() {
    let place = Place::new();
    place.makefile("all:\n\t(head -c 300M /dev/zero; sleep 60) | tail\n");
    let output = place.run(&["fuse-compile", "--memory", "100M"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("--memory"), "{}", said(&output));
    place.is_clean();
}

#[test]
fn a_load_that_ends_by_itself_is_told_with_its_last_words() {
    let place = Place::new();
    place.makefile("all:\n\t@echo no such luck >&2; exit 3\n");
    let output = place.run(&["fuse-compile", "ttcp", "--duration", "30"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).starts_with("spry: fuse-compile has ended too soon"), "{}", said(&output));
    place.is_clean();
}

#[test]
fn ctrl_c_ends_in_order_with_a_summary() {
    let place = Place::new();
    let family = place.start(&["ttcp", "fs"]);
    thread::sleep(Duration::from_secs(1));
    family.signal(family.child.id(), libc::SIGINT);
    family.is_gone();
    let (status, stdout, said) = family.end();
    assert!(status.success(), "{said}");
    let found: Value = serde_json::from_str(&stdout).expect("a line of JSON");
    assert_eq!(found["interrupted"], true);
    assert!(found["loads"][0]["operations"].as_u64().is_some_and(|count| count > 0), "{found}");
    place.is_clean();
}

/// Loads with every kind of process: stress-ng, our own programs, and a compilation in a mount.
const EVERY_KIND: [&str; 3] = ["fifos-mmap", "kernel-cpu", "fuse-compile"];

#[test]
fn a_killed_spry_leaves_nothing() {
    let place = Place::new();
    let mut family = place.start(&EVERY_KIND);
    thread::sleep(Duration::from_secs(1));
    family.child.kill().expect("it runs");
    family.child.wait().expect("it ends");
    family.is_gone();
    wait_for("the end of the directory", || fs::read_dir(place.dir()).expect("it is there").count() == 0);
    place.is_clean();
}

#[test]
fn a_killed_guardian_takes_the_loads_with_it_and_spry_cleans_up() {
    let place = Place::new();
    let family = place.start(&EVERY_KIND);
    thread::sleep(Duration::from_secs(1));
    family.signal(family.guardian, libc::SIGKILL);
    family.is_gone();
    let (status, _, said) = family.end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("guardian was killed"), "{said}");
    place.is_clean();
}

#[test]
fn a_killed_crew_takes_the_loads_with_it_and_is_told() {
    let place = Place::new();
    let family = place.start(&EVERY_KIND);
    thread::sleep(Duration::from_secs(1));
    family.signal(family.crew, libc::SIGKILL);
    family.is_gone();
    let (status, _, said) = family.end();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("killed from outside"), "{said}");
    place.is_clean();
}

#[test]
fn spry_and_guardian_killed_at_once_leave_only_files_for_clean() {
    let place = Place::new();
    let mut family = place.start(&EVERY_KIND);
    thread::sleep(Duration::from_secs(1));
    // The guardian and `spry load` are stopped first, so that neither process sees the end of the other.
    for process in [family.guardian, family.child.id()] {
        family.signal(process, libc::SIGSTOP);
    }
    for process in [family.guardian, family.child.id()] {
        family.signal(process, libc::SIGKILL);
    }
    family.child.wait().expect("it ends");
    family.is_gone();
    assert_eq!(fs::read_dir(place.dir()).expect("it is there").count(), 1, "the directory is what is left");
    let mut clean = Command::new(spry());
    let output =
        clean.args(["load", "clean"]).env("SPRY_CACHE", place.cache()).output().expect("spry starts");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("removed "), "{}", said(&output));
    place.is_clean();
}

#[test]
fn the_next_run_removes_what_a_killed_one_left() {
    let place = Place::new();
    let mut family = place.start(&["kernel-cpu"]);
    family.signal(family.guardian, libc::SIGSTOP);
    family.child.kill().expect("it runs");
    family.child.wait().expect("it ends");
    family.signal(family.guardian, libc::SIGKILL);
    family.is_gone();
    summary(&place.run(&["user-cpu", "--duration", "0.2"]));
    place.is_clean();
}

/// The sockets that listen in the network namespace of this process, by address and port.
fn listening() -> BTreeSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"];
    let text = tables.iter().filter_map(|table| fs::read_to_string(table).ok()).collect::<String>();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // 0A is the state of a TCP socket that listens, and 07 the state of a datagram socket that takes
        // messages from anywhere.
        matches!(words.get(3), Some(&"0A" | &"07")).then(|| words[1].to_owned())
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn nothing_listens_where_another_machine_could_reach_it() {
    let place = Place::new();
    let before = listening();
    let family = place.start(&["ttcp"]);
    let inside = format!("/proc/{}/net/dev", family.crew);
    let has_connections = || {
        let table = fs::read_to_string(format!("/proc/{}/net/tcp", family.crew)).unwrap_or_default();
        table.lines().count() > 1
    };
    wait_for("a connection", has_connections);
    let devices = fs::read_to_string(inside).expect("the kernel lists devices");
    let devices: Vec<&str> =
        devices.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
    let fresh: Vec<String> = listening().difference(&before).cloned().collect();
    family.signal(family.child.id(), libc::SIGINT);
    family.end();
    // Some kernels give every network namespace the ends of tunnels. These are down, and cannot be reached
    // from outside either.
    assert!(devices.contains(&"lo") && !devices.contains(&"eth0"), "{devices:?}");
    assert_eq!(fresh, [""; 0], "new sockets on this machine's own addresses");
    place.is_clean();
}

#[test]
fn random_code_runs_as_nobody() {
    let place = Place::new();
    let family = place.start(&["crashme"]);
    let users = |family: &Family| -> BTreeSet<String> {
        let members = family.members().into_iter().filter(|&process| process != family.crew);
        members.filter_map(|process| field(process, "Uid")).collect()
    };
    wait_for("a child of stress-ng", || family.members().len() > 2);
    let found = users(&family);
    family.signal(family.child.id(), libc::SIGINT);
    family.end();
    assert!(!found.is_empty() && found.iter().all(|uids| uids.starts_with("65534\t65534")), "{found:?}");
    place.is_clean();
}

#[test]
fn every_stressor_of_a_load_goes_on_as_long_as_the_load() {
    let place = Place::new();
    let family = place.start(&["fs", "fifos-mmap"]);
    // A stressor that handles its time limit wrongly ends at once, so the test waits for some seconds.
    thread::sleep(Duration::from_secs(4));
    let names: BTreeSet<String> = family.members().into_iter().map(name_of).collect();
    family.signal(family.child.id(), libc::SIGINT);
    family.end();
    for stressor in ["fpunch", "fallocate", "seek", "fifo", "mmap"] {
        // The kernel keeps 15 characters of a name.
        let name: String = format!("stress-ng-{stressor}").chars().take(15).collect();
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    place.is_clean();
}

#[test]
fn cpus_and_nice_reach_every_process() {
    let place = Place::new();
    let family = place.start(&["user-cpu", "kernel-cpu", "--cpus", "0", "--nice", "7"]);
    thread::sleep(Duration::from_secs(1));
    let members: Vec<u32> = family.members().into_iter().filter(|&process| process != family.crew).collect();
    let facts = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let nice = stat.rsplit(") ").next()?.split(' ').nth(16)?.to_owned();
        Some((field(process, "Cpus_allowed_list")?, nice))
    };
    let found: BTreeSet<(String, String)> = members.into_iter().filter_map(facts).collect();
    family.signal(family.child.id(), libc::SIGINT);
    family.end();
    assert_eq!(found, BTreeSet::from([("0".to_owned(), "7".to_owned())]));
}

#[test]
fn a_user_without_rights_runs_loads_or_is_told_what_to_do() {
    let place = Place::new();
    fs::set_permissions(place.home.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    for directory in [place.dir(), place.cache()] {
        std::os::unix::fs::chown(directory, Some(65534), Some(65534)).expect("it is ours");
    }
    let program = place.home.path().join("spry");
    fs::copy(spry(), &program).expect("it can be copied");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(&program);
    command.args(["load", "ttcp", "kernel-cpu", "--duration", "1", "--json", "--dir"]).arg(place.dir());
    let output = command.env("SPRY_CACHE", place.cache()).output().expect("setpriv starts");
    let may = Command::new("setpriv")
        .args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "unshare",
            "--user",
            "--map-root-user",
            "true",
        ])
        .status();
    if may.expect("setpriv starts").success() {
        let found = summary(&output);
        assert!(found["loads"][1]["operations"].as_u64().is_some_and(|count| count > 0), "{found}");
    } else {
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("sudo"), "{}", said(&output));
    }
    place.is_clean();
}

#[test]
fn a_kernel_without_nfs_says_so_and_names_the_other_compilation() {
    let place = Place::new();
    let list = Command::new(spry()).args(["load", "list", "--json"]).output().expect("spry starts");
    let list: Value = serde_json::from_slice(&list.stdout).expect("it prints JSON");
    let lack = list[0]["lack"].as_str();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel has a name");
    let modules = format!("/lib/modules/{}/kernel/fs/nfsd", release.trim());
    let systems = fs::read_to_string("/proc/filesystems").expect("the kernel lists them");
    if systems.contains("\tnfsd\n") || Path::new(&modules).exists() {
        assert!(lack.is_none_or(|lack| !lack.contains("nfsd")), "{lack:?}");
        return;
    }
    assert!(lack.is_some_and(|lack| lack.contains("nfsd") && lack.contains("fuse-compile")), "{lack:?}");
    let output = place.run(&["nfs-compile", "--duration", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("fuse-compile"), "{}", said(&output));
}

#[test]
fn a_disk_without_space_is_refused_before_anything_starts() {
    let place = Place::new();
    let output = place.run(&["fs", "--disk", "900000G", "--duration", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("free space"), "{}", said(&output));
    place.is_clean();
}
