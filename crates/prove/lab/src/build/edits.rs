//! Edits of the kernel's source, and those for tick rates that its configuration does not offer. Edits name
//! their places by text, not by lines, because line numbers change from release to release.

use std::fs;
use std::path::Path;

use crate::error::{LabError, at};

/// Edits that belong together.
pub(super) struct Edits {
    /// What needs the edits, for the error if a place is missing.
    pub(super) of: &'static str,
    pub(super) edits: &'static [Edit],
}

/// An edit of one file.
pub(super) struct Edit {
    /// The file, below the top of the source.
    pub(super) file: &'static str,
    /// The place, by its text. Spaces and line ends do not count.
    pub(super) place: &'static str,
    pub(super) put: Put,
}

/// The text that an edit inserts, and where.
pub(super) enum Put {
    /// This text replaces each such place.
    Instead(&'static str),
    /// This text is inserted before the first such place.
    Before(&'static str),
    /// This text is inserted after the first such place.
    After(&'static str),
    /// This text is appended to the file, which must have such a place.
    AtEnd(&'static str),
}

/// The choices in the configuration.
const CHOICES: &str = "\
config HZ_50
	bool \"50 HZ\"

config HZ_5000
	bool \"5000 HZ\"

config HZ_10000
	bool \"10000 HZ\"

config HZ_20000
	bool \"20000 HZ\"

";

/// The rates that follow from the choices.
const DEFAULTS: &str = "
	default 50 if HZ_50
	default 5000 if HZ_5000
	default 10000 if HZ_10000
	default 20000 if HZ_20000";

/// A setting of the round-robin quantum in microseconds, beside the kernel's own in milliseconds. Both are
/// rounded up to whole ticks; 0 is the default.
const QUANTUM_US: &str = "
#ifdef CONFIG_SYSCTL
static int sched_rr_us_handler(const struct ctl_table *table, int write, void *buffer,
		size_t *lenp, loff_t *ppos)
{
	struct ctl_table shown = *table;
	int us = jiffies_to_usecs(sched_rr_timeslice);
	int ret;

	shown.data = &us;
	ret = proc_dointvec(&shown, write, buffer, lenp, ppos);
	if (!ret && write) {
		sched_rr_timeslice = us <= 0 ? RR_TIMESLICE : usecs_to_jiffies(us);
		sysctl_sched_rr_timeslice = jiffies_to_msecs(sched_rr_timeslice);
	}
	return ret;
}

static const struct ctl_table sched_rr_us_sysctls[] = {
	{
		.procname	= \"sched_rr_timeslice_us\",
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= sched_rr_us_handler,
	},
};

static int __init sched_rr_us_init(void)
{
	register_sysctl_init(\"kernel\", sched_rr_us_sysctls);
	return 0;
}
late_initcall(sched_rr_us_init);
#endif
";

/// The edits for other tick rates.
pub(super) const RATES: Edits = Edits { of: "other tick rates need", edits: &RATE_EDITS };

/// The choices and the quantum; quotients by the rate, which would be 0 at high rates; and a shift that the
/// source defines only up to 12,288 Hz.
const RATE_EDITS: [Edit; 13] = [
    Edit { file: "kernel/Kconfig.hz", place: "endchoice", put: Put::Before(CHOICES) },
    Edit { file: "kernel/Kconfig.hz", place: "default 1000 if HZ_1000", put: Put::After(DEFAULTS) },
    Edit {
        file: "include/linux/jiffies.h",
        place: "# define SHIFT_HZ 13",
        put: Put::After("\n#elif HZ >= 12288 && HZ < 24576\n# define SHIFT_HZ\t14"),
    },
    Edit { file: "init/calibrate.c", place: "/(500000/HZ)", put: Put::Instead("*HZ/500000") },
    Edit { file: "init/calibrate.c", place: "/(5000/HZ)", put: Put::Instead("*HZ/5000") },
    Edit { file: "arch/x86/kernel/smpboot.c", place: "/(500000/HZ)", put: Put::Instead("*HZ/500000") },
    Edit { file: "arch/x86/kernel/smpboot.c", place: "/(5000/HZ)", put: Put::Instead("*HZ/5000") },
    Edit { file: "arch/x86/kernel/cpu/proc.c", place: "/(500000/HZ)", put: Put::Instead("*HZ/500000") },
    Edit { file: "arch/x86/kernel/cpu/proc.c", place: "/(5000/HZ)", put: Put::Instead("*HZ/5000") },
    Edit {
        file: "kernel/events/core.c",
        place: "#define PERF_CPU_HRTIMER (1000 / HZ)",
        put: Put::Instead("#define PERF_CPU_HRTIMER DIV_ROUND_UP(1000, HZ)"),
    },
    Edit {
        file: "drivers/cpuidle/cpuidle.c",
        place: "#define CPUIDLE_POLL_MIN 10000",
        put: Put::Instead("#define CPUIDLE_POLL_MIN (TICK_NSEC / 16 < 10000 ? TICK_NSEC / 16 : 10000)"),
    },
    // A fifth of a second in ticks must fit.
    Edit {
        file: "include/net/inet_connection_sock.h",
        place: "#define ATO_BITS 8",
        put: Put::Instead("#define ATO_BITS 13"),
    },
    Edit { file: "kernel/sched/rt.c", place: "sysctl_sched_rr_timeslice", put: Put::AtEnd(QUANTUM_US) },
];

impl Edits {
    /// All texts of the edits. They are part of the key of what is built from the edited source.
    pub(super) fn texts(&self) -> String {
        let text = |edit: &Edit| {
            let (Put::Instead(text) | Put::Before(text) | Put::After(text) | Put::AtEnd(text)) = edit.put;
            format!("{} {} {text}", edit.file, edit.place)
        };
        self.edits.iter().map(text).collect::<Vec<_>>().join("\n")
    }

    /// Edits the source.
    ///
    /// # Errors
    /// If a place is not there any more; the error names the file and the place.
    pub(super) fn apply(&self, source: &Path) -> Result<(), LabError> {
        for edit in self.edits {
            let path = source.join(edit.file);
            let missing = || {
                LabError::Kernel(format!(
                    "this source has no `{}` in {} any more, which {}: report it",
                    edit.place, edit.file, self.of
                ))
            };
            let text = match fs::read_to_string(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
                read => read.map_err(at(&path))?,
            };
            let edited = edited(&text, edit).ok_or_else(missing)?;
            fs::write(&path, edited).map_err(at(&path))?;
        }
        Ok(())
    }
}

/// The text after an edit; `None` if it does not have the place.
fn edited(text: &str, edit: &Edit) -> Option<String> {
    let (start, end) = find(text, edit.place)?;
    let (before, place, after) = (&text[..start], &text[start..end], &text[end..]);
    Some(match edit.put {
        Put::Before(new) => format!("{before}{new}{place}{after}"),
        Put::After(new) => format!("{before}{place}{new}{after}"),
        Put::AtEnd(new) => format!("{text}{new}"),
        Put::Instead(new) => {
            let rest = edited(after, edit).unwrap_or_else(|| after.to_owned());
            format!("{before}{new}{rest}")
        }
    })
}

/// The start and the end of a place in a text. Spaces and line ends do not count; words are whole words.
fn find(text: &str, place: &str) -> Option<(usize, usize)> {
    let first = place.chars().next()?;
    let starts = text.match_indices(first).map(|(start, _)| start);
    starts.filter_map(|start| Some((start, end_of(&text[start..], place)? + start))).next()
}

/// The end of a place in a text that begins with it.
fn end_of(text: &str, place: &str) -> Option<usize> {
    let is_solid = |c: &char| !c.is_whitespace();
    let mut wanted = place.chars().filter(is_solid);
    let mut solid = text.char_indices().filter(|(_, c)| is_solid(c));
    let mut end = 0;
    let mut last = ' ';
    for wanted in wanted.by_ref() {
        let (at, found) = solid.next()?;
        if found != wanted {
            return None;
        }
        (end, last) = (at + found.len_utf8(), found);
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let goes_on = is_word(last) && text[end..].chars().next().is_some_and(is_word);
    (!goes_on).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of the edited places in the source. Each text is the part around the place.
    const SAMPLES: [(&str, &str); 9] = [
        (
            "kernel/Kconfig.hz",
            "choice\n\tconfig HZ_1000\n\t\tbool \"1000 HZ\"\n\nendchoice\n\nconfig HZ\n\tint\n\
             \tdefault 1000 if HZ_1000\n\nconfig SCHED_HRTICK\n",
        ),
        (
            "include/linux/jiffies.h",
            "#elif HZ >= 6144 && HZ < 12288\n# define SHIFT_HZ\t13\n#else\n# error Invalid value of HZ.\n\
             #endif\n",
        ),
        ("init/calibrate.c", "\t\t\tlpj/(500000/HZ),\n\t\t\t(lpj/(5000/HZ)) % 100, lpj);\n"),
        ("arch/x86/kernel/smpboot.c", "\t\tbogosum / (500000 / HZ),\n\t\t(bogosum/(5000/HZ))%100);\n"),
        (
            "arch/x86/kernel/cpu/proc.c",
            "c->loops_per_jiffy/(500000/HZ), (c->loops_per_jiffy/(5000/HZ)) % 100);",
        ),
        ("kernel/events/core.c", "#define PERF_CPU_HRTIMER (1000 / HZ)\n"),
        (
            "drivers/cpuidle/cpuidle.c",
            "#define CPUIDLE_POLL_MIN\t10000\n#define CPUIDLE_POLL_MAX (TICK_NSEC / 16)\n",
        ),
        ("include/net/inet_connection_sock.h", "\t\t#define ATO_BITS 8\n\t\t__u32\t\t  ato:ATO_BITS,\n"),
        ("kernel/sched/rt.c", "static int sysctl_sched_rr_timeslice = 1;\nvoid last(void)\n{\n}\n"),
    ];

    fn source() -> tempfile::TempDir {
        let source = tempfile::tempdir().expect("a directory");
        for (file, text) in SAMPLES {
            let path = source.path().join(file);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        }
        source
    }

    #[test]
    fn every_rate_becomes_a_choice_and_nothing_divides_by_zero() {
        let source = source();
        RATES.apply(source.path()).expect("every place is there");
        let text = |file: &str| fs::read_to_string(source.path().join(file)).expect("it is there");
        let choices = text("kernel/Kconfig.hz");
        for hz in [50, 5000, 10_000, 20_000] {
            assert!(choices.contains(&format!("config HZ_{hz}\n\tbool \"{hz} HZ\"")), "{choices}");
            assert!(choices.contains(&format!("\tdefault {hz} if HZ_{hz}\n")), "{choices}");
        }
        assert!(choices.find("HZ_20000") < choices.find("endchoice"), "{choices}");
        assert!(text("include/linux/jiffies.h").contains("HZ < 24576\n# define SHIFT_HZ\t14\n#else"));
        let calibrate = text("init/calibrate.c");
        assert_eq!(calibrate, "\t\t\tlpj*HZ/500000,\n\t\t\t(lpj*HZ/5000) % 100, lpj);\n");
        assert_eq!(
            text("arch/x86/kernel/smpboot.c"),
            "\t\tbogosum *HZ/500000,\n\t\t(bogosum*HZ/5000)%100);\n"
        );
        assert!(text("kernel/events/core.c").contains("DIV_ROUND_UP(1000, HZ)"));
        assert!(text("drivers/cpuidle/cpuidle.c").contains("POLL_MIN (TICK_NSEC / 16 < 10000"));
        assert!(text("kernel/sched/rt.c").ends_with("late_initcall(sched_rr_us_init);\n#endif\n"));
    }

    #[test]
    fn a_place_that_is_gone_is_named_with_its_file() {
        for (file, text) in SAMPLES {
            let source = self::source();
            fs::write(source.path().join(file), text.replace(['1', '5', '8', 's'], "x"))
                .expect("it can be written");
            let error = RATES.apply(source.path()).expect_err("a place is gone").to_string();
            assert!(error.contains(&format!("in {file} any more")), "{file}: {error}");
            let source = self::source();
            fs::remove_file(source.path().join(file)).expect("it is there");
            let error = RATES.apply(source.path()).expect_err("a file is gone").to_string();
            assert!(error.contains(&format!("in {file} any more")), "{file}: {error}");
        }
    }

    #[test]
    fn a_place_is_found_whatever_its_spaces_but_only_as_a_whole() {
        assert_eq!(find("a = b / ( 5000\n\t/ HZ );", "/(5000/HZ)"), Some((6, 22)));
        assert_eq!(
            find("default 1000 if HZ_10000 default 1000 if HZ_1000\n", "1000 if HZ_1000"),
            Some((33, 48))
        );
        assert_eq!(find("/(500000/HZ)", "/(5000/HZ)"), None);
        assert_eq!(find("", "x"), None);
    }
}
