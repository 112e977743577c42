//! Keeps a thread from waiting for files that were sent along with a message, when it reads or
//! closes a socket.
//!
//! A process that writes to a local socket may send open files along. The process that drops the message
//! closes these files. If one of them is a TCP connection that lingers, closing it waits for as long as its
//! sender likes. From version 6.16 on the kernel lets a socket refuse such messages; on older kernels a
//! signal ends the wait.

use std::io;
use std::time::Duration;

use nix::sys::signal::{SigEvent, SigevNotify, Signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;
use nix::unistd::gettid;

/// After each pause of this length the waiting call is interrupted again.
const WAIT: Duration = Duration::from_millis(2);
/// The signal that interrupts; nothing else in this program uses it.
const SIGNAL: Signal = Signal::SIGURG;

/// Signals to one thread, sent again and again between [`Patience::begin`] and [`Patience::end`].
#[derive(Debug)]
pub struct Patience(Timer);

impl Patience {
    /// Makes a timer for the calling thread; no other thread may use it.
    ///
    /// # Errors
    /// If the process may have no further timer.
    pub fn of_this_thread() -> io::Result<Patience> {
        spry_sys::signal::interrupt_only(SIGNAL as i32)?;
        let thread = SigevNotify::SigevThreadId { signal: SIGNAL, thread_id: gettid().as_raw(), si_value: 0 };
        Ok(Patience(Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(thread))?))
    }

    /// Makes calls of this thread wait for a short time at most, from now on.
    pub fn begin(&mut self) {
        let often = Expiration::IntervalDelayed(WAIT.into(), WAIT.into());
        // Setting the timer does not fail for valid times.
        let _ = self.0.set(often, TimerSetTimeFlags::empty());
    }

    /// Lets calls of this thread wait again, from now on.
    pub fn end(&mut self) {
        let never = Expiration::OneShot(Duration::ZERO.into());
        let _ = self.0.set(never, TimerSetTimeFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg, setsockopt, sockopt};

    use super::*;

    /// A TCP connection: closing its last descriptor waits for a second, as the other end reads nothing.
    fn lingering() -> (TcpListener, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 1 }).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 65_536]).is_ok() {}
        (listener, stream, other)
    }

    fn send_along(socket: &UnixStream, file: impl AsRawFd) -> nix::Result<usize> {
        let files = [file.as_raw_fd()];
        let along = [ControlMessage::ScmRights(&files)];
        sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(b"x")], &along, MsgFlags::empty(), None)
    }

    #[test]
    fn a_passed_lingering_connection_delays_a_reader_for_ms_only() {
        let mut patience = Patience::of_this_thread().unwrap();
        let mut reads_for = |is_patient: fn(&mut Patience)| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            let (_listener, stream, _other) = lingering();
            send_along(&theirs, stream).unwrap();
            let began = Instant::now();
            is_patient(&mut patience);
            assert_eq!(ours.read(&mut [0]).unwrap(), 1);
            let took = began.elapsed();
            patience.end();
            took
        };
        let long = reads_for(|_| ());
        let short = reads_for(Patience::begin);
        assert!(
            long >= Duration::from_millis(900) && short < Duration::from_millis(500),
            "{long:?}, {short:?}"
        );
    }

    #[test]
    fn a_socket_that_refuses_files_gets_none_if_the_kernel_can() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let can_refuse = spry_sys::message::refuse_files(listener.as_fd());
        let client = UnixStream::connect(&path).unwrap();
        let sent = send_along(&client, std::fs::File::open("/dev/null").unwrap());
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        println!("{sent:?} on {}", release.trim());
        assert_eq!(sent, if can_refuse { Err(nix::errno::Errno::EPERM) } else { Ok(1) });
    }
}
