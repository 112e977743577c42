//! The reservations, and the ceilings of shared servers, as tables.

use spry_control::{Ceiling, CeilingOf, Covers, ReservationStatus, Reservations, Scope};
use spry_page::words::{count, duration, duration_f64, percent};
use spry_reservations::exact_us;

use crate::top;

/// The text for an unknown value in a table.
const UNKNOWN: &str = "-";
const HEAD: [&str; 10] =
    ["slot", "cpu", "task", "uid", "budget", "period", "got", "asked", "deviation", "stolen"];
/// The columns with cells at the left.
const LEFT: [usize; 1] = [2];

const CEILINGS_HEAD: [&str; 10] =
    ["slot", "cpu", "server", "bound", "period", "clients", "requests", "longest", "a period", "demoted"];

/// The table of reservations, with a line above it, and the table of ceilings, if there are any.
pub fn text(all: &Reservations) -> String {
    let mut text = reservations(all);
    if !all.ceilings.is_empty() {
        text += "\nshared servers, which have the rank of their clients up to a bound\n";
        text += &table(CEILINGS_HEAD, all.ceilings.iter().map(ceiling_row));
    }
    for one in &all.ceilings {
        let Some(trouble) = &one.trouble else { continue };
        text += &top::plain(&format!("{}: {trouble}", name(one.covers, one.tgid, &one.comm)));
        text.push('\n');
    }
    text
}

fn reservations(all: &Reservations) -> String {
    let whose = match all.scope {
        Scope::All => "",
        Scope::Own => " of yours (others' are root's to see: `sudo`)",
    };
    if all.reservations.is_empty() {
        return format!("no reservation{whose}\n");
    }
    let count = match all.reservations.len() {
        1 => "1 reservation".to_owned(),
        more => format!("{} reservations", count(more as u64)),
    };
    let head = format!("{count}{whose}, enforced by {}\n", top::plain(&all.enforcer));
    head + &table(HEAD, all.reservations.iter().map(row))
}

fn table(head: [&str; 10], rows: impl Iterator<Item = [String; 10]>) -> String {
    let rows: Vec<[String; 10]> = [head.map(str::to_owned)].into_iter().chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; 10] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().enumerate().map(|(at, cell)| match LEFT.contains(&at) {
            true => format!("{cell:<width$}", width = widths[at]),
            false => format!("{cell:>width$}", width = widths[at]),
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// A thread or a process, with its name.
fn name(covers: Covers, tgid: u32, comm: &str) -> String {
    match covers {
        Covers::Thread { tid } if tid == tgid => format!("{comm} {tid}"),
        Covers::Thread { tid } => format!("{comm} {tid} (of {tgid})"),
        Covers::Group { tgid } => format!("{comm} {tgid} (all)"),
    }
}

fn ceiling_row(one: &Ceiling) -> [String; 10] {
    let number = |number: Option<u32>| number.map_or(UNKNOWN.to_owned(), |number| number.to_string());
    let time = |time_ns: Option<u64>| time_ns.map_or(UNKNOWN.to_owned(), exact_us);
    let display = match one.of {
        CeilingOf::Display => " (a display's)",
        CeilingOf::Name => "",
    };
    let measured = if one.is_measured && one.slot.is_some() { " measured" } else { "" };
    let clients: Vec<String> = one.clients.iter().map(u32::to_string).collect();
    [
        number(one.slot),
        number(one.cpu),
        top::plain(&(name(one.covers, one.tgid, &one.comm) + display)),
        time(one.budget_ns) + measured,
        time(one.period_ns),
        if clients.is_empty() { UNKNOWN.to_owned() } else { clients.join(",") },
        count(one.requests),
        duration(one.longest_ns),
        duration(one.most_ns),
        count(one.demoted),
    ]
}

fn row(one: &ReservationStatus) -> [String; 10] {
    let behind = one.behind_percent.map_or(String::new(), |percent| format!(", {percent} % behind"));
    [
        one.slot.to_string(),
        one.cpu.to_string(),
        top::plain(&(name(one.covers, one.tgid, &one.comm) + &behind)),
        one.uid.to_string(),
        exact_us(one.terms.budget_ns),
        exact_us(one.terms.period_ns),
        duration(one.got_ns),
        duration(one.asked_ns),
        deviation(one),
        one.stolen_ns.map_or(UNKNOWN.to_owned(), duration),
    ]
}

/// The deviation, with its ratio to the reserved time: `-1.20 ms (-3.1 %)`.
fn deviation(one: &ReservationStatus) -> String {
    let deviation = duration_f64(one.deviation_ns as f64);
    if one.asked_ns == 0 {
        return deviation;
    }
    format!("{deviation} ({})", percent(one.deviation_ns as f64 / one.asked_ns as f64))
}

#[cfg(test)]
mod tests {
    use spry_control::{OnExhaustion, Terms};

    use super::*;

    #[test]
    fn each_reservation_has_a_row_and_what_is_not_known_a_dash() {
        let terms = Terms { budget_ns: 102_400, period_ns: 512_000, on_exhaustion: OnExhaustion::Wait };
        let one = ReservationStatus {
            slot: 3,
            cpu: 1,
            terms,
            covers: Covers::Thread { tid: 8 },
            tgid: 7,
            comm: "a\x1b[31mb".to_owned(),
            uid: 1000,
            periods: 1_000,
            got_ns: 102_000_000,
            asked_ns: 102_400_000,
            deviation_ns: -400_000,
            stolen_ns: None,
            exhausted: None,
            worst_short_ns: None,
            worst_late_ns: None,
            misplaced: None,
            behind_percent: None,
            trouble: None,
        };
        let mut all = Reservations {
            scope: Scope::All,
            enforcer: "deadline".to_owned(),
            reservations: vec![one],
            ceilings: vec![],
        };
        let said = text(&all);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        assert!(lines[2].contains("8 (of 7)") && lines[2].ends_with("  -"), "{said}");
        assert!(lines[2].contains("-400 us (-0.39 %)") && !said.contains('\x1b'), "{said}");
        all.reservations.clear();
        all.scope = Scope::Own;
        assert!(text(&all).starts_with("no reservation of yours"));
    }

    #[test]
    fn a_server_is_told_with_its_clients_and_with_what_is_wrong() {
        let server = Ceiling {
            of: CeilingOf::Display,
            covers: Covers::Thread { tid: 9 },
            tgid: 9,
            comm: "Xorg".to_owned(),
            slot: None,
            cpu: None,
            budget_ns: None,
            period_ns: None,
            is_measured: true,
            clients: vec![3, 5],
            requests: 12_000,
            longest_ns: 400_000,
            most_ns: 700_000,
            demoted: 2,
            trouble: Some("CPU 0 is full".to_owned()),
        };
        let all = Reservations {
            scope: Scope::All,
            enforcer: "scx".to_owned(),
            reservations: vec![],
            ceilings: vec![server],
        };
        let said = text(&all);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 6, "{said}");
        assert!(lines[4].contains("Xorg 9 (a display's)") && lines[4].contains("3,5"), "{said}");
        assert!(lines[4].ends_with("  2") && lines[5] == "Xorg 9: CPU 0 is full", "{said}");
    }
}
