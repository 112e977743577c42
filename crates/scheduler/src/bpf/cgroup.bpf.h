/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares of cgroups, flat: a task's virtual time grows as if its weight were its part of what its cgroup has,
 * and a cgroup has its part of what its parent has, as long as anybody in it wants to run. Cgroups are in
 * plain slots; a thread knows its slot by number, so nothing is looked up while tasks switch. Slot 0 is the
 * root, whose tasks are on a par with cgroups. Where the kernel makes a group of each session, since no
 * cgroup says otherwise, a session is like a cgroup of the root.
 */
#ifndef SPRY_CGROUP_BPF_H
#define SPRY_CGROUP_BPF_H

#include "state.bpf.h"

#define SPRY_CGROUPS_MAX 4096
#define CGROUP_DEPTH_MAX 16

/* Sessions have the last slots, by the addresses of their groups in the kernel, which no user knows: so
 * nobody can begin a session that shares the slot of another one's at will. */
#define SESSION_BITS  10
#define SESSION_SLOTS (SPRY_CGROUPS_MAX - (1 << SESSION_BITS))
/* The weight of a session, and of a cgroup that has no other. */
#define WEIGHT_DEFAULT 100

struct cgroup_slot {
	u32 is_used;
	u32 parent;
	u32 weight;
	/* What its parent counts for it; 0 while nobody in it wants to run. */
	u32 counted;
	/* Weights of its threads that want to run, and of its children in which anybody does. */
	u64 sum;
	/* Where its tasks' run time has brought it, as if it were one task of OTHER: units of 64 ns, by the
	 * first cache's virtual time. */
	u64 vtime;
	/* Whether nobody in it wanted to run when last looked at. */
	u32 was_empty;
	/* cpu.max: run time for each period, 0 if there is no limit; what was used of it, and when the period
	 * began. */
	u64 quota_ns;
	u64 period_ns;
	u64 used_ns;
	u64 began_ns;
};

struct cgroup_slot slots[SPRY_CGROUPS_MAX];

/* Slots that were used, but for the root's; those with a limit; cgroups that found no slot. */
u32 cgroups_used, cgroups_limited, cgroups_left_out;

/* The last slot that was ever used. */
u32 highest_slot;

/* What the kernel calls no quota is more than this, us. */
#define NO_QUOTA_US (1ull << 40)

/* The slot of a cgroup, by the cgroup's number: a task's cgroup can be read, but not held, where a CPU asks
 * for its next task. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SPRY_CGROUPS_MAX);
	__type(key, u64);
	__type(value, u32);
} cgroup_slots SEC(".maps");

static __always_inline struct cgroup_slot *slot_at(u32 slot)
{
	return &slots[slot & (SPRY_CGROUPS_MAX - 1)];
}

static __always_inline u32 slot_of(u64 id)
{
	u32 *slot = bpf_map_lookup_elem(&cgroup_slots, &id);

	return slot ? *slot : 0;
}

/* The slot of a session whose tasks are a group of their own. */
static __always_inline u32 slot_of_session(u64 group)
{
	u32 slot = SESSION_SLOTS + (u32)(group * 0x9e3779b97f4a7c15ull >> (64 - SESSION_BITS));
	struct cgroup_slot *s = slot_at(slot);

	if (!s->is_used && !__sync_val_compare_and_swap(&s->is_used, 0, 1)) {
		s->weight = WEIGHT_DEFAULT;
		__sync_fetch_and_add(&cgroups_used, 1);
	}
	return slot;
}

/* The slot of a task's group, of which it is one. A group that the kernel made for a session has no cgroup.
 */
static __always_inline u32 slot_of_task(struct task_struct *p, struct thread_ctx *t)
{
	struct cgroup *cgroup = p->sched_task_group->css.cgroup;

	/* Read from memory, as the verifier lets nothing be reckoned with an address. */
	return cgroup ? slot_of(cgroup->kn->id) : slot_of_session(*(volatile u64 *)&t->group);
}

/* Somebody in a cgroup wants to run: it counts at its parent, and that at its own. */
__noinline int activate(u32 slot)
{
	for (int depth = 0; depth < CGROUP_DEPTH_MAX; depth++) {
		struct cgroup_slot *s = slot_at(slot);

		if (!slot || s->counted)
			break;
		s->counted = s->weight;
		__sync_fetch_and_add(&slot_at(s->parent)->sum, s->weight);
		slot = s->parent;
	}
	return 0;
}

/* It sleeps, or goes. */
static __always_inline void cgroup_uncount(struct thread_ctx *t)
{
	if (!t->counted)
		return;
	__sync_fetch_and_sub(&slot_at(t->slot - 1)->sum, t->counted);
	t->counted = 0;
}

/* Finds the slot of a thread whose group is another than when it was found last. */
static __always_inline void cgroup_find(struct task_struct *p, struct thread_ctx *t)
{
	u64 group;

	if (!bpf_core_field_exists(p->sched_task_group))
		return;
	group = (u64)p->sched_task_group;
	if (t->group == group)
		return;
	cgroup_uncount(t);
	t->group = group;
	t->slot = slot_of_task(p, t) + 1;
}

/* Counts a thread that wants to run. */
static __always_inline void cgroup_count(struct task_struct *p, struct thread_ctx *t)
{
	struct cgroup_slot *s;
	u32 weight = p->scx.weight;

	cgroup_find(p, t);
	if (!cgroups_used || t->counted == weight || !t->slot)
		return;
	s = slot_at(t->slot - 1);
	__sync_fetch_and_add(&s->sum, (u64)weight - t->counted);
	t->counted = weight;
	if (!s->counted)
		activate(t->slot - 1);
}

/* Which part of all a cgroup's children and those above it leave it, with ten more bits. Verified once. */
__noinline u64 part_of(u32 slot)
{
	u64 part = (u64)slot_at(slot)->weight << 10;

	slot = slot_at(slot)->parent;
	for (int depth = 0; slot && depth < CGROUP_DEPTH_MAX; depth++) {
		struct cgroup_slot *s = slot_at(slot);

		part = part * s->weight / (s->sum ?: 1);
		slot = s->parent;
	}
	return part;
}

/* What a thread's run time is in OTHER's virtual time, units of 64 ns. */
static __always_inline u64 other_charge(struct task_struct *p, struct thread_ctx *t, u64 ran_ns)
{
	u64 ran = (ran_ns >> 6) * 100, weight = p->scx.weight ?: 1;
	struct cgroup_slot *s;

	if (t->slot < 2)
		return ran / weight;
	s = slot_at(t->slot - 1);
	/* Weights have ten more bits, as the part has. */
	ran *= ((s->sum > weight ? s->sum : weight) << 10) / weight;
	return ran / (part_of(t->slot - 1) ?: 1);
}

/* What a thread's run time is for its group, as if that were one task, units of 64 ns. */
static __always_inline u64 group_charge(const struct thread_ctx *t, u64 ran_ns)
{
	return (ran_ns >> 6) * 100 * 1024 / (part_of(t->slot - 1) ?: 1);
}

/* Cgroups in which nobody has wanted to run for a while count no more. Their parents' turn comes the next
 * time. */
__noinline int cgroup_housekeep(void)
{
	u32 i;

	if (!cgroups_used)
		return 0;
	bpf_for(i, 1, SPRY_CGROUPS_MAX)
	{
		struct cgroup_slot *s = slot_at(i);
		u32 counted = s->counted;

		if (!s->is_used || !counted)
			continue;
		if (!s->sum && s->was_empty) {
			s->counted = 0;
			__sync_fetch_and_sub(&slot_at(s->parent)->sum, counted);
		}
		s->was_empty = !s->sum;
	}
	return 0;
}

static __always_inline void set_weight(struct cgroup_slot *s, u32 weight)
{
	s->weight = weight ?: 1;
	if (s->counted) {
		__sync_fetch_and_add(&slot_at(s->parent)->sum, (u64)s->weight - s->counted);
		s->counted = s->weight;
	}
}

#endif
