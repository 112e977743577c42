//! Real programs with windows: how a task starts one, gives it its class, and reads its CPU time.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use spry_sys::settle::settle;

use super::{DIES_WITH_PARENT, Stage};
use crate::x11::child::{Output, Program};
use crate::x11::{X11Error, server, tree};

impl Stage {
    /// Starts a program, the first word of `argv`, on a display. Its home is a directory that the caller has
    /// made; its output goes there, too. The program ends with the calling thread.
    pub(crate) fn start_program(
        &self,
        argv: &[String],
        environment: &[(String, String)],
        display: &str,
        home: &Path,
    ) -> Result<Program, X11Error> {
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]);
        server::furnish(&mut command, display, home);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        Program::start(command, Output::Log, home.join("output.log"), &argv[0])
    }

    /// Starts a program that needs no display, as [`Self::start_program`] does. Its output goes to the file
    /// `log` in its home.
    pub(crate) fn start_service(&self, argv: &[&str], home: &Path, log: &str) -> Result<Program, X11Error> {
        Program::start(furnished(argv, home), Output::Log, home.join(log), argv[0])
    }

    /// Runs a program that needs no display to its end, and returns its output.
    pub(crate) fn answer_of(&self, argv: &[&str], home: &Path) -> io::Result<String> {
        let mut command = furnished(argv, home);
        settle(&mut command, [DIES_WITH_PARENT]);
        let ended = command.stdin(Stdio::null()).output()?;
        Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
    }

    /// Gives the class of the calling thread to all threads of a program and of the processes
    /// that it started.
    pub(crate) fn share_class(&self, program: &Program) -> Result<(), X11Error> {
        tree::adopt_class(program.tgid())
            .map_err(|source| X11Error::Kernel { what: "giving a program its task's class", source })
    }

    /// The CPU time that a program and each process that it started used so far, ns.
    pub(crate) fn program_cpu_ns(&self, program: &Program) -> BTreeMap<u32, u64> {
        tree::cpu_ns(program.tgid())
    }
}

/// A program with a home of its own, and without a display.
fn furnished(argv: &[&str], home: &Path) -> Command {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]);
    server::furnish(&mut command, "", home);
    command.env_remove("DISPLAY");
    command
}
