//! The parameters of the alarm tasks BLK, N % and CONT (Etsion, Tsafrir, Feitelson 2003, section 7).

use super::Parameters;
use crate::keys::Keys;
use crate::mistake::Mistake;

/// Alarm signals come at random times; the task measures how late each reaches its process.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarms {
    /// What the task does between alarms.
    pub load: Load,
    /// How many alarms there are, 1 to 1,000,000.
    pub alarms: u64,
    /// The least time between two alarms, ns; more than 0.
    pub min_ns: u64,
    /// The greatest time between two alarms, ns; not less than `min_ns`.
    pub max_ns: u64,
}

/// What a task does between alarms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// The task computes for this share, 0 to 1, of the time until the next alarm, then it blocks.
    Share(f64),
    /// The task computes all the time.
    Always,
}

impl Parameters for Alarms {
    const NAME: &'static str = "alarms";
    const ABOUT: &'static str =
        "alarm signals after 1 to 1000 ms by chance; keys: load (BLK, N%, CONT), alarms, min, max";

    fn parse(keys: &mut Keys<'_>) -> Result<Self, Mistake> {
        let load = keys.text("load")?.unwrap_or_else(|| "BLK".into());
        let load = match load.as_str() {
            "BLK" => Load::Share(0.0),
            "CONT" => Load::Always,
            percent => match percent.trim_end_matches('%').trim().parse::<f64>() {
                Ok(share) if percent.ends_with('%') && (0.0..=100.0).contains(&share) => {
                    Load::Share(share / 100.0)
                }
                _ => {
                    let text =
                        format!("unknown load \"{percent}\"; a load is BLK, CONT, or a share such as 2%");
                    return Err(keys.mistake("load", text));
                }
            },
        };
        let alarms = keys.whole("alarms")?.unwrap_or(500);
        let min_ns = keys.duration_ns("min")?.unwrap_or(1_000_000);
        let max_ns = keys.duration_ns("max")?.unwrap_or(1_000_000_000);
        if alarms == 0 || alarms > 1_000_000 {
            return Err(keys.mistake("alarms", format!("\"alarms\" must be from 1 to 1000000, not {alarms}")));
        }
        if min_ns == 0 || min_ns > max_ns {
            return Err(keys.mistake("min", "\"min\" must be more than 0 and at most \"max\""));
        }
        Ok(Self { load, alarms, min_ns, max_ns })
    }
}
