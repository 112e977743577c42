//! The program of a task: the steps that the task does.

use crate::model::Class;

/// A sequence of steps that is repeated.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// How often the steps are done; `None`: until the run ends.
    pub times: Option<u64>,
}

/// An index into the scenario's objects.
pub type ObjectId = usize;

/// One thing that a task does.
#[derive(Clone, Debug)]
pub enum Step {
    /// The task uses this much CPU time, by doing the work that takes it.
    Run {
        /// The CPU time, ns.
        ns: u64,
    },
    /// The task computes until this much real time has passed, even if other tasks had the CPU meanwhile.
    RunFor {
        /// The real time, ns.
        ns: u64,
    },
    /// The task sleeps for some time, from now on.
    Sleep {
        /// How long the task sleeps, ns.
        ns: u64,
    },
    /// The task sleeps until the next multiple of a period since its start. Multiples that have passed
    /// already are skipped.
    Alarm {
        /// The period, ns.
        period_ns: u64,
    },
    /// The task sleeps until a moment after its start.
    SleepUntil {
        /// The time from the task's start to that moment, ns.
        ns: u64,
    },
    /// The task waits for a timer of rt-app's kind: the next period begins at the end of the last period.
    Timer {
        /// The timer on which the task waits.
        timer: TimerRef,
        /// The period, ns.
        period_ns: u64,
        /// What the timer does after a missed period.
        mode: TimerMode,
    },
    /// The task waits for bytes of a pipe or socket. Or it waits until a counter is 1 or more, and
    /// takes 1 from it.
    Wait {
        /// The pipe, socket or counter.
        object: ObjectId,
        /// How many bytes the task reads from the pipe or socket.
        bytes: u32,
    },
    /// The task wakes another task that waits on the object: it writes bytes, or adds 1 to the counter.
    Wake {
        /// The pipe, socket or counter.
        object: ObjectId,
        /// How many bytes the task writes to the pipe or socket.
        bytes: u32,
    },
    /// The task takes a lock.
    Lock(ObjectId),
    /// The task releases a lock.
    Unlock(ObjectId),
    /// The task waits on a condition, and releases its lock for as long as it waits.
    ConditionWait {
        /// The condition on which the task waits.
        condition: ObjectId,
        /// The lock that the task holds.
        lock: ObjectId,
    },
    /// The task wakes one thread that waits on a condition.
    Signal(ObjectId),
    /// The task wakes all threads that wait on a condition.
    Broadcast(ObjectId),
    /// The task takes the lock, wakes one thread that waits on the condition, and then waits on it itself.
    Sync {
        /// The condition that is signalled.
        condition: ObjectId,
        /// The lock that the task takes.
        lock: ObjectId,
    },
    /// The task waits until the condition is signalled after the wait has begun.
    Suspend(ObjectId),
    /// The task waits until all threads of the barrier have come.
    Barrier(ObjectId),
    /// The task starts another task's steps as a new thread or a new process.
    Fork {
        /// The index of the task.
        task: usize,
    },
    /// The task starts a program and waits for its end.
    Exec {
        /// The program and its arguments.
        argv: Vec<String>,
    },
    /// The task writes to a file of the scratch directory in one call, from the beginning of the file.
    WriteFile {
        /// The file's name.
        file: String,
        /// How many bytes the task writes.
        bytes: u64,
    },
    /// The task reads from a file of the scratch directory, from the beginning of the file.
    ReadFile {
        /// The file's name.
        file: String,
        /// How many bytes the task reads.
        bytes: u64,
    },
    /// The task has a file written to the disk.
    SyncFile {
        /// The file's name.
        file: String,
    },
    /// The task goes through a buffer of memory: it writes, reads, or follows pointers.
    Memory(Memory),
    /// The task writes to a device file, with one call for each buffer.
    WriteDevice {
        /// The device's path.
        path: String,
        /// How many bytes the task writes.
        bytes: u64,
    },
    /// The task shows a frame. One is due every period. An early frame waits until it is due. A frame that is
    /// late by more than half a period is dropped.
    Frame {
        /// The period, ns.
        period_ns: u64,
    },
    /// The task hits a key: it sends a byte through a pipe or socket, and keeps the time at which
    /// the key was due.
    Key {
        /// The pipe or socket through which the key goes.
        object: ObjectId,
    },
    /// The task answers the oldest key that is not answered yet.
    Echo {
        /// The pipe or socket through which the key came.
        object: ObjectId,
    },
    /// The task offers the CPU to other threads (`sched_yield`).
    Yield,
    /// The task writes a mark into the recorded trace.
    Mark(String),
    /// The task repeats some steps.
    Repeat(Program),
    /// The task's thread moves into a task group.
    JoinGroup(String),
    /// The task's thread changes its class or its CPUs.
    Become {
        /// The new class; `None`: the class stays as it was.
        class: Option<Class>,
        /// The new CPUs; `None`: the CPUs stay as they were.
        affinity: Option<Vec<u32>>,
    },
}

/// The timer that a timer step uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerRef {
    /// A timer that only this thread uses, by its index.
    Own(usize),
    /// A timer that is shared by all threads that name it.
    Shared(ObjectId),
}

/// What a timer does after its thread missed a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerMode {
    /// The next period begins at the present moment.
    Relative,
    /// The periods go on at the moments at which they would have been without the miss.
    Absolute,
}

/// How a task goes through memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The size of the buffer, bytes.
    pub size: usize,
    /// How many bytes the task goes through, or how many links of the chain it follows.
    pub count: u64,
    /// The manner of access.
    pub access: Access,
}

/// The manner in which a task goes through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The task fills the buffer.
    Write,
    /// The task reads the buffer byte by byte.
    Read,
    /// The task follows pointers, which lie `stride` bytes apart.
    Chase {
        /// The distance of two neighbouring pointers, bytes.
        stride: usize,
        /// The order in which the task visits the pointers.
        order: Order,
    },
}

/// The order in which a chain visits its pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In the order of their addresses.
    Sequential,
    /// In an order that the CPU's prefetcher does not predict.
    Scattered,
}

/// An object that tasks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The object's name.
    pub name: String,
    /// The object's kind.
    pub kind: ObjectKind,
}

/// The kinds of objects that tasks can share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A pipe, which carries bytes.
    Pipe,
    /// A pair of connected sockets of the Unix domain.
    Socket,
    /// A count in shared memory, with a futex to wait on.
    Counter,
    /// A lock, with a futex to wait on.
    Lock,
    /// A lock; its holder inherits the priority of the threads that wait for it.
    InheritingLock,
    /// A condition on which threads can wait.
    Condition,
    /// A barrier, where this many threads meet.
    Barrier(u32),
    /// A shared timer: the time at which it last went off.
    Timer,
}

impl Program {
    /// How many steps the program has. A step within a repetition counts once.
    pub fn len(&self) -> usize {
        self.steps.iter().map(|step| if let Step::Repeat(inner) = step { inner.len() } else { 1 }).sum()
    }

    /// Whether the program has no step.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `visit` for every step, also for the steps within repetitions.
    pub fn visit(&self, visit: &mut dyn FnMut(&Step)) {
        for step in &self.steps {
            visit(step);
            if let Step::Repeat(inner) = step {
                inner.visit(visit);
            }
        }
    }

    /// The programs that the steps start.
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
