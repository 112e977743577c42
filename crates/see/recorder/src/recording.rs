//! Starts a recording, keeps it going on two threads of its own, and ends it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use spry_kernel::{Functions, Kernel};
use spry_mark::MARK_PATH;
use spry_sys::clock;
use spry_trace::writer::{Options, Writer, Written};
use spry_trace::{Group, Groups};

use crate::decode::{Decoder, Rare, What};
use crate::drain::{Drain, Round};
use crate::error::{Error, Result, corrupt, system};
use crate::flight::{FlightEvent, Hold, Lookout, When};
use crate::load::{self, LoadedPrograms};
use crate::machine;
use crate::mark::Target;
use crate::numbers::{self, Listing};
use crate::queue::{Destination, Queue, Sink};
use crate::ring::Control;
use crate::symbols::Symbols;

/// The drain makes a round at least this often, so that a crash costs no more than this much of the trace.
const PERIOD_MAX: Duration = Duration::from_millis(80);

/// The drain makes rounds no more often than this, however full the rings are.
const PERIOD_MIN: Duration = Duration::from_millis(5);

/// A ring fuller than this halves the period.
const FILL_HIGH: f64 = 0.125;

/// The tries of the last round at the end of a recording, 1 ms apart, while a CPU is stopped in the
/// middle of a record.
const LAST_TRIES: usize = 1000;

/// The default size of each CPU's ring, bytes.
pub const RING_BYTES_DEFAULT: usize = 16 << 20;

/// The niceness of the drain thread: it runs before ordinary tasks, and real-time tasks run before it.
const DRAIN_NICE: i32 = -20;

/// The settings of a recording: its groups, its rings, its header and the writer's options.
#[derive(Clone, Debug)]
pub struct Builder {
    groups: Groups,
    ring_bytes: usize,
    options: Options,
    command: Option<Vec<String>>,
    machine: String,
    begin: Switch,
}

/// The counts and the costs of a recording so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Events in the trace.
    pub events: u64,
    /// Events lost, including events that the kernel skipped because their program was already running.
    pub lost: u64,
    /// Lost events of each CPU. Events that the kernel skipped count for the first CPU: their CPU is
    /// unknown.
    pub lost_per_cpu: Vec<u64>,
    /// Bytes of the trace.
    pub bytes: u64,
    /// CPU time of the thread that reads the rings and encodes, ns.
    pub drain_cpu_ns: u64,
    /// CPU time of the thread that writes the file, ns.
    pub writer_cpu_ns: u64,
    /// Time since the recording was first switched on (or made, if it began paused), ns.
    pub duration_ns: u64,
}

/// The starting point of a recording: see [`Recorder::builder`].
#[derive(Debug)]
pub struct Recorder;

impl Recorder {
    /// A builder with the defaults: group `sched`, rings of [`RING_BYTES_DEFAULT`], the writer's own options.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            groups: Groups::NONE.with(Group::Sched),
            ring_bytes: RING_BYTES_DEFAULT,
            options: Options::default(),
            command: None,
            machine: "host".to_owned(),
            begin: Switch::On,
        }
    }
}

impl Builder {
    /// Sets the groups to record; `sched` is always recorded.
    #[must_use]
    pub fn groups(mut self, groups: Groups) -> Builder {
        self.groups = groups.with(Group::Sched);
        self
    }

    /// Sets the bytes of each CPU's ring: a power of two of at least 131072.
    #[must_use]
    pub fn ring_bytes(mut self, ring_bytes: usize) -> Builder {
        self.ring_bytes = ring_bytes;
        self
    }

    /// Sets the options of the trace's writer.
    #[must_use]
    pub fn options(mut self, options: Options) -> Builder {
        self.options = options;
        self
    }

    /// Sets the recorded command, for the header.
    #[must_use]
    pub fn command(mut self, command: Vec<String>) -> Builder {
        self.command = Some(command);
        self
    }

    /// Sets the name of the machine in the header; the default is `host`.
    #[must_use]
    pub fn machine(mut self, machine: String) -> Builder {
        self.machine = machine;
        self
    }

    /// Lets the recording begin switched off; [`Recording::set_enabled`] switches it on.
    #[must_use]
    pub fn paused(mut self) -> Builder {
        self.begin = Switch::Off;
        self
    }

    /// Starts recording into `file`, from its current position.
    ///
    /// # Errors
    /// Every [`Error`] except the errors of writing and creating files.
    pub fn start(self, file: File) -> Result<Recording> {
        self.start_with(|| Ok(Box::new(file)), None)
    }

    /// Starts recording into a new file (see [`create`]). A trace that was there before is overwritten only
    /// after the programs have been loaded.
    ///
    /// Every [`Error`] except the errors of writing.
    /// Every [`Error`] except the errors of writing.
    pub fn start_into(self, path: &Path) -> Result<Recording> {
        self.start_with(|| Ok(Box::new(create(path)?)), None)
    }

    /// Starts a recording that keeps the latest events in memory, in at most `bytes_max` bytes, and looks for
    /// the event that `when` describes: see [`Recording::happened`] and [`Recording::keep`].
    ///
    /// # Errors
    /// Every [`Error`] except the errors of writing and creating files.
    pub fn start_flight(mut self, window: Duration, bytes_max: usize, when: When) -> Result<Recording> {
        self.options = Hold::options(window, self.options);
        let hold = Hold::new(window, bytes_max);
        let to = hold.clone();
        self.start_with(|| Ok(Box::new(to)), Some((hold, when)))
    }

    fn start_with(
        self,
        open: impl FnOnce() -> Result<Box<dyn Destination>>,
        flight: Option<(Hold, When)>,
    ) -> Result<Recording> {
        let kernel = Kernel::probe().ok_or(Error::NoBtf)?;
        let functions = Functions::read();
        let node = match self.groups.contains(Group::Mark) {
            true => Some(Target::find_or_make(Path::new(MARK_PATH))?),
            false => None,
        };
        let groups = load::available(&kernel, self.groups);
        let loaded = load::load(&kernel, &functions, groups, self.ring_bytes, node.as_ref())?;
        let control = loaded.control()?;
        let rings = loaded.rings()?;
        let mut header = machine::header(self.machine, rings.cpus(), groups, self.command);
        let tick_ns = header.hz.map_or(0, |hz| 1_000_000_000 / u64::from(hz));
        let own_tgid = numbers::own_tgid()?;
        header.recorder_tgid = Some(own_tgid.0);
        let names = if groups.contains(Group::Stack) { functions.into_sorted() } else { vec![] };
        let symbols = Symbols::new(names, Listing::of(own_tgid));
        let shared = loaded.shared()?;
        let queue = Arc::new(Queue::default());
        let file = open()?;
        // All slow steps are done by now: the trace begins at the moment when its first event may come.
        header.start_unix_ns = Some(clock::unix_ns());
        header.start_ns = clock::kernel_ns();
        control.set(self.begin == Switch::On);
        let writer = Writer::new(Sink(Arc::clone(&queue)), &header, self.options).map_err(Error::Write)?;
        let decoder = Decoder::new(header.start_ns, tick_ns);
        let mut drain = Drain::new(rings, shared, writer, decoder, symbols);
        let flight = flight.map(|(hold, when)| {
            let happened = Arc::default();
            drain.look_out(Lookout::new(when, own_tgid, Arc::clone(&happened)));
            FlightState { hold, happened, options: self.options }
        });
        let recording = Recording::start(loaded, control, header.start_ns, queue, drain, file)?;
        Ok(Recording { flight, ..recording })
    }
}

/// Makes a file for a trace, empty and readable by its owner only.
///
/// # Errors
/// [`Error::Create`] if it cannot be made.
pub fn create(path: &Path) -> Result<File> {
    let failed = |error| Error::Create(path.to_owned(), error);
    let file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_file() {
        file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    }
    Ok(file)
}

/// A command to the drain thread.
enum Command {
    /// Records later than this time, ns, are being collected; the next `Add` brings them.
    Hold(u64),
    Add(Vec<Rare>),
    Stop {
        end_ns: u64,
        recursion_misses: u64,
    },
}

/// A running recording. If it is dropped without [`Recording::stop`], the drain thread finishes the file by
/// itself, without the last accounts of tasks. If the process ends at once, the file reads to its last round.
pub struct Recording {
    loaded: LoadedPrograms,
    control: Arc<Control>,
    start_ns: u64,
    /// Locked while records are collected, since the drain supports only one hold.
    commands: Mutex<mpsc::Sender<Command>>,
    queue: Arc<Queue>,
    statistics: Arc<Mutex<Statistics>>,
    drain: JoinHandle<Result<()>>,
    writer: JoinHandle<()>,
    flight: Option<FlightState>,
}

/// The state of a flight recorder: the kept trace, the event that was found, and the writer's options.
struct FlightState {
    hold: Hold,
    happened: Arc<Mutex<Option<FlightEvent>>>,
    options: Options,
}

impl Recording {
    fn start(
        loaded: LoadedPrograms,
        control: Control,
        start_ns: u64,
        queue: Arc<Queue>,
        mut drain: Drain<Sink>,
        mut to: Box<dyn Destination>,
    ) -> Result<Recording> {
        let control = Arc::new(control);
        let statistics = Arc::new(Mutex::new(Statistics::default()));
        let (commands, orders) = mpsc::channel();
        drain.add(accounts(&loaded, start_ns)?);
        let spawn = |name: &str| thread::Builder::new().name(name.into());
        let writer = {
            let (queue, statistics) = (Arc::clone(&queue), Arc::clone(&statistics));
            spawn("spry-writer")
                .spawn(move || {
                    queue.write_to(&mut *to);
                    lock(&statistics).writer_cpu_ns = clock::thread_cpu_ns();
                })
                .map_err(system("starting the writer thread"))?
        };
        let draining = {
            let (control, queue, statistics) =
                (Arc::clone(&control), Arc::clone(&queue), Arc::clone(&statistics));
            let pump = Pump { drain, control, queue, statistics, start_ns };
            spawn("spry-drain")
                .spawn(move || pump.run(&orders))
                .map_err(system("starting the drain thread"))?
        };
        Ok(Recording {
            loaded,
            control,
            start_ns,
            commands: Mutex::new(commands),
            queue,
            statistics,
            drain: draining,
            writer,
            flight: None,
        })
    }

    /// The recorded groups: the requested groups that this kernel can record without harm.
    pub const fn groups(&self) -> Groups {
        self.loaded.groups()
    }

    /// Whether the recording names all tasks that existed before it, whatever their PID namespace.
    pub const fn knows_all_tasks(&self) -> bool {
        self.loaded.knows_all_tasks()
    }

    /// Whether recording has ended by itself because the trace could not be written.
    pub fn has_failed(&self) -> bool {
        self.queue.has_failed() || self.drain.is_finished()
    }

    /// The counts and the costs of the recording up to the last round.
    pub fn statistics(&self) -> Statistics {
        lock(&self.statistics).clone()
    }

    /// The event that a flight recorder waits for, if it has happened since the last call.
    pub fn happened(&self) -> Option<FlightEvent> {
        self.flight.as_ref()?.happened.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Writes the trace that a flight recorder has kept up to its last round into a new file.
    /// Recording goes on.
    ///
    /// # Errors
    /// If no event was kept, or the file cannot be written.
    pub fn keep(&self, path: &Path) -> Result<Written> {
        let nothing = || Error::Keep(path.to_owned(), spry_trace::flight::KeepError::Empty);
        let flight = self.flight.as_ref().ok_or_else(nothing)?;
        let options = Options { block_ns: Options::default().block_ns, ..flight.options };
        flight.hold.keep(path, create(path)?, options)
    }

    /// Switches recording off, or on again. Where recording resumes, every CPU's stream has a
    /// loss of 0 events.
    ///
    /// # Errors
    /// If the existing threads cannot be listed.
    pub fn set_enabled(&self, switch: Switch) -> Result<()> {
        match switch {
            Switch::Off => self.control.set(false),
            Switch::On if self.control.is_on() => {}
            Switch::On => {
                let rings = self.loaded.rings()?;
                (0..rings.cpus()).for_each(|cpu| rings.forget_running(cpu));
                self.add(|| {
                    let resumed = Rare { time_ns: clock::kernel_ns(), cpu: 0, what: What::Resumed };
                    self.control.set(true);
                    let mut records = accounts(&self.loaded, self.start_ns)?;
                    records.push(resumed);
                    Ok(records)
                })?;
            }
        }
        Ok(())
    }

    /// Collects records and passes them to the drain, which puts them at their place in the trace.
    fn add(&self, take: impl FnOnce() -> Result<Vec<Rare>>) -> Result<()> {
        // The drain has ended only if it failed, which `stop` returns.
        let commands = lock(&self.commands);
        let _ = commands.send(Command::Hold(clock::kernel_ns()));
        let (records, result) = match take() {
            Ok(records) => (records, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        let _ = commands.send(Command::Add(records));
        result
    }

    /// Ends the recording; the trace is complete and on the disk when this returns.
    ///
    /// # Errors
    /// [`Error::Write`] if not everything could be written; the written part is a whole trace.
    pub fn stop(self) -> Result<Statistics> {
        let mut end_ns = 0;
        self.add(|| {
            let last = accounts(&self.loaded, self.start_ns);
            self.control.set(false);
            end_ns = clock::kernel_ns();
            last
        })?;
        let recursion_misses = self.loaded.recursion_misses()?;
        // The drain has ended only if it failed, which its join returns.
        let _ = lock(&self.commands).send(Command::Stop { end_ns, recursion_misses });
        let drained = self.drain.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.queue.close();
        self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if let Some(error) = self.queue.take_error() {
            return Err(Error::Write(error));
        }
        drained?;
        let statistics = lock(&self.statistics).clone();
        Ok(Statistics { duration_ns: end_ns - self.start_ns, ..statistics })
    }
}

/// Whether events are recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    /// Events are recorded.
    On,
    /// Events are not recorded; the observed programs run at full speed.
    Off,
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The accounts of all threads.
fn accounts(loaded: &LoadedPrograms, near_ns: u64) -> Result<Vec<Rare>> {
    let decoder = Decoder::new(near_ns, 0);
    let snapshot = |stat| decoder.snapshot(stat).map_err(corrupt("the task iterator's"));
    loaded.accounts()?.iter().map(snapshot).collect()
}

/// The drain thread.
struct Pump {
    drain: Drain<Sink>,
    control: Arc<Control>,
    queue: Arc<Queue>,
    statistics: Arc<Mutex<Statistics>>,
    start_ns: u64,
}

impl Pump {
    fn run(mut self, orders: &mpsc::Receiver<Command>) -> Result<()> {
        raise_priority();
        let result = self.rounds(orders);
        // Whatever ended the rounds, no thread reads the rings from now on.
        self.control.set(false);
        let (end_ns, recursion_misses) = result?;
        self.last_rounds()?;
        let (_, written, lost_per_cpu) = self.drain.finish(end_ns, recursion_misses)?;
        self.queue.end_round();
        let mut statistics = lock(&self.statistics);
        statistics.events = written.events;
        statistics.bytes = written.bytes;
        statistics.lost = lost_per_cpu.iter().sum();
        statistics.lost_per_cpu = lost_per_cpu;
        statistics.drain_cpu_ns = clock::thread_cpu_ns();
        Ok(())
    }

    /// Makes rounds until the order to stop comes, or an error.
    fn rounds(&mut self, orders: &mpsc::Receiver<Command>) -> Result<(u64, u64)> {
        let mut period = PERIOD_MAX;
        loop {
            let mut order = match orders.recv_timeout(period) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok((clock::kernel_ns(), 0)),
            };
            // The clock is read before the last look at the orders: a hold that this look does not find began
            // later than all that the round writes.
            let now_ns = clock::kernel_ns();
            while let Some(given) = order.take().or_else(|| orders.try_recv().ok()) {
                match given {
                    Command::Hold(from_ns) => self.drain.hold(from_ns),
                    Command::Add(records) => self.drain.add(records),
                    Command::Stop { end_ns, recursion_misses } => return Ok((end_ns, recursion_misses)),
                }
            }
            if self.queue.has_failed() {
                let error =
                    self.queue.take_error().unwrap_or_else(|| io::Error::other("the writer thread ended"));
                return Err(Error::Write(error));
            }
            let fill = self.drain.fill();
            period = if fill > FILL_HIGH { period / 2 } else { period * 5 / 4 }.clamp(PERIOD_MIN, PERIOD_MAX);
            // While the disk is this far behind, no round is made: the rings fill up, and records that find
            // no room are counted.
            if self.queue.is_full() {
                continue;
            }
            if self.drain.round(now_ns)? == Round::Postponed {
                period = PERIOD_MIN;
                continue;
            }
            self.queue.end_round();
            self.publish();
        }
    }

    fn last_rounds(&mut self) -> Result<()> {
        for _ in 0..LAST_TRIES {
            thread::sleep(Duration::from_millis(1));
            if self.drain.last_round()? == Round::Written {
                break;
            }
        }
        Ok(())
    }

    fn publish(&self) {
        let mut statistics = lock(&self.statistics);
        let written = self.drain.written();
        statistics.events = written.events;
        statistics.bytes = written.bytes;
        statistics.lost_per_cpu = self.drain.lost_per_cpu();
        statistics.lost = statistics.lost_per_cpu.iter().sum();
        statistics.drain_cpu_ns = clock::thread_cpu_ns();
        statistics.duration_ns = clock::kernel_ns().saturating_sub(self.start_ns);
    }
}

/// Raises the priority of the drain thread, since it must not lose records. Without the privilege, the thread
/// keeps its priority.
fn raise_priority() {
    _ = spry_sys::schedule::set_nice(0, DRAIN_NICE);
}
