//! Arguments that several subcommands have.

use std::path::PathBuf;

use clap::ValueEnum;

/// How text is laid out.
#[derive(clap::Args)]
pub struct TextArgs {
    /// Colours in the text.
    #[arg(long, value_enum, default_value_t = ColourArg::Auto)]
    pub color: ColourArg,
    /// Columns of the text; the terminal's if not given.
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub width: Option<u16>,
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColourArg {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// On every kind of output.
    Always,
    /// On no kind of output.
    Never,
}

/// Where the scheduler's daemon is spoken to.
#[derive(clap::Args)]
pub struct SocketArgs {
    /// The control socket [default: $SPRY_SOCKET, or /run/spry/sched.sock].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl SocketArgs {
    /// The socket's path.
    pub fn path(&self) -> PathBuf {
        spry_control::socket(self.socket.clone())
    }
}

/// The most unused bytes, as clap counts.
const SHAKE_MOST: i64 = spry_lab::SHAKE_MOST_BYTES as i64;

/// How the cells of a run are played.
#[derive(Clone, clap::Args)]
pub struct CellArgs {
    /// The lab's kernel: one of `spry lab kernels`, or a bootable image (bzImage, vmlinuz), with its modules
    /// if they are beside it or where its machine keeps them.
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,
    /// How many virtual machines run side by side; otherwise one for each CPU. Figures do not depend on it.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// In the lab, gives each guest N unused bytes: another draw of the same case. Figures that differ much
    /// between draws say little.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=SHAKE_MOST))]
    pub shake: Option<u32>,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}
