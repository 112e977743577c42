//! The first process of the lab's guest. It sets the guest up, runs the job at a fixed moment, and gives the
//! results to the lab.

mod kernel;
mod process;
mod results;
mod scheduler;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::panic;
use std::path::Path;
use std::process::ExitCode;

use spry_lab::Stage;
use spry_lab::protocol::{
    Account, CommandEnd, Failure, GuestCommand, GuestJob, GuestMachine, JOB, MACHINE_PATH, RESULTS_DIRECTORY,
    SAVED_AT_MS, SETTLED_MS, START_STEP_MS,
};

use process::Waiter;
use results::Shared;
use scheduler::Scheduler;

/// If the requested start is less than this time away, the guest starts the commands at a later moment.
const START_MARGIN_MS: u64 = 1_000;

fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("spry-guest: this is the first process of the lab's guests, and of no use elsewhere");
        return ExitCode::from(2);
    }
    let worked = panic::catch_unwind(|| {
        kernel::mount_all()?;
        let mut shared = Shared::open()?;
        settle()?;
        // The lab saves the machine at this point. Each run continues from here, with its job in the shared
        // memory.
        kernel::pause_machine()?;
        let account = work(&mut shared);
        shared.tell(Stage::Collecting);
        shared.hand_out(account)
    });
    match worked {
        Ok(Ok(())) => {}
        Ok(Err(error)) => eprintln!("spry-guest: {error}"),
        Err(_) => eprintln!("spry-guest: stopped"),
    }
    kernel::restart()
}

/// Does the part of the setup that does not depend on the job, and waits until the boot is over.
fn settle() -> io::Result<()> {
    let machine: GuestMachine = serde_json::from_slice(&fs::read(MACHINE_PATH)?)?;
    if machine.scratch_mib > 0 {
        kernel::make_scratch(&mut Waiter::new()).map_err(io::Error::other)?;
    }
    kernel::sleep_until(SAVED_AT_MS.max(kernel::uptime_ms()));
    Ok(())
}

/// Does the job. The returned account has the failure, if there is one.
fn work(shared: &mut Shared) -> Account {
    let mut account = Account { booted_ms: kernel::uptime_ms(), ..Account::default() };
    if let Err(failure) = job(shared, &mut account) {
        account.failure = Some(failure);
    }
    account
}

fn job(shared: &mut Shared, account: &mut Account) -> Result<(), Failure> {
    let other = |what: String| Failure::Other(what);
    let job = receive(shared).map_err(|error| other(format!("the job did not arrive: {error}")))?;
    kernel::seed_chance(job.seed).map_err(|error| other(format!("chance cannot be seeded: {error}")))?;
    let mut waiter = Waiter::new();
    for (path, value) in &job.settings {
        fs::write(path, value)
            .map_err(|error| Failure::Setting(path.clone(), value.clone(), error.to_string()))?;
    }
    shared.tell(Stage::Loading);
    let scheduler = match &job.scheduler {
        Some(argv) => Some(Scheduler::start(argv, job.scheduler_sign, job.scheduler_limit_ms, &mut waiter)?),
        None => None,
    };
    account.scheduler_loaded_ms = scheduler.as_ref().map(|_| kernel::uptime_ms());
    shared.tell(Stage::Waiting);
    kernel::sleep_until(start_ms(job.start_ms, kernel::uptime_ms()));
    shared.tell(Stage::Running);
    account.started_ms = kernel::uptime_ms();
    for (number, command) in job.commands.iter().enumerate() {
        let ended = run(number, command, &mut waiter)?;
        account.commands.push(ended);
        if let Some(scheduler) = &scheduler {
            scheduler.check(&mut waiter)?;
        }
    }
    Ok(())
}

/// Reads the job from the shared memory, and writes the job's files to their places.
fn receive(shared: &mut Shared) -> io::Result<GuestJob> {
    let mut files = shared.job().ok_or_else(|| io::Error::other("the memory holds none"))?;
    shared.tell(Stage::SettingUp);
    let text = files.remove(JOB).ok_or_else(|| io::Error::other("it has no text"))?;
    let job: GuestJob = serde_json::from_slice(&text)?;
    for (name, content) in files {
        let path = Path::new("/").join(&name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&path, content)?;
        if job.programs.contains(&name) {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(job)
}

fn run(number: usize, command: &GuestCommand, waiter: &mut Waiter) -> Result<CommandEnd, Failure> {
    let start_ms = kernel::uptime_ms();
    let log = |stream: &str| format!("{RESULTS_DIRECTORY}/{number}.{stream}");
    let child = process::start(&command.argv, &command.env, &log("stdout"), &log("stderr"))
        .map_err(|error| Failure::Other(format!("cannot start `{}`: {error}", command.argv.join(" "))))?;
    let limit_ms = u64::from(command.limit_s.max(1)) * 1000;
    let Some(status) = waiter.wait(child, start_ms + limit_ms) else {
        process::kill_group(child);
        return Err(Failure::TimedOut(command.argv.join(" "), command.limit_s));
    };
    let (exit, signal) = process::exit_or_signal(status);
    Ok(CommandEnd { exit, signal, start_ms, end_ms: kernel::uptime_ms() })
}

/// The moment at which commands start: the requested moment. If that is too near or has passed, the next
/// multiple of `START_STEP_MS`.
fn start_ms(asked_ms: u64, now_ms: u64) -> u64 {
    let asked_ms = asked_ms.max(SETTLED_MS);
    if now_ms + START_MARGIN_MS <= asked_ms {
        return asked_ms;
    }
    (now_ms + START_MARGIN_MS).div_ceil(START_STEP_MS) * START_STEP_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_start_is_put_off_to_the_next_multiple() {
        assert_eq!(start_ms(0, 3_000), 8_000);
        assert_eq!(start_ms(8_000, 7_000), 8_000);
        assert_eq!(start_ms(8_000, 7_001), 12_000);
        assert_eq!(start_ms(8_000, 17_600), 20_000);
        assert_eq!(start_ms(30_000, 17_600), 30_000);
    }
}
