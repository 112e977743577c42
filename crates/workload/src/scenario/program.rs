//! The steps of a task: what a program of steps is made of.

/// Steps, so many times over.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// How often they are done; `None`: until the end.
    pub times: Option<u64>,
}

/// An index into the scenario's objects.
pub type ObjectId = usize;

/// One thing that a task does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Uses so much CPU time, counted as work.
    Run {
        /// ns of CPU time.
        ns: u64,
    },
    /// Computes until so much time has passed, whoever had the CPU.
    RunFor {
        /// ns of real time.
        ns: u64,
    },
    /// Sleeps from now on.
    Sleep {
        /// ns.
        ns: u64,
    },
    /// Sleeps until the next multiple of a period since the task's start; what is already past is left out.
    Alarm {
        /// ns.
        period_ns: u64,
    },
    /// Sleeps until so long after the task's start.
    SleepUntil {
        /// ns since the start.
        ns: u64,
    },
    /// A timer as rt-app has it: the next period counts from the last one's end.
    Timer {
        /// Whose timer.
        timer: TimerRef,
        /// ns.
        period_ns: u64,
        /// What follows when a period was missed.
        mode: TimerMode,
    },
    /// Waits for bytes of a pipe or socket, or for a count of 1 or more of a counter and takes it.
    Wait {
        /// On what.
        object: ObjectId,
        /// How many bytes of a pipe or socket.
        bytes: u32,
    },
    /// Wakes who waits on it, by bytes or by counting up.
    Wake {
        /// Whom.
        object: ObjectId,
        /// How many bytes go through a pipe or socket.
        bytes: u32,
    },
    /// Takes a lock.
    Lock(ObjectId),
    /// Gives it back.
    Unlock(ObjectId),
    /// Gives the lock back while waiting on a condition.
    ConditionWait {
        /// The condition.
        condition: ObjectId,
        /// The lock, which the task holds.
        lock: ObjectId,
    },
    /// Wakes one that waits on a condition.
    Signal(ObjectId),
    /// Wakes all that wait on a condition.
    Broadcast(ObjectId),
    /// Takes the lock, wakes one that waits, and waits itself.
    Sync {
        /// The condition.
        condition: ObjectId,
        /// The lock.
        lock: ObjectId,
    },
    /// Waits until somebody signals after it came.
    Suspend(ObjectId),
    /// Waits until all have come.
    Barrier(ObjectId),
    /// Starts another task's steps as a new thread (or process) of its own.
    Fork {
        /// The index of the task.
        task: usize,
    },
    /// Starts a program and waits for its end.
    Exec {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// Writes to a file of the scratch directory by one call, from its start.
    WriteFile {
        /// Its name.
        file: String,
        /// How much.
        bytes: u64,
    },
    /// Reads from a file of the scratch directory.
    ReadFile {
        /// Its name.
        file: String,
        /// How much.
        bytes: u64,
    },
    /// Has a file written to the disk.
    SyncFile {
        /// Its name.
        file: String,
    },
    /// Writes to memory, over and over through a buffer.
    Memory(Memory),
    /// Writes to a device in one call a buffer.
    WriteDevice {
        /// Its path.
        path: String,
        /// How much.
        bytes: u64,
    },
    /// A frame: one is due every period; early ones wait, those late by more than half a period are dropped.
    Frame {
        /// ns.
        period_ns: u64,
    },
    /// A key is hit: a byte goes through this pipe or socket, and its time is kept.
    Key {
        /// The pipe.
        object: ObjectId,
    },
    /// The oldest key not yet answered is answered.
    Echo {
        /// The pipe through which it came.
        object: ObjectId,
    },
    /// Offers the CPU.
    Yield,
    /// A mark in the recorded trace.
    Mark(String),
    /// Steps, so many times over.
    Repeat(Program),
    /// Moves the thread into a task group.
    JoinGroup(String),
    /// Changes the class or the CPUs of the thread.
    Become {
        /// The class from here on.
        class: Option<super::model::Class>,
        /// The CPUs from here on; `None`: as before.
        affinity: Option<Vec<u32>>,
    },
}

/// Whose timer a timer step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRef {
    /// The thread's own, by index.
    Own(usize),
    /// One for all threads that name it.
    Shared(ObjectId),
}

/// What follows a missed period of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// The next period begins now.
    Relative,
    /// The periods go on as if nothing had happened.
    Absolute,
}

/// How memory is gone through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The buffer's size, bytes.
    pub size: usize,
    /// How many bytes, or how many links of the chain.
    pub count: u64,
    /// In which manner.
    pub access: Access,
}

/// The manner of going through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Fill it.
    Write,
    /// Read it byte by byte.
    Read,
    /// Follow pointers that lie `stride` bytes apart, in order or not.
    Chase {
        /// bytes.
        stride: usize,
        /// The order.
        order: Order,
    },
}

/// The order of a chain of pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other.
    Sequential,
    /// So that no prefetcher follows.
    Scattered,
}

/// Something that tasks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ObjectKind,
}

/// What tasks can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A pipe.
    Pipe,
    /// A pair of connected sockets of the Unix domain.
    Socket,
    /// A count in shared memory, with a futex to wait on.
    Counter,
    /// A lock, with a futex to wait on.
    Lock,
    /// A lock whose holder inherits the priority of who waits.
    InheritingLock,
    /// A condition.
    Condition,
    /// A meeting point of so many.
    Barrier(u32),
    /// When a shared timer last went off.
    Timer,
}

impl Program {
    /// How many steps it has, those within repetitions counted once.
    pub fn len(&self) -> usize {
        self.steps.iter().map(|step| if let Step::Repeat(inner) = step { inner.len() } else { 1 }).sum()
    }

    /// Whether it has no step.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` for every step, those within repetitions too.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&Step)) {
        for step in &self.steps {
            visit(step);
            if let Step::Repeat(inner) = step {
                inner.visit(visit);
            }
        }
    }

    /// The programs that it starts.
    pub fn programs(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.visit(&mut |step| {
            if let Step::Exec { argv } = step {
                found.extend(argv.first().cloned());
            }
        });
        found
    }
}
