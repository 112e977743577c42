/* SPDX-License-Identifier: GPL-2.0-only */
/* Group stack: the call stack of a task when it left its CPU. */
#ifndef SPRY_STACK_BPF_H
#define SPRY_STACK_BPF_H

static __always_inline void put_stack(void *ctx, struct stay *s, struct task_struct *task)
{
	struct spry_stack *stack = reserve_meta(s, sizeof(*stack), SPRY_STACK, task->pid);

	if (!stack)
		return;
	stack->tgid = task->tgid;
	stack->kernel_bytes = bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0);
	stack->user_bytes = bpf_get_stack(ctx, stack->user, sizeof(stack->user), BPF_F_USER_STACK);
	bpf_ringbuf_submit(stack, BPF_RB_NO_WAKEUP);
}

#endif
