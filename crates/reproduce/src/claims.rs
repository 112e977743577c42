//! What the thesis says of its figures, and whether the lab says the same: each sentence is decided by figures.

use serde::Serialize;

use crate::application::{Application, COMPILE, EMACS, LOOP, MPLAYER, OPENOFFICE, QUAKE, QUAKE_DEMO, XINE};
use crate::measurement::Quanta;
use crate::study::{Measure, Study, measures};
use crate::words::{self, duration, percent, stressers};

/// "Almost all" quanta.
const ALMOST_ALL: f64 = 0.95;
/// Two distributions are alike if they are nowhere further apart.
const ALIKE: f64 = 0.25;
/// Percentages are alike if they are no further apart, percentage points.
const NEAR_POINTS: f64 = 10.0;
/// What grows by so much grows dramatically: times, and percentage points.
const DRAMATICALLY: f64 = 10.0;
const DRAMATICALLY_POINTS: f64 = 30.0;
/// A mean latency that load has no effect on stays below this, or within twice what it is alone: the lower of the lines
/// that the thesis draws.
const UNFELT_NS: f64 = 1e6;
const UNFELT_TIMES: f64 = 2.0;
/// "Many times" as much.
const MANY_TIMES: f64 = 5.0;
/// "The same" share of the CPU.
const SAME: f64 = 0.25;
/// "Favoured": at least this part of what it takes by itself.
const FAVOURED: f64 = 0.9;
/// "Constant" loss of frames, and a "slight" one, percentage points.
const CONSTANT_POINTS: f64 = 2.0;
const SLIGHT_POINTS: f64 = 10.0;

/// Whether something that the thesis found was found again.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Verdict {
    /// The figure.
    pub figure: &'static str,
    /// The scheduler.
    pub scheduler: String,
    /// What the thesis found.
    pub found: &'static str,
    /// Whether it was found again.
    pub outcome: Outcome,
    /// The figures that say so, or what is missing.
    pub because: String,
}

/// Whether something was found again.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Outcome {
    Reproduced,
    NotReproduced,
    NotMeasured,
}

impl Outcome {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Reproduced => "Reproduced",
            Outcome::NotReproduced => "Not reproduced",
            Outcome::NotMeasured => "Not measured",
        }
    }
}

/// A decision, with the figures that it was made by; none where they are missing.
type Decided = Option<(bool, String)>;

/// Something that the thesis found.
struct Claim {
    figure: &'static str,
    found: &'static str,
    decide: fn(&Eye<'_>) -> Decided,
}

/// Looks at one scheduler.
struct Eye<'a> {
    study: &'a Study,
    scheduler: &'a str,
}

/// Everything that the thesis found, with what the lab says of it.
pub fn verdicts(study: &Study) -> Vec<Verdict> {
    let of = |scheduler: &str, claims: &[Claim]| {
        let eye = Eye { study, scheduler };
        claims.iter().map(|claim| claim.verdict(&eye)).collect::<Vec<_>>()
    };
    let mut verdicts = study.original().map(|original| of(original, &ORIGINAL)).unwrap_or_default();
    verdicts.extend(study.others().iter().flat_map(|scheduler| of(scheduler, &NEW)));
    verdicts
}

impl Claim {
    fn verdict(&self, eye: &Eye<'_>) -> Verdict {
        let (outcome, because) = match (self.decide)(eye) {
            Some((true, because)) => (Outcome::Reproduced, because),
            Some((false, because)) => (Outcome::NotReproduced, because),
            None => (Outcome::NotMeasured, "cells that it takes are not there.".to_owned()),
        };
        let Claim { figure, found, .. } = *self;
        Verdict { figure, scheduler: eye.scheduler.to_owned(), found, outcome, because }
    }
}

/// Of the original scheduler (chapter 6).
const ORIGINAL: [Claim; 18] = [
    Claim {
        figure: "6.1",
        found: "An editor needs next to nothing (Emacs 0.17 %), a film a large part of the CPU (MPlayer 14 %, Xine with its X server 60 %).",
        decide: |eye| {
            let (emacs, mplayer) = (eye.alone(&EMACS, measures::cpu)?, eye.alone(&MPLAYER, measures::cpu)?);
            let xine = eye.alone(&XINE, measures::cpu_with_x)?;
            let because = format!(
                "Emacs {}, MPlayer {}, Xine with its X server {}.",
                percent(emacs),
                percent(mplayer),
                percent(xine)
            );
            Some((emacs < mplayer && emacs < 5.0 && xine > 40.0, because))
        },
    },
    Claim {
        figure: "6.1",
        found: "Of two editors the modern one takes many times as much (OpenOffice 2.6 %, Emacs 0.17 %).",
        decide: |eye| {
            let (emacs, modern) = (eye.alone(&EMACS, measures::cpu)?, eye.alone(&OPENOFFICE, measures::cpu)?);
            let because = format!("Emacs {}, OpenOffice {}.", percent(emacs), percent(modern));
            Some((modern >= MANY_TIMES * emacs, because))
        },
    },
    Claim {
        figure: "6.1",
        found: "Quake's demonstration takes what an endless loop takes.",
        decide: |eye| {
            let (quake, stresser) =
                (eye.alone(&QUAKE_DEMO, measures::cpu)?, eye.alone(&LOOP, measures::cpu)?);
            let because = format!("Quake {}, a stresser {}.", percent(quake), percent(stresser));
            Some((quake >= FAVOURED * stresser, because))
        },
    },
    Claim {
        figure: "6.2",
        found: "Almost all quanta of Emacs, OpenOffice, MPlayer, the X server and Xine are shorter than 5 ms.",
        decide: |eye| {
            let parts = [
                ("Emacs", eye.quanta(&EMACS)?),
                ("OpenOffice", eye.quanta(&OPENOFFICE)?),
                ("MPlayer", eye.quanta(&MPLAYER)?),
                ("the X server", eye.x_quanta(&XINE)?),
                ("Xine", eye.quanta(&XINE)?),
            ];
            eye.short(&parts)
        },
    },
    Claim {
        figure: "6.2",
        found: "The compilation's are not much different.",
        decide: |eye| eye.short(&[("the compilation", eye.quanta(&COMPILE)?)]),
    },
    Claim {
        figure: "6.2",
        found: "Quake's demonstration strikingly resembles the endless loop.",
        decide: |eye| {
            let distance = eye.quanta(&QUAKE_DEMO)?.distance(&eye.quanta(&LOOP)?)?;
            let because = format!("their distributions are at most {} apart.", percent(100.0 * distance));
            Some((distance <= ALIKE, because))
        },
    },
    Claim {
        figure: "6.2",
        found: "Played, its quanta are immensely shorter, because the X server keeps waking up for the mouse.",
        decide: |eye| {
            let (played, demo) = (eye.quanta(&QUAKE)?.median_ns?, eye.quanta(&QUAKE_DEMO)?.median_ns?);
            let because =
                format!("medians {} played, {} not.", duration(played as f64), duration(demo as f64));
            Some((played * 2 <= demo, because))
        },
    },
    Claim {
        figure: "6.3",
        found: "Dispatch latency grows dramatically with load for Quake and Xine.",
        decide: |eye| {
            let rows = [("Quake", &QUAKE), ("Xine", &XINE)];
            eye.each(&rows, measures::dispatch, duration, |(alone, _), curve| {
                curve.iter().any(|&(_, value)| value >= DRAMATICALLY * alone)
            })
        },
    },
    Claim {
        figure: "6.3",
        found: "MPlayer is affected when about 6 stressers or more run, not by fewer.",
        decide: |eye| {
            // Without as many nothing could be seen.
            eye.curve(&MPLAYER, measures::dispatch).last().filter(|&&(load, _)| load >= 6)?;
            eye.each(&[("MPlayer", &MPLAYER)], measures::dispatch, duration, |(alone, _), curve| {
                curve.iter().all(|&(load, value)| is_felt(alone, value) == (load >= 6))
            })
        },
    },
    Claim {
        figure: "6.3",
        found: "The X server with Xine is not affected even by 4 stressers: Xine is the bottleneck.",
        decide: |eye| {
            eye.each_to(4, &[("the X server", &XINE)], measures::x_dispatch, duration, |(alone, _), curve| {
                curve.iter().all(|&(_, value)| !is_felt(alone, value))
            })
        },
    },
    Claim {
        figure: "6.4",
        found: "Quake and Xine wait for a much larger part of the time in which they could run.",
        decide: |eye| {
            let rows = [("Quake", &QUAKE), ("Xine", &XINE)];
            eye.each(&rows, measures::waiting, percent, |(alone, last), _| {
                last >= alone + DRAMATICALLY_POINTS
            })
        },
    },
    Claim {
        figure: "6.4",
        found: "Applications that need less CPU are still favoured and wait no more (Emacs).",
        decide: |eye| eye.each(&[("Emacs", &EMACS)], measures::waiting, percent, hardly_more),
    },
    Claim { figure: "6.5", found: "Emacs is not affected by any number of stressers.", decide: same_emacs },
    Claim {
        figure: "6.6",
        found: "Frames are lost even beside 1 stresser, slightly.",
        decide: |eye| {
            let curve = eye.curve(&XINE, measures::lost_frames);
            let at = |load: u32| curve.iter().find(|point| point.0 == load).map(|point| point.1);
            let (alone, beside) = (at(0)?, at(1)?);
            let because = format!("{} alone, {} beside 1 stresser.", percent(alone), percent(beside));
            Some((beside > alone && beside <= alone + SLIGHT_POINTS, because))
        },
    },
    Claim {
        figure: "6.6",
        found: "Frames are lost the more, the more stressers there are.",
        decide: |eye| {
            eye.each(&[("Xine", &XINE)], measures::lost_frames, percent, |(alone, last), curve| {
                let grows = curve.windows(2).all(|pair| pair[1].1 >= pair[0].1 - CONSTANT_POINTS);
                grows && last >= alone + DRAMATICALLY_POINTS
            })
        },
    },
    Claim {
        figure: "6.7",
        found: "One stresser leaves Quake about half of the CPU, several leave it much less.",
        decide: |eye| {
            let curve = eye.curve(&QUAKE, measures::cpu);
            let one = curve.iter().find(|point| point.0 == 1)?.1;
            let &(load, least) = curve.last()?;
            let because =
                format!("{} beside 1 stresser, {} beside {}.", percent(one), percent(least), stressers(load));
            Some(((40.0..=60.0).contains(&one) && (load == 1 || least <= one / 2.0), because))
        },
    },
    Claim {
        figure: "6.8",
        found: "Quake's demonstration switches like the endless loop.",
        decide: |eye| eye.near(("Quake's demonstration", &QUAKE_DEMO), ("a stresser", &LOOP)),
    },
    Claim {
        figure: "6.8",
        found: "Xine switches like the compilation: there is no clear line between interactive and batch jobs.",
        decide: |eye| eye.near(("Xine", &XINE), ("the compilation", &COMPILE)),
    },
];

/// Of the new scheduler (chapter 9).
const NEW: [Claim; 5] = [
    Claim {
        figure: "9.1",
        found: "Background load has practically no effect on dispatch latency.",
        decide: |eye| {
            eye.each(&LOADED, measures::dispatch, duration, |(alone, _), curve| {
                curve.iter().all(|&(_, value)| !is_felt(alone, value))
            })
        },
    },
    Claim {
        figure: "9.2",
        found: "The part of runnable time spent waiting hardly increases even under heavy load.",
        decide: |eye| eye.each(&LOADED, measures::waiting, percent, hardly_more),
    },
    Claim {
        figure: "9.3",
        found: "Emacs gets the same part of the CPU beside any number of stressers.",
        decide: same_emacs,
    },
    Claim {
        figure: "9.4",
        found: "The part of frames lost stays about constant as stressers are added.",
        decide: |eye| {
            eye.each(&[("Xine", &XINE)], measures::lost_frames, percent, |(alone, _), curve| {
                curve.iter().all(|&(_, value)| (value - alone).abs() <= CONSTANT_POINTS)
            })
        },
    },
    Claim {
        figure: "9.5",
        found: "Quake is known as interactive and favoured over the stressers.",
        decide: |eye| {
            eye.each(&[("Quake", &QUAKE)], measures::cpu, percent, |(alone, _), curve| {
                curve.iter().all(|&(_, value)| value >= FAVOURED * alone)
            })
        },
    },
];

const LOADED: [(&str, &Application); 4] =
    [("Quake", &QUAKE), ("Xine", &XINE), ("MPlayer", &MPLAYER), ("Emacs", &EMACS)];

fn same_emacs(eye: &Eye<'_>) -> Decided {
    eye.each(&[("Emacs", &EMACS)], measures::cpu, percent, |(alone, _), curve| {
        curve.iter().all(|&(_, value)| (value - alone).abs() <= SAME * alone)
    })
}

fn hardly_more((alone, _): (f64, f64), curve: &[(u32, f64)]) -> bool {
    curve.iter().all(|&(_, value)| value <= alone + NEAR_POINTS)
}

/// Whether load is felt in a mean latency.
fn is_felt(alone_ns: f64, beside_ns: f64) -> bool {
    beside_ns > UNFELT_NS.max(UNFELT_TIMES * alone_ns)
}

impl Eye<'_> {
    fn alone(&self, application: &Application, measure: Measure) -> Option<f64> {
        Some(self.study.value_alone(self.scheduler, application, measure)?.median)
    }

    fn curve(&self, application: &Application, measure: Measure) -> Vec<(u32, f64)> {
        let curve = self.study.curve(self.scheduler, application, measure);
        curve.into_iter().map(|(load, spread)| (load, spread.median)).collect()
    }

    fn quanta(&self, application: &Application) -> Option<Quanta> {
        let cells = self.study.alone(self.scheduler, application);
        let quanta = Quanta::joined(cells.map(|cell| &cell.application.quanta));
        (quanta.count > 0).then_some(quanta)
    }

    fn x_quanta(&self, application: &Application) -> Option<Quanta> {
        let cells = self.study.alone(self.scheduler, application);
        let quanta = Quanta::joined(cells.filter_map(|cell| Some(&cell.x_server.as_ref()?.quanta)));
        (quanta.count > 0).then_some(quanta)
    }

    /// Whether almost all quanta of each are short.
    fn short(&self, rows: &[(&str, Quanta)]) -> Decided {
        let mut words = Vec::new();
        let mut holds = true;
        for (name, quanta) in rows {
            let part = quanta.short_part()?;
            holds &= part >= ALMOST_ALL;
            words.push(format!("{name} {}", percent(100.0 * part)));
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some((holds, format!("shorter than 5 ms: {}.", words::list(&words))))
    }

    /// Whether two applications switch voluntarily about as often.
    fn near(&self, one: (&str, &Application), two: (&str, &Application)) -> Decided {
        let (first, second) =
            (self.alone(one.1, measures::voluntary)?, self.alone(two.1, measures::voluntary)?);
        let because = format!("voluntary: {} {}, {} {}.", one.0, percent(first), two.0, percent(second));
        Some(((first - second).abs() <= NEAR_POINTS, because))
    }

    /// Whether something holds of each application: given are its figure alone and beside the greatest load, and all loads.
    fn each(
        &self,
        rows: &[(&str, &Application)],
        measure: Measure,
        name: fn(f64) -> String,
        holds: impl Fn((f64, f64), &[(u32, f64)]) -> bool,
    ) -> Decided {
        self.each_to(u32::MAX, rows, measure, name, holds)
    }

    /// The same of loads up to one.
    fn each_to(
        &self,
        load_max: u32,
        rows: &[(&str, &Application)],
        measure: Measure,
        name: fn(f64) -> String,
        holds: impl Fn((f64, f64), &[(u32, f64)]) -> bool,
    ) -> Decided {
        let mut all_hold = true;
        let mut words = Vec::new();
        for &(application_name, application) in rows {
            let mut curve = self.curve(application, measure);
            curve.retain(|&(load, _)| load <= load_max);
            let &(0, alone) = curve.first()? else { return None };
            let &(load, last) = curve.last().filter(|point| point.0 > 0)?;
            all_hold &= holds((alone, last), &curve[1..]);
            let most = curve[1..]
                .iter()
                .copied()
                .max_by(|one, two| (one.1 - alone).abs().total_cmp(&(two.1 - alone).abs()))?;
            let between =
                if most.0 == load { String::new() } else { format!(" ({} beside {})", name(most.1), most.0) };
            words.push(format!(
                "{application_name} {} alone, {} beside {}{between}",
                name(alone),
                name(last),
                stressers(load)
            ));
        }
        Some((all_hold, format!("{}.", words.join("; "))))
    }
}
