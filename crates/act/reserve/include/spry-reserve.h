/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reserves CPU time for a program: a budget in every period, asked of Spry's daemon (docs/reservations.md).
 * Link with -lspry_reserve. A failed call writes one line that says why into `why`, if that is not NULL.
 */
#ifndef SPRY_RESERVE_H
#define SPRY_RESERVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of a thread when its budget is used up: it waits for the next period, or goes on without a
 * reservation until then.
 */
enum spry_on_exhaustion { SPRY_WAIT = 0, SPRY_DEMOTE = 1 };

/* A value of the state that is not known. */
#define SPRY_UNKNOWN UINT64_MAX

/* A reservation of the calling thread, or of its process. A thread releases its own. */
typedef struct spry_reservation spry_reservation;

/* What a reservation is, and what its threads got since it was opened. */
struct spry_reserve_state {
	uint32_t slot;		 /* the number by which `spry reservations` shows it */
	uint32_t cpu;		 /* the CPU that admitted it */
	uint64_t periods;	 /* how many periods have ended */
	uint64_t got_ns;	 /* the CPU time that the threads had */
	uint64_t asked_ns;	 /* the budgets of these periods together */
	int64_t deviation_ns;	 /* what they had more than that */
	uint64_t stolen_ns;	 /* what interrupts took from the threads */
	uint64_t exhausted;	 /* in how many periods the budget was used up */
	uint64_t worst_short_ns; /* what a thread that wanted its whole budget lacked of it, at most in a
				    period */
	uint64_t worst_late_ns;	 /* the most that a period began late */
};

/* Reserve for the calling thread. NULL if nothing is reserved. */
spry_reservation *spry_reserve_thread(uint64_t budget_ns, uint64_t period_ns, int on_exhaustion, char *why,
				      size_t why_size);
/* Reserve for all threads of this process, which share the budget. NULL if nothing is reserved. */
spry_reservation *spry_reserve_process(uint64_t budget_ns, uint64_t period_ns, int on_exhaustion, char *why,
				       size_t why_size);
/* New terms. 0, or -1: then the old ones hold. */
int spry_reserve_set(spry_reservation *reservation, uint64_t budget_ns, uint64_t period_ns, int on_exhaustion,
		     char *why, size_t why_size);
/* How it does. 0, or -1: the reservation has ended, or no daemon listens. */
int spry_reserve_ask(const spry_reservation *reservation, struct spry_reserve_state *state, char *why,
		     size_t why_size);
/* End the reservation. It is freed in any case. 0, or -1 if it had ended. */
int spry_reserve_release(spry_reservation *reservation, char *why, size_t why_size);

#ifdef __cplusplus
}
#endif

#endif
