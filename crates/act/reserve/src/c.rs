//! The library's interface for C, as `include/spry-reserve.h` declares it.

use std::ffi::{c_char, c_int};
use std::ptr;
use std::time::Duration;

use crate::{Error, OnExhaustion, Reservation, State, Terms};

/// An unknown value.
const UNKNOWN: u64 = u64::MAX;

/// The header's `struct spry_reserve_state`.
#[repr(C)]
pub struct CState {
    slot: u32,
    cpu: u32,
    periods: u64,
    got_ns: u64,
    asked_ns: u64,
    deviation_ns: i64,
    stolen_ns: u64,
    exhausted: u64,
    worst_short_ns: u64,
    worst_late_ns: u64,
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(UNKNOWN)
}

impl From<State> for CState {
    fn from(state: State) -> CState {
        let time = |time: Option<Duration>| time.map_or(UNKNOWN, ns);
        CState {
            slot: state.slot,
            cpu: state.cpu,
            periods: state.periods,
            got_ns: ns(state.got),
            asked_ns: ns(state.asked),
            deviation_ns: state.deviation_ns,
            stolen_ns: time(state.stolen),
            exhausted: state.exhausted.unwrap_or(UNKNOWN),
            worst_short_ns: time(state.worst_short),
            worst_late_ns: time(state.worst_late),
        }
    }
}

fn terms(budget_ns: u64, period_ns: u64, on_exhaustion: c_int) -> Terms {
    let on_exhaustion = if on_exhaustion == 0 { OnExhaustion::Wait } else { OnExhaustion::Demote };
    let [budget, period] = [budget_ns, period_ns].map(Duration::from_nanos);
    Terms { budget, period, on_exhaustion }
}

/// Writes the error's text into the caller's buffer, as much as fits.
///
/// # Safety
/// `why` is null, or `size` bytes may be written there.
unsafe fn tell(error: &Error, why: *mut c_char, size: usize) {
    if why.is_null() || size == 0 {
        return;
    }
    let text = error.to_string().replace(['\0', '\n'], " ");
    let mut length = text.len().min(size - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    // SAFETY: the caller's memory has `size` bytes, and `length` is less.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), why.cast(), length);
        *why.add(length) = 0;
    }
}

/// The reservation for the C program. If there is none, it is null, and the reason is in `why`.
///
/// # Safety
/// As [`tell`].
unsafe fn opened(done: Result<Reservation, Error>, why: *mut c_char, size: usize) -> *mut Reservation {
    match done {
        Ok(reservation) => Box::into_raw(Box::new(reservation)),
        Err(error) => {
            // SAFETY: the caller promises the same.
            unsafe { tell(&error, why, size) };
            ptr::null_mut()
        }
    }
}

/// The return value for the C program: 0, or -1 with the reason in `why`.
///
/// # Safety
/// As [`tell`].
unsafe fn ended(done: Result<(), Error>, why: *mut c_char, size: usize) -> c_int {
    match done {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: the caller promises the same.
            unsafe { tell(&error, why, size) };
            -1
        }
    }
}

/// Reserves time for the calling thread.
///
/// # Safety
/// `why` is null, or has `size` bytes.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_reserve_thread(
    budget_ns: u64,
    period_ns: u64,
    on_exhaustion: c_int,
    why: *mut c_char,
    size: usize,
) -> *mut Reservation {
    let terms = terms(budget_ns, period_ns, on_exhaustion);
    // SAFETY: the caller promises the same.
    unsafe { opened(Reservation::for_this_thread(terms), why, size) }
}

/// Reserves time for all threads of this process.
///
/// # Safety
/// `why` is null, or has `size` bytes.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_reserve_process(
    budget_ns: u64,
    period_ns: u64,
    on_exhaustion: c_int,
    why: *mut c_char,
    size: usize,
) -> *mut Reservation {
    let terms = terms(budget_ns, period_ns, on_exhaustion);
    // SAFETY: the caller promises the same.
    unsafe { opened(Reservation::for_this_process(terms), why, size) }
}

/// Gives a reservation new terms.
///
/// # Safety
/// `reservation` is one of this library's that was not released; `why` is null, or has `size` bytes.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_reserve_set(
    reservation: *mut Reservation,
    budget_ns: u64,
    period_ns: u64,
    on_exhaustion: c_int,
    why: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller promises that the reservation was not released, if it is not null.
    let done = unsafe { reservation.as_mut() }.map(|own| own.set(terms(budget_ns, period_ns, on_exhaustion)));
    // SAFETY: the caller promises the same.
    unsafe { ended(done.unwrap_or(Err(Error::Ended)), why, size) }
}

/// Writes the state of a reservation, and the CPU time of its threads, into `state`.
///
/// # Safety
/// As [`spry_reserve_set`]; `state` points to the header's structure.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_reserve_ask(
    reservation: *const Reservation,
    state: *mut CState,
    why: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller promises that the reservation was not released, if it is not null.
    let own = unsafe { reservation.as_ref() };
    let done = own.map_or(Err(Error::Ended), Reservation::state).map(|now| {
        // SAFETY: the caller promises that `state` may be written.
        unsafe { state.write(now.into()) };
    });
    // SAFETY: the caller promises the same.
    unsafe { ended(done, why, size) }
}

/// Ends a reservation, and frees it in any case.
///
/// # Safety
/// As [`spry_reserve_set`], and the reservation is not used again.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_reserve_release(
    reservation: *mut Reservation,
    why: *mut c_char,
    size: usize,
) -> c_int {
    if reservation.is_null() {
        return 0;
    }
    // SAFETY: it was made by `Box::into_raw`, and the caller gives it back.
    let own = unsafe { Box::from_raw(reservation) };
    // SAFETY: the caller promises the same.
    unsafe { ended(own.release(), why, size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_no_reservation_and_releasing_it_does_nothing() {
        let (none, mut why) = (ptr::null_mut::<Reservation>(), [1; 64]);
        let mut state = std::mem::MaybeUninit::<CState>::uninit();
        // SAFETY: all functions take null for a reservation; `why` has 64 bytes, and `state` may be written.
        let ended = unsafe {
            [
                spry_reserve_set(none, 1, 2, 0, why.as_mut_ptr(), why.len()),
                spry_reserve_ask(none, state.as_mut_ptr(), why.as_mut_ptr(), why.len()),
                spry_reserve_release(none, ptr::null_mut(), 0),
            ]
        };
        assert_eq!(ended, [-1, -1, 0]);
        assert!(why.contains(&0), "the reason is written");
    }
}
