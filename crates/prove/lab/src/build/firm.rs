//! Edits of the kernel's source for firm timers, as in Time-Sensitive Linux (OSDI 2002, sections 3.1, 3.2).
//!
//! Sleeps, polls, interval timers and timerfds of unmodified programs may expire up to an overshoot late.
//! They are served at the return to user mode if it comes first.
//!
//! The kernel re-arms its clock device lazily since 7.3 (`hrtimer_rearm`). A check therefore takes the same
//! way as the device's interrupt, and the device is armed once at its end.

use super::edits::{Edit, Edits, Put};

/// The queue: overshoots, the earliest deadline, timers behind others that are not due.
const QUEUE: &str = include_str!("firm/queue.c");
/// The check at the return to user mode, and the settings.
const CHECK: &str = include_str!("firm/check.c");

const TIMERS: &str = "kernel/time/hrtimer.c";
const HEADER: &str = "include/linux/hrtimer.h";
const INTERVALS: &str = "kernel/time/itimer.c";
const ENTRY: &str = "include/linux/irq-entry-common.h";

/// The edits for firm timers.
pub(super) const FIRM: Edits = Edits { of: "firm timers need", edits: &EDITS };

const EDITS: [Edit; 21] = [
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
    // An interval timer that expired at its deadline is forwarded from there, not from its latest time. Of
    // timers without a range, both are the same.
    Edit {
        file: TIMERS,
        place: "delta = ktime_sub(now, hrtimer_get_expires(timer));",
        put: Put::Instead("delta = ktime_sub(now, hrtimer_get_softexpires(timer));"),
    },
    Edit {
        file: TIMERS,
        place: "if (hrtimer_get_expires(timer) > now)",
        put: Put::Instead("if (hrtimer_get_softexpires(timer) > now)"),
    },
    // A sleep that a stop of the process interrupts goes on to its deadline. From its latest time, each stop
    // would add an overshoot.
    Edit {
        file: TIMERS,
        place: "restart->nanosleep.expires = hrtimer_get_expires(&t.timer);",
        put: Put::Instead("restart->nanosleep.expires = hrtimer_get_softexpires(&t.timer);"),
    },
    Edit {
        file: HEADER,
        place: "extern int hrtimer_cancel(struct hrtimer *timer);",
        put: Put::Before("u64 firm_range_ns(u64 slack_ns);\n\n"),
    },
    // What users are told is the time to the deadline: by `getitimer` and an interrupted `nanosleep` (the
    // first edit), by `timer_gettime` and `timerfd_gettime` (the second).
    Edit {
        file: HEADER,
        place: "return ktime_sub(timer->node.expires, hrtimer_cb_get_time(timer));",
        put: Put::Instead("return ktime_sub(timer->_softexpires, hrtimer_cb_get_time(timer));"),
    },
    Edit {
        file: HEADER,
        place: "ktime_t rem = ktime_sub(timer->node.expires, now);",
        put: Put::Instead("ktime_t rem = ktime_sub(timer->_softexpires, now);"),
    },
    Edit {
        file: INTERVALS,
        place: "hrtimer_start(timer, expires, HRTIMER_MODE_REL);",
        put: Put::Instead("hrtimer_start_range_ns(timer, expires, firm_range_ns(0), HRTIMER_MODE_REL);"),
    },
    // Each expiry has the overshoot of its time, whatever the expiry before it had.
    Edit {
        file: INTERVALS,
        place: "hrtimer_restart(tmr);",
        put: Put::Instead(
            "hrtimer_start_range_ns(tmr, hrtimer_get_softexpires(tmr), firm_range_ns(0),\n\t\t\t\t       \
             HRTIMER_MODE_ABS);",
        ),
    },
    Edit {
        file: "kernel/time/posix-timers.c",
        place: "return hrtimer_start_expires_user(timer, HRTIMER_MODE_ABS);",
        put: Put::Instead(
            "return hrtimer_start_range_ns_user(timer, hrtimer_get_softexpires(timer), 0,\n\t\t\t\t\t   \
             HRTIMER_MODE_ABS);",
        ),
    },
    // A periodic timer of timerfd does not drift by the overshoot.
    Edit {
        file: "fs/timerfd.c",
        place: "hrtimer_get_expires(&ctx->t.tmr), HRTIMER_MODE_ABS);",
        put: Put::Instead("hrtimer_get_softexpires(&ctx->t.tmr), HRTIMER_MODE_ABS);"),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;

    /// The parts of the source that restart interval timers, in the form of Linux 7.3.
    const RESTARTS: [(&str, &str); 3] = [
        (
            TIMERS,
            "\n\tdelta = ktime_sub(now, hrtimer_get_expires(timer));\n\n\tif (delta < 0)\n\t\treturn 0;\n\
             \t\thrtimer_add_expires_ns(timer, incr * orun);\n\
             \t\tif (hrtimer_get_expires(timer) > now)\n\t\t\treturn orun;\n",
        ),
        (
            INTERVALS,
            "\n\t\thrtimer_forward_now(tmr, tsk->signal->it_real_incr);\n\t\thrtimer_restart(tmr);\n\
             \t\t\thrtimer_start(timer, expires, HRTIMER_MODE_REL);\n",
        ),
        (
            "kernel/time/posix-timers.c",
            "\n\treturn hrtimer_start_expires_user(timer, HRTIMER_MODE_ABS);\n}\n\n\
             \treturn hrtimer_start_expires_user(timer, HRTIMER_MODE_ABS);\n}\n",
        ),
    ];

    /// The edited source: the parts above, and every other place of the edits.
    fn edited() -> BTreeMap<&'static str, String> {
        let mut texts: BTreeMap<&str, String> =
            RESTARTS.map(|(file, text)| (file, text.to_owned())).into_iter().collect();
        for edit in &EDITS {
            let text = texts.entry(edit.file).or_default();
            if !text.contains(edit.place) {
                *text += &format!("{}\n", edit.place);
            }
        }
        let source = tempfile::tempdir().expect("a directory");
        for (file, text) in &texts {
            let path = source.path().join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        FIRM.apply(source.path()).expect("every place is there");
        let read = |file: &str| fs::read_to_string(source.path().join(file)).expect("it is there");
        texts.keys().map(|file| (*file, read(file))).collect()
    }

    #[test]
    fn interval_timers_start_and_restart_with_the_overshoot() {
        let texts = edited();
        let intervals = &texts[INTERVALS];
        assert_eq!(intervals.matches("firm_range_ns(0)").count(), 2, "{intervals}");
        assert!(
            !intervals.contains("hrtimer_restart(") && !intervals.contains("hrtimer_start("),
            "{intervals}"
        );
        let posix = &texts["kernel/time/posix-timers.c"];
        assert_eq!(posix.matches("hrtimer_start_range_ns_user(").count(), 2, "{posix}");
        assert!(!posix.contains("hrtimer_start_expires_user"), "{posix}");
        assert!(texts[HEADER].contains("u64 firm_range_ns(u64 slack_ns);"));
        assert!(texts[TIMERS].contains("\nu64 firm_range_ns(u64 slack_ns)\n{"));
    }

    #[test]
    fn a_timer_is_forwarded_from_its_deadline() {
        let timers = &edited()[TIMERS];
        assert!(timers.contains("delta = ktime_sub(now, hrtimer_get_softexpires(timer));"), "{timers}");
        assert!(timers.contains("if (hrtimer_get_softexpires(timer) > now)\n\t\t\treturn orun;"), "{timers}");
    }
}
