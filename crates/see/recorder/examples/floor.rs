//! Runs a command while programs that do nearly nothing are at the tracepoints of switches and wake-ups:
//! `floor nothing|clock|record COMMAND...`. What they add to the command is the least that any recorder adds.

use std::error::Error;
use std::process::{Command, ExitCode};

use libbpf_rs::ObjectBuilder;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/floor.bpf.o"));

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [kind, command, rest @ ..] = args.as_slice() else {
        return Err("floor nothing|clock|record COMMAND...".into());
    };
    let mut open = ObjectBuilder::default().open_memory(OBJECT)?;
    for mut program in open.progs_mut() {
        let wanted = program.name().to_string_lossy().starts_with(&format!("{kind}_"));
        program.set_autoload(wanted);
    }
    let object = open.load()?;
    let mut links = Vec::new();
    for program in object.progs_mut().filter(|program| program.autoload()) {
        links.push(program.attach()?);
    }
    if links.is_empty() {
        return Err(format!("{kind} is none of nothing, clock, record").into());
    }
    let status = Command::new(command).args(rest).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
