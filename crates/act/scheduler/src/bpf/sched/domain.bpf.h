/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Domains of virtual time: how tasks of two domains are compared, and how a task changes its domain.
 *
 * Each place (a cache, a CPU, a set of CPUs) counts OTHER's virtual time by itself. A CPU takes tasks from
 * several places, so it must compare their virtual times. Each domain of a CPU or a set has an offset for
 * this. Added to a virtual time of the domain, it gives a virtual time of the domain's cache. The offset
 * follows changes so that the two domains are never compared as more than DOMAINS_APART apart.
 */
#ifndef SPRY_DOMAIN_BPF_H
#define SPRY_DOMAIN_BPF_H

#include "state.bpf.h"

/* Initialises a domain for a place. If the place belonged to another set before, the virtual time goes on
 * from its old value. */
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

/* Whether a domain is that of a CPU or of a set of CPUs, not of a cache. */
static __always_inline bool is_apart(u32 domain)
{
	return nr_cpus > 1 && domain >= SPRY_CPUS_MAX;
}

/* The domain of the tasks that wait in a place. */
static __always_inline u32 domain_of(const struct where *at)
{
	return is_apart(at->place) ? at->place : at->llc;
}

/* The greatest difference with which a domain and its cache are compared, in units of 64 ns. The side that
 * recently had less of the CPU goes first until it has had as much; older differences do not count. */
#define DOMAINS_APART (4 * (slice_other_ns >> VTIME_UNIT_SHIFT))

/* The offset that is added to a domain's virtual times to compare them with virtual times of its cache; 0 for
 * a cache's own domain. Brings the offset up to date first. */
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
 * The difference that is added to the virtual time of a task that changes its domain. The task stays as
 * far ahead of the class or behind it as it was. But it stands no earlier than a comparison of the two
 * domains would put it. Otherwise a task could use a CPU for which many tasks wait, and pay where the
 * virtual time is fast.
 */
__noinline u64 between_domains(u32 from, u32 to)
{
	u64 cache = llc_at(llc_at(to)->cache)->vtime - llc_at(llc_at(from)->cache)->vtime;

	return at_least(llc_at(to)->vtime - llc_at(from)->vtime, cache + offset_of(from) - offset_of(to));
}

/* The virtual time of a thread, converted to a domain if it was counted in another one. */
static __always_inline u64 vtime_in(const struct thread_ctx *t, u32 domain)
{
	return t->vtime + (nr_cpus > 1 && t->domain != domain ? between_domains(t->domain, domain) : 0);
}

/* The order in OTHER of a task that comes from a queue that no CPU served (parked, or waiting for a period).
 * The task stands at most the domain's `lag` behind the class, as other tasks do. */
static __always_inline u64 order_in_other(const struct thread_ctx *t, u32 domain)
{
	u64 least = llc_at(domain)->vtime - llc_at(domain)->lag;

	return KEY(SPRY_CLASS_OTHER, t ? at_least(vtime_in(t, domain), least) : least);
}

/* Converts the order of a task in OTHER from its domain to the domain's cache, for comparison. */
static __always_inline u64 order_in_cache(u32 domain, u64 key)
{
	return KEY(SPRY_CLASS_OTHER, (key & KEY_LOW) + offset_of(domain));
}

#endif
