//! The command line of loads.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Subcommand, builder::TypedValueParser};
use spry_load::{CpuList, Load, Options};

use crate::timespan::Timespan;

const LOAD_EXAMPLES: &str = "\
Examples:
  spry load list                          what there is, and what can run here
  spry load ttcp fs                       until Ctrl-C
  spry load all --duration 60 --json
  spry load kernel-cpu --cpus 1 --nice 10
  sudo spry load nfs-compile --source linux-6.18.tar.xz --disk 4G --memory 2G
  spry load clean                         remove what killed loads have left

Loads run in namespaces of their own (processes, mounts, a network of loopback alone) \
and in a directory of their own, all of
which goes away with them, also if spry is killed.
Exit codes: 0 ended after --duration or by Ctrl-C, 1 a load could not run or ended by itself, 2 wrong usage.";

/// Arguments of `load`.
#[derive(clap::Args)]
#[command(after_help = LOAD_EXAMPLES, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct LoadArgs {
    #[command(subcommand)]
    pub command: Option<LoadCommand>,
    /// The loads to run beside each other; `all` is every one that can run here.
    #[arg(value_name = "NAME", required = true, value_parser = names())]
    pub names: Vec<String>,
    /// Stop after this time (10, 1.5, 2min); it begins when all of them run.
    #[arg(short, long, value_name = "SECONDS")]
    pub duration: Option<Timespan>,
    #[command(flatten)]
    pub bounds: LoadBounds,
    /// End with one line of JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// No progress and no closing words.
    #[arg(short, long)]
    pub quiet: bool,
}

/// What loads may take, and where.
#[derive(Clone, Default, clap::Args)]
pub struct LoadBounds {
    /// The directory below which the loads make their own [default: $TMPDIR, or /tmp].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Memory that they may take in all (512M, 2G) [default: a quarter of the machine's, at most 512M].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Disk space that they may take in all [default: 512M].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub disk: Option<u64>,
    /// CPUs that they run on (0,2-3) [default: all].
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Their nice value [default: that of spry].
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(i32).range(-20..=19), allow_negative_numbers = true)]
    pub nice: Option<i32>,
    /// What is compiled: a directory of C source with a Makefile, or what tar reads [default: busybox, as the
    /// distribution has it, fetched once].
    #[arg(long, value_name = "PATH")]
    pub source: Option<PathBuf>,
}

impl LoadBounds {
    /// The same for loads that write down in `state` what is to be cleaned up.
    pub fn options(&self, state: PathBuf) -> Options {
        let defaults = Options::new(state);
        Options {
            dir: self.dir.clone(),
            memory_bytes: self.memory.unwrap_or(defaults.memory_bytes),
            disk_bytes: self.disk.unwrap_or(defaults.disk_bytes),
            cpus: self.cpus.clone(),
            nice: self.nice,
            source: self.source.clone(),
            ..defaults
        }
    }
}

#[derive(Subcommand)]
pub enum LoadCommand {
    /// List the loads: what each one stands for and does, what it needs, and whether it can run here.
    List(LoadListArgs),
    /// Remove what loads have left that were killed together with their guardians.
    Clean,
}

/// Arguments of `load list`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  spry load list\n  spry load list --json | jq -r '.[] | \
                  select(.lack == null).name'")]
pub struct LoadListArgs {
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// The names that there are, also as the article writes them.
pub fn names() -> impl TypedValueParser<Value = String> {
    let value = |load: &Load| {
        PossibleValue::new(load.name())
            .alias(load.name().to_ascii_uppercase().replace('-', "_"))
            .alias(load.name().to_ascii_uppercase())
    };
    let all = PossibleValue::new("all");
    PossibleValuesParser::new(Load::all().iter().map(value).chain([all]))
}

/// Bytes, or with a unit of 1024 of them and more.
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: give bytes, or a number with K, M or G (512M)");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(wrong()),
    };
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2GiB"), Ok(2 << 30));
        assert_eq!(parse_size("4096"), Ok(4096));
        for text in ["", "M", "1.5G", "-1", "1T", "99999999999G"] {
            assert!(parse_size(text).expect_err(text).contains("512M"));
        }
    }
}
