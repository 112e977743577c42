/* SPDX-License-Identifier: GPL-2.0-only */
/* DAEMON: Spry's own threads, first of all, for a small part of each CPU; beyond it they are like others. */
#ifndef SPRY_CLASS_DAEMON_BPF_H
#define SPRY_CLASS_DAEMON_BPF_H

static __always_inline bool daemon_may(struct cpu_ctx *c)
{
	return within_budget(c, SPRY_CLASS_DAEMON, daemon_percent);
}

static __always_inline u64 daemon_key(void)
{
	/* All alike: first in, first out. */
	return KEY(SPRY_CLASS_DAEMON, 0);
}

#endif
