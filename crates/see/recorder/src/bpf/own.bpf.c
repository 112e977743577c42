/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds a process' number outside all PID namespaces, which the kernel's records use. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

u32 own_tgid SEC(".data.own");

/* The process itself reads the list of tasks, so it is the current one here. */
SEC("iter/task")
int own_number(struct bpf_iter__task *ctx)
{
	own_tgid = bpf_get_current_pid_tgid() >> 32;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
