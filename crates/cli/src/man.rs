//! The command `spry man`: it makes manual pages from the same descriptions as `--help`.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use spry_control::DaemonArgs;

use crate::args::{Args, ManArgs};

/// Writes a manual page for every command.
pub fn run(args: &ManArgs) -> Result<ExitCode> {
    let cannot = || format!("cannot write manual pages into {}", args.directory.display());
    fs::create_dir_all(&args.directory).with_context(cannot)?;
    for (name, text) in pages()? {
        fs::write(args.directory.join(name), text).with_context(cannot)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The file names and texts of the pages: `spry` and its subcommands are in section 1, the daemon
/// is in section 8.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    render(Args::command(), "spry", "1", &mut pages)?;
    render(DaemonArgs::command(), "spry-sched", "8", &mut pages)?;
    Ok(pages)
}

fn render(command: Command, name: &str, section: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    let command = command.name(name.to_owned()).bin_name(name.replace('-', " ")).display_name(name);
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        render(inner.clone(), &format!("{name}-{}", inner.get_name()), section, pages)?;
    }
    let version = concat!("spry ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command).title(name.to_uppercase()).section(section).source(version).date("");
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((format!("{name}.{section}"), text));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The pages that are kept in the source tree: pages of commands that act on the machine, put load on
    /// it, or measure.
    const KEPT: [&str; 18] = [
        "spry-sched.8",
        "spry-sched-run.8",
        "spry-sched.1",
        "spry-sched-run.1",
        "spry-sched-status.1",
        "spry-sched-set.1",
        "spry-top.1",
        "spry-explain.1",
        "spry-reserve.1",
        "spry-reservations.1",
        "spry-ceiling.1",
        "spry-tune.1",
        "spry-latency.1",
        "spry-load.1",
        "spry-load-list.1",
        "spry-load-clean.1",
        "spry-bench.1",
        "spry-compare.1",
    ];

    #[test]
    fn the_pages_in_the_tree_are_those_of_the_commands() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/man");
        let pages = pages().unwrap();
        for name in KEPT {
            let (_, text) =
                pages.iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no {name}"));
            let kept = fs::read(directory.join(name)).unwrap_or_default();
            assert!(
                &kept == text,
                "packaging/man/{name} is not what the command says: run `spry man` and copy it"
            );
        }
    }
}
