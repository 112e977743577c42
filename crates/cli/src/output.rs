//! What the command says: to standard output, where a closed pipe is an error like any other, and to standard error.

use std::env;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use spry_report::text::{Colour, Style};

use crate::args::{ColourArg, TextArgs};

/// Columns where nobody says how many.
const COLUMNS_DEFAULT: u16 = 100;

/// Writes a text to standard output.
///
/// # Errors
/// Where it cannot be written; that nobody reads any more is told by its kind.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a line to standard error, as `eprintln!` does. A line that nothing reads any more ends no work: it is dropped.
macro_rules! say {
    ($($words:tt)*) => {
        drop(::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!("{}\n", format_args!($($words)*))))
    };
}
pub(crate) use say;

/// How text is laid out, as asked or as the terminal has it.
pub fn style(args: &TextArgs) -> Style {
    let is_coloured = match args.color {
        ColourArg::Always => true,
        ColourArg::Never => false,
        ColourArg::Auto => {
            io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        }
    };
    Style::new(columns(args.width), if is_coloured { Colour::Ansi } else { Colour::Plain })
}

/// How many columns text may have.
pub fn columns(asked: Option<u16>) -> u16 {
    let terminal = io::stdout().is_terminal();
    asked
        .or_else(|| terminal_size::terminal_size().filter(|_| terminal).map(|(width, _)| width.0))
        .unwrap_or(COLUMNS_DEFAULT)
}
