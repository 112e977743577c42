/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ceilings (Goel et al. 2002, 3.3.2): a shared server is ranked like the highest of its clients.
 *
 * Purpose: a task with a reservation does not wait for tasks of lower rank when it uses a server.
 *
 * State: the server's reservation has the list of its clients' reservations, which the daemon writes.
 *
 * Rule: while the server has budget, its deadline is the earliest of its clients' deadlines. Its own
 * reservation bounds its run time at this rank. Its further run time is in its own class. The run time for
 * each request is measured in all classes; a request lasts from one sleep of a server's thread to the
 * next.
 */
#ifndef SPRY_CEILING_BPF_H
#define SPRY_CEILING_BPF_H

#include "reserve.bpf.h"

/* Whether a reservation is the ceiling of a shared server: it lists clients. */
static __always_inline bool is_server(const struct spry_reservation *r)
{
	return *(volatile const u32 *)&r->clients[0] != 0;
}

/* Whether the reservation of a thread is the ceiling of a shared server. */
static __always_inline bool serves_by(const struct thread_ctx *t)
{
	return t->reserved && is_server(reservation_at(t->reserved - 1));
}

/* The end of the current period of a client's reservation, ns. The periods of a client that sleeps are not
 * begun in time, so whole periods are added until the end lies ahead. */
static __always_inline u64 ends_ns(const struct spry_reservation *r, u64 now)
{
	u64 period_ns = r->period_ns, ends = r->begun_ns + period_ns;

	if (!period_ns || (s64)(now - ends) < 0)
		return ends;
	return ends + ((now - ends) / period_ns + 1) * period_ns;
}

/* The earliest end of a period among the clients of a server's reservation. Without clients it is the end of
 * the reservation's own period. */
__noinline u64 earliest_of_clients(u32 slot, u64 now)
{
	struct spry_reservation *r = reservation_at(slot);
	u64 first = ~0ull;
	u32 i;

	bpf_for(i, 0, SPRY_CLIENTS_MAX)
	{
		u32 client = *(volatile u32 *)&r->clients[i & (SPRY_CLIENTS_MAX - 1)];
		u64 ends;

		if (!client)
			break;
		if (!reservation_at(client - 1)->period_ns)
			continue;
		ends = ends_ns(reservation_at(client - 1), now);
		if (ends < first)
			first = ends;
	}
	return first == ~0ull ? next_period_ns(r) : first;
}

/* The deadline by which a thread of a shared server is ranked: the earliest of its clients' deadlines. */
static __always_inline u64 ceiling_ns(const struct thread_ctx *t)
{
	return earliest_of_clients(t->reserved - 1, bpf_ktime_get_ns());
}

/* A thread of a shared server goes to sleep: the request that it worked on is over, and its
 * run time is counted. */
static __always_inline void request_is_over(struct task_struct *p, struct thread_ctx *t,
					    struct spry_reservation *r)
{
	u64 ran_ns = ran_until_now(p), took_ns = ran_ns - t->ran_before_ns;
	bool is_known = t->ran_before_ns;

	t->ran_before_ns = ran_ns;
	if (!is_known)
		return;
	r->requests++;
	r->served_ns += took_ns;
	if (took_ns > r->request_most_ns)
		r->request_most_ns = took_ns;
	if (r->served_ns > r->served_most_ns)
		r->served_most_ns = r->served_ns;
}

#endif
