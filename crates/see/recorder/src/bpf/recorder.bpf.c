/* SPDX-License-Identifier: GPL-2.0-only */
/* The event logger: every program that runs in the kernel while Spry records. */
/* The declarations of kernel functions that some bpftools write would conflict with compat.bpf.h. */
#define BPF_NO_KFUNC_PROTOTYPES
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>
#include "wire.h"

const volatile struct spry_knobs knobs SEC(".rodata.knobs");
struct spry_control control SEC(".data.control");

#include "compat.bpf.h"
#include "ring.bpf.h"
#include "stack.bpf.h"
#include "namespace.bpf.h"
#include "throttle.bpf.h"
#include "sched.bpf.h"
#include "accounts.bpf.h"
#include "timer.bpf.h"
#include "irq.bpf.h"
#include "idle.bpf.h"
#include "ipc.bpf.h"

char LICENSE[] SEC("license") = "GPL";
