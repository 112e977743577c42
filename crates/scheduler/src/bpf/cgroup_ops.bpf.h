/* SPDX-License-Identifier: GPL-2.0-only */
/* What the kernel tells of cgroups: that they come and go, their settings, and tasks that move between them.
 */
#ifndef SPRY_CGROUP_OPS_BPF_H
#define SPRY_CGROUP_OPS_BPF_H

#include "births.bpf.h"

s32 BPF_STRUCT_OPS_SLEEPABLE(spry_cgroup_init, struct cgroup *cgroup, struct scx_cgroup_init_args *args)
{
	struct cgroup *parent;
	u64 id = cgroup->kn->id;
	u32 i, found = 0;

	if (!cgroup->level)
		return 0;
	bpf_for(i, 1, SESSION_SLOTS)
	{
		if (!__sync_val_compare_and_swap(&slot_at(i)->is_used, 0, 1)) {
			found = i;
			break;
		}
	}
	if (!found || bpf_map_update_elem(&cgroup_slots, &id, &found, BPF_ANY)) {
		/* Its tasks are like the root's. */
		slot_at(found)->is_used = 0;
		cgroups_left_out++;
		return 0;
	}
	slot_at(found)->weight = args->weight ?: 1;
	slot_at(found)->parent = 0;
	parent = bpf_cgroup_ancestor(cgroup, cgroup->level - 1);
	if (parent) {
		slot_at(found)->parent = slot_of(parent->kn->id);
		bpf_cgroup_release(parent);
	}
	if (found > highest_slot)
		highest_slot = found;
	if (bpf_core_field_exists(args->bw_quota_us))
		limit_set(slot_at(found), args->bw_period_us, args->bw_quota_us);
	__sync_fetch_and_add(&cgroups_used, 1);
	return 0;
}

void BPF_STRUCT_OPS(spry_cgroup_exit, struct cgroup *cgroup)
{
	u64 id = cgroup->kn->id;
	u32 slot = slot_of(id);
	struct cgroup_slot *s = slot_at(slot);

	if (!slot)
		return;
	bpf_map_delete_elem(&cgroup_slots, &id);
	if (s->counted)
		__sync_fetch_and_sub(&slot_at(s->parent)->sum, s->counted);
	limit_set(s, 0, 0);
	__builtin_memset(s, 0, sizeof(*s));
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
}

void BPF_STRUCT_OPS(spry_cgroup_set_weight, struct cgroup *cgroup, u32 weight)
{
	u32 slot = slot_of(cgroup->kn->id);

	if (slot)
		set_weight(slot_at(slot), weight);
}

void BPF_STRUCT_OPS(spry_cgroup_set_bandwidth, struct cgroup *cgroup, u64 period_us, u64 quota_us,
		    u64 burst_us)
{
	u32 slot = slot_of(cgroup->kn->id);

	if (slot)
		limit_set(slot_at(slot), period_us, quota_us);
}

void BPF_STRUCT_OPS(spry_quiescent, struct task_struct *p, u64 deq_flags)
{
	s32 cpu = nr_cpus > 1 ? bpf_get_smp_processor_id() : 0;
	struct where at = {.cpu = cpu, .llc = llc_of(cpu)};
	struct cpu_ctx *c = cpu_at(cpu);
	struct thread_ctx *t;

	if (p->exit_state)
		dies(p, &at);
	if (!cgroups_used)
		return;
	/* When it comes back it must be counted. */
	if (RECENT(c, p)->task == (u64)p)
		RECENT(c, p)->task = 0;
	t = find_thread(p);
	if (t)
		cgroup_uncount(t);
}

#endif
