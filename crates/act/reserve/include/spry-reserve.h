/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Reserves CPU time for a program: a budget in every period, from Spry's daemon (docs/reservations.md).
 * Link with -lspry_reserve. A failed call writes the reason, one line, into `why`, if that is not NULL.
 * NULL is no reservation: to set or ask it fails (-1); to release it does nothing and returns 0.
 */
#ifndef SPRY_RESERVE_H
#define SPRY_RESERVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a thread does when its budget is used up: it waits for the next period, or goes on without a
 * reservation until then.
 */
enum spry_on_exhaustion { SPRY_WAIT = 0, SPRY_DEMOTE = 1 };

/* An unknown value of the state. */
#define SPRY_UNKNOWN UINT64_MAX

/* A reservation of the calling thread, or of its process. The thread that opened it must release it. */
typedef struct spry_reservation spry_reservation;

/* The state of a reservation, and the CPU time of its threads since it was opened. */
struct spry_reserve_state {
	uint32_t slot;		 /* the number by which `spry reservations` shows it */
	uint32_t cpu;		 /* the CPU on which the time is reserved */
	uint64_t periods;	 /* how many periods have ended */
	uint64_t got_ns;	 /* the CPU time that the threads had */
	uint64_t asked_ns;	 /* the budgets of these periods together */
	int64_t deviation_ns;	 /* got_ns less asked_ns; negative if the threads had less */
	uint64_t stolen_ns;	 /* the time that interrupts took from the threads */
	uint64_t exhausted;	 /* in how many periods the budget was used up */
	uint64_t worst_short_ns; /* the largest shortfall in one period for a thread that was ready to
				    use its whole budget */
	uint64_t worst_late_ns;	 /* the longest delay of the beginning of a period */
};

/* Reserve time for the calling thread. Returns NULL if nothing is reserved. */
spry_reservation *spry_reserve_thread(uint64_t budget_ns, uint64_t period_ns, int on_exhaustion, char *why,
				      size_t why_size);
/* Reserve time for all threads of this process, which share it. Returns NULL if nothing is reserved. */
spry_reservation *spry_reserve_process(uint64_t budget_ns, uint64_t period_ns, int on_exhaustion, char *why,
				       size_t why_size);
/* Give a reservation new terms. Returns 0, or -1 if they are refused: then the old terms hold. */
int spry_reserve_set(spry_reservation *reservation, uint64_t budget_ns, uint64_t period_ns, int on_exhaustion,
		     char *why, size_t why_size);
/* Read the state of a reservation. Returns 0, or -1 if the reservation has ended or no daemon listens. */
int spry_reserve_ask(const spry_reservation *reservation, struct spry_reserve_state *state, char *why,
		     size_t why_size);
/* End a reservation. It is freed in any case. Returns 0, or -1 if it had ended or no daemon listens. */
int spry_reserve_release(spry_reservation *reservation, char *why, size_t why_size);

#ifdef __cplusplus
}
#endif

#endif
