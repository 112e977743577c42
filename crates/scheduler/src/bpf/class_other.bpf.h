/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * OTHER: weighted fair. A task's virtual time grows with its run time over its weight; the least goes first.
 * Who has slept comes back a slice behind the class at most, and hardly before it in a crowd. Nobody is put
 * further ahead than the class gets in a while, or in the time in which everybody is to have a turn, so that
 * a small weight does not wait longer when the class has little of the CPU or many tasks.
 */
#ifndef SPRY_CLASS_OTHER_BPF_H
#define SPRY_CLASS_OTHER_BPF_H

#define VTIME_UNIT_SHIFT 6
/* The lag while turns are short: in a crowd, or behind a higher class. */
#define LAG_SHORT 1

/* A task's order is asked for when the task is put into a queue, or when its CPU asks which task to run. */
enum asked { ASKED_ABOUT_IT = 0, ASKED_WHOM_TO_RUN = 1 };

static __always_inline u64 at_least(u64 vtime, u64 least)
{
	return (s64)(vtime - least) < 0 ? least : vtime;
}

/* Whether a task pays for the turn that it had, however short it was: turns are short in a crowd, and behind
 * a higher class. */
static __always_inline bool pays_for_turn(const struct cpu_ctx *c, const struct llc_ctx *l, enum asked asked)
{
	return asked == ASKED_WHOM_TO_RUN && (l->lag == LAG_SHORT || c->below[BELOW_OTHER].began_ns);
}

static __always_inline u64 other_key(struct task_struct *p, struct thread_ctx *t, struct cpu_ctx *c,
				     struct llc_ctx *l, u64 ran_ns, enum asked asked)
{
	u64 key = p->scx.dsq_vtime, old = key & KEY_LOW, now = l->vtime, vtime = now;
	bool was_other = key >> KEY_SHIFT == SPRY_CLASS_OTHER;

	/* It had its turn: so far has the class come. */
	if (was_other && (s64)(old - now) > 0)
		l->vtime = now = old;
	if (was_other)
		vtime = old;
	if (t && t->class == SPRY_CLASS_OTHER)
		vtime = t->vtime;
	/* Such a task pays from where the class is. What it ran is not known while it has no storage. */
	if (was_other && pays_for_turn(c, l, asked)) {
		vtime = at_least(vtime, now);
		if (!t)
			vtime += l->turn;
	}
	if (t && was_other)
		vtime += other_charge(p, t, ran_ns);
	vtime = at_least(vtime, now - l->lag);
	if ((s64)(vtime - (now + l->ahead)) > 0)
		vtime = now + l->ahead;
	if (t)
		t->vtime = vtime;
	return KEY(SPRY_CLASS_OTHER, vtime);
}

/*
 * A new process begins where its parent is, who pays in advance for the run time of a short child: most never
 * run long enough to be charged themselves.
 */
static __always_inline u64 other_fork(struct task_struct *parent, struct llc_ctx *l)
{
	struct thread_ctx *from = find_thread(parent);
	u64 vtime = l->vtime;

	if (from && from->class == SPRY_CLASS_OTHER) {
		from->charged_ns -= fork_tax_ns;
		if ((s64)(from->vtime - vtime) > 0)
			vtime = from->vtime;
	}
	return KEY(SPRY_CLASS_OTHER, vtime);
}

#endif
