//! Measures programs that pretend to be in use, beside a person's editor and film on a real Xorg. It compares
//! the CPU time of each with the CPU time of an honest endless loop. It also measures for how long the daemon
//! counted the program as in use.

use serde_json::Value;
use spry_lab::{FileSource, Flavour, Job, KernelChoice, LabError, MachineSpec};

use crate::{example, machine, printed, programs, run, shell};

/// The tricks of the display's example `deceive`, each with its role: the user that runs it, or the place in
/// which it is started.
pub const TRICKS: [&str; 20] = [
    "blinker@1000",
    "blinker@1001",
    "poll@terminal",
    "server@1000",
    "server@1001",
    "churn@1001",
    "xtest@1000",
    "xtest@1001",
    "xtest-big@1000",
    "xtest-two@1000",
    "grid@1000",
    "grid-none@1000",
    "shield@1000",
    "grid@1001",
    "moment@1000",
    "flood@1000",
    "flood@1001",
    "dbus@1000",
    "ssh@1001",
    "loop@1001",
];

/// How long the start of the X server and of the person's programs may take, s.
const OVERHEAD_S: u32 = 120;
/// How much longer a contest takes than its measured seconds, s.
const BETWEEN_S: u32 = 10;

/// The results of a deception.
#[derive(Clone, PartialEq, Debug)]
pub struct DeceptionResult {
    /// The trick and its role.
    pub trick: String,
    /// The CPU time of all processes of the deception, divided by the CPU time of the honest loop.
    pub ratio: f64,
    /// The same ratio without the first 5 s.
    pub later_ratio: f64,
    /// The CPU time of all processes of the deception, s.
    pub deceiver_s: f64,
    /// The CPU time of the honest loop, s.
    pub honest_s: f64,
    /// For how long the process that computes was in use, s.
    pub hog_used_s: f64,
    /// For how long any process of the deception was in use, s.
    pub used_s: f64,
    /// The latest way by which the deception came into use.
    pub way: String,
}

impl DeceptionResult {
    fn read(line: &str) -> Option<DeceptionResult> {
        let told: Value = serde_json::from_str(line).ok()?;
        let number = |name: &str| told[name].as_f64();
        let (deceiver_s, honest_s) = (number("deceiver_s")?, number("honest_s")?);
        Some(DeceptionResult {
            trick: told["trick"].as_str()?.to_owned(),
            ratio: deceiver_s / honest_s,
            later_ratio: number("later_deceiver_s")? / number("later_honest_s")?,
            deceiver_s,
            honest_s,
            hog_used_s: number("hog_used_s")?,
            used_s: number("used_s")?,
            way: told["way"].as_str()?.to_owned(),
        })
    }

    /// Whether the deception gained nothing that lasts: it was in use for at most 5 s, and beside that time
    /// it had at most 5 % more of the CPU than the loop. The start of the 5 s is random: `xtest-two` was in
    /// use for 4.4 s, within the first 5 s in one draw and across their end in another.
    pub fn is_in_vain(&self) -> bool {
        self.hog_used_s <= 5.0 && self.deceiver_s - self.hog_used_s <= 1.05 * self.honest_s
    }
}

/// The results of all contests of a boot.
#[derive(Clone, PartialEq, Debug)]
pub struct Contests {
    /// The results of each trick.
    pub fared: Vec<DeceptionResult>,
    /// Everything that the guest printed.
    pub text: String,
}

/// Boots a guest once and runs the contests one after the other, each for this number of seconds. A contest
/// is one trick, or several tricks that are separated by spaces, beside one honest loop.
///
/// # Errors
/// If the lab fails.
///
/// # Panics
/// If the person's programs do not start.
pub fn contests(contests: &[&str], seconds: u32) -> Result<Contests, LabError> {
    let mut text = String::from(include_str!("deceptions.sh"));
    for tricks in contests {
        text += &format!("/spry/contest {seconds} {tricks}\n");
    }
    text += "/spry/spry sched status; echo state $(cat /sys/kernel/sched_ext/state)\n";
    let limit_s = OVERHEAD_S + (seconds + BETWEEN_S) * contests.len() as u32;
    let mut job = Job {
        shift: SHIFT,
        commands: vec![shell(&format!("exec 2>&1\n{text}"), limit_s)],
        memory_mib: 2304,
        cpu_limit_s: 3_600,
        ..Job::default()
    };
    for (name, of) in
        [("deceive", "deceive"), ("honest", "deceive"), ("contest", "contest"), ("person", "person")]
    {
        job.files.insert(format!("/spry/{name}"), FileSource::File(example(of)));
    }
    for name in ["spry", "spry-eyes", "spry-sched"] {
        job.files.insert(format!("/spry/{name}"), FileSource::File(programs().join(name)));
    }
    let outcome = run(&machine(&spec()), &job)?;
    let text = printed(&outcome);
    Ok(Contests { fared: text.lines().filter_map(DeceptionResult::read).collect(), text })
}

/// An instruction takes 4 ns, so that a second of the guest takes less real time. The tricks do not depend on
/// the speed of the machine.
const SHIFT: u8 = 2;

fn spec() -> MachineSpec {
    let packages = [
        "xserver-xorg-core",
        "xserver-xorg-video-dummy",
        "xserver-xorg-input-evdev",
        "xterm",
        "vim-tiny",
        "mplayer",
        "dbus-daemon",
        "dbus-bin",
        "openssh-server",
        "openssh-client",
    ];
    MachineSpec {
        kernel: KernelChoice::Newest(Flavour::Generic),
        packages: packages.map(str::to_owned).into(),
        modules: ["uinput", "evdev"].map(str::to_owned).into(),
        ..MachineSpec::default()
    }
}
