//! Common parts of the tests of the fall-back actuator: processes to act on, and daemons to kill.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use spry_policy::Tgid;
use spry_scheduler::actuator::{Actuator, Class, Verdict};
use spry_scheduler::fair::{Fair, FairOptions};
use spry_scheduler::guardian::settings::{Settings, TaskId, base_slice_ns};
use spry_sys::settle::{Setting, settle};

/// A process that is ended when this is dropped.
pub struct Victim(pub Child);

impl Victim {
    /// A victim that sleeps.
    pub fn sleeper() -> Victim {
        Victim::run("sleep", &["600"])
    }

    pub fn run(program: &str, args: &[&str]) -> Victim {
        Victim::start(Command::new(program).args(args))
    }

    /// A victim of this user.
    pub fn of_user(uid: u32, program: &str, args: &[&str]) -> Victim {
        Victim::start(settle(Command::new(program).args(args), [Setting::User(uid)]))
    }

    fn start(command: &mut Command) -> Victim {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Victim(command.spawn().unwrap())
    }

    pub fn tgid(&self) -> u32 {
        self.0.id()
    }

    pub fn id(&self) -> TaskId {
        TaskId::now(self.tgid(), self.tgid()).unwrap()
    }

    pub fn settings(&self) -> Settings {
        static BASE_SLICE_NS: OnceLock<u64> = OnceLock::new();
        Settings::of(self.id(), *BASE_SLICE_NS.get_or_init(base_slice_ns)).unwrap()
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn hear(&mut self) -> String {
        let mut heard = String::new();
        let mut byte = [0];
        while self.0.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
            heard.push(byte[0] as char);
        }
        heard
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A process forked from the test's own process; it is ended when this is dropped.
pub struct ForkedProcess(pub libc::pid_t);

impl ForkedProcess {
    /// Runs `life` in a child. The child sends a byte when `life` has done its work; then it
    /// waits to be killed.
    pub fn new(life: impl FnOnce(&mut dyn FnMut())) -> ForkedProcess {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        // SAFETY: the child does not return into the test's harness.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: the calls take only numbers.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
            drop(ours);
            let mut ready = || theirs.write_all(&[1]).unwrap_or_default();
            _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life(&mut ready)));
            // SAFETY: ends the child.
            unsafe { libc::_exit(1) };
        }
        drop(theirs);
        let forked = ForkedProcess(child);
        let mut byte = [0];
        assert_eq!(ours.read(&mut byte).unwrap(), 1, "the child did not come to be ready");
        _ = OwnedFd::from(ours);
        forked
    }

    pub fn kill(&mut self) {
        if self.0 > 0 {
            let mut status = 0;
            // SAFETY: the process is our child, which has not been waited for.
            unsafe {
                libc::kill(self.0, libc::SIGKILL);
                libc::waitpid(self.0, &raw mut status, 0);
            }
            self.0 = 0;
        }
    }
}

impl Drop for ForkedProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sleeps for ever.
pub fn rest() -> ! {
    loop {
        sleep(Duration::from_secs(600));
    }
}

/// A journal of the test's own, which is removed when this is dropped. Other tests wait until then: processes
/// that a test forks would hold the other tests' journals open.
pub struct Place {
    options: FairOptions,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    /// Makes the place. The test's process gets nice value 0, so that programs that it starts have it, too.
    pub fn new() -> Place {
        static ALONE: Mutex<()> = Mutex::new(());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the call takes only numbers.
        assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 0) }, 0, "these tests run as root");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let journal = std::env::temp_dir().join(format!("spry-fair-{}-{number}/journal", std::process::id()));
        Place { options: FairOptions { journal, ..FairOptions::default() }, _alone: alone }
    }

    pub fn options(&self) -> FairOptions {
        self.options.clone()
    }

    pub fn journal(&self) -> &Path {
        &self.options.journal
    }

    pub fn start(&self) -> Fair {
        Fair::start(self.options()).unwrap()
    }

    fn guardian_file(&self) -> PathBuf {
        self.journal().with_extension("guardian")
    }

    /// Starts a daemon that gives these processes their places.
    pub fn daemon(&self, verdicts: &[Verdict]) -> ForkedProcess {
        ForkedProcess::new(|ready| {
            let mut fair = self.start();
            fair.apply(verdicts).unwrap();
            std::fs::write(self.guardian_file(), fair.guardian_tgid().unwrap().0.to_string()).unwrap();
            ready();
            rest();
        })
    }

    /// The number of the guardian of the daemon that `daemon` started.
    pub fn guardian(&self) -> u32 {
        std::fs::read_to_string(self.guardian_file()).unwrap().parse().unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(self.journal().parent().unwrap());
    }
}

pub fn verdict(tgid: u32, level: u8) -> Verdict {
    Verdict { tgid: Tgid(tgid), class: Class::Interactive, level, quantum_us: 200_000 }
}

/// Waits until the condition is true. Returns the duration of the wait.
pub fn until(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < limit, "after {limit:?} not so: {what}");
        sleep(Duration::from_millis(5));
    }
    began.elapsed()
}
