//! The command `spry scenario`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use spry_scenario::kinds;
use spry_scenario::model::{Scenario, Variable};

use crate::args::{ScenarioArgs, ScenarioCommand};
use crate::output::{self, say};
use crate::shipped::{self, SHIPPED};

/// The exit code if a scenario or a command line has a mistake.
pub const MISTAKE: u8 = 2;

/// Runs a subcommand of `spry scenario`.
pub fn run(args: &ScenarioArgs) -> Result<ExitCode> {
    match &args.command {
        ScenarioCommand::Check { files, quiet } => {
            let mut code = ExitCode::SUCCESS;
            for file in files {
                let source = shipped::find(file)?;
                match Scenario::parse(&source.text, &source.name) {
                    Ok(scenario) if !quiet => output::print(&scenario.check().to_string())?,
                    Ok(_) => {}
                    Err(mistake) => {
                        say!("{mistake}");
                        code = ExitCode::from(MISTAKE);
                    }
                }
            }
            return Ok(code);
        }
        ScenarioCommand::List => list()?,
        ScenarioCommand::Kinds => {
            for kind in kinds::ALL {
                output::print(&format!("{:12} {}\n", kind.name, kind.about))?;
            }
        }
        ScenarioCommand::Show { name } => output::print(&shipped::find(name)?.text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<()> {
    let width = SHIPPED.iter().map(|(file, _)| file.len()).max().unwrap_or(0);
    for (file, text) in SHIPPED {
        let scenario =
            Scenario::parse(text, file).context("a scenario that comes with Spry has a mistake")?;
        output::print(&format!("{:width$}  {}\n", file.trim_end_matches(".toml"), scenario.about))?;
        for variable in &scenario.variables {
            let Variable { name, default, about, .. } = variable;
            output::print(&format!("{:width$}    {name}={default}  {about}\n", ""))?;
        }
    }
    Ok(())
}
