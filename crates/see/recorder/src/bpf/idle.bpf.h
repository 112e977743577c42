/* SPDX-License-Identifier: GPL-2.0-only */
/* Group idle: the idle states that CPUs enter and leave. */
#ifndef SPRY_IDLE_BPF_H
#define SPRY_IDLE_BPF_H

/* The kernel calls this tracepoint on the CPU that enters or leaves the state. */
SEC("tp_btf/cpu_idle")
int BPF_PROG(spry_cpu_idle, unsigned int state)
{
	put_value(SPRY_IDLE, state);
	return 0;
}

#endif
