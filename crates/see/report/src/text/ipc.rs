//! `ipc` on a terminal: the channels that carried most bytes, and the processes that used them.

use spry_analysis::findings::{Channels, Findings};
use spry_page::words::{bytes, count};
use spry_trace::event::{ChannelKind, Direction};

use super::ROWS_MAX;
use super::style::{Style, Table, Tone};
use crate::words;

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let found = findings.channels.as_ref()?;
    let mut table = Table::new("channel", &["written", "read"]).and_text("by");
    for channel in found.top.iter().take(ROWS_MAX) {
        let users: Vec<String> = channel
            .users
            .iter()
            .map(|user| {
                let verb = if user.direction == Direction::Write { "writes" } else { "reads" };
                format!("{} {} {verb} {}", words::comm(&user.comm), user.tgid, bytes(user.bytes))
            })
            .collect();
        table.row([
            format!("{} {}", kind_name(channel.kind), channel.id),
            bytes(channel.written_bytes),
            bytes(channel.read_bytes),
            users.join(", "),
        ]);
    }
    let most = Channels::SEEN_MAX as u64;
    let rest = if found.seen > most {
        let (most, other) = (count(most), bytes(found.other_bytes));
        format!("More than {most} channels seen; at least {other} went through those not shown.")
    } else {
        let (seen, other) = (count(found.seen), bytes(found.other_bytes));
        format!("{seen} channels seen; {other} went through those not shown.")
    };
    Some(table.render(style) + &style.wrap(Tone::Faint, 2, &rest))
}

fn kind_name(kind: ChannelKind) -> &'static str {
    match kind {
        ChannelKind::Pipe => "pipe",
        ChannelKind::Unix => "unix socket",
        ChannelKind::Inet => "inet socket",
        ChannelKind::Tty => "tty",
    }
}
