/* SPDX-License-Identifier: GPL-2.0-only */
/* Includes for BPF programs: the kernel's types, helper functions, and the programs' interface to the
 * daemon. */
#ifndef SPRY_TYPES_BPF_H
#define SPRY_TYPES_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "intf.h"

/* The kernel's flag of tasks that are workers of a workqueue. */
#define PF_WQ_WORKER 0x00000020

#endif
