//! The sections of the HTML report, in the order of a reader's questions.

use std::fmt::Write as _;

use spry_analysis::findings::{Blame, Findings, Party, TaskFinding};
use spry_page::escape;
use spry_page::words::{bytes, count, duration, percent};
use spry_trace::Group;

use super::data::DELAYS_MAX;
use super::graph;
use super::table::{Cell, Table};
use crate::recorder;
use crate::words::{self, moment, share};

mod more;

/// How many rows the table of tasks has at most.
const TASKS_MAX: usize = 500;

/// Makes all sections, one after another.
pub(super) fn all(findings: &Findings) -> String {
    let parts: [fn(&Findings) -> String; 12] = [
        head,
        worst,
        time_line,
        blame,
        tasks,
        distributions,
        billing,
        picture,
        more::reasons,
        more::cpus,
        more::wakeups,
        more::rest,
    ];
    parts.iter().map(|part| part(findings)).collect()
}

fn section(id: &str, title: &str, intro: &str, body: &str) -> String {
    format!("<section id=\"{id}\"><h2>{title}</h2><p class=\"note\">{intro}</p>{body}</section>\n")
}

fn head(findings: &Findings) -> String {
    let trace = &findings.trace;
    let kernel = if trace.kernel.is_empty() { "Unknown kernel" } else { &trace.kernel };
    let mut machine = format!("{kernel} ({}), {}", trace.machine, words::cpus(trace.cpus));
    if let Some(hz) = trace.hz {
        _ = write!(machine, ", {hz} Hz");
    }
    for part in [&trace.preemption, &trace.scheduler].into_iter().flatten() {
        _ = write!(machine, ", {part}");
    }
    if let Some(command) = &trace.command {
        _ = write!(machine, "; ran {}", command.join(" "));
    }
    let mut html = format!(
        "<header><h1>Spry <small>delays and their causes</small></h1><p class=\"machine\">{}</p></header>\n\
         <p id=\"verdict\">{}</p><dl id=\"facts\">",
        escape(&words::plain(&machine)),
        escape(&words::verdict(findings))
    );
    let mut fact = |class: &str, name: &str, value: &str| {
        _ = write!(html, "<div{class}><dt>{name}</dt><dd>{}</dd></div>", escape(value));
    };
    fact("", "looked at", &duration(trace.to_ns.saturating_sub(trace.from_ns)));
    fact("", "events", &count(trace.events));
    let lost = if trace.lost == 0 { "none".to_owned() } else { words::losses(trace) };
    fact(if trace.lost == 0 { " class=\"good\"" } else { " class=\"bad\"" }, "events lost", &lost);
    let size = words::bytes_per_event(trace).map(|each| format!(" ({each:.1} each)")).unwrap_or_default();
    fact("", "size", &(bytes(trace.bytes) + &size));
    let cost = recorder::cost(findings).and_then(|cost| cost.cpu_share);
    fact(
        "",
        "recording's own cost",
        &cost.map_or("not in this trace".into(), |cost| percent(cost) + " of a CPU"),
    );
    html += "</dl>\n";
    if let Some(unknown) = words::unknown(&findings.trace, &findings.cpus) {
        _ = writeln!(html, "<p id=\"unknown\" class=\"note\">{}</p>", escape(&unknown));
    }
    html + &lacking(findings)
}

/// The groups that the trace lacks: the reason for dashes in the tables.
fn lacking(findings: &Findings) -> String {
    let lacking: Vec<&str> = Group::ALL
        .into_iter()
        .filter(|&group| !findings.trace.groups.contains(group))
        .map(Group::name)
        .collect();
    if lacking.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"note\">A dash means: not in this trace. Groups that it lacks: <code>{}</code>; record \
            them with \
         <code>--events</code>.</p>\n",
        lacking.join("</code>, <code>")
    )
}

fn worst(findings: &Findings) -> String {
    let Some(delays) = &findings.delays else { return String::new() };
    let mut table = Table::new(&["victim", "waited", "at", "CPU", "because", "how it began"], DELAYS_MAX);
    for (at, delay) in delays.worst.iter().enumerate() {
        let row = format!(" data-delay=\"{at}\" tabindex=\"0\"");
        table.row_with(
            &row,
            [
                Cell::Text(words::who(&delay.victim)),
                Cell::duration(delay.wait_ns),
                Cell::Figure(moment(delay.start_ns), delay.start_ns as f64),
                Cell::Figure(delay.cpu.to_string(), f64::from(delay.cpu)),
                Cell::Text(words::culprits(delay)),
                Cell::Text(words::cause(&delay.cause)),
            ],
        );
    }
    let intro = "From being ready to run to getting a CPU. <span class=\"js\">Choose one to see it on the \
        time line.</span>";
    section("worst", "Worst delays", intro, &table.finish())
}

fn time_line(findings: &Findings) -> String {
    if findings.drawing.is_none() && findings.delays.is_none() {
        return String::new();
    }
    let body = "<div class=\"tools js\"><button type=\"button\" data-zoom=\"0.5\">zoom in</button>\
         <button type=\"button\" data-zoom=\"2\">zoom out</button>\
         <button type=\"button\" data-zoom=\"all\">all</button><span id=\"shown\"></span></div>\
         <canvas id=\"timeline\" tabindex=\"0\" aria-label=\"Time line of every CPU\"></canvas>\
         <p id=\"tip-line\" class=\"note\" aria-live=\"polite\">&nbsp;</p>\
         <div id=\"legend\"></div><noscript><p class=\"note\">The time line is drawn by a \
             script.</p></noscript>";
    let intro = "The task on each CPU. Drag to move, turn the wheel to zoom. Hatched: the victim was ready and \
        waited.";
    section("line", "Time line", intro, body)
}

fn blame(findings: &Findings) -> String {
    let Some(delays) = &findings.delays else { return String::new() };
    let mut table = Table::new(&["victim", "lost", "waits", "to"], DELAYS_MAX);
    // Gathered culprits may have more time than each named culprit, but they name no task: they come last.
    let (named, gathered): (Vec<&Blame>, Vec<&Blame>) =
        delays.blame.iter().partition(|blame| matches!(blame.culprit, Party::Task(_) | Party::Interrupt(_)));
    for blame in named.into_iter().chain(gathered) {
        table.row([
            Cell::Text(words::who(&blame.victim)),
            Cell::duration(blame.total_ns),
            Cell::count(blame.waits),
            Cell::Text(words::party(&blame.culprit)),
        ]);
    }
    let note = words::idle_note(findings, delays.blame.iter().map(|blame| &blame.culprit));
    let note = note.map_or_else(String::new, |note| format!("<p class=\"note\">{note}</p>\n"));
    section(
        "blame",
        "Delays and their causes",
        "Time that a victim was ready while the culprit had its CPU.",
        &(table.finish() + &note),
    )
}

fn tasks(findings: &Findings) -> String {
    let columns = [
        "task",
        "process",
        "run",
        "CPU",
        "stolen",
        "wait share",
        "p99",
        "max",
        "quanta/s",
        "quantum",
        "vol.",
        "invol.",
        "moves",
        "billed",
    ];
    let mut table = Table::new(&columns, TASKS_MAX);
    let window_ns = findings.trace.to_ns.saturating_sub(findings.trace.from_ns);
    for task in &findings.tasks {
        let waits = task.dispatch.as_ref().and_then(|dispatch| dispatch.all.as_ref()?.summary());
        let quanta = task.quanta.as_ref();
        table.row([
            Cell::Text(words::who(&task.who)),
            Cell::Figure(task.who.tgid.to_string(), f64::from(task.who.tgid.0)),
            Cell::duration(task.runtime_ns),
            Cell::percent(share(task.runtime_ns, window_ns)),
            Cell::signed_duration(task.stolen_ns),
            Cell::percent(task.dispatch.as_ref().and_then(|dispatch| dispatch.wait_share)),
            Cell::maybe_duration(waits.map(|waits| waits.p99)),
            Cell::maybe_duration(waits.map(|waits| waits.max)),
            Cell::of(quanta.and_then(|quanta| quanta.per_second), |rate| (format!("{rate:.1}"), rate)),
            Cell::maybe_duration(quanta.and_then(|quanta| quanta.lengths.quantile(0.5))),
            Cell::count(task.switches.voluntary),
            Cell::count(task.switches.involuntary),
            Cell::maybe_count(task.migrations),
            Cell::percent(billed(findings, task)),
        ]);
    }
    let hz = findings.trace.hz.map_or("the machine's own rate".into(), |hz| format!("{hz} Hz"));
    let intro = format!(
        "Wait share: of the time it was runnable. P99, max: dispatch latency. Quantum: the median. Vol., \
            invol.: \
         switches. Billed: what ticks at {hz} account to it, of its run time."
    );
    section("tasks", "Tasks", &intro, &table.finish())
}

fn billed(findings: &Findings, task: &TaskFinding) -> Option<f64> {
    let hz = findings.trace.hz?;
    task.billing.as_ref()?.iter().find(|billing| billing.hz == hz)?.ratio
}

fn distributions(findings: &Findings) -> String {
    if findings.overall.quanta.is_none() && findings.overall.dispatch.is_none() {
        return String::new();
    }
    let body = "<div class=\"tools js\"><label>compare <select id=\"pick\"></select></label><span \
        id=\"picked\"></span></div>\
         <div class=\"pair\"><figure><figcaption>Effective quanta: how long it kept the CPU</figcaption>\
         <svg id=\"cdf-quanta\" class=\"chart\"></svg></figure><figure>\
         <figcaption>Dispatch latency: how long it waited for one</figcaption>\
         <svg id=\"cdf-dispatch\" class=\"chart\"></svg></figure></div>\
         <noscript><p class=\"note\">The curves are drawn by a script; the figures are in the \
         tables.</p></noscript>";
    section(
        "cdf",
        "Distributions",
        "Share of all quanta or waits that are no longer than the time on the axis.",
        body,
    )
}

fn billing(findings: &Findings) -> String {
    if findings.tasks.iter().all(|task| task.billing.is_none()) {
        return String::new();
    }
    let mut table =
        Table::new(&["task", "rate (Hz)", "billed", "least over phases", "most", "quanta missed"], TASKS_MAX);
    for (task, billing) in
        findings.tasks.iter().flat_map(|task| task.billing.iter().flatten().map(move |one| (task, one)))
    {
        table.row([
            Cell::Text(words::who(&task.who)),
            Cell::count(u64::from(billing.hz)),
            Cell::percent(billing.ratio),
            Cell::percent(billing.ratio_min),
            Cell::percent(billing.ratio_max),
            Cell::percent(billing.missed_percent.map(|missed| missed / 100.0)),
        ]);
    }
    let mut body = String::new();
    if findings.billing_steps.as_ref().is_some_and(|steps| !steps.is_empty()) {
        body += "<div class=\"tools js\"><label>task <select id=\"steps-pick\"></select></label></div>\
                 <div id=\"steps\" class=\"pair\"></div>";
    }
    body += &table.finish();
    let intro = "What a kernel that samples at the tick bills: whole ticks, whatever the quantum was. The \
        line is exact \
                 billing; a larger disk stands for more quanta.";
    section("billing", "Billing by ticks", intro, &body)
}

fn picture(findings: &Findings) -> String {
    let Some(found) = &findings.graph else { return String::new() };
    let name = |tgid| {
        let node = found.nodes.iter().find(|node| node.tgid == tgid);
        node.map_or_else(|| format!("process {tgid}"), |node| format!("{} {tgid}", words::comm(&node.comm)))
    };
    let mut table = Table::new(&["from", "to", "wake-ups", "bytes"], DELAYS_MAX);
    for (at, edge) in found.edges.iter().enumerate() {
        // Names are looked up for the rows that are written only.
        let [from, to] = [edge.from_tgid, edge.to_tgid]
            .map(|tgid| if at < DELAYS_MAX { name(tgid) } else { String::new() });
        table.row([
            Cell::Text(from),
            Cell::Text(to),
            Cell::count(edge.wakeups),
            Cell::of(edge.bytes, |number| (bytes(number), number as f64)),
        ]);
    }
    let intro = "Processes by run time; arrows go from the waker to the woken, wider for more wake-ups.";
    section("who-wakes", "Wakers and woken processes", intro, &(graph::picture(found) + &table.finish()))
}
