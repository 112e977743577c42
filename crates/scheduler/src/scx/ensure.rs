//! Nodes for processes that have none: one that never waited for another, nor was waited for, can be in use too.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};
use spry_policy::Tgid;

use crate::intf::spry_ensure;
use crate::nodes::NodeRef;

/// The collection's program that gives a process a node.
#[derive(Debug)]
pub(super) struct Ensurer {
    program: OwnedFd,
}

impl Ensurer {
    pub(super) fn new(program: BorrowedFd<'_>) -> Result<Ensurer> {
        Ok(Ensurer { program: program.try_clone_to_owned().context("sharing the collection's program")? })
    }

    /// The node of a process; `None` where there is no such process, or no place.
    pub(super) fn ensure(&self, tgid: Tgid) -> Option<NodeRef> {
        let mut request = spry_ensure { tgid: tgid.0, ref_: 0 };
        self.run(&mut request).ok()?;
        NodeRef::new(request.ref_)
    }

    fn run(&self, request: &mut spry_ensure) -> io::Result<()> {
        let mut options = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as u64,
            ctx_in: (&raw mut *request).cast(),
            ctx_size_in: size_of::<spry_ensure>() as u32,
            ..bpf_test_run_opts::default()
        };
        // SAFETY: the request is plain data that outlives the call, and its size is given.
        let result = unsafe { bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut options) };
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}
