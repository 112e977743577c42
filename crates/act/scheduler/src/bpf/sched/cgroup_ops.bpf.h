/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's calls about cgroups: cgroups are made and removed, their settings change, tasks move between
 * them and go to sleep. */
#ifndef SPRY_CGROUP_OPS_BPF_H
#define SPRY_CGROUP_OPS_BPF_H

#include "births.bpf.h"

/* Takes a free slot for a cgroup of a depth; returns 0 if there is none. */
static __always_inline u32 free_slot(u32 level)
{
	u32 i, end = level > CGROUP_DEPTH_SHARED ? SLOTS_SHARED : SESSION_SLOTS;

	if (level > CGROUP_DEPTH_MAX)
		return 0;
	bpf_for(i, 1, end)
	{
		if (!__sync_val_compare_and_swap(&slot_at(i)->is_used, 0, 1))
			return i;
	}
	return 0;
}

/* Makes the queue for a slot's parked tasks. Only a program that may sleep can make a queue, so the queue
 * stays for the slot's later cgroups. A cgroup without this queue has no limit. */
static __always_inline void make_parking(u32 slot)
{
	if (has_timers && !parking[slot & (SPRY_CGROUPS_MAX - 1)].has_queue &&
	    !scx_bpf_create_dsq(parked_dsq(slot), -1))
		parking[slot & (SPRY_CGROUPS_MAX - 1)].has_queue = 1;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(spry_cgroup_init, struct cgroup *cgroup, struct scx_cgroup_init_args *args)
{
	u64 id = cgroup->kn->id;
	u32 above, found;

	if (!cgroup->level)
		return 0;
	above = slot_above(address_of(cgroup));
	found = free_slot(cgroup->level);
	if (!found || bpf_map_update_elem(&cgroup_slots, &id, &found, BPF_ANY)) {
		/* Tasks of a cgroup without a slot are counted in the nearest cgroup above. */
		if (found)
			slot_at(found)->is_used = 0;
		if (above)
			bpf_map_update_elem(&cgroup_slots, &id, &above, BPF_ANY);
		__sync_fetch_and_add(&cgroups_left_out, 1);
		return 0;
	}
	slot_at(found)->owner = id;
	set_weight(slot_at(found), args->weight, 0);
	slot_at(found)->parent = above;
	if (found > highest_slot)
		highest_slot = found;
	if (bpf_core_field_exists(args->bw_quota_us)) {
		make_parking(found);
		limit_set(found, args->bw_period_us, args->bw_quota_us);
	}
	__sync_fetch_and_add(&cgroups_used, 1);
	return 0;
}

void BPF_STRUCT_OPS(spry_cgroup_exit, struct cgroup *cgroup)
{
	u64 id = cgroup->kn->id;
	u32 slot = slot_of(id), generation;
	struct cgroup_slot *s = slot_at(slot);

	if (!slot)
		return;
	bpf_map_delete_elem(&cgroup_slots, &id);
	if (s->owner != id)
		return;
	count_at_parent(s, 0);
	limit_set(slot, 0, 0);
	generation = s->generation + 1;
	__builtin_memset(s, 0, sizeof(*s));
	s->generation = generation;
	__sync_fetch_and_sub(&cgroups_used, 1);
}

void BPF_STRUCT_OPS(spry_cgroup_move, struct task_struct *p, struct cgroup *from, struct cgroup *to)
{
	struct thread_ctx *t = find_thread(p);
	u32 counted;

	if (!t)
		return;
	counted = t->counted;
	cgroup_find(p, t);
	if (counted)
		cgroup_count(p, t);
	__sync_fetch_and_add(&weights_round, 1);
}

void BPF_STRUCT_OPS(spry_cgroup_set_weight, struct cgroup *cgroup, u32 weight)
{
	u32 slot = slot_of(cgroup->kn->id);

	if (slot && slot_at(slot)->owner == cgroup->kn->id)
		set_weight(slot_at(slot), weight, slot_at(slot)->is_idle);
}

void BPF_STRUCT_OPS(spry_cgroup_set_bandwidth, struct cgroup *cgroup, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	u32 slot = slot_of(cgroup->kn->id);

	if (slot && slot_at(slot)->owner == cgroup->kn->id)
		limit_set(slot, period_us, quota_us);
}

/* A task stops wanting to run: it sleeps, exits, or changes its class or CPUs. It is no longer
 * counted in its group. */
void BPF_STRUCT_OPS(spry_quiescent, struct task_struct *p, u64 deq_flags)
{
	s32 cpu = nr_cpus > 1 ? bpf_get_smp_processor_id() : 0;
	struct where at = {.cpu = cpu, .llc = llc_of(cpu)};
	struct cpu_ctx *c = cpu_at(cpu);
	struct thread_ctx *t;

	if (reserved_all && deq_flags & SCX_DEQ_SLEEP)
		reserved_sleeps(p);
	if (nr_cpus > 1 && deq_flags & SCX_DEQ_SLEEP)
		other_sleeps(p, &at);
	if (p->exit_state)
		dies(p, &at);
	if (!cgroups_used)
		return;
	/* When the task comes back, its group must count it again, so no CPU may go on with a remembered
	 * order. This function may run on another CPU than the task's. */
	forget_recent(c, p);
	if (nr_cpus > 1)
		forget_recent(cpu_at(scx_bpf_task_cpu(p)), p);
	t = find_thread(p);
	if (t)
		cgroup_uncount(t);
}

#endif
