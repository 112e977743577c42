/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares of cgroups, without a tree of queues: a task's virtual time grows as if the task's weight were its
 * part of what its cgroup has. A cgroup has its part of what its parent has, as long as any of the cgroup's
 * tasks wants to run. Cgroups are in plain slots; a thread knows its slot by number, so nothing is looked up
 * while tasks switch. Slot 0 is the root; a task of the root counts like a cgroup below the root. Where no
 * cgroup shares the CPU, the kernel makes a group of each session: then a session counts like a cgroup below
 * the root.
 */
#ifndef SPRY_CGROUP_BPF_H
#define SPRY_CGROUP_BPF_H

#include "state.bpf.h"

#define SPRY_CGROUPS_MAX 4096
/* A cgroup that is deeper than this, or that found no slot, has its tasks counted in the nearest cgroup above
 * it that has a slot: so it gets no more than that cgroup has. */
#define CGROUP_DEPTH_MAX 16
/* Cgroups that are deeper than this can be an ordinary user's. They may have only the first SLOTS_SHARED
 * slots, so that the many cgroups of one user leave slots for the sessions of others. */
#define CGROUP_DEPTH_SHARED 3
#define SLOTS_SHARED	    2048

/* Sessions have the last slots. A session's slot follows from the address of its group in the kernel, which
 * no user knows: so no user can choose to begin a session that shares another session's slot. */
#define SESSION_BITS  10
#define SESSION_SLOTS (SPRY_CGROUPS_MAX - (1 << SESSION_BITS))
/* The weight of a session, and of a cgroup for which no other weight was set. In the kernel this is the
 * weight of nice 0, which the kernel holds with NICE_SHIFT more bits. */
#define WEIGHT_DEFAULT 100
#define NICE_0_WEIGHT  1024
#define NICE_SHIFT     10

struct cgroup_slot {
	u32 is_used;
	u32 parent;
	/* The number of the cgroup that the slot belongs to; 0: it is a session's. */
	u64 owner;
	/* The weight in force, and the weight that was set. For a group that is idle as a whole (cpu.idle)
	 * the least weight is in force. */
	u32 weight;
	u32 weight_set;
	u32 is_idle;
	/* The weight with which the group counts at its parent; 0 while no task of the group wants to run. */
	u32 counted;
	/* The sum of the weights of the group's threads that want to run, and of its children with such
	 * threads. */
	u64 sum;
	/* Where the run time of the group's tasks has brought the group, as if it were one task of OTHER:
	 * units of 64 ns, by the first cache's virtual time. */
	u64 vtime;
	/* How often the slot was given to another cgroup. A thread remembers its slot and this number. */
	u32 generation;
	/* The cgroup's cpu.max: its run time for each period (0: no limit) and the period's length; then what
	 * was used of the run time, and when the period began. */
	u64 quota_ns;
	u64 period_ns;
	u64 used_ns;
	u64 began_ns;
};

struct cgroup_slot slots[SPRY_CGROUPS_MAX];

/* How many slots were used, besides the root's; how many cgroups have a limit; how many cgroups found no
 * slot. */
u32 cgroups_used, cgroups_limited, cgroups_left_out;

/* Counted up when a group's weight changes and when a task moves to another group: what tasks were charged
 * before counts differently from then on. */
u32 weights_round;

/* The last slot that was ever used. */
u32 highest_slot;

/* A quota that is longer than this (us) is what the kernel passes on where there is no quota. */
#define NO_QUOTA_US (1ull << 40)

/* How many cgroups can be known with their slot, which may be the slot of a cgroup above. */
#define CGROUPS_KNOWN_MAX 65536

/* The slot of a cgroup, by the cgroup's number. It is looked up by number since a CPU that asks for its next
 * task can read a task's cgroup, but not hold it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, CGROUPS_KNOWN_MAX);
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

/* The slot of the nearest cgroup above this one that has a slot. The cgroup is given by its address, since a
 * global function takes no such pointer. */
__noinline u32 slot_above(u64 address)
{
	struct cgroup *cgroup = (void *)address;
	u64 ancestors = address + bpf_core_field_offset(struct cgroup, ancestors);
	int level = BPF_CORE_READ(cgroup, level);
	u32 i;

	bpf_for(i, 0, CGROUP_DEPTH_MAX)
	{
		int depth = CGROUP_DEPTH_MAX - i;
		struct cgroup *above = NULL;
		u32 slot = 0;

		if (depth < level && !bpf_probe_read_kernel(&above, sizeof(above),
							    (void *)(ancestors + depth * sizeof(above))))
			slot = slot_of(BPF_CORE_READ(above, kn, id));
		if (slot)
			return slot;
	}
	return 0;
}

/* The address of a cgroup, as a number, read from the kernel's node of the cgroup. */
static __always_inline u64 address_of(struct cgroup *cgroup)
{
	return (u64)BPF_CORE_READ(cgroup, kn, priv);
}

/* The slot of a session that is a group of its own. */
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

/* The weight of a session, by the nice value that it was given as a whole (/proc/PID/autogroup). */
static __always_inline u32 weight_of_session(struct task_struct *p)
{
	if (!bpf_core_field_exists(p->sched_task_group->shares))
		return WEIGHT_DEFAULT;
	return (p->sched_task_group->shares >> NICE_SHIFT) * WEIGHT_DEFAULT / NICE_0_WEIGHT;
}

/* The slot of the group that a task belongs to. A group that the kernel made for a session has no cgroup. */
static __always_inline u32 slot_of_task(struct task_struct *p, struct thread_ctx *t)
{
	struct cgroup *cgroup = p->sched_task_group->css.cgroup;

	/* The address is read from memory, as the verifier forbids calculating with an address. */
	if (!cgroup)
		return slot_of_session(*(volatile u64 *)&t->group);
	return slot_of(cgroup->kn->id) ?: slot_above(address_of(cgroup));
}

/* Sets the weight with which a cgroup counts at its parent. If several CPUs change it at once, the parent's
 * sum has the weight that was set last. */
static __always_inline void count_at_parent(struct cgroup_slot *s, u32 weight)
{
	u32 counted = __sync_lock_test_and_set(&s->counted, weight);

	__sync_fetch_and_add(&slot_at(s->parent)->sum, (u64)weight - counted);
}

static __always_inline void set_weight(struct cgroup_slot *s, u32 weight, u32 is_idle)
{
	u64 now = llc_at(0)->vtime, lead = s->vtime - now, before = s->weight;

	s->weight_set = weight;
	s->is_idle = is_idle;
	s->weight = is_idle ? 1 : at_least(weight, 1);
	/* The group's lead is the same run time as before, under the new weight. */
	if ((s64)lead > 0)
		s->vtime = now + lead * before / s->weight;
	__sync_fetch_and_add(&weights_round, 1);
	if (s->counted)
		count_at_parent(s, s->weight);
}

/* Whether a group is idle as a whole. Kernels from 6.19 on tell the scheduler of it; it can be read on every
 * kernel. */
static __always_inline u32 is_idle_group(struct task_group *group)
{
	return bpf_core_field_exists(group->idle) && group->idle > 0;
}

/* A task of a cgroup wants to run: the cgroup counts at its parent, the parent at its own parent, and so
 * on. */
__noinline int activate(u32 slot)
{
	for (int depth = 0; depth < CGROUP_DEPTH_MAX; depth++) {
		struct cgroup_slot *s = slot_at(slot);

		if (!slot || s->counted)
			break;
		count_at_parent(s, s->weight);
		slot = s->parent;
	}
	return 0;
}

/* No task of a cgroup wants to run any more, so its parent does not count it. A task that comes meanwhile may
 * still have seen the cgroup counted: the cgroup's sum is looked at again afterwards. */
__noinline int deactivate(u32 slot)
{
	for (int depth = 0; depth < CGROUP_DEPTH_MAX; depth++) {
		struct cgroup_slot *s = slot_at(slot);

		if (!slot || s->sum || !s->counted)
			break;
		count_at_parent(s, 0);
		if (s->sum)
			return activate(slot);
		slot = s->parent;
	}
	return 0;
}

/* A thread sleeps, or ends, and is not counted any more. */
static __always_inline void cgroup_uncount(struct thread_ctx *t)
{
	struct cgroup_slot *s = slot_at(t->slot - 1);

	if (!t->counted)
		return;
	/* The thread's cgroup may be gone, and its slot may belong to another cgroup. */
	if (s->generation == t->slot_generation && !__sync_sub_and_fetch(&s->sum, t->counted))
		deactivate(t->slot - 1);
	t->counted = 0;
}

/* Sees whether the cgroup that owns a slot has become idle, or is not any more. */
static __always_inline void see_idle(struct task_group *group, u32 slot)
{
	struct cgroup_slot *s = slot_at(slot);
	u32 is_idle = is_idle_group(group);
	struct cgroup *cgroup;

	if (is_idle == s->is_idle)
		return;
	cgroup = group->css.cgroup;
	/* A cgroup that shares the slot of a cgroup above it says nothing of whether the cgroup above is
	 * idle. */
	if (cgroup && s->owner == cgroup->kn->id)
		set_weight(s, s->weight_set, is_idle);
}

/* Looks which of the cgroups above a task's own cgroup are idle. */
__noinline int see_idle_above(struct task_struct *p __arg_trusted)
{
	struct task_group *group = p->sched_task_group->parent;
	u32 depth;

	bpf_for(depth, 0, CGROUP_DEPTH_MAX)
	{
		struct cgroup *cgroup;

		if (!group)
			break;
		cgroup = group->css.cgroup;
		if (cgroup)
			see_idle(group, slot_of(cgroup->kn->id));
		group = group->parent;
	}
	return 0;
}

/* Looks whether the nice value of a session has changed. */
static __always_inline void see_weight(struct task_struct *p, u32 slot)
{
	u32 weight = weight_of_session(p);

	if (weight != slot_at(slot)->weight)
		set_weight(slot_at(slot), weight, 0);
}

/* Finds the slot of a thread that is in another group than when its slot was found last. */
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
	t->slot_generation = slot_at(t->slot - 1)->generation;
	see_idle_above(p);
}

/* Counts a thread that wants to run in its group's slot. */
static __always_inline void cgroup_count(struct task_struct *p, struct thread_ctx *t)
{
	struct cgroup_slot *s;
	u32 weight = p->scx.weight;

	cgroup_find(p, t);
	if (!cgroups_used || !t->slot)
		return;
	if (t->slot > SESSION_SLOTS)
		see_weight(p, t->slot - 1);
	else if (t->slot > 1)
		see_idle(p->sched_task_group, t->slot - 1);
	if (t->counted == weight)
		return;
	s = slot_at(t->slot - 1);
	__sync_fetch_and_add(&s->sum, (u64)weight - t->counted);
	t->counted = weight;
	if (!s->counted)
		activate(t->slot - 1);
}

/* Which part of the CPU a cgroup has, after sharing at each level from the cgroup up to the root, with ten
 * more bits. The verifier checks this function once. */
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

/* Whether no task outside of a cgroup wants to run: 0 or 1. */
__noinline u32 is_alone(u32 slot)
{
	for (int depth = 0; slot && depth < CGROUP_DEPTH_MAX; depth++) {
		struct cgroup_slot *s = slot_at(slot);

		if (slot_at(s->parent)->sum > s->counted)
			return 0;
		slot = s->parent;
	}
	return 1;
}

/* Converts run time to OTHER's virtual time, for a thread of that weight in a slot; units of 64 ns. */
__noinline u64 charge_in(u32 slot, u32 weight, u64 ran_ns)
{
	u64 ran = (ran_ns >> 6) * 100, sum = slot_at(slot)->sum;

	weight = at_least(weight, 1);
	if (!slot)
		return ran / weight;
	/* The weight gets ten more bits, since the part has ten more bits. */
	ran *= (at_least(sum, weight) << 10) / weight;
	return ran / at_least(part_of(slot), 1);
}

/* Converts a thread's run time to OTHER's virtual time, units of 64 ns. */
static __always_inline u64 other_charge(struct task_struct *p, struct thread_ctx *t, u64 ran_ns)
{
	return charge_in(t->slot ? t->slot - 1 : 0, p->scx.weight, ran_ns);
}

/* Converts a thread's run time to the virtual time of its group, as if the group were one task; units of 64
 * ns. */
static __always_inline u64 group_charge(const struct thread_ctx *t, u64 ran_ns)
{
	return (ran_ns >> 6) * 100 * 1024 / (part_of(t->slot - 1) ?: 1);
}

#endif
