//! The findings of the thesis about its figures, and whether the lab's measurements agree. Measured values
//! decide about each claim.

use serde::Serialize;
use spry_page::words::{duration, duration_f64};

use crate::application::{
    Application, COMPILE, EMACS, LOOP, MPLAYER, MPLAYER_NAMED, OPENOFFICE, QUAKE, QUAKE_DEMO, XINE,
    XINE_NAMED,
};
use crate::measurement::Quanta;
use crate::study::{Measure, Study, measures};
use crate::words::{self, percent, stressers};

/// From this share on, quanta count as "almost all" quanta.
const ALMOST_ALL: f64 = 0.95;
/// Two distributions count as alike if they are nowhere further apart than this, as a share of all values.
const ALIKE: f64 = 0.25;
/// Two percentages count as alike if they are no further apart than this, percentage points.
const NEAR_POINTS: f64 = 10.0;
/// Growth to this many times a value is "dramatic". For percentages it is growth by a number of points.
const DRAMATICALLY: f64 = 10.0;
const DRAMATICALLY_POINTS: f64 = 30.0;
/// Load has no effect on a mean latency that stays below this, ns, or below twice its value without load. The
/// limit is the lower of the two lines that the thesis draws.
const UNFELT_NS: f64 = 1e6;
const UNFELT_TIMES: f64 = 2.0;
/// A value that is this many times as large is "many times" as large.
const MANY_TIMES: f64 = 5.0;
/// Two shares of the CPU are "the same" if they differ by at most this part.
const SAME: f64 = 0.25;
/// An application is "favoured" if it gets at least this part of the CPU time that it takes alone.
const FAVOURED: f64 = 0.9;
/// A loss of frames is "constant" if it changes by at most this, and "slight" if it is at most this,
/// percentage points.
const CONSTANT_POINTS: f64 = 2.0;
const SLIGHT_POINTS: f64 = 10.0;

/// Whether a finding of the thesis was found again.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Verdict {
    /// The number of the figure in the thesis.
    pub figure: &'static str,
    /// The scheduler that was measured.
    pub scheduler: String,
    /// The finding of the thesis.
    pub found: &'static str,
    /// Whether the finding was found again.
    pub outcome: Outcome,
    /// The reason why this measurement cannot refute the finding; `None` if it could have failed.
    pub cannot_fail: Option<&'static str>,
    /// The measured values that decided, or the missing values.
    pub because: String,
}

/// Whether a finding was found again.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Reproduced,
    NotReproduced,
    NotMeasured,
}

impl Outcome {
    /// The outcome in words.
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Reproduced => "Reproduced",
            Outcome::NotReproduced => "Not reproduced",
            Outcome::NotMeasured => "Not measured",
        }
    }
}

/// A decision and the measured values on which it is based; `None` if values are missing.
type Decision = Option<(bool, String)>;

/// A finding of the thesis.
struct Claim {
    figure: &'static str,
    found: &'static str,
    /// Whether the application's substitute can fail the claim at all.
    test: Test,
    decide: fn(&Eye<'_>) -> Decision,
}

/// Whether a claim tests anything.
#[derive(Clone, Copy)]
enum Test {
    /// The claim can fail.
    Real,
    /// The claim cannot fail, for this reason.
    Empty(&'static str),
}

/// The reason why the claims about Quake's demonstration and the endless loop test nothing.
const QUAKE_IS_A_LOOP: &str = "what stands for Quake's demonstration is itself a loop without input";

/// The measurements of one scheduler.
struct Eye<'a> {
    study: &'a Study,
    scheduler: &'a str,
}

/// All findings of the thesis, each with the lab's measurements.
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
        let Claim { figure, found, test, .. } = *self;
        let cannot_fail = match test {
            Test::Real => None,
            Test::Empty(reason) => Some(reason),
        };
        Verdict { figure, scheduler: eye.scheduler.to_owned(), found, outcome, cannot_fail, because }
    }
}

/// The claims about the original scheduler (chapter 6).
const ORIGINAL: [Claim; 18] = [
    Claim {
        figure: "6.1",
        found: "An editor needs next to nothing (Emacs 0.17 %), a film a large part of the CPU (MPlayer 14 \
                %, Xine with its X server 60 %).",
        test: Test::Real,
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
        test: Test::Real,
        decide: |eye| {
            let (emacs, modern) = (eye.alone(&EMACS, measures::cpu)?, eye.alone(&OPENOFFICE, measures::cpu)?);
            let because = format!("Emacs {}, OpenOffice {}.", percent(emacs), percent(modern));
            Some((modern >= MANY_TIMES * emacs, because))
        },
    },
    Claim {
        figure: "6.1",
        found: "Quake's demonstration takes what an endless loop takes.",
        test: Test::Empty(QUAKE_IS_A_LOOP),
        decide: |eye| {
            let (quake, stresser) =
                (eye.alone(&QUAKE_DEMO, measures::cpu)?, eye.alone(&LOOP, measures::cpu)?);
            let because = format!("Quake {}, a stresser {}.", percent(quake), percent(stresser));
            Some((quake >= FAVOURED * stresser, because))
        },
    },
    Claim {
        figure: "6.2",
        found: "Almost all quanta of Emacs, OpenOffice, MPlayer, the X server and Xine are \
                shorter than 5 ms.",
        test: Test::Real,
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
        test: Test::Real,
        decide: |eye| eye.short(&[("the compilation", eye.quanta(&COMPILE)?)]),
    },
    Claim {
        figure: "6.2",
        found: "Quake's demonstration strikingly resembles the endless loop.",
        test: Test::Empty(QUAKE_IS_A_LOOP),
        decide: |eye| {
            let distance = eye.quanta(&QUAKE_DEMO)?.distance(&eye.quanta(&LOOP)?)?;
            let because = format!("their distributions are at most {} apart.", percent(100.0 * distance));
            Some((distance <= ALIKE, because))
        },
    },
    Claim {
        figure: "6.2",
        found: "Played, its quanta are immensely shorter, because the X server keeps waking \
                up for the mouse.",
        test: Test::Real,
        decide: |eye| {
            let (played, demo) = (eye.quanta(&QUAKE)?.median_ns?, eye.quanta(&QUAKE_DEMO)?.median_ns?);
            let because = format!("medians {} played, {} not.", duration(played), duration(demo));
            Some((played * 2 <= demo, because))
        },
    },
    Claim {
        figure: "6.3",
        found: "Dispatch latency grows dramatically with load for Quake and Xine.",
        test: Test::Real,
        decide: |eye| {
            let rows = [("Quake", &QUAKE), ("Xine", &XINE)];
            eye.each(&rows, measures::dispatch, duration_f64, |(alone, _), curve| {
                curve.iter().any(|&(_, value)| value >= DRAMATICALLY * alone)
            })
        },
    },
    Claim {
        figure: "6.3",
        found: "MPlayer is affected when about 6 stressers or more run, not by fewer.",
        test: Test::Real,
        decide: |eye| {
            eye.has(&MPLAYER, &MPLAYER_NAMED)?;
            eye.each(&[("MPlayer", &MPLAYER)], measures::dispatch, duration_f64, |(alone, _), curve| {
                curve.iter().all(|&(load, value)| is_felt(alone, value) == (load >= MPLAYER_NAMED[1]))
            })
        },
    },
    Claim {
        figure: "6.3",
        found: "The X server with Xine is not affected even by 4 stressers: Xine is the bottleneck.",
        test: Test::Real,
        decide: |eye| {
            eye.has(&XINE, &[XINE_NAMED])?;
            eye.each_to(
                XINE_NAMED,
                &[("the X server", &XINE)],
                measures::x_dispatch,
                duration_f64,
                |(alone, _), curve| curve.iter().all(|&(_, value)| !is_felt(alone, value)),
            )
        },
    },
    Claim {
        figure: "6.4",
        found: "Quake and Xine wait for a much larger part of the time in which they could run.",
        test: Test::Real,
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
        test: Test::Real,
        decide: |eye| eye.each(&[("Emacs", &EMACS)], measures::waiting, percent, hardly_more),
    },
    Claim {
        figure: "6.5",
        found: "Emacs is not affected by any number of stressers.",
        test: Test::Real,
        decide: same_emacs,
    },
    Claim {
        figure: "6.6",
        found: "Frames are lost even beside 1 stresser, slightly.",
        test: Test::Real,
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
        test: Test::Real,
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
        test: Test::Real,
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
        test: Test::Empty(QUAKE_IS_A_LOOP),
        decide: |eye| eye.near(("Quake's demonstration", &QUAKE_DEMO), ("a stresser", &LOOP)),
    },
    Claim {
        figure: "6.8",
        found: "Xine switches like the compilation: there is no clear line between \
                interactive and batch jobs.",
        test: Test::Real,
        decide: |eye| eye.near(("Xine", &XINE), ("the compilation", &COMPILE)),
    },
];

/// Claims about the new scheduler (chapter 9).
const NEW: [Claim; 5] = [
    Claim {
        figure: "9.1",
        found: "Background load has practically no effect on dispatch latency.",
        test: Test::Real,
        decide: |eye| {
            eye.each(&LOADED, measures::dispatch, duration_f64, |(alone, _), curve| {
                curve.iter().all(|&(_, value)| !is_felt(alone, value))
            })
        },
    },
    Claim {
        figure: "9.2",
        found: "The part of runnable time spent waiting hardly increases even under heavy load.",
        test: Test::Real,
        decide: |eye| eye.each(&LOADED, measures::waiting, percent, hardly_more),
    },
    Claim {
        figure: "9.3",
        found: "Emacs gets the same part of the CPU beside any number of stressers.",
        test: Test::Real,
        decide: same_emacs,
    },
    Claim {
        figure: "9.4",
        found: "The part of frames lost stays about constant as stressers are added.",
        test: Test::Real,
        decide: |eye| {
            eye.each(&[("Xine", &XINE)], measures::lost_frames, percent, |(alone, _), curve| {
                curve.iter().all(|&(_, value)| (value - alone).abs() <= CONSTANT_POINTS)
            })
        },
    },
    Claim {
        figure: "9.5",
        found: "Quake is known as interactive and favoured over the stressers.",
        test: Test::Real,
        decide: |eye| {
            eye.each(&[("Quake", &QUAKE)], measures::cpu, percent, |(alone, _), curve| {
                curve.iter().all(|&(_, value)| value >= FAVOURED * alone)
            })
        },
    },
];

const LOADED: [(&str, &Application); 4] =
    [("Quake", &QUAKE), ("Xine", &XINE), ("MPlayer", &MPLAYER), ("Emacs", &EMACS)];

fn same_emacs(eye: &Eye<'_>) -> Decision {
    eye.each(&[("Emacs", &EMACS)], measures::cpu, percent, |(alone, _), curve| {
        curve.iter().all(|&(_, value)| (value - alone).abs() <= SAME * alone)
    })
}

fn hardly_more((alone, _): (f64, f64), curve: &[(u32, f64)]) -> bool {
    curve.iter().all(|&(_, value)| value <= alone + NEAR_POINTS)
}

/// Whether load has an effect on a mean latency.
fn is_felt(alone_ns: f64, beside_ns: f64) -> bool {
    beside_ns > UNFELT_NS.max(UNFELT_TIMES * alone_ns)
}

impl Eye<'_> {
    /// Whether an application was measured beside all these loads, which the thesis names.
    fn has(&self, application: &Application, loads: &[u32]) -> Option<()> {
        let is_there = |&load: &u32| self.study.at(self.scheduler, application, load).next().is_some();
        loads.iter().all(is_there).then_some(())
    }

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

    /// Whether almost all quanta of each application are short.
    fn short(&self, rows: &[(&str, Quanta)]) -> Decision {
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

    /// Whether two applications have about the same share of voluntary switches.
    fn near(&self, one: (&str, &Application), two: (&str, &Application)) -> Decision {
        let (first, second) =
            (self.alone(one.1, measures::voluntary)?, self.alone(two.1, measures::voluntary)?);
        let because = format!("voluntary: {} {}, {} {}.", one.0, percent(first), two.0, percent(second));
        Some(((first - second).abs() <= NEAR_POINTS, because))
    }

    /// Whether a condition holds for each application. The condition gets the value alone, the value beside
    /// the greatest load, and the values beside all loads.
    fn each(
        &self,
        rows: &[(&str, &Application)],
        measure: Measure,
        name: fn(f64) -> String,
        holds: impl Fn((f64, f64), &[(u32, f64)]) -> bool,
    ) -> Decision {
        self.each_to(u32::MAX, rows, measure, name, holds)
    }

    /// Whether a condition holds for each application. [`Self::each`] decides it, with the loads up
    /// to a limit only.
    fn each_to(
        &self,
        load_max: u32,
        rows: &[(&str, &Application)],
        measure: Measure,
        name: fn(f64) -> String,
        holds: impl Fn((f64, f64), &[(u32, f64)]) -> bool,
    ) -> Decision {
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
