/* SPDX-License-Identifier: GPL-2.0-only */
/* Domains of virtual time: how the tasks of two domains are compared, and how a task changes its domain. */
#ifndef SPRY_DOMAIN_BPF_H
#define SPRY_DOMAIN_BPF_H

#include "state.bpf.h"

/* A domain begins. Its virtual time goes on if the place was another set's before. */
static __always_inline void begin_domain(u32 domain, u32 cache, u32 cpus)
{
	struct llc_ctx *l = llc_at(domain);

	if (!l->vtime)
		l->vtime = l->vtime_before = 1ull << 40;
	l->lag = slice_other_ns >> VTIME_UNIT_SHIFT;
	l->ahead = ahead_most;
	l->cache = cache;
	l->cpus = cpus;
}

/* Whether a domain is not that of a cache. */
static __always_inline bool is_apart(u32 domain)
{
	return nr_cpus > 1 && domain >= SPRY_CPUS_MAX;
}

/* The domain of the tasks that wait in a place. */
static __always_inline u32 domain_of(const struct where *at)
{
	return is_apart(at->place) ? at->place : at->llc;
}

/* The tasks that may use some CPUs only are compared with tasks of the cache as if their virtual times were
 * at most so far apart, units of 64 ns. The party that had less of late goes first, until it had as much;
 * what was long ago does not count. */
#define DOMAINS_APART (4 * (slice_other_ns >> VTIME_UNIT_SHIFT))

/* What is added to virtual times of a domain where they are compared with those of the domain's cache. */
__noinline u64 offset_of(u32 domain)
{
	struct llc_ctx *own = llc_at(domain);
	s64 ahead = own->vtime + own->offset - llc_at(own->cache)->vtime, apart = DOMAINS_APART;

	if (!is_apart(domain))
		return 0;
	if (ahead > apart)
		own->offset -= ahead - apart;
	else if (ahead < -apart)
		own->offset += -apart - ahead;
	return own->offset;
}

/*
 * What is added to the virtual time of a task that changes its domain. The task stays at least as far ahead
 * or behind as it was, and comes no earlier than it would in a comparison of the domains. Otherwise a task
 * could spend the CPU for which many tasks wait, and pay where virtual time is fast.
 */
__noinline u64 between_domains(u32 from, u32 to)
{
	u64 cache = llc_at(llc_at(to)->cache)->vtime - llc_at(llc_at(from)->cache)->vtime;

	return at_least(llc_at(to)->vtime - llc_at(from)->vtime, cache + offset_of(from) - offset_of(to));
}

/* The virtual time of a thread, counted by a domain. */
static __always_inline u64 vtime_in(const struct thread_ctx *t, u32 domain)
{
	return t->vtime + (nr_cpus > 1 && t->domain != domain ? between_domains(t->domain, domain) : 0);
}

/* The order in OTHER of a task that comes from a queue that no CPU served: it stands no further behind the
 * class than other tasks may. */
static __always_inline u64 order_in_other(const struct thread_ctx *t, u32 domain)
{
	u64 least = llc_at(domain)->vtime - llc_at(domain)->lag;

	return KEY(SPRY_CLASS_OTHER, t ? at_least(vtime_in(t, domain), least) : least);
}

/* The order of a task of a domain, among the tasks of the domain's cache. */
static __always_inline u64 order_in_cache(u32 domain, u64 key)
{
	return KEY(SPRY_CLASS_OTHER, (key & KEY_LOW) + offset_of(domain));
}

#endif
