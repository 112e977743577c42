//! Firm timers for C: what `include/spry-timer.h` declares, over `spry-timer`.

use std::ffi::{c_char, c_int};
use std::ptr;

use spry_timer::{Costs, Counts, Handle, Refused, SOFT, Terms, Timers, Trigger};

/// The header's `spry_timers`.
pub type CTimers = Timers<u64>;

/// The header's `struct spry_fired`.
#[repr(C)]
pub struct CFired {
    handle: u64,
    value: u64,
    deadline_ns: u64,
    late_ns: u64,
}

/// The header's `struct spry_timer_counts`.
#[repr(C)]
pub struct CCounts {
    hard: u64,
    soft: u64,
    checks: u64,
}

impl From<Counts> for CCounts {
    fn from(Counts { hard, soft, checks }: Counts) -> CCounts {
        CCounts { hard, soft, checks }
    }
}

fn terms(deadline_ns: u64, overshoot_ns: u64, period_ns: u64) -> Terms {
    let terms = Terms::firm(deadline_ns, overshoot_ns);
    if period_ns == 0 { terms } else { terms.every(period_ns) }
}

/// Writes why into the caller's text, as much as fits. The texts are ASCII, so any byte ends a character.
///
/// # Safety
/// `why` is null, or `size` bytes may be written there.
unsafe fn tell(refused: Refused, why: *mut c_char, size: usize) {
    if why.is_null() || size == 0 {
        return;
    }
    let text = refused.to_string();
    let length = text.len().min(size - 1);
    // SAFETY: the caller's memory has `size` bytes, and `length` is less.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), why.cast(), length);
        *why.add(length) = 0;
    }
}

/// Makes an empty queue with room for this many timers.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub extern "C" fn spry_timers_new(timers: usize) -> *mut CTimers {
    Box::into_raw(Box::new(Timers::with_capacity(timers)))
}

/// Ends a queue.
///
/// # Safety
/// `timers` is null, or one of this library's that is not used again.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_free(timers: *mut CTimers) {
    if !timers.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller gives it back.
        drop(unsafe { Box::from_raw(timers) });
    }
}

/// Arms a timer.
///
/// # Safety
/// `timers` is one of this library's, used by this thread alone; `why` is null, or has `size` bytes.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_arm(
    timers: *mut CTimers,
    now_ns: u64,
    deadline_ns: u64,
    overshoot_ns: u64,
    period_ns: u64,
    value: u64,
    why: *mut c_char,
    size: usize,
) -> u64 {
    // SAFETY: the caller promises that it is there.
    let timers = unsafe { &mut *timers };
    match timers.arm(now_ns, terms(deadline_ns, overshoot_ns, period_ns), value) {
        Ok(handle) => handle.to_bits(),
        Err(refused) => {
            // SAFETY: the caller promises the same.
            unsafe { tell(refused, why, size) };
            0
        }
    }
}

/// Gives a timer new terms.
///
/// # Safety
/// As [`spry_timers_arm`].
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_rearm(
    timers: *mut CTimers,
    now_ns: u64,
    handle: u64,
    deadline_ns: u64,
    overshoot_ns: u64,
    period_ns: u64,
    why: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller promises that it is there.
    let timers = unsafe { &mut *timers };
    let terms = terms(deadline_ns, overshoot_ns, period_ns);
    match timers.rearm(now_ns, Handle::from_bits(handle), terms) {
        Ok(()) => 0,
        Err(refused) => {
            // SAFETY: the caller promises the same.
            unsafe { tell(refused, why, size) };
            -1
        }
    }
}

/// Cancels a timer.
///
/// # Safety
/// `timers` is one of this library's, used by this thread alone.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_cancel(timers: *mut CTimers, handle: u64) -> c_int {
    // SAFETY: the caller promises that it is there.
    let timers = unsafe { &mut *timers };
    if timers.cancel(Handle::from_bits(handle)).is_some() { 0 } else { -1 }
}

/// Whether to check at this trigger point.
///
/// # Safety
/// As [`spry_timers_cancel`].
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_wants_check(timers: *mut CTimers) -> c_int {
    // SAFETY: the caller promises that it is there.
    c_int::from(unsafe { &mut *timers }.wants_check())
}

/// Whether a timer may be due.
///
/// # Safety
/// As [`spry_timers_cancel`].
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_poll(timers: *mut CTimers, now_ns: u64) -> c_int {
    // SAFETY: the caller promises that it is there.
    c_int::from(unsafe { &mut *timers }.poll(now_ns))
}

/// Takes the next timer that is due.
///
/// # Safety
/// As [`spry_timers_cancel`]; `fired` points to the header's structure.
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_take(
    timers: *mut CTimers,
    now_ns: u64,
    trigger: c_int,
    fired: *mut CFired,
) -> c_int {
    let trigger = if trigger == 0 { Trigger::Check } else { Trigger::Backstop };
    // SAFETY: the caller promises that it is there.
    let Some(one) = unsafe { &mut *timers }.take(now_ns, trigger) else { return 0 };
    let (handle, value) = (one.handle.to_bits(), one.value);
    // SAFETY: the caller promises that it may be written.
    unsafe { fired.write(CFired { handle, value, deadline_ns: one.deadline_ns, late_ns: one.late_ns }) };
    1
}

/// When the kernel's timer must expire.
///
/// # Safety
/// As [`spry_timers_cancel`].
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_backstop(timers: *mut CTimers) -> u64 {
    // SAFETY: the caller promises that it is there.
    unsafe { &mut *timers }.backstop_ns().unwrap_or(SOFT)
}

/// How many timers are pending.
///
/// # Safety
/// As [`spry_timers_cancel`].
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_count(timers: *const CTimers) -> usize {
    // SAFETY: the caller promises that it is there.
    unsafe { &*timers }.len()
}

/// What the queue has counted.
///
/// # Safety
/// As [`spry_timers_cancel`].
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_counts(timers: *const CTimers) -> CCounts {
    // SAFETY: the caller promises that it is there.
    unsafe { &*timers }.counts().into()
}

/// Says what checks and expiries cost.
///
/// # Safety
/// As [`spry_timers_cancel`].
// SAFETY: no other function of a program has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn spry_timers_set_costs(
    timers: *mut CTimers,
    hard_ns: u64,
    soft_ns: u64,
    check_ns: u64,
) {
    // SAFETY: the caller promises that it is there.
    unsafe { &mut *timers }.set_costs(Costs { hard_ns, soft_ns, check_ns });
}
