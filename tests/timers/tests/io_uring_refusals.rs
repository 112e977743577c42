//! Where a wait in io_uring can have no time limit, and which error says so.

use std::io;
use std::process::Command;
use std::thread;

use io_uring::IoUring;
use spry_timer::{RingBackstop, RingError};

#[test]
fn a_ring_that_polls_for_completions_is_refused() {
    let backstop = RingBackstop::new().expect("the kernel has io_uring");
    let mut ring: IoUring = IoUring::builder().setup_iopoll().build(8).expect("a ring");
    for limit_ns in [Some(0), None] {
        let error = backstop.wait(&mut ring, limit_ns).expect_err("the limit would not be kept");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "a ring with IORING_SETUP_IOPOLL waits without a time limit");
    }
}

/// The error of a thread for which the kernel answers some calls with an error: those of this number which
/// have one of these flags, or any call if there are none.
fn refused_by_a_filter(call: libc::c_long, flags: u32, errno: i32) -> RingError {
    let step = |code: u32, k: u32, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let has_flag = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    // The offsets of the number and of the fourth argument in `struct seccomp_data`.
    let (number, fourth) = (0, 16 + 3 * 8 + if cfg!(target_endian = "big") { 4 } else { 0 });
    let mut program = [
        step(load, number, 0, 0),
        step(equal, call as u32, 0, 3),
        step(load, fourth, 0, 0),
        step(has_flag, if flags == 0 { u32::MAX } else { flags }, 0, u8::from(flags != 0)),
        step(answer, libc::SECCOMP_RET_ERRNO | errno as u32, 0, 0),
        step(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let asks = move || {
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        let (none, one, mode): (libc::c_ulong, libc::c_ulong, _) =
            (0, 1, libc::c_ulong::from(libc::SECCOMP_MODE_FILTER));
        // SAFETY: the program is valid during the call. The filter is that of this thread alone.
        let is_filtered = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, one, none, none, none) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) == 0
        };
        assert!(is_filtered, "{}", io::Error::last_os_error());
        RingBackstop::new().expect_err("the filter refuses it")
    };
    thread::spawn(asks).join().expect("it ends")
}

#[test]
fn each_refusal_of_the_kernel_has_an_error_of_its_own() {
    let setup = |errno| refused_by_a_filter(libc::SYS_io_uring_setup, 0, errno);
    let none = setup(libc::ENOSYS);
    assert!(
        matches!(&none, RingError::Missing(_)) && none.to_string().contains("CONFIG_IO_URING=y"),
        "{none}"
    );
    for errno in [libc::EPERM, libc::EACCES] {
        let forbidden = setup(errno);
        assert!(matches!(forbidden, RingError::Forbidden(_)), "{forbidden}");
        assert!(forbidden.to_string().contains("kernel.io_uring_disabled"), "{forbidden}");
    }
    let failed = setup(libc::EMFILE);
    assert!(matches!(failed, RingError::Failed(_)), "{failed}");
    // Older kernels refuse the flag IORING_ENTER_ABS_TIMER in this way.
    let old = refused_by_a_filter(libc::SYS_io_uring_enter, 1 << 5, libc::EINVAL);
    assert!(matches!(&old, RingError::TooOld(_)) && old.to_string().contains("Linux 6.12"), "{old}");
    let forbidden = refused_by_a_filter(libc::SYS_io_uring_enter, 0, libc::EPERM);
    assert!(matches!(forbidden, RingError::Forbidden(_)), "{forbidden}");
    for error in [none, failed, old, forbidden] {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

/// The name of this test, and the variable with which the test starts itself in a time namespace.
const SHIFTED: &str = "a_time_namespace_with_another_clock_is_refused";

#[test]
fn a_time_namespace_with_another_clock_is_refused() {
    if std::env::var_os(SHIFTED).is_some() {
        let error = RingBackstop::new().expect_err("the limit would be missed by the offset");
        assert!(matches!(error, RingError::TimeNamespace), "{error}");
        return;
    }
    let unshare = |offset: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--time", "--fork", "--monotonic", offset]);
        command
    };
    // A machine may forbid user namespaces.
    if !unshare("0").arg("true").status().is_ok_and(|status| status.success()) {
        return;
    }
    let this = std::env::current_exe().expect("this program");
    for offset in ["2", "-2"] {
        let run = unshare(offset).arg(&this).args([SHIFTED, "--exact"]).env(SHIFTED, "1").output();
        let run = run.expect("unshare starts");
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && text.contains("1 passed"), "{text}");
    }
}
