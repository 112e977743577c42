//! Makes nodes for processes without one. A process that never waited for another process, and for which no
//! process waited, can still be in use.

use std::os::fd::BorrowedFd;

use anyhow::{Context, Result};
use spry_policy::Tgid;

use super::call::Call;
use crate::intf::spry_ensure;
use crate::nodes::NodeRef;

/// The BPF program of the collection that gives a process a node.
#[derive(Debug)]
pub(super) struct Ensurer {
    program: Call<spry_ensure>,
}

impl Ensurer {
    pub(super) fn new(program: BorrowedFd<'_>) -> Result<Ensurer> {
        Ok(Ensurer { program: Call::of(program).context("sharing the collection's program")? })
    }

    /// The node of a process, made if it has none. `None` if there is no such process, or no free node.
    pub(super) fn ensure(&self, tgid: Tgid) -> Option<NodeRef> {
        let mut request = spry_ensure { tgid: tgid.0, ref_: 0 };
        self.program.run(&mut request).ok()?;
        NodeRef::new(request.ref_)
    }
}
