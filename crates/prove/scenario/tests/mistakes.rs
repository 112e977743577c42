//! Tests that mistakes in scenarios are reported with file, line, the wrong word and the correction.

use spry_scenario::model::Scenario;

/// The message for a scenario that has these lines after its first line, which is a comment.
fn said(lines: &str) -> String {
    let text = format!("# A scenario with a mistake.\n{lines}");
    match Scenario::parse(&text, "x.toml") {
        Ok(_) => "nothing".into(),
        Err(mistake) => mistake.to_string(),
    }
}

const TASK: &str = "[[task]]\nname = \"t\"\nkind = \"stresser\"\n";

#[test]
fn an_unknown_phase_is_named_with_its_line_and_all_phases() {
    let found = said("[[task]]\nname = \"t\"\nphases = [\n  { run = \"2ms\" },\n  { slep = \"2ms\" },\n]\n");
    assert_eq!(
        found,
        "x.toml:6: unknown phase \"slep\"; did you mean \"sleep\"? a phase is one of run, run_for, sleep, \
         alarm, sleep_until, wait, wake, lock, unlock, fork, exec, write, read, sync, memory, frame, key, \
         echo, yield, mark, repeat, barrier"
    );
}

#[test]
fn an_unknown_kind_is_answered_with_the_closest() {
    let found = said("[[task]]\nname = \"t\"\nkind = \"plaeyr\"\n");
    assert!(
        found.starts_with(
            "x.toml:4: unknown kind \"plaeyr\"; did you mean \"player\"? a kind is one of player, "
        ),
        "{found}"
    );
}

#[test]
fn each_mistake_has_its_line_and_its_remedy() {
    let cases = [
        ("duration_s = \n", "x.toml:2: this is not TOML: "),
        (
            "durations = 3\n[[task]]\nname = \"t\"\n",
            "x.toml:2: unknown key of the scenario \"durations\"; did you mean \"duration_s\"?",
        ),
        (
            "duration_s = \"abc\"\n",
            "x.toml:2: \"duration_s\": \"abc\" is not understood from \"abc\" on; numbers, units",
        ),
        (
            "[[task]]\nname = \"t\"\nkind = \"compile\"\nsource = \"../etc\"\n",
            "x.toml:5: \"source\" must be the name of a source package, not \"../etc\"",
        ),
        (
            "[[task]]\nname = \"t\"\nkind = \"compile\"\nunder = \"src/../..\"\n",
            "x.toml:5: \"under\" must be a directory of the source, not \"src/../..\"",
        ),
        ("duration_s = 0\n", "x.toml:2: \"duration_s\" must be more than 0"),
        (
            "[[task]]\nname = \"t\"\nkind = \"sorter\"\nnumbers = 1\n",
            "x.toml:5: \"numbers\" must be 2 to 16777216",
        ),
        (
            "[machine]\ncpu = 2\n",
            "x.toml:3: unknown key of [machine] \"cpu\"; did you mean \"cpus\"? a key of \
             [machine] is one of cpus, ",
        ),
        (
            "[machine]\ndisplay = \"big\"\n",
            "x.toml:3: \"display\" must be a size such as \"1024x768\", not \"big\"",
        ),
        (
            "[machine]\nkernel = { preempt = \"half\" }\n",
            "x.toml:3: unknown preempt \"half\"; a preempt is one of none, voluntary, full, lazy",
        ),
    ];
    for (lines, expected) in cases {
        let text = if lines.contains("[[task]]") { lines.to_owned() } else { format!("{lines}{TASK}") };
        let found = said(&text);
        assert!(found.starts_with(expected), "\n{lines}: {found}\nexpected {expected}");
    }
}

#[test]
fn mistakes_in_tasks_have_their_line_too() {
    let cases = [
        ("", "x.toml:2: a task needs a kind or phases"),
        (
            "phases = [{ run = \"2\" }]\n",
            "x.toml:4: \"run\": \"2\" has no unit; write \"2ms\", or ns, us, s, min",
        ),
        ("phases = [{ run = \"1ms\", sleep = \"1ms\" }]\n", "x.toml:4: \"run\" and \"sleep\" are two phases"),
        (
            "phases = [{ mark = \"x\" }]\nloop = \"forever\"\n",
            "x.toml:4: this loop would never block nor compute",
        ),
        (
            "phases = [{ fork = \"u\" }]\n",
            "x.toml:4: unknown task \"u\"; did you mean \"t\"? a task is one of t",
        ),
        (
            "phases = [{ wait = \"a\" }, { lock = \"a\" }]\n",
            "x.toml:4: \"a\" is used as a lock here and as a pipe elsewhere",
        ),
        (
            "kind = \"stresser\"\nclass = \"rt\"\n",
            "x.toml:5: unknown class \"rt\"; did you mean \"rr\"? a class is one of other, ",
        ),
        (
            "kind = \"stresser\"\nnice = 5\nclass = \"rr\"\n",
            "x.toml:5: \"nice\" is for class other and batch, not rr",
        ),
        (
            "kind = \"stresser\"\nclass = \"rr\"\npriority = 100\n",
            "x.toml:6: \"priority\" must be from 1 to 99, not 100",
        ),
        ("kind = \"stresser\"\nclass = \"deadline\"\n", "x.toml:5: class deadline needs reservation = {"),
        ("kind = \"player\"\nfsp = 25\n", "x.toml:5: unknown key of a task \"fsp\"; did you mean \"fps\"?"),
        (
            "kind = \"alarms\"\nload = \"BULK\"\n",
            "x.toml:5: unknown load \"BULK\"; a load is BLK, CONT, or a share such as 2%",
        ),
        (
            "kind = \"stresser\"\ncount = \"$n\"\n",
            "x.toml:5: there is no variable \"n\": the scenario has none",
        ),
    ];
    for (lines, expected) in cases {
        let found = said(&format!("[[task]]\nname = \"t\"\n{lines}"));
        assert!(found.starts_with(expected), "\n{lines}: {found}\nexpected {expected}");
    }
}

/// A scenario with two variables.
fn with_variables() -> Scenario {
    let text = "[variables]\nn = { default = 1, min = 0, max = 9, about = \"how many\" }\n\
                load = { default = \"BLK\", values = [\"BLK\", \"CONT\"] }\n[[task]]\nname = \"t\"\n\
                kind = \"alarms\"\ncount = \"2 * $n + 1\"\nload = \"${load}\"\n";
    Scenario::parse(text, "v.toml").expect("the scenario is right")
}

fn sets(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn variables_are_put_in_and_sums_are_done() {
    let scenario = with_variables();
    assert_eq!(scenario.tasks[0].count, 3);
    let other = scenario.with(&sets(&[("n", "4"), ("load", "CONT")])).expect("these values are allowed");
    assert_eq!(other.tasks[0].count, 9);
    assert_eq!(other.variables[0].default, "1");
    assert_eq!(other.variables[0].value, "4");
}

#[test]
fn a_value_that_a_variable_cannot_have_names_valid_ones() {
    let scenario = with_variables();
    let said = |pairs| scenario.with(&sets(pairs)).expect_err("these are wrong").to_string();
    assert_eq!(
        said(&[("n", "10")]),
        "v.toml: n = 10: this is out of its range; it must be a whole number from 0 to 9"
    );
    assert_eq!(
        said(&[("load", "blk")]),
        "v.toml: load = blk: this is none of its values; it must be one of BLK, CONT"
    );
    assert_eq!(
        said(&[("laod", "BLK")]),
        "v.toml: unknown variable \"laod\"; did you mean \"load\"? a variable is one of n, load"
    );
}
