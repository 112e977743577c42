//! The output of the command. It goes to standard output, where a closed pipe is an error like others, and to
//! standard error.

use std::env;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use spry_report::text::{Colour, Style};

use crate::args::{ColourArg, TextArgs};

/// The width of text if neither the user nor a terminal gives one, in characters.
const COLUMNS_DEFAULT: u16 = 100;

/// Writes a text to standard output.
///
/// # Errors
/// If the text cannot be written. If a pipe has no reader any more, the kind of the error is `BrokenPipe`.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes a line to standard error, as `eprintln!` does. If the write fails, the line is lost and
/// the work goes on.
macro_rules! say {
    ($($words:tt)*) => {
        drop(::std::io::Write::write_fmt(&mut ::std::io::stderr(), format_args!("{}\n", format_args!($($words)*))))
    };
}
pub(crate) use say;

/// How text is formatted: as the user asked, or as the terminal allows.
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

/// The width of text, in characters: the user's choice, or the terminal's width, or a default.
pub fn columns(asked: Option<u16>) -> u16 {
    let terminal = io::stdout().is_terminal();
    asked
        .or_else(|| terminal_size::terminal_size().filter(|_| terminal).map(|(width, _)| width.0))
        .unwrap_or(COLUMNS_DEFAULT)
}
