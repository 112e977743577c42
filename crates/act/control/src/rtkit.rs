//! Messages between the daemon and `spry-rtkit`, which answers on the system bus without privileges. A
//! request is one message of numbers; an answer is one message of a number and a line. The daemon reads
//! nothing else from the bus.

use std::collections::BTreeMap;

/// The length of a request, bytes.
pub const REQUEST: usize = 20;
/// The longest answer, bytes.
pub const ANSWER_MAX: usize = 256;
/// The most requests of one user that are considered in [`BURST_NS`], as in rtkit.
pub const BURST: u32 = 25;
/// The period in which requests are counted, ns.
pub const BURST_NS: u64 = 20_000_000_000;
/// The highest real-time priority that may be asked for, as in rtkit.
pub const PRIORITY_MAX: i32 = 20;
/// The lowest nice value that may be asked for, as in rtkit.
pub const NICE_MIN: i32 = -15;

/// The kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RequestKind {
    /// Real-time scheduling for a thread.
    Realtime = 1,
    /// A nice value for a thread.
    HighPriority = 2,
    /// The end of all reservations and nice values from earlier requests.
    Reset = 3,
    /// No request: the front end terminates, and `tid` is the number of the reason ([`ExitReason`]).
    End = 4,
}

/// Why the front end terminates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ExitReason {
    /// There is no system bus.
    NoBus = 1,
    /// Another program has the name.
    Taken = 2,
    /// The bus' policy does not let this user own the name.
    Denied = 3,
    /// The bus has ended, or does not keep to its protocol.
    Broken = 4,
}

impl ExitReason {
    /// The reason with this number.
    pub const fn of(number: u32) -> ExitReason {
        match number {
            1 => ExitReason::NoBus,
            2 => ExitReason::Taken,
            3 => ExitReason::Denied,
            _ => ExitReason::Broken,
        }
    }
}

/// A request from the front end to the daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrontRequest {
    /// The kind of the request.
    pub what: RequestKind,
    /// The user that made the request, as the bus reports it.
    pub uid: u32,
    /// The process of the thread that is to be changed.
    pub tgid: u32,
    /// The thread that is to be changed.
    pub tid: u32,
    /// The nice value that is asked for.
    pub nice: i32,
}

impl From<FrontRequest> for [u8; REQUEST] {
    fn from(asked: FrontRequest) -> [u8; REQUEST] {
        let FrontRequest { what, uid, tgid, tid, nice } = asked;
        let mut bytes = [0; REQUEST];
        let numbers = [what as u32, uid, tgid, tid, nice as u32];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// Bytes that are not a message of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoMessage;

impl TryFrom<&[u8]> for FrontRequest {
    type Error = NoMessage;

    fn try_from(bytes: &[u8]) -> Result<FrontRequest, NoMessage> {
        let bytes: &[u8; REQUEST] = bytes.try_into().map_err(|_| NoMessage)?;
        let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at * 4 + byte]));
        let what = match number(0) {
            1 => RequestKind::Realtime,
            2 => RequestKind::HighPriority,
            3 => RequestKind::Reset,
            4 => RequestKind::End,
            _ => return Err(NoMessage),
        };
        Ok(FrontRequest { what, uid: number(1), tgid: number(2), tid: number(3), nice: number(4) as i32 })
    }
}

/// The kinds of answers to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// The request was carried out.
    Done = 0,
    /// The user may not make this request, or has made too many.
    Denied = 1,
    /// The request cannot be carried out.
    Failed = 2,
}

/// The daemon's answer, with one line for the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DaemonAnswer {
    /// The result of the request.
    pub outcome: Outcome,
    /// The reason for a refusal or a failure; empty after success.
    pub text: String,
}

impl DaemonAnswer {
    /// The answer as the bytes of one message. A text that is too long is cut.
    pub fn bytes(&self) -> Vec<u8> {
        let mut end = self.text.len().min(ANSWER_MAX - 1);
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = vec![self.outcome as u8];
        bytes.extend_from_slice(&self.text.as_bytes()[..end]);
        bytes
    }
}

impl TryFrom<&[u8]> for DaemonAnswer {
    type Error = NoMessage;

    fn try_from(bytes: &[u8]) -> Result<DaemonAnswer, NoMessage> {
        let (&kind, text) = bytes.split_first().ok_or(NoMessage)?;
        let outcome = match kind {
            0 => Outcome::Done,
            1 => Outcome::Denied,
            2 => Outcome::Failed,
            _ => return Err(NoMessage),
        };
        Ok(DaemonAnswer { outcome, text: String::from_utf8(text.to_vec()).map_err(|_| NoMessage)? })
    }
}

/// The number of recent requests of each user, by which requests are limited.
#[derive(Clone, Debug, Default)]
pub struct Bursts {
    by_user: BTreeMap<u32, (u64, u32)>,
}

impl Bursts {
    /// Counts a request of a user at `now_ns`. Returns whether the request is to be considered.
    pub fn take(&mut self, user: u32, now_ns: u64) -> bool {
        self.by_user.retain(|_, (since_ns, _)| now_ns.saturating_sub(*since_ns) < BURST_NS);
        let (_, count) = self.by_user.entry(user).or_insert((now_ns, 0));
        *count = count.saturating_add(1);
        *count <= BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_others_are_none() {
        let asked = FrontRequest { what: RequestKind::HighPriority, uid: 1000, tgid: 7, tid: 8, nice: -11 };
        let bytes: [u8; REQUEST] = asked.into();
        assert_eq!(FrontRequest::try_from(&bytes[..]), Ok(asked));
        assert_eq!(FrontRequest::try_from(&bytes[1..]), Err(NoMessage));
        assert_eq!(FrontRequest::try_from(&[0; REQUEST][..]), Err(NoMessage));
        let answered = DaemonAnswer { outcome: Outcome::Denied, text: "é".repeat(200) };
        let read = DaemonAnswer::try_from(&answered.bytes()[..]).expect("an answer");
        assert_eq!((read.outcome, read.text.len()), (Outcome::Denied, ANSWER_MAX - 2));
        assert_eq!(DaemonAnswer::try_from(&[7_u8][..]), Err(NoMessage));
        assert_eq!(DaemonAnswer::try_from(&[][..]), Err(NoMessage));
    }

    #[test]
    fn the_bound_on_requests_is_per_user() {
        let mut bursts = Bursts::default();
        let taken = (0..10_000).filter(|at| bursts.take(1, *at)).count();
        assert_eq!(taken, 25);
        assert!(bursts.take(2, 10_000) && !bursts.take(1, BURST_NS - 1) && bursts.take(1, BURST_NS));
    }
}
