//! Waits of tasks in a cgroup that has spent its quota are called throttled, as long as the kernel
//! says they were.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use spry_system_tests::{need_root, number, report, run, spry, spry_says};

/// A cgroup of a test, which is removed with those below it.
struct Group(PathBuf);

impl Group {
    /// Makes a group that may have 10 ms of each 100 ms, and another one below it.
    fn start(name: &str) -> Group {
        let name = format!("spry-{name}-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/cpu");
        let (root, limits): (&Path, &[(&str, &str)]) = if first.is_dir() {
            (first, &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "10000")])
        } else {
            (Path::new("/sys/fs/cgroup"), &[("cpu.max", "10000 100000")])
        };
        let group = Group(root.join(name));
        fs::create_dir_all(group.below()).expect("root may make cgroups");
        for (file, limit) in limits {
            fs::write(group.0.join(file), limit).expect("the group takes a limit");
        }
        group
    }

    /// A group forty levels below the group.
    fn below(&self) -> PathBuf {
        (0..40).fold(self.0.clone(), |above, _| above.join("d"))
    }

    /// How long the kernel says that the group was throttled, ns.
    fn throttled_ns(&self) -> f64 {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).expect("the group has a statistic");
        let field =
            |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        let ns = field("throttled_time ").or_else(|| field("throttled_usec ").map(|us| us * 1e3));
        ns.expect("the kernel counts")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What ran in the group may need a moment to be gone.
        let patience = Instant::now() + Duration::from_secs(5);
        while self.0.exists() && Instant::now() < patience {
            // Those that are gone, and those that still hold a task, stay as they are.
            let below = self.below();
            below.ancestors().take(41).for_each(|group| drop(fs::remove_dir(group)));
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Records a loop that runs in `place` on CPU 0 for a while, with `beside` started before it.
///
/// The loop alone is in the group. The start of the programs before it may use up the quota of a period, and
/// then the kernel counts a wait that is not the loop's.
fn record(place: &Path, beside: &str, trace: &Path) {
    let script = format!(
        "{beside} exec taskset -c 0 timeout 1.2 sh -c 'echo $$ >{}/cgroup.procs; while :; do :; done'",
        place.display()
    );
    let mut command = Command::new(spry());
    command.args(["record", "--quiet", "-o"]).arg(trace).args(["--", "sh", "-c", &script]);
    let output = command.output().expect("spry starts");
    assert_eq!(output.status.code(), Some(124), "{output:?}");
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

#[test]
fn a_loop_in_a_group_is_throttled_as_long_as_the_kernel_says() {
    need_root();
    let directory = tempfile::tempdir().expect("scratch space");
    let rival = "taskset -c 0 timeout 1.5 sh -c 'while :; do :; done' &";
    for (name, beside, is_below) in [("alone", "", false), ("below", "", true), ("beside", rival, false)] {
        let group = Group::start(name);
        let trace = directory.path().join(name);
        record(&if is_below { group.below() } else { group.0.clone() }, beside, &trace);
        let kernel_ns = group.throttled_ns();
        let whole = report(&trace);
        let mut blamed = array(&whole["delays"]["blame"]).iter();
        let most = blamed.find(|blame| blame["culprit"]["kind"] == "quota").expect("the quota is blamed");
        let told_ns = number(&most["total_ns"]);
        assert!(kernel_ns > 0.5e9, "{name}: {kernel_ns} ns");
        let off = told_ns / kernel_ns - 1.0;
        assert!(off.abs() < 0.01, "{name}: {told_ns} ns, the kernel says {kernel_ns} ns");
        let tid = most["victim"]["tid"].to_string();
        let of_loop = ["report".as_ref(), trace.as_os_str(), "--task".as_ref(), tid.as_ref()];
        let said = spry_says(of_loop.into_iter().chain(["--json".as_ref()]));
        let of_it: Value = serde_json::from_str(&said).expect("report --json prints JSON");
        let delays = &of_it["delays"];
        let path = format!("/{}", group.0.file_name().expect("a name").to_string_lossy());
        let throttled: Vec<&Value> =
            array(&delays["worst"]).iter().filter(|delay| delay["cause"]["throttled"].is_object()).collect();
        assert!(throttled.len() >= 5, "{name}: {delays}");
        for delay in throttled {
            let limit = &delay["cause"]["throttled"];
            assert_eq!(
                (&limit["group"], &limit["quota_ns"]),
                (&Value::from(&*path), &10_000_000.into()),
                "{name}"
            );
            assert_eq!(limit["period_ns"], 100_000_000);
            let culprits = array(&delay["culprits"]);
            assert!(culprits.len() == 1 && culprits[0]["kind"] == "quota", "{name}: {delay}");
        }
        let text = spry_says(of_loop);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&path) && text.contains("cpu.max 10000 100000"), "{text}");
        let page = directory.path().join("page.html");
        run(Command::new(spry()).arg("report").arg(&trace).arg("--html").arg(&page));
        assert!(fs::read_to_string(&page).expect("the page was written").contains("was throttled for"));
    }
}
