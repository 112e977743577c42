/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel's types and functions, and what BPF shares with the daemon. */
#ifndef SPRY_TYPES_BPF_H
#define SPRY_TYPES_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "intf.h"

/* A flag of tasks, with the kernel's value. */
#define PF_WQ_WORKER 0x00000020

#endif
