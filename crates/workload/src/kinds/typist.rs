//! The typist and the editor: keys at a steady rate through a pipe, work for each, an echo back (Emacs in the thesis,
//! sections 4.3 and 6.3).

use super::{Kind, Role};
use crate::metrics::{Metrics, Samples};
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::runner::sys;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// The kind.
pub(super) struct Typist;

impl Kind for Typist {
    fn name(&self) -> &'static str {
        "typist"
    }

    fn about(&self) -> &'static str {
        "keys through a pipe to an editor that answers each; keys: rate, editor_work, jitter"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let rate = keys.number_within("rate", 0.01, 10_000.0)?.unwrap_or(8.0);
        Ok(Box::new(Typing {
            interval_ns: (1e9 / rate).round() as u64,
            work_ns: keys.duration_ns("editor_work")?.unwrap_or(2_000_000),
            jitter: keys.number_within("jitter", 0.0, 1.0)?.unwrap_or(0.2),
        }))
    }
}

#[derive(Clone, Debug)]
struct Typing {
    /// Between two keys on the average, ns.
    interval_ns: u64,
    /// What the editor does for a key, ns of CPU time.
    work_ns: u64,
    /// By how much of the interval keys come earlier or later, by chance: nobody types in step with a clock tick.
    jitter: f64,
}

impl Typing {
    /// Types: each key is the time when it was due.
    fn type_keys(&self, stage: &Stage, keys: i32, echoes: i32) -> Result<(), RunError> {
        let mut rng = stage.rng();
        let start = stage.start_line()?;
        let mut buffer = [0; 64];
        let mut at_ns = start.t0_ns;
        while !stage.over() {
            at_ns += self.interval_ns;
            let shift = (rng.unit() - 0.5) * self.jitter * self.interval_ns as f64;
            let due_ns = at_ns.saturating_add_signed(shift as i64);
            while stage.sleep_until(due_ns) == sys::Woke::Interrupted && !stage.over() {}
            // The screen takes what was echoed since the last key.
            while sys::read(echoes, &mut buffer).is_ok_and(|read| read == buffer.len()) {}
            if !stage.over() && sys::write(keys, &due_ns.to_le_bytes()).is_err() {
                return Err(RunError::Failed("the editor's pipe is broken".into()));
            }
        }
        Ok(())
    }

    fn edit(&self, stage: &Stage, keys: i32, echoes: i32) -> Result<Samples, RunError> {
        let expected = stage.duration_ns() / self.interval_ns.max(1) + 64;
        let mut responses = Samples::with_capacity(expected as usize);
        let start = stage.start_line()?;
        let mut key = [0; 8];
        while !stage.over() {
            match sys::read(keys, &mut key) {
                Ok(8) => {}
                _ => continue,
            }
            stage.work(self.work_ns);
            // A screen that takes nothing any more hinders no editor.
            let _ = sys::write(echoes, b"k");
            let due_ns = u64::from_le_bytes(key);
            let now_ns = stage.now_ns();
            if !stage.over() && due_ns >= start.measure_from_ns && due_ns < start.measure_to_ns {
                responses.push(now_ns - due_ns);
            }
        }
        Ok(responses)
    }
}

impl Role for Typing {
    fn threads(&self) -> u32 {
        2
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let failed = |error| RunError::Failed(format!("a pipe for keys: {error}"));
        let [keys_out, keys_in] = sys::channel(sys::Channel::Pipe).map_err(failed)?;
        let [echoes_out, echoes_in] = sys::channel(sys::Channel::Pipe).map_err(failed)?;
        sys::never_wait(echoes_out);
        sys::never_wait(echoes_in);
        let typing = self.clone();
        let typist = stage.spawn("typist", move |stage| typing.type_keys(stage, keys_in, echoes_out))?;
        let responses = self.edit(stage, keys_out, echoes_in);
        typist.join()??;
        let mut metrics = Metrics::new();
        metrics.quantiles("response_ns", &responses?, &["p50", "p99", "max"]);
        Ok(metrics)
    }
}
