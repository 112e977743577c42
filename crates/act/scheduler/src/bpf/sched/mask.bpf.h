/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sets of CPUs: the places of tasks that may use several CPUs, but not all.
 *
 * Purpose: no CPU passes over these tasks, with the lock of a queue held, to find a task that it may run. In
 * the queues of a cache it would.
 *
 * State: each set has a place, at which only the CPUs of the set look. Each user has sets of its own.
 *
 * Bound: 64 sets, of which a CPU serves 16. A user has at most 16 sets, 5 of them on one CPU; root has 32 and
 * 10. So one user leaves places to others. If a task's set finds no place, the task waits in the place of one
 * CPU of the set.
 */
#ifndef SPRY_MASK_BPF_H
#define SPRY_MASK_BPF_H

#include "queue.bpf.h"

/* The state of a place: free; in use by a set; or no longer given to any task. */
enum { MASK_FREE, MASK_USED, MASK_LEFT };

/* The number of rounds of housekeeping for which a set without tasks keeps its place. */
#define MASK_KEPT 5

/* The most sets that a user may have in all, and on one CPU. Root's services may have more. */
#define MASKS_OF_USER	     16
#define MASKS_OF_ROOT	     32
#define MASKS_OF_USER_ON_CPU 5
#define MASKS_OF_ROOT_ON_CPU 10

/* The state of a set's place. */
struct mask {
	u32 state;
	/* Number of times the place was given to another set. A task keeps the place with this number. */
	u32 generation;
	/* Whether a task was put there since the last round of housekeeping, and the number of rounds in
	 * which none was. */
	u32 is_fresh;
	u32 empty_times;
	/* A CPU of the set. The set's domain of virtual time belongs to this CPU's cache. */
	s32 cpu;
	/* The user of the tasks that have the set. */
	u32 owner;
	u64 bits[MASK_WORDS];
};

struct mask masks[MASKS_MAX];

/* Number of times that a task's set found no place. */
u64 masks_left_out;

static __always_inline struct mask *mask_at(u32 index)
{
	return &masks[index & (MASKS_MAX - 1)];
}

/* The user to which a task's set is counted: its line (births.bpf.h), or else its own user. */
static __always_inline u32 mask_owner(struct task_struct *p, const struct thread_ctx *t)
{
	return t->line ?: p->cred->uid.val;
}

/* Whether a place is that of a task's set of CPUs, for a user. */
static __always_inline bool is_mask_of(const struct mask *m, struct task_struct *p, u32 owner)
{
	if (m->owner != owner)
		return false;
#pragma unroll
	for (u32 i = 0; i < MASK_WORDS; i++) {
		if (nr_cpus > i * 64 && m->bits[i] != p->cpus_ptr->bits[i])
			return false;
	}
	return true;
}

/* The number of sets of one user. */
__noinline u32 masks_of(u32 owner)
{
	u32 i, count = 0;

	bpf_for(i, 0, MASKS_MAX)
	{
		struct mask *m = mask_at(i);

		if (m->state != MASK_FREE && m->owner == owner)
			count++;
	}
	return count;
}

/* The number of a user's sets that a CPU serves. */
__noinline u32 masks_on_cpu(u32 cpu, u32 owner)
{
	struct cpu_ctx *c = cpu_at(cpu);
	u32 i, count = 0;

	bpf_for(i, 0, MASKS_OF_CPU)
	{
		if (i >= c->masks_count)
			break;
		if (mask_at(c->masks[i & (MASKS_OF_CPU - 1)])->owner == owner)
			count++;
	}
	return count;
}

/* Makes a CPU serve a set's place. Returns whether the bounds allow it. */
static __always_inline bool mask_join(u32 cpu, u32 index)
{
	struct cpu_ctx *c = cpu_at(cpu);
	u32 owner = mask_at(index)->owner, count;

	if (masks_on_cpu(cpu, owner) >= (owner ? MASKS_OF_USER_ON_CPU : MASKS_OF_ROOT_ON_CPU))
		return false;
	count = __sync_fetch_and_add(&c->masks_count, 1);
	if (count >= MASKS_OF_CPU) {
		__sync_fetch_and_sub(&c->masks_count, 1);
		return false;
	}
	c->masks[count] = place_of_mask(index);
	return true;
}

/* Makes the CPUs of a set serve its place. Returns the number of CPUs that serve it. */
__noinline u32 mask_publish(u32 index)
{
	struct mask *m = mask_at(index);
	u32 cpu, joined = 0;

	bpf_for(cpu, 0, nr_cpus)
	{
		if (m->bits[cpu / 64 & (MASK_WORDS - 1)] >> (cpu & 63) & 1)
			joined += mask_join(cpu, index);
	}
	return joined;
}

/* Makes all CPUs stop serving a set's place. */
__noinline int mask_unpublish(u32 index)
{
	u32 cpu, i;

	bpf_for(cpu, 0, nr_cpus)
	{
		struct cpu_ctx *c = cpu_at(cpu);

		bpf_for(i, 0, MASKS_OF_CPU)
		{
			u32 last = (c->masks_count - 1) & (MASKS_OF_CPU - 1);

			if (i >= c->masks_count)
				break;
			if (c->masks[i & (MASKS_OF_CPU - 1)] != place_of_mask(index))
				continue;
			c->masks[i & (MASKS_OF_CPU - 1)] = c->masks[last];
			__sync_fetch_and_sub(&c->masks_count, 1);
			break;
		}
	}
	return 0;
}

/* Whether tasks wait in a set's place. The counts of all eight queues are read as four words. */
static __always_inline bool mask_has_tasks(u32 index)
{
	u64 *counts = (u64 *)queued_at(place_of_mask(index), 0);

	return counts[0] | counts[1] | counts[2] | counts[3];
}

/* A lock for changes of the table of sets. A CPU that does not get it goes on without a change. */
static u32 masks_busy;

/* The place of a task's set of CPUs, as index and generation, for a user. If the set has none, takes a free
 * place; 0 if there is none. */
static __noinline u32 mask_for(struct task_struct *p, u32 owner)
{
	u32 i, cpus, found = MASKS_MAX;
	struct mask *m;

	bpf_for(i, 0, MASKS_MAX)
	{
		m = mask_at(i);
		if (m->state == MASK_USED && is_mask_of(m, p, owner))
			return m->generation << MASK_BITS | i;
		if (m->state == MASK_FREE && found == MASKS_MAX)
			found = i;
	}
	m = mask_at(found);
	if (found >= MASKS_MAX || masks_of(owner) >= (owner ? MASKS_OF_USER : MASKS_OF_ROOT) ||
	    __sync_lock_test_and_set(&masks_busy, 1))
		return 0;
	if (m->state != MASK_FREE || mask_has_tasks(found)) {
		found = MASKS_MAX;
	} else {
#pragma unroll
		for (u32 word = 0; word < MASK_WORDS; word++)
			m->bits[word] = nr_cpus > word * 64 ? p->cpus_ptr->bits[word] : 0;
		m->generation++;
		m->owner = owner;
		m->cpu = scx_bpf_task_cpu(p);
		m->is_fresh = 1;
		m->empty_times = 0;
		cpus = mask_publish(found);
		begin_domain(place_of_mask(found), llc_of(m->cpu), cpus);
		if (cpus)
			*(volatile u32 *)&m->state = MASK_USED;
		else
			found = MASKS_MAX;
	}
	__sync_lock_test_and_set(&masks_busy, 0);
	return found < MASKS_MAX ? m->generation << MASK_BITS | found : 0;
}

/* The place of a task that may use several CPUs, but not all: the place of its set, or of its CPU. */
static __always_inline u32 masked_place(struct task_struct *p, const struct where *at)
{
	struct thread_ctx *t = make_thread(p);
	struct mask *m;

	if (!t)
		return place_of_cpu(at->cpu);
	m = mask_at(t->mask);
	if (!t->mask || m->state != MASK_USED || m->generation != t->mask >> MASK_BITS) {
		t->mask = mask_for(p, mask_owner(p, t));
		if (!t->mask) {
			__sync_fetch_and_add(&masks_left_out, 1);
			return place_of_cpu(at->cpu);
		}
		m = mask_at(t->mask);
	}
	m->is_fresh = 1;
	return place_of_mask(t->mask);
}

/* The set of CPUs that a task may use has changed. */
void BPF_STRUCT_OPS(spry_set_cpumask, struct task_struct *p, const struct cpumask *cpumask)
{
	struct thread_ctx *t = find_thread(p);

	if (t)
		t->mask = 0;
}

/*
 * Frees the places of sets without tasks, in two steps. First no task is put there any more. Some rounds
 * later, no CPU serves the place.
 *
 * A hypervisor may stop a CPU during all of this, while the CPU puts a task there. Then the CPUs of the set
 * serve the place again.
 */
static __always_inline void masks_housekeep(void)
{
	u32 i;

	if (nr_cpus <= 2 || __sync_lock_test_and_set(&masks_busy, 1))
		return;
	bpf_for(i, 0, MASKS_MAX)
	{
		struct mask *m = mask_at(i);

		if (m->state == MASK_FREE && mask_has_tasks(i) && mask_publish(i))
			m->state = MASK_LEFT;
		if (m->state != MASK_USED && m->state != MASK_LEFT)
			continue;
		if (m->is_fresh || mask_has_tasks(i)) {
			m->is_fresh = m->empty_times = 0;
			continue;
		}
		if (m->empty_times++ < MASK_KEPT)
			continue;
		m->empty_times = 0;
		if (m->state == MASK_USED) {
			m->state = MASK_LEFT;
		} else {
			mask_unpublish(i);
			m->state = MASK_FREE;
		}
	}
	__sync_lock_test_and_set(&masks_busy, 0);
}

#endif
