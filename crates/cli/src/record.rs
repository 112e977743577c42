//! The command `spry record`.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use spry_page::words::{bytes, count, duration, percent};
use spry_recorder::{Recorder, Recording, Statistics, Switch};
use spry_trace::writer::ZSTD_LEVEL_DEFAULT;
use spry_trace::{Compression, Groups, Options};

use crate::args::{CompressArg, RecordArgs};
use crate::exit::{self, CodedError};
use crate::flight::{Condition, Continuation, Flight};
use crate::limits;
use crate::output::{self, say};
use crate::progress;
use crate::stopping;

/// How often the progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(250);
/// How often the command checks a recording of which it shows no progress.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Records until the time is up, the recorded command has ended, or the user interrupts.
pub fn run(args: &RecordArgs) -> Result<ExitCode> {
    let code = if args.command.is_empty() { 1 } else { exit::RECORDING_FAILED };
    let failed = |error: Error| CodedError::wrap(code, error);
    let signals = signals().map_err(failed)?;
    let files_before = limits::raise_files();
    let recording = start(args).map_err(failed)?;
    let mut child = match spawn(&args.command) {
        Ok(child) => child,
        Err(error) => {
            // The command did not start, so the events that were recorded until now are useless.
            let _ = recording.stop();
            return Err(error);
        }
    };
    child.iter().for_each(|child| limits::give_files(child, files_before));
    let mut flight = Flight::new(args);
    let ended = watch(args, &recording, &signals, child.as_mut(), flight.as_mut());
    let kept = flight.as_mut().map_or(Ok(()), |flight| flight.end(&recording));
    let stopped = recording.stop();
    let ended = ended.and_then(|ended| kept.map(|()| ended)).map_err(failed)?;
    if let Err(error) = &stopped {
        // The error is printed now, because the command may run for a long time. It is not printed again when
        // the command ends.
        say!("spry: {}: {}", args.output.display(), exit::in_words(&error.to_string()));
    }
    let status = match ended {
        RecordingEnd::Command(status) => Some(status),
        RecordingEnd::Otherwise => child.map(|child| outlive(child, &signals)).transpose()?,
    };
    let Ok(statistics) = stopped else { return Ok(ExitCode::from(code)) };
    tell(args, &statistics, flight.as_ref())?;
    Ok(status.map_or(ExitCode::SUCCESS, code_of))
}

fn start(args: &RecordArgs) -> Result<Recording> {
    let compression = match args.compress {
        CompressArg::None => Compression::None,
        CompressArg::Zstd => Compression::Zstd(ZSTD_LEVEL_DEFAULT),
    };
    let ring_bytes = args.buffer.checked_mul(1 << 20).context("a buffer of that size is too large")?;
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let groups: Groups = args.events.iter().copied().collect();
    let mut builder = Recorder::builder()
        .groups(groups)
        .ring_bytes(ring_bytes)
        .machine(args.machine.clone())
        .options(Options { compression, ..Options::default() });
    if !command.is_empty() {
        builder = builder.command(command);
    }
    if args.paused {
        builder = builder.paused();
    }
    let recording = match (args.flight, &args.when) {
        (Some(window), Some(Condition(when))) => {
            let bytes_max = args.memory.checked_mul(1 << 20).context("that much memory is too much")?;
            builder.start_flight(window.duration(), bytes_max, when.clone())?
        }
        _ => builder.start_into(&args.output)?,
    };
    if !recording.knows_all_tasks() {
        say!(
            "spry: this kernel lists only the tasks of this PID namespace; the others that were there before \
             have no names: record outside the container, or start it with --pid=host"
        );
    }
    for group in groups.iter().filter(|&group| !recording.groups().contains(group)) {
        say!(
            "spry: this kernel cannot tell of the group {}; the report shows what that leaves out",
            group.name()
        );
    }
    Ok(recording)
}

fn signals() -> Result<Receiver<i32>> {
    let mut ends = vec![SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2];
    // Under nohup the recording outlives its terminal.
    if !stopping::is_ignored(SIGHUP) {
        ends.push(SIGHUP);
    }
    let mut signals = Signals::new(ends).context("cannot listen to signals")?;
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for signal in signals.forever() {
            if sender.send(signal).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

fn spawn(command: &[OsString]) -> Result<Option<Child>> {
    let [program, arguments @ ..] = command else { return Ok(None) };
    match Command::new(program).args(arguments).spawn() {
        Ok(child) => Ok(Some(child)),
        Err(error) => {
            let code = match error.kind() {
                io::ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::CANNOT_START,
            };
            let what = format!("cannot start {}", program.to_string_lossy());
            Err(CodedError::wrap(code, Error::new(error).context(what)))
        }
    }
}

/// Why a recording is over.
enum RecordingEnd {
    /// The recorded command has ended.
    Command(ExitStatus),
    /// The time is up, the user interrupted, or writing failed.
    Otherwise,
}

fn watch(
    args: &RecordArgs,
    recording: &Recording,
    signals: &Receiver<i32>,
    mut child: Option<&mut Child>,
    mut flight: Option<&mut Flight<'_>>,
) -> Result<RecordingEnd> {
    let began = Instant::now();
    let duration = args.duration.map(|span| span.duration());
    let bar = (!args.quiet && io::stderr().is_terminal()).then(|| progress::recording(duration));
    let look_every = if bar.is_some() || flight.is_some() { SHOW_EVERY } else { LOOK_EVERY };
    let ended = loop {
        let left = duration.map_or(Duration::MAX, |duration| duration.saturating_sub(began.elapsed()));
        if left.is_zero() || recording.has_failed() {
            break RecordingEnd::Otherwise;
        }
        match signals.recv_timeout(left.min(look_every)) {
            // The terminal sends both signals to the recorded command, too.
            Ok(SIGINT | SIGHUP) => break RecordingEnd::Otherwise,
            Ok(SIGTERM) => {
                child.as_deref().inspect(|child| forward(child, SIGTERM));
                break RecordingEnd::Otherwise;
            }
            Ok(SIGCHLD) => {
                if let Some(Ok(Some(status))) = child.as_mut().map(|child| child.try_wait()) {
                    break RecordingEnd::Command(status);
                }
            }
            Ok(signal @ (SIGUSR1 | SIGUSR2)) => {
                let switch = if signal == SIGUSR1 { Switch::On } else { Switch::Off };
                if let Err(error) = recording.set_enabled(switch) {
                    say!("spry: {error}");
                }
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break RecordingEnd::Otherwise,
        }
        if let Some(flight) = flight.as_deref_mut() {
            if flight.look(recording)? == Continuation::End {
                break RecordingEnd::Otherwise;
            }
        }
        bar.as_ref().inspect(|bar| show(bar, began.elapsed(), &recording.statistics()));
    };
    bar.inspect(ProgressBar::finish_and_clear);
    Ok(ended)
}

fn show(bar: &ProgressBar, elapsed: Duration, so_far: &Statistics) {
    bar.set_position(elapsed.as_millis() as u64);
    bar.set_message(format!(
        "{:.0} s, {} events, {} lost, {}",
        elapsed.as_secs_f64(),
        count(so_far.events),
        count(so_far.lost),
        bytes(so_far.bytes)
    ));
}

/// Waits for a recorded command that runs on after its recording has ended.
fn outlive(mut child: Child, signals: &Receiver<i32>) -> Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the command")? {
            return Ok(status);
        }
        if let Ok(SIGTERM) = signals.recv_timeout(LOOK_EVERY) {
            forward(&child, SIGTERM);
        }
    }
}

fn forward(child: &Child, signal: i32) {
    // A child that has not been waited for keeps its number.
    _ = spry_sys::signal::send_number(child.id(), signal);
}

fn code_of(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(code as u8)
}

fn tell(args: &RecordArgs, statistics: &Statistics, flight: Option<&Flight<'_>>) -> Result<()> {
    if args.json {
        let line = json!({
            "events": statistics.events,
            "lost": statistics.lost,
            "bytes": statistics.bytes,
            "duration_ns": statistics.duration_ns,
            "lost_per_cpu": statistics.lost_per_cpu,
            "drain_cpu_ns": statistics.drain_cpu_ns,
            "writer_cpu_ns": statistics.writer_cpu_ns,
            "file": if flight.is_some() { Value::Null } else { json!(args.output) },
            "kept": flight.map(Flight::written),
        });
        output::print(&format!("{line}\n"))?;
    }
    if args.quiet || flight.is_some() {
        return Ok(());
    }
    let cost_ns = statistics.drain_cpu_ns + statistics.writer_cpu_ns;
    say!(
        "spry: {} events in {}, {} lost, {} ({:.1} bytes an event), {} of a CPU to record; in {}",
        count(statistics.events),
        duration(statistics.duration_ns),
        count(statistics.lost),
        bytes(statistics.bytes),
        statistics.bytes as f64 / statistics.events.max(1) as f64,
        percent(cost_ns as f64 / statistics.duration_ns.max(1) as f64),
        args.output.display()
    );
    Ok(())
}
