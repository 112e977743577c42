//! The numbers of the file format; `docs/trace-format.md` explains them.

/// First bytes of every file.
pub const MAGIC: [u8; 8] = *b"SPRYTRC\n";
/// The major version. A reader refuses any other.
pub const VERSION_MAJOR: u16 = 1;
/// The minor version. A reader accepts any.
pub const VERSION_MINOR: u16 = 3;
/// Bytes before the header's JSON: magic, versions, length.
pub const HEADER_FIXED_BYTES: usize = 16;
/// The longest header, bytes of JSON. A reader refuses a longer one as damaged.
pub const HEADER_BYTES_MAX: usize = 1 << 20;

/// First byte of every frame.
pub const SYNC: u8 = 0xf7;
/// A frame with segments of the CPUs' streams.
pub const FRAME_ROUND: u8 = 1;
/// The last frame: the end of the recording, and the places at which all CPUs begin new blocks.
pub const FRAME_INDEX: u8 = 2;
/// A frame like [`FRAME_ROUND`]. No block goes on at its start, so reading can begin here.
pub const FRAME_RESTART: u8 = 3;
/// The longest payload of a frame.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// The longest uncompressed segment.
pub const SEGMENT_BYTES_MAX: usize = 16 << 20;
/// The first bytes of the footer, which ends a finished file; the index frame's offset follows.
pub const FOOTER_MAGIC: [u8; 8] = *b"SPRYEND\n";
/// The length of the footer: magic and offset.
pub const FOOTER_BYTES: usize = 16;

/// Segment flag: starts a block; the block's fixed part follows.
pub const SEGMENT_STARTS_BLOCK: u64 = 1;
/// Segment flag: the data continue the block's zstd stream.
pub const SEGMENT_ZSTD: u64 = 2;
/// Bits of a segment's first number that are flags; the rest is the CPU.
pub const SEGMENT_FLAG_BITS: u32 = 2;

/// No tid is higher than this (the kernel's `PID_MAX_LIMIT`).
pub const TID_MAX: u64 = 1 << 22;
/// CPU numbers are below this; a reader refuses higher numbers.
pub const CPU_MAX: u64 = 8192;
/// The longest symbol of a stack, bytes.
pub const SYMBOL_BYTES_MAX: usize = 512;
/// A block's table of symbols starts anew when it holds this many.
pub const SYMBOLS_MAX: usize = 1 << 16;
/// The deepest stack.
pub const FRAMES_MAX: usize = 256;

/// Entries in a block's table of predictions.
pub const PREDICTIONS: usize = 512;
/// Records with more bytes than this beside the first and the time are not predicted.
pub const PREDICTED_BYTES_MAX: usize = 6;
/// The number of bits of a predicted record's time that its first byte holds.
pub const PREDICTED_TIME_BITS: u32 = 3;

/// Stolen time that is a whole number of these grains takes less room in the trace.
pub const STOLEN_GRAIN_NS: i32 = 4096;

/// The low bits of a record's first byte are its code, the high three its flags.
pub const CODE_BITS: u32 = 5;
/// The first flag of a record; its meaning depends on the code.
pub const FLAG_A: u8 = 0x20;
/// The second flag of a record.
pub const FLAG_B: u8 = 0x40;
/// The third flag of a record.
pub const FLAG_C: u8 = 0x80;

/// Record codes. Codes 26 to 30 are free; 31 carries a length, so that readers can skip unknown records.
pub mod code {
    #![allow(missing_docs)]
    pub const DEFINE: u8 = 0;
    pub const SWITCH: u8 = 1;
    pub const WAKING: u8 = 2;
    pub const WAKEUP: u8 = 3;
    pub const FORK: u8 = 4;
    pub const EXEC: u8 = 5;
    pub const EXIT: u8 = 6;
    pub const COMM: u8 = 7;
    pub const PRIO: u8 = 8;
    pub const MIGRATE: u8 = 9;
    pub const TICK: u8 = 10;
    pub const TIMER_EXPIRE: u8 = 11;
    pub const IRQ_ENTER: u8 = 12;
    pub const IRQ_EXIT: u8 = 13;
    pub const SOFTIRQ_ENTER: u8 = 14;
    pub const SOFTIRQ_EXIT: u8 = 15;
    pub const NEED_RESCHED: u8 = 16;
    pub const SCHEDULE_ENTER: u8 = 17;
    pub const SCHEDULE_EXIT: u8 = 18;
    pub const IPC: u8 = 19;
    pub const MARK: u8 = 20;
    pub const STACK: u8 = 21;
    pub const LOST: u8 = 22;
    pub const STAT: u8 = 23;
    pub const CURRENT: u8 = 24;
    pub const PREDICTED: u8 = 25;
    pub const EXTENDED: u8 = 31;
}

/// Numbers of [`code::EXTENDED`] records.
pub mod extended {
    /// The numbers of the task introduced just before, in the recorder's PID namespace.
    pub const INNER: u64 = 1;
    /// A task that is throttled.
    pub const THROTTLED: u64 = 2;
    /// The CPU enters or leaves an idle state.
    pub const IDLE_STATE: u64 = 3;
    /// The number of CPUs on which a task may run.
    pub const AFFINITY: u64 = 4;
}
