//! Edits of the kernel's source for firm timers, as in Time-Sensitive Linux (OSDI 2002, sections 3.1, 3.2).
//!
//! Sleeps, polls and interval timers of unmodified programs may expire up to an overshoot late. They are
//! served at the return to user mode if it comes first. The kernel re-arms its clock device lazily since 7.3
//! (`hrtimer_rearm`). A check therefore takes the same way as the device's interrupt, and the device is armed
//! once at its end.

use super::edits::{Edit, Edits, Put};

/// The queue: overshoots, the earliest deadline, timers behind others that are not due.
const QUEUE: &str = include_str!("firm/queue.c");
/// The check at the return to user mode, and the settings.
const CHECK: &str = include_str!("firm/check.c");

const TIMERS: &str = "kernel/time/hrtimer.c";
const ENTRY: &str = "include/linux/irq-entry-common.h";

/// The edits for firm timers.
pub(super) const FIRM: Edits = Edits { of: "firm timers need", edits: &EDITS };

const EDITS: [Edit; 11] = [
    Edit {
        file: "include/linux/hrtimer_bases.h",
        place: "struct hrtimer *next_timer;",
        put: Put::After("\n\tktime_t firm_next;\n\tunsigned long firm_counts[3];\n\tbool firm_checks_now;"),
    },
    Edit {
        file: ENTRY,
        place: "/* Handle pending TIF work */",
        put: Put::Before(
            "DECLARE_STATIC_KEY_FALSE(firm_timers);\nvoid firm_check(struct pt_regs *regs);\n\n",
        ),
    },
    Edit {
        file: ENTRY,
        place: "/* Flush pending rcuog wakeup before the last need_resched() check */",
        put: Put::Before("if (static_branch_unlikely(&firm_timers))\n\t\tfirm_check(regs);\n\n\t"),
    },
    Edit {
        file: TIMERS,
        place: "/* * enqueue_hrtimer - internal function to (re)start a timer",
        put: Put::Before(QUEUE),
    },
    Edit {
        file: TIMERS,
        place: "WRITE_ONCE(timer->is_queued, HRTIMER_STATE_ENQUEUED);",
        put: Put::Instead("WRITE_ONCE(timer->is_queued, HRTIMER_STATE_ENQUEUED);\n\tfirm_note(timer, base);"),
    },
    Edit {
        file: TIMERS,
        place: "trace_hrtimer_start(timer, mode, true);",
        put: Put::After("\n\t\t\tfirm_note(timer, base);"),
    },
    Edit {
        file: TIMERS,
        place: "bool ret = true;\n\n\tdebug_hrtimer_assert_init(timer);",
        put: Put::After("\n\tdelta_ns = firm_range_ns(delta_ns);"),
    },
    Edit {
        file: TIMERS,
        place: "if (basenow < hrtimer_get_softexpires(timer))\n\t\t\t\tbreak;",
        put: Put::Instead(
            "if (basenow < hrtimer_get_softexpires(timer))\n\t\t\t\ttimer = firm_due(base, basenow);\n\t\t\t\
             if (!timer)\n\t\t\t\tbreak;\n\t\t\tfirm_count(cpu_base, timer);",
        ),
    },
    Edit {
        file: TIMERS,
        place: "__hrtimer_run_queues(cpu_base, now, flags, HRTIMER_ACTIVE_HARD);",
        put: Put::Instead(
            "__hrtimer_run_queues(cpu_base, now, flags, HRTIMER_ACTIVE_HARD);\n\tfirm_find_next(cpu_base);",
        ),
    },
    Edit { file: TIMERS, place: "hrtimer_interrupt", put: Put::AtEnd(CHECK) },
    Edit {
        file: TIMERS,
        place: "#include <linux/freezer.h>",
        put: Put::After("\n#include <linux/hardirq.h>\n#include <asm/irq_regs.h>"),
    },
];
