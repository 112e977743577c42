//! Requests for the tick and the quanta, which root alone may set.

use spry_control::{QuantumClass, QuantumUs, Refusal, RefusalKind, Tuning};
use spry_sys::clock::monotonic_ns;

use super::{Daemon, unable};

impl Daemon {
    pub(super) fn tune(&mut self, uid: u32, tuning: Option<Tuning>) -> Result<String, Refusal> {
        may_tune(uid)?;
        self.acting.tune(tuning).map_err(unable)?;
        self.ticks.restart(&self.acting, monotonic_ns());
        Ok(match tuning {
            Some(tuning) => format!("{tuning}, until the daemon ends or another `spry tune`"),
            None => "tick and quantum are the scheduler's own again".to_owned(),
        })
    }

    pub(super) fn tune_class(
        &mut self,
        uid: u32,
        class: QuantumClass,
        quantum: Option<QuantumUs>,
    ) -> Result<String, Refusal> {
        may_tune(uid)?;
        self.acting.tune_class(class, quantum).map_err(unable)?;
        Ok(match quantum {
            Some(quantum) => {
                format!("{quantum} for {class}, until the daemon ends or another `spry tune`")
            }
            None => format!("the quantum of {class} is the scheduler's own again"),
        })
    }
}

/// Fails unless the user is root.
fn may_tune(uid: u32) -> Result<(), Refusal> {
    let text = "only root turns the tick and the quantum of all tasks".to_owned();
    if uid == 0 { Ok(()) } else { Err(Refusal { kind: RefusalKind::Denied, text }) }
}
