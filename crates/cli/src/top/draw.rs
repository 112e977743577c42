//! Draws the screen of `spry top`: the state of the daemon, the most important notice, the table or an
//! explanation, the keys.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Wrap};
use spry_control::{Scope, Status, TaskClass, Tuning};
use spry_page::words::{duration, percent, span};
use spry_report::text::{Colour, Style as Plain};
use spry_report::words::plain;

use super::state::{State, View};
use super::table::{cut, line};
use crate::args::SortArg;
use crate::explain::why;
use crate::tune::daemon::cost_in_short;

const KEYS: &str = "up/down choose  Enter why  l c i o d n sort  w warnings  q quit";
const KEYS_BACK: &str = "Esc back  q quit";

/// The whole screen.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let rows = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(1), Constraint::Length(1)];
    let [head, warning, middle, keys] = Layout::vertical(rows).areas(frame.area());
    if let Some(status) = &state.status {
        frame.render_widget(Paragraph::new(headline(status, state.sort)).style(bold()), head);
    }
    let (text, style) = notice(state);
    frame.render_widget(Paragraph::new(text).style(style), warning);
    match &state.view {
        View::Table => table(frame, middle, state),
        View::Warnings => frame.render_widget(warnings(state), middle),
        View::Explanation(tgid, answer) => {
            let width = middle.width;
            let text = match answer {
                None => format!("asking why {tgid} is in use, or not"),
                Some(Err(error)) => plain(error),
                Some(Ok(explanation)) => why(explanation, Plain::new(width, Colour::Plain), state.ink),
            };
            frame.render_widget(Paragraph::new(Text::raw(text)).wrap(Wrap { trim: false }), middle);
        }
    }
    let help = if state.view == View::Table { KEYS } else { KEYS_BACK };
    frame.render_widget(Paragraph::new(help).style(faint()), keys);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// The first line, such as `spry  in charge through scx, 12 min  round 0.21 ms  daemon 0.31 %  by level`.
/// If a tick and a quantum are set, they are shown instead of the round's length: `20000 Hz, 100 us`.
fn headline(status: &Status, sort: SortArg) -> String {
    let round = || status.policy_ns_last.map_or_else(String::new, |ns| format!("  round {}", duration(ns)));
    let knobs = |tuning: Tuning| format!("  {} Hz, {} us", tuning.tick_hz(), tuning.quantum_us());
    let middle = status.tuning.map_or_else(round, knobs);
    let by = match sort {
        SortArg::Level => "level",
        SortArg::Cpu => "CPU",
        SortArg::Input => "input",
        SortArg::Output => "drawing",
        SortArg::Dispatch => "waiting",
        SortArg::Name => "name",
    };
    let share =
        status.daemon_cpu_share.map_or_else(String::new, |share| format!("  daemon {}", percent(share)));
    format!("spry  {}, {}{middle}{share}  by {by}", crate::sched::doing(status), span(status.uptime_s))
}

/// The most important notice for the user.
fn notice(state: &State) -> (String, Style) {
    let bad = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    if let Some(lost) = &state.lost {
        return (format!("out of date: {}", plain(lost)), bad);
    }
    let Some(status) = &state.status else { return (String::new(), faint()) };
    match &status.warnings[..] {
        [] => {
            let in_use = status.tasks.iter().filter(|task| task.level.is_some()).count();
            let devices: Vec<String> = status
                .devices
                .iter()
                .map(|device| plain(&format!("{} {}", device.name, device.state)))
                .collect();
            let whose =
                if status.scope == Scope::Own { "of yours in use (all: sudo spry top)" } else { "in use" };
            let tick = status.ticks.as_ref().map(|ticks| format!("  {}", cost_in_short(ticks)));
            (format!("{in_use} {whose}{}  {}", tick.unwrap_or_default(), devices.join(", ")), faint())
        }
        [only] => (plain(only), Style::new().fg(Color::Yellow)),
        [first, more @ ..] => {
            (format!("(+{}, w) {}", more.len(), plain(first)), Style::new().fg(Color::Yellow))
        }
    }
}

fn warnings(state: &State) -> Paragraph<'_> {
    let all = state.status.as_ref().map(|status| &status.warnings[..]).unwrap_or_default();
    let is_own = state.status.as_ref().is_some_and(|status| status.scope == Scope::Own);
    let mut text = match all {
        [] if is_own => "There is nothing to warn you of; root may be told more.".to_owned(),
        [] => "There is nothing to warn of.".to_owned(),
        all => all.iter().map(|warning| plain(warning)).collect::<Vec<_>>().join("\n\n"),
    };
    // In the table's second line, a warning takes the place of the tick's cost.
    if let Some(ticks) = state.status.as_ref().and_then(|status| status.ticks.as_ref()) {
        text += &format!("\n\n{}", cost_in_short(ticks));
    }
    Paragraph::new(Text::raw(text)).wrap(Wrap { trim: false })
}

fn table(frame: &mut Frame<'_>, area: Rect, state: &State) {
    let width = usize::from(area.width);
    let rows = usize::from(area.height).saturating_sub(1);
    let tasks = state.status.as_ref().map(|status| &status.tasks[..]).unwrap_or_default();
    // The rows are moved so that the chosen row stays visible.
    let first = (state.row() + 1).saturating_sub(rows);
    let mut lines = vec![Line::styled(cut(&line(None, width), width), faint())];
    for (at, task) in tasks.iter().enumerate().skip(first).take(rows) {
        let style = match task.class {
            TaskClass::Interactive => Style::new().fg(Color::Green),
            TaskClass::Idle => faint(),
            _ => Style::new(),
        };
        let style = if at == state.row() { style.add_modifier(Modifier::REVERSED) } else { style };
        lines.push(Line::styled(format!("{:width$}", line(Some(task), width)), style));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};
    use spry_control::{Answer, TickCost, Ticks};

    use super::super::state::Action;
    use super::*;
    use crate::explain::Ink;

    /// A status as a daemon wrote it. An editor in a terminal and compilers in a terminal are
    /// among its processes.
    const STATUS: &str = include_str!("status.json");

    fn status() -> Status {
        match serde_json::from_str(STATUS).unwrap() {
            Answer::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn screen(state: &State, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..height).map(row).collect()
    }

    fn shown() -> State {
        let mut state = State::new(SortArg::Level, Ink::Ascii);
        state.show(status());
        state
    }

    #[test]
    fn eighty_by_twenty_four_shows_processes_in_use_first() {
        let rows = screen(&shown(), 80, 24);
        assert!(rows[0].starts_with("spry  "), "{}", rows[0]);
        assert!(
            rows[2].contains("LVL") && rows[2].contains("CPU%") && rows[2].contains("NAME"),
            "{}",
            rows[2]
        );
        assert!(rows[3].trim_start().starts_with("0 ") && rows[3].contains("Xvfb"), "{}", rows[3]);
        assert!(rows[23].contains("q quit"), "{}", rows[23]);
        let levels: Vec<u8> =
            rows[3..23].iter().filter_map(|row| row.split_whitespace().next()?.parse().ok()).collect();
        assert!(levels.is_sorted() && levels.len() >= 3, "{rows:?}");
        assert!(rows.iter().any(|row| row.ends_with(":93 > Xvfb > xterm > vi")), "{rows:?}");
    }

    #[test]
    fn a_small_terminal_is_no_panic() {
        for (width, height) in [(1, 1), (20, 4), (40, 10), (300, 80)] {
            screen(&shown(), width, height);
        }
    }

    #[test]
    fn keys_sort_choose_explain_and_quit() {
        let mut state = shown();
        let press = |state: &mut State, code| state.key(KeyEvent::from(code));
        assert_eq!(press(&mut state, KeyCode::Char('c')), Action::None);
        let shares: Vec<f64> =
            state.status.as_ref().unwrap().tasks.iter().filter_map(|task| task.cpu_share).collect();
        assert!(shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
        assert_eq!(press(&mut state, KeyCode::Home), Action::None);
        let first = state.status.as_ref().unwrap().tasks[0].tgid;
        assert_eq!(press(&mut state, KeyCode::Enter), Action::Explain);
        assert_eq!(state.explained(), Some(first));
        state.explain(Err("it is gone".to_owned()));
        assert!(screen(&state, 80, 24).iter().any(|row| row.contains("it is gone")));
        assert_eq!(press(&mut state, KeyCode::Esc), Action::None);
        assert_eq!(state.explained(), None);
        assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
    }

    #[test]
    fn the_chosen_process_stays_chosen_where_it_moves() {
        let mut state = shown();
        _ = state.key(KeyEvent::from(KeyCode::Down));
        let chosen = state.status.as_ref().unwrap().tasks[1].tgid;
        let mut later = status();
        later.tasks.retain(|task| task.level != Some(0));
        state.show(later);
        assert_eq!(state.status.as_ref().unwrap().tasks[state.row()].tgid, chosen);
    }

    #[test]
    fn an_ordinary_user_is_told_that_other_users_are_left_out() {
        let mut own = status();
        own.scope = Scope::Own;
        own.tasks.truncate(2);
        (own.policy_ns_last, own.lost_edges, own.daemon_cpu_share) = (None, None, None);
        own.housekeeping_ns_longest = None;
        own.warnings.clear();
        let text = super::super::once(&own, 80);
        assert!(text.lines().last().unwrap().contains("sudo spry top"), "{text}");
        let mut state = State::new(SortArg::Level, Ink::Ascii);
        state.show(own);
        let rows = screen(&state, 80, 24);
        assert!(!rows[0].contains("daemon") && !rows[0].contains("round"), "{}", rows[0]);
        assert!(rows[1].starts_with("2 of yours in use (all: sudo spry top)"), "{}", rows[1]);
    }

    #[test]
    fn knobs_that_are_turned_are_in_the_first_line() {
        let mut state = shown();
        let mut tuned = status();
        tuned.tuning = Some(Tuning::new(Some(20_000), Some(100)).expect("it can be had"));
        state.show(tuned);
        let rows = screen(&state, 80, 24);
        assert!(rows[0].contains("20000 Hz, 100 us") && !rows[0].contains("round"), "{}", rows[0]);
    }

    #[test]
    fn the_tick_s_cost_is_in_the_second_line_or_below_warnings() {
        let mut state = shown();
        let mut tuned = status();
        let all = TickCost::new(5_000, 14_000_000, 1_000_000_000);
        tuned.ticks = Some(Ticks { over_s: 1.0, all, cpus: Vec::new() });
        let cost = "tick 5,000/s, 2.80 us each, 1.4 % of a CPU without interrupt entry";
        state.show(tuned.clone());
        _ = state.key(KeyEvent::from(KeyCode::Char('w')));
        assert!(screen(&state, 80, 24).iter().any(|row| row.contains(cost)));
        _ = state.key(KeyEvent::from(KeyCode::Char('w')));
        tuned.warnings.clear();
        state.show(tuned);
        assert!(screen(&state, 80, 24)[1].contains(cost), "{:?}", screen(&state, 80, 24));
    }

    #[test]
    fn a_lost_daemon_is_said() {
        let mut state = shown();
        state.lose("the connection broke".to_owned());
        let rows = screen(&state, 80, 24);
        assert!(rows[1].contains("out of date: the connection broke"), "{}", rows[1]);
    }
}
