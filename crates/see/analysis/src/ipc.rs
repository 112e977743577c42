//! The channels between processes, and the processes that use them.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use spry_timeline::{Observer, ProcessIndex, Timeline};
use spry_trace::event::{Channel, Direction, Event};
use spry_trace::{Group, Stamped};

use crate::analysis::{About, Analysis, Closing, Hook, Parts};
use crate::findings::{ChannelFinding, ChannelUser, Channels, Findings};

pub(crate) const ABOUT: About = About {
    name: "ipc",
    tells: "pipes, sockets and terminals between processes: bytes and users of each",
    needs: &[Group::Ipc],
    uses: &[],
    hooks: &[Hook::Other],
    names_culprits: false,
    make: |_| Parts::observing(Ipc::default()),
};

/// The most users that are kept for one channel.
const USERS_MAX: usize = 8;
/// The most channels that are shown.
const SHOWN_MAX: usize = 100;

#[derive(Default)]
struct Use {
    written_bytes: u64,
    read_bytes: u64,
    users: Vec<(ProcessIndex, Direction, u64)>,
}

#[derive(Default)]
struct Ipc {
    channels: FxHashMap<Channel, Use>,
    /// The bytes of the channels that are not counted separately.
    beyond: Beyond,
    /// Whether there were such channels.
    has_more: bool,
}

#[derive(Default)]
struct Beyond {
    written_bytes: u64,
    read_bytes: u64,
}

impl Observer for Ipc {
    fn other(&mut self, now: &Timeline, event: &Stamped) {
        let Event::Ipc(ipc) = &event.event else { return };
        let bytes = u64::from(ipc.bytes);
        if self.channels.len() == Channels::SEEN_MAX && !self.channels.contains_key(&ipc.channel) {
            match ipc.direction {
                Direction::Write => self.beyond.written_bytes += bytes,
                Direction::Read => self.beyond.read_bytes += bytes,
            }
            self.has_more = true;
            return;
        }
        let channel = self.channels.entry(ipc.channel).or_default();
        match ipc.direction {
            Direction::Write => channel.written_bytes += bytes,
            Direction::Read => channel.read_bytes += bytes,
        }
        let Some(process) = now.find(ipc.tid).map(|task| now.task(task).process()) else { return };
        let users = &mut channel.users;
        match users.iter().position(|user| user.0 == process && user.1 == ipc.direction) {
            Some(at) => users[at].2 += bytes,
            None if users.len() < USERS_MAX => users.push((process, ipc.direction, bytes)),
            None => {}
        }
    }
}

impl Analysis for Ipc {
    fn finish(self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        let seen = self.channels.len() as u64 + u64::from(self.has_more);
        let Beyond { written_bytes, read_bytes } = self.beyond;
        let mut all: Vec<(Channel, Use)> = self.channels.into_iter().collect();
        all.sort_by_key(|(channel, used)| (Reverse(used.written_bytes.max(used.read_bytes)), *channel));
        let hidden = all.split_off(all.len().min(SHOWN_MAX));
        let hidden_bytes: u64 = hidden.iter().map(|(_, used)| used.written_bytes.max(used.read_bytes)).sum();
        let top = all.into_iter().map(|(channel, used)| used.finding(channel, closing)).collect();
        let other_bytes = hidden_bytes + written_bytes.max(read_bytes);
        findings.channels = Some(Channels { top, seen, other_bytes });
    }
}

impl Use {
    fn finding(self, channel: Channel, closing: &Closing<'_>) -> ChannelFinding {
        let users = self.users.into_iter().map(|(process, direction, bytes)| {
            let who = closing.process(process);
            ChannelUser { tgid: who.tgid, comm: who.comm, direction, bytes }
        });
        ChannelFinding {
            kind: channel.kind,
            id: channel.id,
            written_bytes: self.written_bytes,
            read_bytes: self.read_bytes,
            users: users.collect(),
        }
    }
}
