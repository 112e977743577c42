//! The command `spry top`: shows live which programs are in use, and how long they wait for a CPU.

mod draw;
mod state;
mod table;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use spry_control::{Answer, Client, ControlError, Request, Status};

pub use self::table::once;
pub use spry_report::words::plain;

use self::state::{Action, State};
use crate::args::TopArgs;
use crate::output;

/// The time between two attempts to reach a daemon that has disconnected.
const AGAIN: Duration = Duration::from_secs(1);

/// The events to which the screen reacts.
enum News {
    Status(Box<Status>),
    /// The daemon has disconnected or does not answer; the text is the reason.
    Lost(String),
    Terminal(Event),
    /// The terminal was closed.
    Deaf,
}

/// Shows the table: continuously on a terminal, otherwise once.
pub fn run(args: &TopArgs) -> Result<ExitCode> {
    let socket = args.socket.path();
    // If the daemon does not answer at the start, the error is printed at once in one line.
    let mut client = Client::connect(&socket)?;
    if args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let mut status = watch(&mut client)?;
        // Shares and waits are measured between two statuses, so two are needed.
        for _ in 0..2 {
            status = one(client.hear()?)?;
        }
        state::sort(&mut status.tasks, args.sort);
        output::print(&once(&status, output::columns(args.width)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut state = State::new(args.sort, crate::explain::ink());
    state.show(watch(&mut client)?);
    let (sender, news) = mpsc::channel();
    let statuses = sender.clone();
    let at = socket.clone();
    thread::spawn(move || listen(&at, client, &statuses));
    thread::spawn(move || keys(&sender));
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal: try --once")?;
    let done = live(&mut terminal, &mut state, &news, &socket);
    ratatui::restore();
    done?;
    Ok(ExitCode::SUCCESS)
}

fn live(terminal: &mut DefaultTerminal, state: &mut State, news: &Receiver<News>, at: &Path) -> Result<()> {
    loop {
        terminal.draw(|frame| draw::draw(frame, state))?;
        match news.recv() {
            Ok(News::Status(status)) => {
                state.show(*status);
                explain(state, at);
            }
            Ok(News::Lost(why)) => state.lose(why),
            Ok(News::Terminal(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                match state.key(key) {
                    Action::Quit => return Ok(()),
                    Action::Explain => explain(state, at),
                    Action::None => {}
                }
            }
            Ok(News::Terminal(_)) => {}
            Ok(News::Deaf) | Err(_) => return Ok(()),
        }
    }
}

/// Asks the daemon about the process of the open explanation.
fn explain(state: &mut State, at: &Path) {
    let Some(tgid) = state.explained() else { return };
    let answer = Client::connect(at).and_then(|mut client| client.explain(tgid));
    state.explain(answer.map_err(|error| error.to_string()));
}

/// Passes on the daemon's statuses. If the daemon has been restarted, connects to it again.
fn listen(at: &Path, mut client: Client, to: &Sender<News>) {
    loop {
        let news = match client.hear().and_then(one) {
            Ok(status) => News::Status(Box::new(status)),
            Err(error) => {
                if to.send(News::Lost(error.to_string())).is_err() {
                    return;
                }
                thread::sleep(AGAIN);
                let Ok(mut again) = Client::connect(at) else { continue };
                let Ok(status) = watch(&mut again) else { continue };
                client = again;
                News::Status(Box::new(status))
            }
        };
        if to.send(news).is_err() {
            return;
        }
    }
}

fn keys(to: &Sender<News>) {
    while let Ok(event) = event::read() {
        if to.send(News::Terminal(event)).is_err() {
            return;
        }
    }
    // If the receiver was dropped, the screen has already ended.
    _ = to.send(News::Deaf);
}

fn watch(client: &mut Client) -> Result<Status, ControlError> {
    one(client.ask(&Request::Watch)?)
}

fn one(answer: Answer) -> Result<Status, ControlError> {
    match answer {
        Answer::Status(status) => Ok(*status),
        _ => Err(ControlError::Unexpected),
    }
}
