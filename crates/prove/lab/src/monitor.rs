//! The control channel of the emulator (QMP), over its standard input and output. Only a few
//! commands are used.

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// The interval at which a wait checks whether the caller has given up.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The arguments with which the emulator reads commands from its standard input.
pub(crate) const ARGUMENTS: [&str; 4] =
    ["-chardev", "stdio,id=monitor,signal=off", "-mon", "chardev=monitor,mode=control"];

/// The reason why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MonitorError {
    /// The emulator ended.
    #[error("the emulator ended")]
    Ended,
    /// The emulator refused the command; `reason` is in its own words.
    #[error("the emulator does not {command}: {reason}")]
    Refused { command: &'static str, reason: String },
    /// The caller gave up the wait.
    #[error("given up")]
    GivenUp,
}

/// The channel to a running emulator.
#[derive(Debug)]
pub(crate) struct Monitor {
    input: std::process::ChildStdin,
    messages: Receiver<Value>,
}

impl Monitor {
    /// Takes the pipes of an emulator that was started with [`ARGUMENTS`], and begins the conversation.
    ///
    /// # Errors
    /// If the emulator ends at once or does not answer.
    pub(crate) fn open(child: &mut Child, go_on: &mut dyn FnMut() -> bool) -> Result<Self, MonitorError> {
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for")
        };
        let (sender, messages) = channel();
        // The thread ends when the emulator ends, because that closes the other end of the pipe.
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let mut monitor = Self { input, messages };
        monitor.execute("qmp_capabilities", json!({}), go_on)?;
        Ok(monitor)
    }

    /// Sends a command and returns the emulator's answer. Events that come before the answer are dropped.
    ///
    /// # Errors
    /// See [`MonitorError`].
    pub(crate) fn execute(
        &mut self,
        command: &'static str,
        arguments: Value,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Value, MonitorError> {
        let text = json!({ "execute": command, "arguments": arguments }).to_string();
        writeln!(self.input, "{text}").map_err(|_| MonitorError::Ended)?;
        loop {
            let mut message = self.next(go_on)?;
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = message.get("error") {
                let reason = error["desc"].as_str().unwrap_or_default().to_owned();
                return Err(MonitorError::Refused { command, reason });
            }
        }
    }

    /// Waits for an event of this name.
    ///
    /// # Errors
    /// See [`MonitorError`].
    pub(crate) fn wait_for(
        &mut self,
        event: &str,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), MonitorError> {
        while self.next(go_on)?.get("event").and_then(Value::as_str) != Some(event) {}
        Ok(())
    }

    fn next(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Value, MonitorError> {
        loop {
            match self.messages.recv_timeout(LOOK_EVERY) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Disconnected) => return Err(MonitorError::Ended),
                Err(RecvTimeoutError::Timeout) if !go_on() => return Err(MonitorError::GivenUp),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
