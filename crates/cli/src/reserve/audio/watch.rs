//! PipeWire's tools, run as the session's user: `pw-dump --monitor` reports objects and their changes, and
//! `pw-top` reports the drivers' periods.
//!
//! These are tools and not PipeWire's library: the library would tie the command to a package that a server
//! does not have, and the build to a developer's package. Both tools come with every PipeWire.

use std::io::{self, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Deserializer, Value};

use super::graph::{Line, Objects, running};

/// The programs of PipeWire that this module runs.
const DUMP: &str = "pw-dump";
const TOP: &str = "pw-top";
/// How many arrays of objects may wait to be read.
const WAITING_MAX: usize = 256;
/// How long the objects must stay unchanged until the graph is read again.
const QUIET: Duration = Duration::from_millis(500);

/// The objects, kept current.
#[derive(Debug)]
pub struct GraphWatch {
    child: Child,
    told: Receiver<Value>,
    objects: Objects,
}

/// The changes of the objects during a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GraphChange {
    /// Nothing has changed.
    Same,
    /// The graph has changed, and has been stable since for a while.
    Changed,
    /// PipeWire has ended, or the tool has.
    Ended,
}

impl GraphWatch {
    /// Starts to watch. The tool ends by itself if PipeWire does not answer.
    ///
    /// # Errors
    /// If the tool cannot be started.
    pub fn start() -> io::Result<GraphWatch> {
        let mut command = Command::new(DUMP);
        command.args(["--monitor", "--no-colors"]).stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let (teller, told) = mpsc::sync_channel(WAITING_MAX);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || {
                let arrays = Deserializer::from_reader(BufReader::new(output)).into_iter::<Value>();
                for array in arrays.map_while(Result::ok) {
                    if teller.send(array).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(GraphWatch { child, told, objects: Objects::default() })
    }

    /// Waits at most this long for a change.
    pub fn wait(&mut self, limit: Duration) -> GraphChange {
        let mut seen = GraphChange::Same;
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let patience = if seen == GraphChange::Same { left } else { QUIET };
            match self.told.recv_timeout(patience) {
                Ok(array) => {
                    if self.objects.take(array) {
                        seen = GraphChange::Changed;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return seen,
                Err(RecvTimeoutError::Disconnected) => return GraphChange::Ended,
            }
        }
    }

    /// The objects as they were last reported.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }
}

impl Drop for GraphWatch {
    fn drop(&mut self) {
        // The tool may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The nodes that run, with their drivers and periods. The first of the two tables is made before the drivers
/// have reported a period.
///
/// # Errors
/// If the tool cannot be started.
pub fn periods() -> io::Result<Vec<Line>> {
    let ended = Command::new(TOP).args(["-b", "-n", "2"]).stdin(Stdio::null()).output()?;
    Ok(running(&String::from_utf8_lossy(&ended.stdout)))
}
