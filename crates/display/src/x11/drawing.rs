//! What clients draw, by DAMAGE, in rounds: what changed in each window, where that can be seen, and whether the screen changed there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use spry_policy::{Changes, Tgid};
use x11rb::connection::Connection;
use x11rb::cookie::Cookie;
use x11rb::protocol::damage::{ConnectionExt as _, Damage, NotifyEvent, ReportLevel};
use x11rb::protocol::res::QueryClientIdsReply;
use x11rb::protocol::xfixes::{ConnectionExt as _, FetchRegionReply, Region as ServerRegion};
use x11rb::protocol::xproto::Window;

use super::clients;
use super::link::{LinkError, Server};
use super::windows::Windows;
use crate::ledger::Ledger;
use crate::region::{Rect, Region};

/// Fewer pixels in one round are nothing that a person follows: half a letter of a small font.
const PIXELS_LEAST: u64 = 32;
/// A compositor may take so long to show what was drawn.
const COMPOSITOR_PATIENCE: Duration = Duration::from_millis(100);

/// Whether the server's own screen shows what is visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Evidence {
    /// What is drawn into a window counts where the screen itself changed too: not in a window that is kept from it.
    Screen,
    /// There is no screen, another server shows the windows: where windows are has to do.
    Windows,
}

/// What is drawn.
#[derive(Debug)]
pub(super) struct Drawing {
    evidence: Evidence,
    /// Where the server puts a window's damage to be read.
    region: ServerRegion,
    screen: Damage,
    is_screen_dirty: bool,
    dirty: Vec<Window>,
    /// Where the screen changed in the latest rounds, and when that was known.
    shown: [(Instant, Region); 2],
    /// What was drawn and has not reached the screen yet.
    unseen: Vec<(Instant, Tgid, Region)>,
}

/// A round whose answers are under way.
pub(super) struct Round<'c> {
    windows: Vec<Asked<'c>>,
    screen: Option<Cookie<'c, Server, FetchRegionReply>>,
}

struct Asked<'c> {
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
            region,
            screen,
            is_screen_dirty: false,
            dirty: Vec::new(),
            shown: std::array::from_fn(|_| (Instant::now(), Region::default())),
            unseen: Vec::new(),
        })
    }

    /// Something was drawn since it was last asked about.
    pub(super) fn event(&mut self, drawn: &NotifyEvent) {
        if drawn.damage == self.screen {
            self.is_screen_dirty = true;
        } else if !self.dirty.contains(&drawn.drawable) {
            self.dirty.push(drawn.drawable);
        }
    }

    /// Whether there is anything to ask about.
    pub(super) fn is_due(&self) -> bool {
        // The screen's own changes are asked about at once: later they would speak for what is drawn then.
        !self.dirty.is_empty() || self.is_screen_dirty
    }

    /// Asks what was drawn where.
    pub(super) fn ask<'c>(
        &mut self,
        connection: &'c Server,
        windows: &Windows,
    ) -> Result<Round<'c>, LinkError> {
        let fetch = |damage: Damage| {
            // Emptied first: where the damage is gone with its window, the server leaves the region as it was.
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
            asked.push(Asked { window, owner, region });
        }
        // The screen last: what is in a window by now is on the screen by then.
        let screen = match self.evidence {
            Evidence::Screen => Some(fetch(self.screen)?),
            Evidence::Windows => None,
        };
        self.is_screen_dirty = false;
        connection.flush()?;
        Ok(Round { windows: asked, screen })
    }

    /// Reads the answers and credits those who drew.
    pub(super) fn credit(
        &mut self,
        round: Round<'_>,
        windows: &mut Windows,
        ledger: &Ledger,
    ) -> Result<(), LinkError> {
        let now = Instant::now();
        for asked in round.windows {
            let owner = asked.owner.map(clients::answer).transpose()?.flatten();
            let Some(reply) = asked.region.reply_unchecked()? else { continue };
            let Some(node) = windows.node_mut(asked.window) else { continue };
            node.owner = node.owner.or(owner);
            // Of another machine, or gone.
            let Some(owner) = node.owner else { continue };
            let drawn = drawn(&reply, asked.window, windows);
            if !drawn.is_empty() {
                self.unseen.push((now, owner, drawn));
            }
        }
        if let Some(screen) = round.screen {
            if let Some(reply) = screen.reply_unchecked()? {
                self.shown.swap(0, 1);
                self.shown[0] = (now, of(&reply));
            }
        }
        self.settle(now, windows.screen_pixels(), ledger);
        Ok(())
    }

    /// Credits what has reached the screen.
    fn settle(&mut self, now: Instant, screen_pixels: u64, ledger: &Ledger) {
        let mut shown = Region::default();
        for (since, region) in &self.shown {
            if now.duration_since(*since) < COMPOSITOR_PATIENCE {
                shown.add(region);
            }
        }
        let mut pixels: BTreeMap<Tgid, u64> = BTreeMap::new();
        for (_, owner, drawn) in &mut self.unseen {
            let seen = match self.evidence {
                Evidence::Screen => drawn.and(&shown),
                Evidence::Windows => std::mem::take(drawn),
            };
            *pixels.entry(*owner).or_default() += seen.pixels();
            *drawn = drawn.without(&shown);
        }
        self.unseen.retain(|(since, _, drawn)| {
            !drawn.is_empty() && now.duration_since(*since) < COMPOSITOR_PATIENCE
        });
        for (owner, pixels) in pixels {
            // Whatever is drawn, and how often: one screen a round.
            let pixels = pixels.min(screen_pixels);
            if pixels >= PIXELS_LEAST {
                let output_ppm = pixels * 1_000_000 / screen_pixels;
                ledger.credit(owner, Changes { input: 0, output_ppm: output_ppm.max(1) });
            }
        }
    }
}

impl Round<'_> {
    /// Whether somebody is in it who did not draw lately.
    pub(super) fn has_news(&self, windows: &Windows, ledger: &Ledger) -> bool {
        self.windows.iter().any(|asked| {
            let owner = windows.node(asked.window).and_then(|node| node.owner);
            owner.is_none_or(|owner| !ledger.is_active(owner))
        })
    }
}

fn of(reply: &FetchRegionReply) -> Region {
    let rects = reply.rectangles.iter();
    Region::of_disjoint(rects.map(|part| Rect::new(part.x.into(), part.y.into(), part.width, part.height)))
}

/// Where on the screen a window's own program drew, and can be seen.
fn drawn(reply: &FetchRegionReply, window: Window, windows: &mut Windows) -> Region {
    let region = of(reply).moved(windows.origin(window));
    if region.is_empty() {
        return region;
    }
    region.and(&windows.visible(window)).without(&windows.drawn_apart(window))
}
