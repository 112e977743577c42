/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Firm timers: each has a deadline and an overshoot, which is how late it may fire (docs/timers.md).
 *
 * The program looks for timers that are due where it is awake anyway (a check), and arms the kernel's timer
 * at spry_timers_backstop() before it sleeps. The queue reads no clock: each call takes the time in ns of
 * any clock that does not go back. A queue belongs to one thread at a time. Link with -lspry_timer_c. A
 * refused call writes one line that says why into `why`, if that is not NULL.
 */
#ifndef SPRY_TIMER_H
#define SPRY_TIMER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As an overshoot: no backstop is armed for the timer (a soft timer). As a time: none. 0 as an overshoot
 * makes a hard timer.
 */
#define SPRY_TIMER_NEVER UINT64_MAX

/* What made the program look for timers that are due: it was awake anyway, or the kernel's timer expired. */
enum spry_trigger { SPRY_CHECK = 0, SPRY_BACKSTOP = 1 };

/* A queue of timers. */
typedef struct spry_timers spry_timers;

/* A timer that fires. */
struct spry_fired {
	uint64_t handle;      /* still names the timer if it is periodic */
	uint64_t value;	      /* what it was armed with */
	uint64_t deadline_ns; /* the deadline that has passed */
	uint64_t late_ns;     /* how long ago that was */
};

/* What a queue has counted: timers that the backstop fired, timers that a check fired, and checks. */
struct spry_timer_counts {
	uint64_t hard;
	uint64_t soft;
	uint64_t checks;
};

/* A queue that allocates no more until it has so many timers at once. Never NULL. */
spry_timers *spry_timers_new(size_t timers);
/* Ends a queue with its timers. NULL is ignored. */
void spry_timers_free(spry_timers *timers);

/* Arm a timer; period_ns is 0 for a timer that fires once. Returns its handle, or 0 if it cannot be. */
uint64_t spry_timers_arm(spry_timers *timers, uint64_t now_ns, uint64_t deadline_ns, uint64_t overshoot_ns,
			 uint64_t period_ns, uint64_t value, char *why, size_t why_size);
/* New terms for a pending timer. 0, or -1: then the old ones hold, or the timer has ended. */
int spry_timers_rearm(spry_timers *timers, uint64_t now_ns, uint64_t handle, uint64_t deadline_ns,
		      uint64_t overshoot_ns, uint64_t period_ns, char *why, size_t why_size);
/* Cancel a timer. 0, or -1 if it had ended. */
int spry_timers_cancel(spry_timers *timers, uint64_t handle);

/* Whether to read the clock and poll at this point: 0 while checks do not pay. */
int spry_timers_wants_check(spry_timers *timers);
/* Whether a timer may be due: one comparison. */
int spry_timers_poll(spry_timers *timers, uint64_t now_ns);
/* Take the next timer that is due, the earliest deadline first. 1, or 0 if none is due. */
int spry_timers_take(spry_timers *timers, uint64_t now_ns, int trigger, struct spry_fired *fired);
/* The time at which the kernel's timer must expire; SPRY_TIMER_NEVER if it need not. */
uint64_t spry_timers_backstop(spry_timers *timers);

/* How many timers are pending. */
size_t spry_timers_count(const spry_timers *timers);
struct spry_timer_counts spry_timers_counts(const spry_timers *timers);
/* What a timer that the backstop fires, one that a check fires, and a check cost on this machine, in ns. */
void spry_timers_set_costs(spry_timers *timers, uint64_t hard_ns, uint64_t soft_ns, uint64_t check_ns);

#ifdef __cplusplus
}
#endif

#endif
