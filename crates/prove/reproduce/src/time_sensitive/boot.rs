//! One cell of the study: the job of the virtual machine, and its measurement.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Deserialize;
use spry_experiment::scheduler::Setup;
use spry_lab::{FileSource, GuestCommand, Job, MachineSpec, Outcome};

use super::{Cell, CellMeasurement, Daemon, Film, GivenTime, Load, Part, System, THREADS};
use crate::boots::Boots;
use crate::ends::GuestResults;
use crate::error::Error;

/// The packages of the film: an X server and a player.
const PACKAGES: [&str; 3] = ["mplayer", "util-linux", "xvfb"];
/// The file system of the loads, MiB, and the space in it that they may take.
const SCRATCH_MIB: u32 = 192;
const DISK: &str = "128M";
/// The length of each frame of the film, ns.
const FRAME_NS: f64 = 40e6;
/// The sound card of the film: it drops what it plays, at the rate of the kernel's timers.
const SOUND_CARD: &str = "snd-dummy";
/// The film in the way of the thesis' scenario; without `-framedrop`, so that each frame is shown. The sound
/// goes to a card with a position that is exact to one sample. The position of `-ao null` is in whole ms.
const PLAY: &str = "mplayer -vo x11 -zoom -xy 2 -ao alsa:device=hw=0 -loop 0 -nolirc -noconsolecontrols \
                    -nomouseinput /spry/clip.mpg";
/// The player's reservation: a frame takes 6 ms of CPU time, and at most twice that.
const RESERVE: &str = "spry reserve --budget 16ms --period 40ms --";
/// The X server is named as a shared server: the daemon ignores a display without a screen of the machine.
const LIFT: &str = "spry ceiling --pid $server || exit 1\n";
/// After the film the server must still have its ceiling.
const LIFTED: &str = "case $(spry reservations --json) in\n\
                      *'\"ceilings\":['*'\"slot\":'[0-9]*) ;;\n\
                      *) echo 'the X server has no ceiling' >&2; spry reservations >&2; exit 1 ;;\n\
                      esac\n";
/// The real-time priority of player and server: the same for both, as in the paper, or more for the server.
const FIFO: &str = "chrt -f 50";
const FIFO_ABOVE: &str = "chrt -f 51";
/// How long all other steps may take, in addition to the measured time, seconds of the guest's time.
const AROUND_S: u32 = 120;
/// The part at the beginning of table 1 that does not count, ms: at its end both threads have started.
const SETTLE_MS: u32 = 200;
/// The result file of the film.
const FRAMES: &str = "frames.json";
const SAID: &str = "player.txt";

/// A cell: one boot of a system beside a load.
#[derive(Clone, Debug)]
pub(super) struct Boot {
    pub(super) system: &'static System,
    pub(super) load: &'static Load,
    pub(super) seed: u64,
    /// The length of the measurement, seconds.
    pub(super) seconds: u32,
}

/// The parts of a system's machine.
pub(super) fn spec(system: &System) -> Result<MachineSpec, Error> {
    let modules = match system.part {
        Part::Table => BTreeSet::new(),
        Part::Skew => [SOUND_CARD.to_owned()].into(),
    };
    Ok(MachineSpec {
        kernel: system.kernel.parse()?,
        modules,
        packages: PACKAGES.map(str::to_owned).into(),
        scratch_mib: SCRATCH_MIB,
        ..MachineSpec::default()
    })
}

/// The programs of Spry that a guest needs, and the film.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) programs: Vec<PathBuf>,
    pub(super) clip: PathBuf,
    /// The setup of Spry's daemon: without ceilings for display servers, and with ceilings.
    pub(super) daemons: [Setup; 2],
}

impl Boots for Boot {
    type Cell = Cell;

    fn name(&self) -> String {
        format!("{}, {}, seed {}", self.system.key, self.load.key, self.seed)
    }
}

impl Boot {
    /// The name of the cell's file.
    pub(super) fn file_name(&self) -> String {
        format!("{}-{}-seed{}", self.system.key, self.load.key, self.seed)
    }

    /// The script of the guest's shell.
    pub(super) fn script(&self) -> String {
        let measured = match self.system.part {
            Part::Table => self.table(),
            Part::Skew => self.film(),
        };
        format!("{FUNCTIONS}{measured}ended\n")
    }

    fn table(&self) -> String {
        let (before, how) = match self.system.key {
            "deadline" => ("echo HRTICK_DL >/sys/kernel/debug/sched/features\n", "--deadline"),
            "deadline-ticks" => ("echo NO_HRTICK_DL >/sys/kernel/debug/sched/features\n", "--deadline"),
            _ => ("", "--reserve"),
        };
        let watch = THREADS.map(|thread| {
            format!(
                "spry-runner budget {name} {} {} {} {how} --settle-ms {SETTLE_MS} --out /results/{name}.json",
                self.seconds,
                thread.budget_us,
                thread.period_us,
                name = thread.name
            )
        });
        format!(
            "{before}{}\n{} & first=$!\n{} || exit 1\nwait $first || exit 1\n",
            begin(self.load),
            watch[0],
            watch[1]
        )
    }

    fn film(&self) -> String {
        let (server, player) = match self.system.key {
            "ordinary" => ("", ""),
            "fifo" => ("", FIFO),
            "fifo-both" | "fifo-none" => (FIFO, FIFO),
            "fifo-above" => (FIFO_ABOVE, FIFO),
            _ => ("", RESERVE),
        };
        let (lift, lifted) = match self.system.spry {
            Daemon::WithCeilings => (LIFT, LIFTED),
            Daemon::Absent | Daemon::Runs => ("", ""),
        };
        format!(
            "export HOME=/tmp DISPLAY=:1\n\
             {server} Xvfb :1 -screen 0 1024x768x24 -nolisten tcp -noreset -s 0 >/tmp/server 2>&1 &\n\
             server=$!\n\
             ready '[ -S /tmp/.X11-unix/X1 ]'\n\
             {lift}\
             {player} {PLAY} >/results/{SAID} 2>/tmp/player & player=$!\n\
             spry-runner frames --display :1 --seconds 2 --out /tmp/frames || exit 1\n\
             {}\n\
             spry-runner frames --display :1 --seconds {} --out /results/{FRAMES} || exit 1\n\
             {lifted}\
             kill -0 $player || {{ cat /tmp/player >&2; exit 1; }}\n",
            begin(self.load),
            self.seconds
        )
    }

    /// The job of the virtual machine.
    pub(super) fn job(&self, files: &Files) -> Job {
        let mut guest = BTreeMap::from([("/spry/clip.mpg".to_owned(), FileSource::File(files.clip.clone()))]);
        for path in &files.programs {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            guest.insert(format!("/spry/bin/{name}"), FileSource::File(path.clone()));
        }
        let argv = ["/bin/sh", "-c", &self.script()].map(str::to_owned).into();
        let limit_s = 3 * self.seconds + AROUND_S;
        Job {
            seed: self.seed,
            cmdline: self.system.preempt.iter().map(|model| format!("preempt={model}")).collect(),
            setup: match self.system.spry {
                Daemon::Absent => Setup::default(),
                Daemon::Runs => files.daemons[0].clone(),
                Daemon::WithCeilings => files.daemons[1].clone(),
            },
            files: guest,
            commands: vec![GuestCommand { argv, env: Vec::new(), limit_s }],
            cpu_limit_s: 300 + 10 * u64::from(limit_s),
            ..Job::default()
        }
    }

    /// The guest's measurement.
    ///
    /// # Errors
    /// If the guest did not finish; the error has its output.
    pub(super) fn cell(&self, outcome: &Outcome) -> Result<Cell, Error> {
        let left = GuestResults::of(outcome, "spry: ")?;
        let measured = match self.system.part {
            Part::Table => {
                let given = |thread: usize| left.json::<GivenTime>(&format!("{}.json", THREADS[thread].name));
                CellMeasurement::Table([given(0)?, given(1)?])
            }
            Part::Skew => {
                let frames: Frames = left.json(FRAMES)?;
                let film = Film::of(&frames.frames_ns, FRAME_NS);
                let film = film.ok_or_else(|| Error::Guest("no frame was shown".to_owned()))?;
                CellMeasurement::Skew(Film { said_ms: said_by_player(&left.text(SAID)), ..film })
            }
        };
        let (system, load) = (self.system.key.to_owned(), self.load.key.to_owned());
        Ok(Cell { system, load, seed: self.seed, measured })
    }
}

#[derive(Deserialize)]
struct Frames {
    frames_ns: Vec<u64>,
}

/// The least and the greatest skew (`A-V:`) of the player's status lines, ms. Only the later half of the
/// lines counts, since the load runs by then.
fn said_by_player(text: &str) -> Option<(f64, f64)> {
    let skew = |part: &str| part.split_whitespace().next()?.parse::<f64>().ok();
    let all: Vec<f64> = text.split("A-V:").skip(1).filter_map(skew).collect();
    let later = all[all.len() / 2..].iter().map(|skew| skew * 1000.0);
    later.fold(None, |ends: Option<(f64, f64)>, ms| {
        Some(ends.map_or((ms, ms), |(least, most)| (least.min(ms), most.max(ms))))
    })
}

/// The functions that the scripts share: they wait for a condition, and end the loads, which must still run.
const FUNCTIONS: &str = "\
loads=''
ready() {
    n=0
    until eval \"$1\"; do
        n=$((n + 1)); [ $n -le 600 ] || { echo \"waited too long: $1\" >&2; exit 1; }
        sleep 0.1
    done
}
ended() {
    for load in $loads; do
        kill -0 $load || { echo 'a load ended early' >&2; cat /tmp/load >&2; exit 1; }
    done
    kill $loads 2>/dev/null; :
}
";

/// Starts a load and waits until it runs.
fn begin(load: &Load) -> String {
    let loops = |count: u32| {
        let one = "sh -c 'while :; do :; done' & loads=\"$loads $!\"\n";
        one.repeat(count as usize) + "sleep 0.5"
    };
    let suite = |name: &str, file: &str| {
        format!(
            "spry load {name} --dir /scratch --disk {DISK} -q >/tmp/load 2>&1 & loads=$!\n\
             ready '[ -n \"$(find /scratch -name {file})\" ]'\nsleep 0.5"
        )
    };
    match load.key {
        "hogs" => loops(4),
        "user" => loops(1),
        "kernel" => suite("kernel-cpu", "buffer-0"),
        "file-system" => suite("file-system", "copy"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time_sensitive::{LOADS, SYSTEMS};

    fn boot(system: &str, load: &str) -> Boot {
        let system = SYSTEMS.iter().find(|known| known.key == system).expect("a system");
        let load = LOADS.iter().find(|known| known.key == load && known.part == system.part);
        Boot { system, load: load.expect("a load"), seed: 3, seconds: 3 }
    }

    #[test]
    fn both_threads_of_the_table_have_their_budgets_by_the_system() {
        for (system, how) in [("deadline", "--deadline"), ("reserved", "--reserve")] {
            let script = boot(system, "none").script();
            assert!(script.contains(&format!("budget one 3 3276.8 8192 {how}")), "{script}");
            assert!(script.contains(&format!("budget two 3 102.4 512 {how}")), "{script}");
        }
        assert!(boot("deadline-ticks", "none").script().contains("NO_HRTICK_DL"));
    }

    #[test]
    fn a_kernel_that_is_not_preempted_is_told_so() {
        let files = Files { programs: vec![], clip: "/clip".into(), daemons: Default::default() };
        let job = boot("fifo-none", "kernel").job(&files);
        assert_eq!((job.seed, job.cmdline), (3, vec!["preempt=none".to_owned()]));
        for system in &SYSTEMS {
            spec(system).unwrap_or_else(|error| panic!("{}: {error}", system.key));
        }
    }

    #[test]
    fn the_loads_of_the_paper_are_those_of_the_suite() {
        for (load, name) in [("kernel", "kernel-cpu"), ("file-system", "file-system")] {
            spry_load::Load::by_name(name).unwrap_or_else(|error| panic!("{error}"));
            assert!(boot("fifo", load).script().contains(&format!("spry load {name} ")));
        }
    }

    #[test]
    fn an_x_server_at_its_ceiling_is_named_and_looked_at() {
        let [with, without] = ["spry-ceiling", "spry"].map(|system| boot(system, "user").script());
        assert!(with.contains("spry ceiling --pid $server") && with.contains("no ceiling"), "{with}");
        assert!(!without.contains("ceiling"), "{without}");
    }

    #[test]
    fn the_player_s_own_words_are_read_from_their_later_half() {
        let text = "A:  0.5 V: 0.4 A-V:  0.900 ct: 0\rA: 0.6 A-V: -0.002 ct\rA: A-V:  0.011 ct\r";
        assert_eq!(said_by_player(text), Some((-2.0, 11.0)));
        assert_eq!(said_by_player("nothing"), None);
    }
}
