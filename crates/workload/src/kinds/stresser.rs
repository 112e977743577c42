//! The stresser: an endless loop that takes every cycle (thesis, section 4.3).

use super::{Kind, Role};
use crate::metrics::Metrics;
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::scenario::keys::Keys;
use crate::scenario::mistake::Mistake;

/// The kind.
pub(super) struct Stresser;

impl Kind for Stresser {
    fn name(&self) -> &'static str {
        "stresser"
    }

    fn about(&self) -> &'static str {
        "an endless loop that takes every cycle"
    }

    fn parse(&self, _keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        Ok(Box::new(Endless))
    }
}

#[derive(Debug)]
struct Endless;

impl Role for Endless {
    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        stage.start_line()?;
        while !stage.over() {
            stage.work(1_000_000);
        }
        Ok(Metrics::new())
    }
}
