//! The parameters of the movie player.

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// A film and how it is played: a decoder, a queue of frames, and a displayer that an alarm wakes every 4 ms
/// (Xine in the thesis, sections 4.3 and 6.3.2; Etsion, Tsafrir, Feitelson 2003, sections 2.2 and 5).
#[derive(Clone, Debug, PartialEq)]
pub struct Player {
    /// How long a frame is shown, ns.
    pub frame_ns: u64,
    /// The CPU time that decoding a frame takes, ns.
    pub decode_ns: u64,
    /// How many decoded frames the queue can hold, 1 to 4096.
    pub queue: u32,
    /// The period of the displayer's alarm, ns, 10 us or more.
    pub alarm_ns: u64,
    /// The decoder does not begin a frame that is due in less than this time, ns. By default it is the time
    /// that decoding a frame takes with all of a CPU.
    pub margin_ns: u64,
    /// How many frames the decoder leaves out at once when a frame would be too late, 1 to 1000. After them
    /// the next frame is early enough.
    pub skip: u64,
}

impl Parameters for Player {
    const NAME: &'static str = "player";
    const ABOUT: &'static str =
        "a movie player of two threads; keys: fps, decode, queue, alarm, margin, skip";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let fps = keys.number_within("fps", 0.1, 1000.0)?.unwrap_or(25.0);
        let decode = keys.number_within("decode", 0.0, 100.0)?.unwrap_or(0.6);
        let queue = keys.whole("queue")?.unwrap_or(8);
        if !(1..=4096).contains(&queue) {
            return Err(keys.mistake("queue", format!("\"queue\" must be from 1 to 4096, not {queue}")));
        }
        let alarm_ns = keys.duration_ns("alarm")?.unwrap_or(4_000_000);
        if alarm_ns < 10_000 {
            return Err(keys.mistake("alarm", "\"alarm\" must be 10us or more"));
        }
        let margin = keys.number_within("margin", 0.0, 1000.0)?.unwrap_or(decode);
        let skip = keys.whole("skip")?.unwrap_or(2);
        if !(1..=1000).contains(&skip) {
            return Err(keys.mistake("skip", format!("\"skip\" must be from 1 to 1000, not {skip}")));
        }
        let frame_ns = (1e9 / fps).round() as u64;
        Ok(Self {
            frame_ns,
            decode_ns: (frame_ns as f64 * decode).round() as u64,
            queue: queue as u32,
            alarm_ns,
            margin_ns: (frame_ns as f64 * margin).round() as u64,
            skip,
        })
    }

    /// The number of threads: the decoder and the displayer.
    fn threads(&self) -> u32 {
        2
    }
}
