//! The drawings of clients, by DAMAGE, in rounds. Each round finds the changed parts of windows, the visible
//! parts among these, and whether the screen changed there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use spry_policy::{Changes, Tgid};
use x11rb::connection::Connection;
use x11rb::cookie::Cookie;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{ConnectionExt as _, Damage, NotifyEvent, ReportLevel};
use x11rb::protocol::res::QueryClientIdsReply;
use x11rb::protocol::xfixes::{ConnectionExt as _, FetchRegionReply, Region as ServerRegion};
use x11rb::protocol::xproto::Window;

use super::clients;
use super::link::{LinkError, Server};
use super::tally::{EVERY_DRAWING, Finding, Times};
use super::windows::Windows;
use crate::book::Book;
use crate::region::{Rect, Region};

/// The fewest changed pixels of a round that count. A person does not follow a change that is smaller than
/// half a letter of a small font.
const PIXELS_LEAST: u64 = 32;
/// The most first reports of windows that a round considers: a person does not look at more windows.
const FIRST_MAX: usize = 32;
/// Where the same windows are drawn all the time, such as a film's, the eyes ask no sooner than this after
/// the last question: drawings count in sums of a second.
const CALM: Duration = Duration::from_millis(100);
/// The longest time in which a compositor shows a window's drawing on the screen.
const COMPOSITOR_PATIENCE: Duration = Duration::from_millis(100);

/// The evidence that a drawing is visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Evidence {
    /// A drawing in a window counts where the screen itself changed, too. A window that a compositor keeps
    /// from the screen does not count.
    Screen,
    /// The server has no screen of its own: another server shows the windows. A drawing counts if, by the
    /// places of the windows, a person can see it.
    Windows,
}

/// The state of the drawings: the clients' drawings, and the part of them that the screen has shown.
#[derive(Debug)]
pub(super) struct Drawing {
    evidence: Evidence,
    /// The time and the pace of the latest question.
    asked: (Instant, Pace),
    /// The region on the server into which a window's damage is put, so that it can be read.
    region: ServerRegion,
    screen: Damage,
    is_screen_dirty: bool,
    dirty: Vec<Window>,
    /// The regions in which the screen changed in the latest rounds.
    shown: [ScreenChange; 2],
    /// Drawings in windows for which no change of the screen has been seen yet.
    unseen: Vec<WindowDrawing>,
}

/// The region in which the screen changed in a round.
#[derive(Debug)]
struct ScreenChange {
    /// The time at which the eyes read the change.
    since: Instant,
    region: Region,
    /// The regions in which windows were drawn in that round, visible or not.
    explained: Vec<(Window, Region)>,
}

/// A drawing in a window.
#[derive(Debug)]
struct WindowDrawing {
    since: Instant,
    window: Window,
    owner: Tgid,
    region: Region,
    report: Report,
    times: Times,
}

/// The time at which the eyes ask the server for drawings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// The eyes ask at once.
    Hurried,
    /// The eyes ask after a while: all windows that were drawn have been drawn all the time lately.
    Calm,
}

/// The kinds of the server's reports that a window was drawn in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Report {
    /// The report covers the whole window, because the watch over the window has just begun.
    First,
    /// The report covers what was drawn since the previous report.
    Later,
}

/// A round of questions to the server that the server has not answered yet.
pub(super) struct Round<'c> {
    pub(super) pace: Pace,
    windows: Vec<Question<'c>>,
    screen: Option<Cookie<'c, Server, FetchRegionReply>>,
}

struct Question<'c> {
    window: Window,
    owner: Option<Cookie<'c, Server, QueryClientIdsReply>>,
    region: Cookie<'c, Server, FetchRegionReply>,
}

impl Drawing {
    /// Begins to watch the screen.
    pub(super) fn begin(
        connection: &Server,
        windows: &Windows,
        evidence: Evidence,
    ) -> Result<Drawing, LinkError> {
        let (region, screen) = (connection.generate_id()?, connection.generate_id()?);
        connection.xfixes_create_region(region, &[])?.check()?;
        connection.damage_create(screen, windows.root(), ReportLevel::NON_EMPTY)?.check()?;
        connection.damage_subtract(screen, x11rb::NONE, x11rb::NONE)?.check()?;
        Ok(Drawing {
            evidence,
            asked: (Instant::now(), Pace::Hurried),
            region,
            screen,
            is_screen_dirty: false,
            dirty: Vec::new(),
            shown: std::array::from_fn(|_| ScreenChange {
                since: Instant::now(),
                region: Region::default(),
                explained: Vec::new(),
            }),
            unseen: Vec::new(),
        })
    }

    /// Reads the server's notices of drawings. Returns whether there were any.
    pub(super) fn hear(&mut self, connection: &Server, windows: &mut Windows) -> Result<bool, LinkError> {
        let mut is_any = false;
        while let Some(event) = connection.poll_for_event()? {
            // An error belongs to a window that was destroyed before the eyes could ask about it.
            if let Event::DamageNotify(drawn) = event {
                self.event(&drawn, windows);
            }
            is_any = true;
        }
        Ok(is_any)
    }

    /// Notes that something was drawn in a window or on the screen since the last question about it.
    fn event(&mut self, drawn: &NotifyEvent, windows: &mut Windows) {
        if drawn.damage == self.screen {
            self.is_screen_dirty = true;
            return;
        }
        let Some(node) = windows.node_mut(drawn.drawable) else { return };
        let is_counted = node.habit.is_counted(drawn);
        if !is_counted && node.damage == Some(drawn.damage) && !self.dirty.contains(&drawn.drawable) {
            self.dirty.push(drawn.drawable);
        }
    }

    /// The pace at which the eyes ask for drawings; `None` if there is nothing to ask the server about.
    pub(super) fn pace(&self, windows: &Windows, book: &Book) -> Option<Pace> {
        // If the screen alone has changed, the eyes ask at once. If they asked later, the change would count
        // as evidence for later drawings in windows.
        if self.dirty.is_empty() {
            return self.is_screen_dirty.then_some(Pace::Hurried);
        }
        let now = Instant::now();
        let is_steady = |&window: &Window| {
            windows.node(window).is_some_and(|node| {
                let is_news = node.habit.is_counted_by_the_server()
                    && node.owner.is_none_or(|owner| !book.is_active(owner));
                node.habit.is_steady(now) && !is_news
            })
        };
        Some(if self.dirty.iter().all(is_steady) { Pace::Calm } else { Pace::Hurried })
    }

    /// The time until which the eyes need not read notices of drawings; `None` if they read at once.
    pub(super) fn calm_until(&self) -> Option<Instant> {
        let (asked, pace) = self.asked;
        Some(asked + CALM).filter(|&until| pace == Pace::Calm && Instant::now() < until)
    }

    /// Asks the server which parts of windows and of the screen were drawn.
    pub(super) fn ask<'c>(
        &mut self,
        connection: &'c Server,
        windows: &Windows,
        pace: Pace,
    ) -> Result<Round<'c>, LinkError> {
        self.asked = (Instant::now(), pace);
        let fetch = |damage: Damage| {
            // The region is emptied first: if the damage was destroyed with its window, the server leaves the
            // region as it was.
            connection.xfixes_set_region(self.region, &[])?;
            connection.damage_subtract(damage, x11rb::NONE, self.region)?;
            Ok::<_, LinkError>(connection.xfixes_fetch_region(self.region)?)
        };
        let mut asked = Vec::new();
        for window in std::mem::take(&mut self.dirty) {
            let Some(node) = windows.node(window) else { continue };
            let Some(damage) = node.damage else { continue };
            let region = fetch(damage)?;
            let owner = match node.owner {
                Some(_) => None,
                None => Some(clients::ask(connection, window)?),
            };
            asked.push(Question { window, owner, region });
        }
        // The screen is asked about last: by then it shows the drawings in windows so far.
        let screen = match self.evidence {
            Evidence::Screen => Some(fetch(self.screen)?),
            Evidence::Windows => None,
        };
        self.is_screen_dirty = false;
        connection.flush()?;
        Ok(Round { pace, windows: asked, screen })
    }

    /// Reads the answers and credits the processes that drew.
    pub(super) fn credit(
        &mut self,
        connection: &Server,
        round: Round<'_>,
        windows: &mut Windows,
        book: &mut Book,
    ) -> Result<(), LinkError> {
        let mut answers = Vec::new();
        for asked in round.windows {
            let owner = asked.owner.map(clients::answer).transpose()?.flatten();
            let Some(reply) = asked.region.reply_unchecked()? else { continue };
            answers.push((asked.window, owner, of(&reply)));
        }
        let screen = round.screen.map(|screen| screen.reply_unchecked()).transpose()?.flatten();
        // The notices that belong to these answers have arrived before them.
        self.hear(connection, windows)?;
        let now = Instant::now();
        let (mut explained, mut firsts) = (Vec::new(), 0);
        for (window, owner, drawn) in answers {
            let Some(node) = windows.node_mut(window) else { continue };
            let report = if std::mem::take(&mut node.is_new) { Report::First } else { Report::Later };
            node.owner = node.owner.or(owner);
            let owner = node.owner;
            let times = node.habit.take(drawn.pixels(), PIXELS_LEAST);
            if let Some(damage) = node.habit.too_much(now) {
                connection.damage_destroy(damage)?;
            }
            let drawn = drawn.moved(windows.origin(window));
            firsts += usize::from(report == Report::First);
            let mut found = Finding::Nothing;
            if drawn.pixels() >= PIXELS_LEAST {
                explained.push((window, drawn.clone()));
                let region = own_and_visible(drawn, window, windows);
                let is_looked_at = report == Report::Later || firsts <= FIRST_MAX;
                // Without an owner the client is on another machine, or it has ended.
                if let Some(owner) = owner.filter(|_| is_looked_at && !region.is_empty()) {
                    found = Finding::Own;
                    self.unseen.push(WindowDrawing { since: now, window, owner, region, report, times });
                }
            }
            self.saw(connection, window, found, windows)?;
        }
        if let Some(reply) = screen {
            self.shown.swap(0, 1);
            self.shown[0] = ScreenChange { since: now, region: of(&reply), explained };
        }
        self.settle(now, windows, book);
        Ok(())
    }

    /// Records a finding about a window. If the window is drawn all the time, the server counts its
    /// drawings from now on.
    fn saw(
        &self,
        connection: &Server,
        window: Window,
        found: Finding,
        windows: &mut Windows,
    ) -> Result<(), LinkError> {
        let Some(node) = windows.node_mut(window) else { return Ok(()) };
        if node.habit.saw(found, Instant::now()) {
            let damage = connection.generate_id()?;
            connection.damage_create(damage, window, EVERY_DRAWING)?;
            node.habit.count_by(damage);
        }
        Ok(())
    }

    /// Credits the drawings that have reached the screen.
    fn settle(&mut self, now: Instant, windows: &mut Windows, book: &mut Book) {
        let mut shown = Region::default();
        for round in &self.shown {
            if now.duration_since(round.since) < COMPOSITOR_PATIENCE {
                shown.add(&round.region);
            }
        }
        let mut sums: BTreeMap<Tgid, (u64, u32)> = BTreeMap::new();
        for drawn in &mut self.unseen {
            let seen = match self.evidence {
                Evidence::Screen => drawn.region.and(&shown),
                Evidence::Windows => std::mem::take(&mut drawn.region),
            };
            let (proved, counted) = match (drawn.report, self.evidence) {
                (Report::Later, _) => (seen.pixels(), seen.pixels()),
                (Report::First, Evidence::Screen) => {
                    let proved = proved(&seen, drawn.window, &self.shown, windows);
                    (proved, proved)
                }
                (Report::First, Evidence::Windows) => (0, seen.pixels()),
            };
            windows.drew(drawn.window, proved);
            let (pixels, moments) = sums.entry(drawn.owner).or_default();
            *pixels += drawn.times.of(counted);
            *moments = (*moments).max(drawn.times.moments);
            drawn.region = drawn.region.without(&shown);
        }
        self.unseen.retain(|drawn| {
            !drawn.region.is_empty() && now.duration_since(drawn.since) < COMPOSITOR_PATIENCE
        });
        let screen_pixels = windows.screen_pixels();
        for (owner, (pixels, moments)) in sums {
            // The drawings of a process in one moment count as one screen at most.
            let pixels = pixels.min(screen_pixels.saturating_mul(moments.into()));
            if pixels >= PIXELS_LEAST {
                let output_ppm = pixels * 1_000_000 / screen_pixels;
                book.credit(owner, Changes { input: 0, output_ppm: output_ppm.max(1) });
                book.drew_at(owner, moments);
            }
        }
    }
}

impl Round<'_> {
    /// Whether the round is about a process that did not draw lately.
    pub(super) fn has_news(&self, windows: &Windows, book: &Book) -> bool {
        self.windows.iter().any(|asked| {
            let owner = windows.node(asked.window).and_then(|node| node.owner);
            self.pace == Pace::Hurried && owner.is_none_or(|owner| !book.is_active(owner))
        })
    }
}

fn of(reply: &FetchRegionReply) -> Region {
    let rects = reply.rectangles.iter();
    Region::of_disjoint(rects.map(|part| Rect::new(part.x.into(), part.y.into(), part.width, part.height)))
}

/// The part of `drawn` that the window's own program drew and that a person can see.
fn own_and_visible(drawn: Region, window: Window, windows: &mut Windows) -> Region {
    if drawn.is_empty() {
        return drawn;
    }
    drawn.and(&windows.visible(window)).without(&windows.drawn_apart(window))
}

/// The number of pixels of a window's first report that its client has certainly drawn. The first report
/// covers the whole window, also where nothing was drawn. So a pixel counts only where the screen changed and
/// no drawing in another window explains the change. A window that can be seen through gets none: the server
/// paints the screen there, whatever was drawn in the window.
fn proved(seen: &Region, window: Window, shown: &[ScreenChange], windows: &Windows) -> u64 {
    if !windows.is_opaque(window) {
        return 0;
    }
    let drawn = shown.iter().flat_map(|round| &round.explained);
    // A drawing in a window does not reach the windows inside it.
    let elsewhere = drawn.filter(|(other, _)| *other != window && !windows.is_inside(window, *other));
    elsewhere.fold(seen.clone(), |left, (_, region)| left.without(region)).pixels()
}
