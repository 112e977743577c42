/* SPDX-License-Identifier: GPL-2.0-only */
/* Counts of nodes for each user: no user can take so many nodes that another user finds none. */
#ifndef SPRY_USERS_BPF_H
#define SPRY_USERS_BPF_H

#include "kernel.bpf.h"

/* Stands for all users without a count of their own. No real user has this number. */
#define SPRY_USER_REST 0xffffffff

/* User namespaces cannot be nested deeper than this. */
#define USER_NAMESPACES_MAX 33

/* The number of nodes of each user, by the user's number. Entries stay, since a machine has few users. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SPRY_USERS_MAX);
	__type(key, u32);
	__type(value, u32);
} users SEC(".maps");

static u32 rest_has;

/* The user to which a process' node is counted. A user namespace has thousands of user numbers, so all its
 * processes count for one user: the user that made the outermost namespace around them. If root made it, the
 * namespace's own number in the kernel is used, which is higher than numbers of users. */
static __noinline u32 user_of(struct task_struct *task)
{
	const struct cred *cred = BPF_CORE_READ(task, group_leader, real_cred);
	struct user_namespace *namespace = BPF_CORE_READ(cred, user_ns), *outermost = NULL;

	for (int i = 0; i < USER_NAMESPACES_MAX; i++) {
		struct user_namespace *parent = BPF_CORE_READ(namespace, parent);

		if (!parent)
			break;
		outermost = namespace;
		namespace = parent;
	}
	if (!outermost)
		return BPF_CORE_READ(cred, uid.val);
	return BPF_CORE_READ(outermost, owner.val) ?: BPF_CORE_READ(outermost, ns.inum);
}

/* A user's count of nodes, which begins at 0. If the user has no count, `user` is set to SPRY_USER_REST. */
static __always_inline u32 *nodes_of(u32 *user)
{
	u32 none = 0, *has = bpf_map_lookup_elem(&users, user);

	if (has)
		return has;
	if (*user != SPRY_USER_REST && !bpf_map_update_elem(&users, user, &none, BPF_NOEXIST))
		has = bpf_map_lookup_elem(&users, user);
	if (has)
		return has;
	*user = SPRY_USER_REST;
	return &rest_has;
}

/* Counts one more node for a user, if it has fewer nodes than are free. So one user alone has at most half of
 * all nodes, and two have at most a third each. There is always a node for another user. Root may have all.
 * Returns whether the node was counted. */
static __always_inline bool take_for(struct spry_collected *counts, u32 *user)
{
	u32 taken = *(volatile u32 *)&counts->taken, most = knobs.nodes_most,
	    free = most > taken ? most - taken : 0, *has = nodes_of(user);

	if (!free || (*user && *(volatile u32 *)has >= free))
		return false;
	__sync_fetch_and_add(has, 1);
	__sync_fetch_and_add(&counts->taken, 1);
	return true;
}

/* Counts one node less for a user. */
static __always_inline void give_back_of(struct spry_collected *counts, u32 user)
{
	u32 *has = nodes_of(&user);

	__sync_fetch_and_sub(has, 1);
	__sync_fetch_and_sub(&counts->taken, 1);
}

#endif
