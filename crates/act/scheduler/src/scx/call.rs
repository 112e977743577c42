//! BPF programs that the daemon calls like functions: a program reads a request and writes
//! its result into it.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libbpf_rs::libbpf_sys::{bpf_prog_test_run_opts, bpf_test_run_opts};

use crate::intf::{spry_ensure, spry_reserve};

/// A request to a BPF program.
///
/// # Safety
/// The type is plain data without padding, laid out as the program expects it.
pub(super) unsafe trait Request {}

// SAFETY: two words.
unsafe impl Request for spry_ensure {}
// SAFETY: eight words and two longer fields, all of them named.
unsafe impl Request for spry_reserve {}

/// A BPF program, to be called with a request of type `R`.
#[derive(Debug)]
pub(super) struct Call<R> {
    program: OwnedFd,
    request: PhantomData<fn(&mut R)>,
}

impl<R: Request> Call<R> {
    /// Wraps a loaded program, with a descriptor of its own.
    ///
    /// # Errors
    /// If the process can have no more descriptors.
    pub(super) fn of(program: BorrowedFd<'_>) -> io::Result<Call<R>> {
        Ok(Call { program: program.try_clone_to_owned()?, request: PhantomData })
    }

    /// Runs the program on a request.
    ///
    /// # Errors
    /// If the kernel does not run it. The program's own result is in the request.
    pub(super) fn run(&self, request: &mut R) -> io::Result<()> {
        let mut options = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as u64,
            ctx_in: (&raw mut *request).cast(),
            ctx_size_in: size_of::<R>() as u32,
            ..bpf_test_run_opts::default()
        };
        // SAFETY: the request is plain data that outlives the call, and its size is given.
        let result = unsafe { bpf_prog_test_run_opts(self.program.as_raw_fd(), &raw mut options) };
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }
}
