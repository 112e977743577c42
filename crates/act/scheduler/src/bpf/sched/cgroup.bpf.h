/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shares of cgroups and sessions in OTHER, without a tree of queues.
 *
 * Purpose: a group has its part of the CPU by its weight, however many tasks it has, as under the
 * kernel's fair class.
 *
 * State: a cgroup or a session has a slot in a flat array; slot 0 is the root. A thread keeps the number of
 * its slot, so that no look-up is needed while tasks switch. A slot has its weight and the sum of the weights
 * of the group's members that want to run now.
 *
 * Rule: a group has its weight's part of its parent's CPU time, as long as any of its tasks wants to run. A
 * task's virtual time grows as if its weight were the task's part of its group's part. A task of the root
 * counts like a cgroup below the root. If no cgroup shares the CPU, the kernel makes a group of each session.
 * Such a session counts like a cgroup below the root.
 *
 * Bound: 16 levels, and 3071 cgroups. Tasks of further cgroups are counted in the nearest cgroup above.
 *
 * Difference from the thesis: the thesis has no groups.
 */
#ifndef SPRY_CGROUP_BPF_H
#define SPRY_CGROUP_BPF_H

#include "state.bpf.h"

#define SPRY_CGROUPS_MAX 4096
/* The greatest depth at which a cgroup can have a slot. Tasks of a deeper cgroup, or of a cgroup without a
 * free slot, are counted in the nearest cgroup above with a slot, and have no more CPU time than it. */
#define CGROUP_DEPTH_MAX 16
/* Deeper cgroups than this can be an ordinary user's. They can have only the first SLOTS_SHARED slots, so
 * that one user's many cgroups leave slots for the sessions of others. */
#define CGROUP_DEPTH_SHARED 3
#define SLOTS_SHARED	    2048

/* Sessions have the last slots. The slot follows from the address of the session's group in the kernel, which
 * users do not know. So no user can start a session that shares a certain other session's slot. */
#define SESSION_BITS  10
#define SESSION_SLOTS (SPRY_CGROUPS_MAX - (1 << SESSION_BITS))
/* The weight of a session, and of a cgroup without another weight. It is the kernel's weight of nice 0
 * (NICE_0_WEIGHT), which the kernel holds with NICE_SHIFT more bits. */
#define WEIGHT_DEFAULT 100
#define NICE_0_WEIGHT  1024
#define NICE_SHIFT     10

/* The state of a group: a cgroup or a session. */
struct cgroup_slot {
	u32 is_used;
	u32 parent;
	/* The number of the slot's cgroup; 0: the slot is a session's. */
	u64 owner;
	/* The weight in force, and the weight that was set. If the group as a whole is idle (cpu.idle), the
	 * least weight is in force. */
	u32 weight;
	u32 weight_set;
	u32 is_idle;
	/* The weight with which the group counts in its parent's sum; 0 while none of its tasks wants to
	 * run. */
	u32 counted;
	/* The sum of the weights of the threads and child groups that want to run. */
	u64 sum;
	/* The group's virtual time in OTHER, as if the group were one task; units of 64 ns, counted in the
	 * first cache's domain. */
	u64 vtime;
	/* Number of times the slot was given to another cgroup. A thread keeps its slot with this number. */
	u32 generation;
	/* The cgroup's cpu.max, ns: its quota in each period (0: no limit) and the period's length. Then the
	 * used part of the quota, and the time at which the period began. */
	u64 quota_ns;
	u64 period_ns;
	u64 used_ns;
	u64 began_ns;
};

struct cgroup_slot slots[SPRY_CGROUPS_MAX];

/* Numbers of slots in use besides the root's, of cgroups with a limit, and of cgroups that found no slot. */
u32 cgroups_used, cgroups_limited, cgroups_left_out;

/* Counted up when a group's weight changes and when a task moves to another group. Earlier charges then have
 * another scale than later charges. */
u32 weights_round;

/* The highest number of a cgroup's slot that was ever used. */
u32 highest_slot;

/* The kernel passes a quota longer than this, us, if there is no quota. */
#define NO_QUOTA_US (1ull << 40)

/* The most cgroups that the map below can have. A cgroup without a slot of its own has the slot of a cgroup
 * above it there. */
#define CGROUPS_KNOWN_MAX 65536

/* The slot of a cgroup, by the cgroup's number. When a CPU decides it can read a task's cgroup, but not take
 * a reference to it, so the number is the key. */
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

/* The slot of the nearest cgroup above a cgroup that has a slot. The cgroup is given by its address, since
 * global functions take no such pointer. */
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

/* The address of a cgroup as a number, read from the kernel's node of the cgroup. */
static __always_inline u64 address_of(struct cgroup *cgroup)
{
	return (u64)BPF_CORE_READ(cgroup, kn, priv);
}

/* The slot of a session, by the address of its group. Takes the slot if it is free. */
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

/* The weight of a session, by the nice value of the session as a whole (/proc/PID/autogroup). */
static __always_inline u32 weight_of_session(struct task_struct *p)
{
	if (!bpf_core_field_exists(p->sched_task_group->shares))
		return WEIGHT_DEFAULT;
	return (p->sched_task_group->shares >> NICE_SHIFT) * WEIGHT_DEFAULT / NICE_0_WEIGHT;
}

/* The slot of a task's group. A group that the kernel made for a session has no cgroup. */
static __always_inline u32 slot_of_task(struct task_struct *p, struct thread_ctx *t)
{
	struct cgroup *cgroup = p->sched_task_group->css.cgroup;

	/* The address is read from memory, since the verifier forbids calculations with addresses. */
	if (!cgroup)
		return slot_of_session(*(volatile u64 *)&t->group);
	return slot_of(cgroup->kn->id) ?: slot_above(address_of(cgroup));
}

/* Sets the weight with which a group counts in its parent's sum. If several CPUs do this at once, the sum has
 * the weight that was set last. */
static __always_inline void count_at_parent(struct cgroup_slot *s, u32 weight)
{
	u32 counted = __sync_lock_test_and_set(&s->counted, weight);

	__sync_fetch_and_add(&slot_at(s->parent)->sum, (u64)weight - counted);
}

/* Sets a group's weight, and whether the group is idle as a whole. */
static __always_inline void set_weight(struct cgroup_slot *s, u32 weight, u32 is_idle)
{
	u64 now = llc_at(0)->vtime, lead = s->vtime - now, before = s->weight;

	s->weight_set = weight;
	s->is_idle = is_idle;
	s->weight = is_idle ? 1 : at_least(weight, 1);
	/* The group's lead stands for the same run time as before, so it is converted to the new weight. */
	if ((s64)lead > 0)
		s->vtime = now + lead * before / s->weight;
	__sync_fetch_and_add(&weights_round, 1);
	if (s->counted)
		count_at_parent(s, s->weight);
}

/* Whether a group is idle as a whole. The scheduler reads this itself, since only kernels from
 * 6.19 on report it. */
static __always_inline u32 is_idle_group(struct task_group *group)
{
	return bpf_core_field_exists(group->idle) && group->idle > 0;
}

/* A task of a group wants to run: the group counts in its parent's sum from now on, and each parent in
 * its own parent's. */
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

/* No task of a group wants to run any more: the group, and each parent without other tasks, stops counting in
 * its parent's sum. A task that wakes meanwhile may have seen the group counted, so the group's sum is
 * checked again afterwards. */
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

/* A thread sleeps or exits: its group no longer counts it. */
static __always_inline void cgroup_uncount(struct thread_ctx *t)
{
	struct cgroup_slot *s = slot_at(t->slot - 1);

	if (!t->counted)
		return;
	/* The thread's cgroup may have been removed, and its slot may have another one now. */
	if (s->generation == t->slot_generation && !__sync_sub_and_fetch(&s->sum, t->counted))
		deactivate(t->slot - 1);
	t->counted = 0;
}

/* Updates whether the cgroup of a slot is idle as a whole. */
static __always_inline void see_idle(struct task_group *group, u32 slot)
{
	struct cgroup_slot *s = slot_at(slot);
	u32 is_idle = is_idle_group(group);
	struct cgroup *cgroup;

	if (is_idle == s->is_idle)
		return;
	cgroup = group->css.cgroup;
	/* If a cgroup shares the slot of a cgroup above it, its own state is not that cgroup's. */
	if (cgroup && s->owner == cgroup->kn->id)
		set_weight(s, s->weight_set, is_idle);
}

/* Updates for each cgroup above a task's own whether the cgroup is idle as a whole. */
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

/* Updates the weight of a session, if its nice value has changed. */
static __always_inline void see_weight(struct task_struct *p, u32 slot)
{
	u32 weight = weight_of_session(p);

	if (weight != slot_at(slot)->weight)
		set_weight(slot_at(slot), weight, 0);
}

/* Updates a thread's slot, if the thread's group has changed since the slot was found. */
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

/* Counts a thread that wants to run, with its weight, in its group's slot. */
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

/* A group's part of the CPU, shared by weights at each level up to the root: a weight below the root, with
 * ten more bits. It is a global function, which the verifier checks once. */
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

/* Whether no task outside a group wants to run: 1 if so, else 0. */
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

/* Converts run time to virtual time of OTHER, for a thread of a weight in a slot; units of 64 ns. */
__noinline u64 charge_in(u32 slot, u32 weight, u64 ran_ns)
{
	u64 ran = (ran_ns >> 6) * 100, sum = slot_at(slot)->sum;

	weight = at_least(weight, 1);
	if (!slot)
		return ran / weight;
	/* The part has ten more bits, so the weight gets them, too. */
	ran *= (at_least(sum, weight) << 10) / weight;
	return ran / at_least(part_of(slot), 1);
}

/* Converts a thread's run time to virtual time of OTHER, by its weight and its group's part; units of 64
 * ns. */
static __always_inline u64 other_charge(struct task_struct *p, struct thread_ctx *t, u64 ran_ns)
{
	return charge_in(t->slot ? t->slot - 1 : 0, p->scx.weight, ran_ns);
}

/* Converts a thread's run time to virtual time of its group, as if the group were one task; units of 64
 * ns. */
static __always_inline u64 group_charge(const struct thread_ctx *t, u64 ran_ns)
{
	return (ran_ns >> 6) * 100 * 1024 / (part_of(t->slot - 1) ?: 1);
}

#endif
