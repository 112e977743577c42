//! Makes figures 6.1 to 6.8 and 9.1 to 9.5 of the thesis from the measurements.

use spry_page::words::duration_round;

use crate::application::{Application, COMPILE, EMACS, LOOP, MPLAYER, OPENOFFICE, QUAKE, QUAKE_DEMO, XINE};
use crate::figure::{Axis, Bar, Colour, Curve, Panel, Part, Plot, Point, Stack, Topic};
use crate::measurement::Quanta;
use crate::study::{Measure, Spread, Study, measures};
use crate::words;

/// The clock rate of the thesis' machine, a Pentium III at 664 MHz, in cycles per nanosecond.
pub const CYCLES_PER_NS: f64 = 0.664;

/// The curves and bars of the figures with loads: the applications, and the X server with Xine.
const LOADED: [(&str, Colour, &Application, Owner); 6] = [
    ("Quake", Colour::Quake, &QUAKE, Owner::Its),
    ("Xine", Colour::Xine, &XINE, Owner::Its),
    ("MPlayer", Colour::MPlayer, &MPLAYER, Owner::Its),
    ("X server (with Xine)", Colour::XServer, &XINE, Owner::XServers),
    ("Emacs", Colour::Emacs, &EMACS, Owner::Its),
    ("OpenOffice", Colour::OpenOffice, &OPENOFFICE, Owner::Its),
];

/// The curves and bars of the figures without load: the applications and the X server alone.
const ALONE: [(&str, Colour, &Application, Owner); 9] = [
    ("Emacs", Colour::Emacs, &EMACS, Owner::Its),
    ("OpenOffice", Colour::OpenOffice, &OPENOFFICE, Owner::Its),
    ("MPlayer", Colour::MPlayer, &MPLAYER, Owner::Its),
    ("Xine", Colour::Xine, &XINE, Owner::Its),
    ("X server (with Xine)", Colour::XServer, &XINE, Owner::XServers),
    ("Quake, played", Colour::Quake, &QUAKE, Owner::Its),
    ("Quake, demo", Colour::QuakeDemo, &QUAKE_DEMO, Owner::Its),
    ("Compilation", Colour::Compilation, &COMPILE, Owner::Its),
    ("Stresser", Colour::Stresser, &LOOP, Owner::Its),
];

/// Whether a measured value belongs to the application or to its X server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The value of the application.
    Its,
    /// The value of its X server.
    XServers,
}

impl Owner {
    fn of(self, its: Measure, x_servers: Measure) -> Measure {
        match self {
            Owner::Its => its,
            Owner::XServers => x_servers,
        }
    }
}

/// The thesis' figures for which at least one value was measured, in the thesis' order.
pub fn topics(study: &Study) -> Vec<Topic> {
    all(study).into_iter().filter(|topic| !topic.panels.is_empty()).collect()
}

/// All figures of the thesis, including figures for which no value was measured.
pub fn all(study: &Study) -> [Topic; 8] {
    [
        cpu_alone(study),
        quanta(study),
        dispatch(study),
        waiting(study),
        emacs(study),
        xine(study),
        quake(study),
        reasons(study),
    ]
}

/// A panel for each scheduler that was measured. The original scheduler's panel has the first number of the
/// topic's figures, the panels of the other schedulers have the last.
fn panels(
    study: &Study,
    figures: &[(&'static str, &'static str)],
    drawn: impl Fn(&str) -> Option<Plot>,
) -> Vec<Panel> {
    let number = |at: usize| if at == 0 { figures.first() } else { figures.last() };
    let schedulers = study.schedulers.iter().enumerate();
    schedulers
        .filter_map(|(at, scheduler)| {
            let figure = number(at)?.0;
            Some(Panel { figure, scheduler: scheduler.clone(), drawn: drawn(scheduler)? })
        })
        .collect()
}

fn some<T>(list: Vec<T>, drawn: impl Fn(Vec<T>) -> Plot) -> Option<Plot> {
    (!list.is_empty()).then(|| drawn(list))
}

fn percents(label: &'static str, high: f64) -> Axis {
    Axis::linear(label, high, " %")
}

fn loads_axis(study: &Study) -> Axis {
    let mut loads = study.stressers.clone();
    loads.push(0);
    loads.sort_unstable();
    loads.dedup();
    let high = loads.last().copied().unwrap_or(1).max(1);
    let mut axis = Axis::linear("stressers", f64::from(high), "");
    axis.scale.high = f64::from(high);
    axis.ticks = loads.into_iter().map(|load| (f64::from(load), load.to_string())).collect();
    axis
}

fn part(name: &'static str, colour: Colour, value: Option<Spread>) -> Option<Part> {
    value.map(|value| Part { name, colour, value })
}

fn cpu_alone(study: &Study) -> Topic {
    let figures = vec![("6.1", "CPU usage percentage of various applications")];
    let bars = |scheduler: &str| {
        let bar = |(name, colour, application, _): (&'static str, Colour, &'static Application, Owner)| {
            let value = |measure| study.value_alone(scheduler, application, measure);
            let its = part(name, colour, value(measures::cpu))?;
            let x = part("X server", Colour::XServer, value(measures::x_cpu));
            Some(Bar { name, parts: [Some(its), x].into_iter().flatten().collect() })
        };
        let own = ALONE.into_iter().filter(|row| row.3 == Owner::Its);
        some(own.filter_map(bar).collect(), Plot::Bars)
    };
    Topic {
        title: "CPU time alone",
        note: "Each application by itself, with its X server where it has one.".to_owned(),
        x: percents("CPU time", 100.0),
        y: percents("", 1.0),
        lines: Vec::new(),
        panels: panels(study, &figures, bars),
        figures,
    }
}

fn quanta(study: &Study) -> Topic {
    let figures = vec![("6.2", "Cumulative distribution function (CDF) of effective quanta lengths")];
    let curves = |scheduler: &str| {
        let curve =
            |(name, colour, application, whose): (&'static str, Colour, &'static Application, Owner)| {
                let cells = study.alone(scheduler, application);
                let quanta = match whose {
                    Owner::Its => Quanta::joined(cells.map(|cell| &cell.application.quanta)),
                    Owner::XServers => {
                        Quanta::joined(cells.filter_map(|cell| cell.x_server.as_ref()).map(|x| &x.quanta))
                    }
                };
                let exact = |value: f64| Spread { median: value, low: value, high: value };
                let points = quanta.cdf().into_iter().map(|(x, part)| Point { x, y: exact(100.0 * part) });
                let points: Vec<Point> = points.collect();
                (!points.is_empty()).then_some(Curve { name, colour, points })
            };
        some(ALONE.into_iter().filter_map(curve).collect(), Plot::Curves)
    };
    Topic {
        title: "Effective quanta",
        note: "From getting the CPU to losing it, all threads of an application, each by itself. The \
            recorder writes what it has seen ten \
               times a second, which ends even an endless loop's quanta."
            .to_owned(),
        x: Axis::logarithmic("length of the quantum", Quanta::lengths_ns(), duration_round),
        y: percents("quanta not longer", 100.0),
        lines: Vec::new(),
        panels: panels(study, &figures, curves),
        figures,
    }
}

/// The curves of the applications that are measured beside loads.
fn loaded(study: &Study, scheduler: &str, its: Measure, x_servers: Measure, scale: f64) -> Vec<Curve> {
    let curve = |(name, colour, application, whose): (&'static str, Colour, &'static Application, Owner)| {
        let points = study.curve(scheduler, application, whose.of(its, x_servers));
        curve_of(name, colour, points, scale)
    };
    LOADED.into_iter().filter_map(curve).collect()
}

fn curve_of(name: &'static str, colour: Colour, points: Vec<(u32, Spread)>, scale: f64) -> Option<Curve> {
    let scaled = |y: Spread| Spread { median: y.median * scale, low: y.low * scale, high: y.high * scale };
    let points: Vec<Point> =
        points.into_iter().map(|(load, y)| Point { x: f64::from(load), y: scaled(y) }).collect();
    (!points.is_empty()).then_some(Curve { name, colour, points })
}

fn values(panels: &[Panel]) -> Vec<f64> {
    let curves = panels.iter().flat_map(|panel| match &panel.drawn {
        Plot::Curves(curves) => curves.as_slice(),
        _ => &[],
    });
    curves.flat_map(|curve| &curve.points).flat_map(|point| [point.y.low, point.y.high]).collect()
}

fn dispatch(study: &Study) -> Topic {
    let figures = vec![
        ("6.3", "Average dispatch latency of various interactive applications using the original scheduler"),
        ("9.1", "Average dispatch latency of various interactive applications using the new scheduler"),
    ];
    let panels = panels(study, &figures, |scheduler| {
        some(loaded(study, scheduler, measures::dispatch, measures::x_dispatch, CYCLES_PER_NS), Plot::Curves)
    });
    let lines = vec![(1e6 * CYCLES_PER_NS, "1 ms"), (1e7 * CYCLES_PER_NS, "10 ms")];
    let shown = values(&panels).into_iter().chain(lines.iter().map(|line| line.0));
    Topic {
        title: "Dispatch latency",
        note: "Of the thread with the most CPU time, in cycles of the thesis' 664 MHz: a nanosecond of the \
            lab is 0.664 of them."
            .to_owned(),
        x: loads_axis(study),
        y: Axis::logarithmic("mean dispatch latency, cycles", shown, words::power),
        lines,
        panels,
        figures,
    }
}

fn waiting(study: &Study) -> Topic {
    let figures = vec![
        (
            "6.4",
            "Percent of the interactive processes' runnable time spent waiting for the CPU using the \
                original scheduler",
        ),
        (
            "9.2",
            "Percent of the interactive processes' runnable time spent waiting for the CPU using the new \
                scheduler",
        ),
    ];
    let panels = panels(study, &figures, |scheduler| {
        some(loaded(study, scheduler, measures::waiting, measures::x_waiting, 1.0), Plot::Curves)
    });
    Topic {
        title: "Waiting for the CPU",
        note: "Of the thread with the most CPU time.".to_owned(),
        x: loads_axis(study),
        y: percents("runnable time spent waiting", 100.0),
        lines: Vec::new(),
        panels,
        figures,
    }
}

fn emacs(study: &Study) -> Topic {
    let figures = vec![
        ("6.5", "Effects of using Emacs with background batch jobs using the original scheduler"),
        ("9.3", "Effects of typing text with background batch jobs using the new scheduler"),
    ];
    let panels = panels(study, &figures, |scheduler| {
        let curve = |name, colour, measure| {
            let points = study.curve(scheduler, &EMACS, measure);
            // A logarithmic axis cannot show the value 0.
            curve_of(name, colour, points.into_iter().filter(|point| point.1.low > 0.0).collect(), 1.0)
        };
        let curves = [
            curve("Stressers", Colour::Stresser, measures::stressers_cpu),
            curve("Emacs", Colour::Emacs, measures::cpu),
            curve("X server", Colour::XServer, measures::x_cpu),
        ];
        some(curves.into_iter().flatten().collect(), Plot::Curves)
    });
    let shown = values(&panels).into_iter().chain([100.0]);
    Topic {
        title: "CPU time with Emacs",
        note: "The scale is logarithmic, as the thesis' is.".to_owned(),
        x: loads_axis(study),
        y: Axis::logarithmic("CPU time", shown, |value| format!("{value} %")),
        lines: Vec::new(),
        panels,
        figures,
    }
}

/// A measured value beside each load.
type SpreadsByLoad = Vec<(u32, Spread)>;

/// A stack for each load: the shares of the CPU that the application, the X server and the others had beside
/// the load, and the share of lost frames.
fn stacks(
    study: &Study,
    scheduler: &str,
    (name, colour, application): (&'static str, Colour, &'static Application),
) -> Vec<Stack> {
    let curve = |measure: Measure| study.curve(scheduler, application, measure);
    let lost = curve(measures::lost_frames);
    let rows: [(&'static str, Colour, SpreadsByLoad); 5] = [
        (name, colour, curve(measures::cpu)),
        ("X server", Colour::XServer, curve(measures::x_cpu)),
        ("Stressers", Colour::Stresser, curve(measures::stressers_cpu)),
        ("Others", Colour::Others, curve(measures::others)),
        ("Idle", Colour::Idle, curve(measures::idle)),
    ];
    let at = |points: &[(u32, Spread)], load: u32| {
        points.iter().find(|point| point.0 == load).map(|point| point.1)
    };
    let stack = |&(load, _): &(u32, Spread)| Stack {
        stressers: load,
        parts: rows
            .iter()
            .filter_map(|(name, colour, points)| part(name, *colour, at(points, load)))
            .collect(),
        lost_percent: at(&lost, load),
    };
    rows[0].2.iter().map(stack).collect()
}

fn xine(study: &Study) -> Topic {
    let figures = vec![
        ("6.6", "Effects of playing a movie with background batch jobs using the original scheduler"),
        ("9.4", "Effects of playing a movie with background batch jobs using the new scheduler"),
    ];
    let row = ("Xine", Colour::Xine, &XINE);
    Topic {
        title: "CPU time and lost frames with Xine",
        note: "A frame is lost if it is not shown within half a frame's time; the first three seconds of \
            the film are left out."
            .to_owned(),
        x: loads_axis(study),
        y: percents("CPU time; frames lost", 100.0),
        lines: Vec::new(),
        panels: panels(study, &figures, |scheduler| some(stacks(study, scheduler, row), Plot::Stacks)),
        figures,
    }
}

fn quake(study: &Study) -> Topic {
    let figures = vec![
        ("6.7", "Effects of playing Quake with background batch jobs using the original scheduler"),
        ("9.5", "Effects of playing Quake with background batch jobs using the new scheduler"),
    ];
    let row = ("Quake", Colour::Quake, &QUAKE);
    Topic {
        title: "CPU time with Quake",
        note: "Played: its demonstration has no input and draws past the X server, so no scheduler could \
            know it."
            .to_owned(),
        x: loads_axis(study),
        y: percents("CPU time", 100.0),
        lines: Vec::new(),
        panels: panels(study, &figures, |scheduler| some(stacks(study, scheduler, row), Plot::Stacks)),
        figures,
    }
}

fn reasons(study: &Study) -> Topic {
    let figures = vec![("6.8", "Context switch reason for various applications")];
    let bars = |scheduler: &str| {
        let bar =
            |(name, colour, application, whose): (&'static str, Colour, &'static Application, Owner)| {
                let measure = whose.of(measures::voluntary, measures::x_voluntary);
                let value = study.value_alone(scheduler, application, measure);
                part(name, colour, value).map(|part| Bar { name, parts: vec![part] })
            };
        some(ALONE.into_iter().filter_map(bar).collect(), Plot::Bars)
    };
    Topic {
        title: "Voluntary switches",
        note: "A switch is voluntary if the task blocked, or gave way to a task that it had itself woken."
            .to_owned(),
        x: percents("switches that were voluntary", 100.0),
        y: percents("", 1.0),
        lines: Vec::new(),
        panels: panels(study, &figures, bars),
        figures,
    }
}
