//! The typist and the editor: the typist sends keys at a steady rate through a pipe. The editor works for
//! each key and sends an echo back (Emacs in the thesis, sections 4.3 and 6.3).

use spry_scenario::kinds::Typist;
use spry_scenario::metrics::{Metrics, Samples};

use crate::RunError;
use crate::stage::{Reader, Stage, Writer};

pub(super) fn play(typing: &Typist, stage: &Stage) -> Result<Metrics, RunError> {
    let failed = |error| RunError::Failed(format!("a pipe for keys: {error}"));
    let (keys_out, keys_in) = stage.pipe().map_err(failed)?;
    let (echoes_out, echoes_in) = stage.pipe().map_err(failed)?;
    echoes_out.never_wait();
    echoes_in.never_wait();
    let theirs = typing.clone();
    let typist = stage.spawn("typist", move |stage| type_keys(&theirs, stage, &keys_in, &echoes_out))?;
    let responses = edit(typing, stage, &keys_out, &echoes_in);
    typist.join()??;
    let mut metrics = Metrics::new();
    metrics.quantiles("response_ns", &responses?, &["p50", "p99", "max"]);
    Ok(metrics)
}

/// Types keys: writes to the editor, for each key, the time at which the key was due.
fn type_keys(typing: &Typist, stage: &Stage, keys: &Writer, echoes: &Reader) -> Result<(), RunError> {
    let mut rng = stage.rng();
    let start = stage.start_line()?;
    let mut buffer = [0; 64];
    let mut at_ns = start.t0_ns;
    while !stage.over() {
        at_ns += typing.interval_ns;
        let shift = (rng.unit() - 0.5) * typing.jitter * typing.interval_ns as f64;
        let due_ns = at_ns.saturating_add_signed(shift as i64);
        stage.sleep_through(due_ns);
        // The typist reads the echoes that came since the last key, as a terminal would show them.
        while echoes.read(&mut buffer).is_ok_and(|read| read == buffer.len()) {}
        if !stage.over() && keys.write(&due_ns.to_le_bytes()).is_err() {
            return Err(RunError::Failed("the editor's pipe is broken".into()));
        }
    }
    Ok(())
}

fn edit(typing: &Typist, stage: &Stage, keys: &Reader, echoes: &Writer) -> Result<Samples, RunError> {
    let expected = stage.duration_ns() / typing.interval_ns.max(1) + 64;
    let mut responses = Samples::with_capacity(expected as usize);
    let start = stage.start_line()?;
    let mut key = [0; 8];
    while !stage.over() {
        match keys.read(&mut key) {
            Ok(8) => {}
            _ => continue,
        }
        stage.work(typing.work_ns);
        // If the pipe of the echoes is full, the write fails, and the editor goes on.
        let _ = echoes.write(b"k");
        let due_ns = u64::from_le_bytes(key);
        let now_ns = stage.now_ns();
        if !stage.over() && start.counts(due_ns) {
            responses.push(now_ns - due_ns);
        }
    }
    Ok(responses)
}
