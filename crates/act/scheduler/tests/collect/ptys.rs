//! Tests of pseudo-terminals in another file system than that of `/dev/pts`. Any user can mount such a
//! file system in a namespace. Its terminals have the same numbers, but do not count as terminals of a
//! person.

use std::ffi::CString;
use std::os::fd::RawFd;

use spry_display::terminals::Activity;

use crate::world::{Child, World, child, get, nap, terminal};

/// The number of a terminal, read at its holder's end.
fn number(holder: RawFd) -> libc::c_int {
    let mut number = -1;
    // SAFETY: the call writes one number, for which there is room.
    assert_eq!(unsafe { libc::ioctl(holder, libc::TIOCGPTN, &raw mut number) }, 0);
    number
}

/// Both ends of a terminal with the number wanted, in a file system that only the calling process sees.
fn terminal_elsewhere(number_wanted: libc::c_int) -> (RawFd, RawFd) {
    let place = std::env::temp_dir();
    let place = CString::new(place.to_str().expect("text")).expect("no 0 in it");
    // SAFETY: texts that end with 0; the mount is seen in the calling process' namespace alone.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNS), 0);
        let private = libc::MS_REC | libc::MS_PRIVATE;
        assert_eq!(
            libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), private, std::ptr::null()),
            0
        );
        let options = c"ptmxmode=0666".as_ptr().cast();
        assert_eq!(libc::mount(c"devpts".as_ptr(), place.as_ptr(), c"devpts".as_ptr(), 0, options), 0);
        assert_eq!(libc::chdir(place.as_ptr()), 0);
        loop {
            let holder = libc::open(c"ptmx".as_ptr(), libc::O_RDWR | libc::O_NOCTTY);
            assert!(holder >= 0);
            let unlocked: libc::c_int = 0;
            assert_eq!(libc::ioctl(holder, libc::TIOCSPTLCK, &raw const unlocked), 0);
            if number(holder) == number_wanted {
                let name = CString::new(number_wanted.to_string()).expect("digits");
                let program = libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NOCTTY);
                assert!(program >= 0);
                return (holder, program);
            }
        }
    }
}

/// Types a line into a terminal after each pause.
fn types(holder: RawFd, pause_ms: u64) {
    loop {
        nap(pause_ms);
        // SAFETY: the call reads two bytes of a text that has them.
        unsafe { libc::write(holder, c"y\n".as_ptr().cast(), 2) };
    }
}

#[test]
fn terminals_of_one_number_in_two_file_systems_are_told_apart() {
    let mut world = World::new();
    let (holder_end, program_end) = terminal();
    let wanted = number(holder_end);
    let elsewhere: Child = child(|| {
        let (holder, program) = terminal_elsewhere(wanted);
        // SAFETY: the child only makes system calls from here on.
        if unsafe { libc::fork() } == 0 {
            // SAFETY: the call takes only numbers.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            types(holder, 1);
        }
        while get(program) > 0 {}
    });
    let typing_elsewhere = |world: &World| world.graph.outgoing(elsewhere.0).first().map(|edge| edge.on);
    world.wait("what types elsewhere", |world| typing_elsewhere(world).is_some());
    let reader = child(|| while get(program_end) > 0 {});
    let holder = child(|| types(holder_end, 20));
    world.wait("edges both ways", |world| {
        world.weight(reader.0, holder.0) > 0 && world.weight(holder.0, reader.0) > 0
    });
    world.ttys.clear();
    nap(500);
    world.look();
    let of_it = |seen: &&Activity| seen.holder == Some(holder.0) || seen.reader == Some(reader.0);
    let seen: Vec<&Activity> = world.ttys.iter().filter(of_it).collect();
    let typed: u32 = seen.iter().map(|seen| seen.typed).sum();
    // The terminal below `/dev/pts` got two characters each 20 ms; the many characters of the other terminals
    // do not count.
    assert!((20..=60).contains(&typed), "{seen:?}");
    let is_right = |seen: &&Activity| seen.holder == Some(holder.0) && seen.reader == Some(reader.0);
    assert!(seen.iter().all(is_right), "{seen:?}");
    let is_elsewhere = |seen: &Activity| seen.reader == Some(elsewhere.0);
    assert!(!world.ttys.iter().any(is_elsewhere), "{:?}", world.ttys);
}
