//! Explains why a process is in use, in sentences and as a drawing of the way from the device to the process.
//! A device is an input device or a display.

use std::fmt::Write as _;

use spry_control::{CreditKind, Explanation, Neighbour, Scope, State, Step, TaskClass};
use spry_page::words::{duration_f64, percent, rate};
use spry_report::text::{Style, Tone};
use spry_report::words::plain;

/// The characters with which lines are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ink {
    /// Characters of Unicode for lines.
    Lines,
    /// Characters of ASCII only.
    Ascii,
}

impl Ink {
    const fn arrow(self) -> &'static str {
        match self {
            Ink::Lines => "→",
            Ink::Ascii => "->",
        }
    }

    const fn bar(self) -> &'static str {
        match self {
            Ink::Lines => "│",
            Ink::Ascii => "|",
        }
    }

    const fn down(self) -> &'static str {
        match self {
            Ink::Lines => "▼",
            Ink::Ascii => "v",
        }
    }
}

/// The greatest number of neighbours that are named.
const NEIGHBOURS_MAX: usize = 5;

/// The whole explanation.
pub fn why(explanation: &Explanation, style: Style, ink: Ink) -> String {
    let mut text = verdict(explanation, style, ink);
    if explanation.in_use {
        text += "\n";
        text += &drawing(explanation, style, ink);
        text += "\n";
        text += &style.wrap(Tone::Plain, 0, &level(explanation));
    }
    text += &style.wrap(Tone::Plain, 0, &treatment(explanation));
    for line in neighbours(explanation) {
        text += &style.wrap(Tone::Faint, 0, &line);
    }
    text
}

fn name(explanation: &Explanation) -> String {
    format!("{} ({})", plain(&explanation.task.comm), explanation.task.tgid)
}

/// The first sentence. It names every step of the way.
fn verdict(explanation: &Explanation, style: Style, ink: Ink) -> String {
    let who = name(explanation);
    if !explanation.in_use {
        return style.wrap(Tone::Bad, 0, &format!("{who} is not in use: {}", why_not(explanation)));
    }
    let steps: Vec<String> = explanation.task.path.iter().map(short_step).collect();
    let way = steps.join(&format!(" {} ", ink.arrow()));
    let level = explanation.task.level.map_or_else(String::new, |level| format!("; level {level}"));
    let quantum = explanation.task.quantum_ms.map_or_else(String::new, |ms| format!(", quantum {ms} ms"));
    style.wrap(Tone::Good, 0, &format!("{who} is in use: {way}{level}{quantum}."))
}

/// A step in short, such as `xterm (4690; 8.0 input/s)`.
fn short_step(step: &Step) -> String {
    let Some(tgid) = step.tgid else { return plain(&step.name) };
    let input = step.input_per_s.filter(|&rate| rate > 0.0);
    let input = input.map_or_else(String::new, |per_s| format!("; {} input/s", rate(per_s)));
    format!("{} ({tgid}{input})", plain(&step.name))
}

/// Why a process is not in use: no process in use has waited for it. Names the processes that did wait.
fn why_not(explanation: &Explanation) -> String {
    let Some(needed_by) = &explanation.needed_by else {
        return "it neither draws nor receives input; which process depends on which cannot be seen here."
            .to_owned();
    };
    if explanation.scope == Scope::Own {
        let of_those = match &needed_by[..] {
            [] => String::new(),
            some => format!(" ({})", list(some)),
        };
        return format!(
            "it neither draws nor receives input, and of your programs that waited for it lately{of_those} \
             none is in use; others' are root's to see."
        );
    }
    if needed_by.is_empty() {
        return "it neither draws nor receives input, and no process has waited for it lately.".to_owned();
    }
    let who = list(needed_by);
    format!(
        "it neither draws nor receives input, and of the processes that waited for it lately ({who}) none \
         is in use."
    )
}

/// A drawing of the way: each step has a line, and the first step of the way is at the top.
fn drawing(explanation: &Explanation, style: Style, ink: Ink) -> String {
    let path = &explanation.task.path;
    let wide = path.iter().map(|step| label(step).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (at, step) in path.iter().enumerate() {
        if at > 0 {
            let how = style.paint(Tone::Faint, &link(&path[at - 1], step));
            _ = writeln!(text, "    {}  {how}", ink.bar());
            _ = writeln!(text, "    {}", ink.down());
        }
        let label = label(step);
        let gap = " ".repeat(wide - label.chars().count());
        let tone = if at + 1 == path.len() { Tone::Heading } else { Tone::Plain };
        let line =
            format!("  {}{gap}   {}", style.paint(tone, &label), style.paint(Tone::Faint, &figures(step)));
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn label(step: &Step) -> String {
    match step.tgid {
        Some(tgid) => format!("{} {tgid}", plain(&step.name)),
        None => plain(&step.name),
    }
}

/// How a step of the way leads to the next step, in words.
fn link(before: &Step, step: &Step) -> String {
    match (before.tgid, step.weight) {
        (_, Some(weight)) => format!("waits for it: weight {weight}"),
        (None, None) => "is behind it".to_owned(),
        (Some(_), None) => "delivers its input, shows what it draws".to_owned(),
    }
}

fn figures(step: &Step) -> String {
    let level = step.level.map(|level| format!("level {level}"));
    let input = step.input_per_s.filter(|&rate| rate > 0.0);
    let input = input.map(|per_s| format!("{} input events/s", rate(per_s)));
    let output = step.output_per_s.filter(|&rate| rate > 0.0);
    let output = output.map(|per_s| format!("draws {} screens/s", rate(per_s)));
    level.into_iter().chain(input).chain(output).collect::<Vec<_>>().join(", ")
}

/// How the process' level follows from its distance and its credits.
fn level(explanation: &Explanation) -> String {
    let task = &explanation.task;
    let (Some(level), Some(distance)) = (task.level, task.distance) else { return String::new() };
    if distance == 0 {
        return "It is the device's own process: level 0, before all others.".to_owned();
    }
    let steps = distance / explanation.edge_length.max(1);
    let steps = match steps {
        1 => "one step".to_owned(),
        steps => format!("{steps} steps"),
    };
    let shortcut = task.shortcut.unwrap_or(0);
    let whole = u16::from(level) + shortcut;
    let every = whole.saturating_sub(distance);
    let mut text = format!(
        "Level {level}: {whole} for {steps} from the device ({distance} half edges, and {every} that every \
         process begins with)"
    );
    if shortcut > 0 {
        let earner = explanation.credits_of.filter(|&tgid| tgid != task.tgid);
        let earner = earner.and_then(|tgid| task.path.iter().find(|step| step.tgid == Some(tgid)));
        let who = earner.map_or_else(|| "it".to_owned(), |step| plain(&step.name));
        let credits: Vec<String> = explanation
            .credits
            .iter()
            .map(|credit| format!("{} ({})", credit_text(credit.kind), credit.half_edges))
            .collect();
        _ = write!(text, ", less {shortcut} because {who} {}", credits.join(", "));
    }
    text + ". The lowest level is served first; the best program there can be has level 1."
}

const fn credit_text(kind: CreditKind) -> &'static str {
    match kind {
        CreditKind::Draws => "draws",
        CreditKind::DrawsMost => "is among the processes that draw most",
        CreditKind::ReceivesInput => "receives input",
        CreditKind::ReceivesMost => "is among the processes that receive most input",
    }
}

/// How the scheduler treats the process.
fn treatment(explanation: &Explanation) -> String {
    let task = &explanation.task;
    let by_hand = explanation.set_by_uid.map_or_else(String::new, |uid| {
        let whom = if uid == 0 { "root".to_owned() } else { format!("user {uid}") };
        format!(" {whom} put it there by hand; `spry sched set {} --class auto` takes that back.", task.tgid)
    });
    let share =
        task.cpu_share.map_or_else(String::new, |share| format!(" It takes {} of a CPU.", percent(share)));
    let wait = task.dispatch_us.map_or_else(String::new, |us| {
        format!(" It waits {} for a CPU on average.", duration_f64(us * 1_000.0))
    });
    let class = match (explanation.state, task.class) {
        (_, TaskClass::Daemon) => {
            "It is the scheduler's own daemon, which has a small class of its own.".to_owned()
        }
        (State::Acting, TaskClass::Interactive) => {
            let quantum = task.quantum_ms.map_or_else(String::new, |ms| {
                format!(" Each of its threads has {ms} ms of CPU time in an epoch.")
            });
            format!("It runs before everything that is not in use.{quantum}")
        }
        (State::Acting, TaskClass::Kthread) => {
            "It is a thread of the kernel, in the class for these.".to_owned()
        }
        (State::Acting, TaskClass::Other) => {
            "It shares by weight what those in use leave, and is guaranteed its part of the \
             background's share."
                .to_owned()
        }
        (State::Acting, TaskClass::Idle) => "It runs when no other task wants to.".to_owned(),
        (State::Observing, class) => {
            format!(
                "The daemon only looks: if it acted, the class would be {class}. \
                     The kernel's own scheduler decides."
            )
        }
        (State::Ejected, class) => format!(
            "The kernel took the scheduler out, so its own decides; the class would be {class} (`spry sched \
             status` says why)."
        ),
    };
    format!("{class}{by_hand}{share}{wait}")
}

fn neighbours(explanation: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(list_of) = explanation.depends_on.as_ref().filter(|list| !list.is_empty()) {
        lines.push(format!("It waits for: {}.", list(list_of)));
    }
    if let Some(list_of) = explanation.needed_by.as_ref().filter(|list| !list.is_empty()) {
        if explanation.in_use {
            lines.push(format!("Those who wait for it: {}.", list(list_of)));
        }
    }
    lines
}

/// Neighbours in words, such as `make 5100 (weight 12, level 3), sh 5101 (weight 1)`.
fn list(neighbours: &[Neighbour]) -> String {
    let shown = neighbours.iter().take(NEIGHBOURS_MAX).map(|neighbour| {
        let level = neighbour.level.map_or_else(String::new, |level| format!(", level {level}"));
        format!("{} {} (weight {}{level})", plain(&neighbour.comm), neighbour.tgid, neighbour.weight)
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if neighbours.len() > NEIGHBOURS_MAX {
        _ = write!(text, " and {} more", neighbours.len() - NEIGHBOURS_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use spry_control::{Credit, TaskStatus};
    use spry_report::text::Colour;

    use super::*;

    fn step(tgid: u32, name: &str, level: u8, weight: Option<u32>, input_per_s: f64) -> Step {
        let tgid = (tgid > 0).then_some(tgid);
        Step {
            tgid,
            name: name.to_owned(),
            level: tgid.map(|_| level),
            weight,
            input_per_s: Some(input_per_s),
            output_per_s: Some(0.0),
        }
    }

    fn vi() -> Explanation {
        let task = TaskStatus {
            tgid: 4711,
            comm: "vi".to_owned(),
            class: TaskClass::Interactive,
            level: Some(3),
            distance: Some(4),
            shortcut: Some(8),
            input_per_s: Some(0.0),
            output_per_s: Some(0.0),
            quantum_ms: Some(50.0),
            cpu_share: Some(0.01),
            frames_per_s: None,
            dispatch_us: Some(31.0),
            by_hand: false,
            path: vec![
                step(0, "display :1", 0, None, 0.0),
                step(812, "Xvfb", 0, None, 0.0),
                step(4690, "xterm", 1, None, 8.0),
                step(4711, "vi", 3, Some(17), 0.0),
            ],
        };
        Explanation {
            scope: Scope::All,
            task,
            in_use: true,
            credits: vec![
                Credit { kind: CreditKind::Draws, half_edges: 1 },
                Credit { kind: CreditKind::ReceivesInput, half_edges: 2 },
            ],
            credits_of: Some(4690),
            depends_on: Some(Vec::new()),
            needed_by: Some(vec![Neighbour { tgid: 4690, comm: "xterm".into(), weight: 17, level: Some(1) }]),
            edge_length: 2,
            set_by_uid: None,
            state: State::Acting,
            actuator: "scx".to_owned(),
        }
    }

    #[test]
    fn the_first_sentence_is_the_whole_way() {
        let text = why(&vi(), Style::new(200, Colour::Plain), Ink::Ascii);
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "vi (4711) is in use: display :1 -> Xvfb (812) -> xterm (4690; 8.0 input/s) -> vi (4711); \
             level 3, quantum 50 ms."
        );
        assert!(text.contains("because xterm draws (1), receives input (2)"), "{text}");
        assert!(text.contains("waits for it: weight 17"), "{text}");
    }

    #[test]
    fn a_process_not_in_use_is_explained_by_the_nearest_ones() {
        let mut explanation = vi();
        explanation.in_use = false;
        explanation.task.path.clear();
        (explanation.task.level, explanation.task.class) = (None, TaskClass::Other);
        explanation.needed_by =
            Some(vec![Neighbour { tgid: 5100, comm: "make\x1b".into(), weight: 12, level: None }]);
        let text = why(&explanation, Style::new(200, Colour::Plain), Ink::Ascii);
        assert!(text.starts_with("vi (4711) is not in use: it neither draws"), "{text}");
        assert!(text.contains("make? 5100 (weight 12)"), "{text}");
    }

    #[test]
    fn an_ordinary_user_is_told_that_others_are_left_out() {
        let mut explanation = vi();
        (explanation.scope, explanation.in_use) = (Scope::Own, false);
        explanation.needed_by = Some(Vec::new());
        let text = why(&explanation, Style::new(300, Colour::Plain), Ink::Ascii);
        assert!(text.contains("none is in use; others' are root's to see"), "{text}");
    }

    #[test]
    fn it_fits_narrow_terminals() {
        let text = why(&vi(), Style::new(60, Colour::Plain), Ink::Lines);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    }
}
