/* SPDX-License-Identifier: GPL-2.0-only */
/* IDLE: tasks of SCHED_IDLE and those put here by hand, one after the other, when nobody else wants the CPU.
 */
#ifndef SPRY_CLASS_IDLE_BPF_H
#define SPRY_CLASS_IDLE_BPF_H

static __always_inline u64 idle_key(void)
{
	return KEY(SPRY_CLASS_IDLE, 0);
}

#endif
