//! The windows of a display: their places, the windows that they cover, and the client of each, kept up to
//! date by the server's notices.

mod adopt;
mod place;
mod seen;

use std::collections::HashMap;
use std::time::Instant;

use spry_policy::Tgid;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::damage::Damage;
use x11rb::protocol::shape;
use x11rb::protocol::xproto::{ChangeWindowAttributesAux, ConnectionExt as _, EventMask, Visibility, Window};

use super::link::{LinkError, Server};
use super::tally::Habit;
use crate::region::Region;

/// At most so many windows are followed: drawings in other windows count for the window around them.
const WINDOWS_MAX: usize = 8192;
/// The most windows inside a window of the root that are looked at, to find windows of other clients.
const INSIDE_MAX: usize = 64;
/// Windows inside others are looked at down to this depth.
const DEPTH_MAX: u32 = 6;
/// A window with this many bits a pixel may be seen through.
const TRANSLUCENT: u8 = 32;

/// Whether a window hides what is below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// The window is not known, takes input only, or is the server's own.
    Nothing,
    /// The window can be seen through.
    Translucent,
    /// The window hides what is below it.
    Opaque,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    parent: Window,
    top: Window,
    depth: u32,
    /// The number of the windows inside this window that are followed.
    inside: usize,
    /// The window's outer corner, counted from the inner corner of its parent.
    corner: (i32, i32),
    size: (u16, u16),
    border: u16,
    is_mapped: bool,
    is_adopted: bool,
    look: Look,
    /// The region in which the window has pixels, from its inner corner; `None` if it has pixels everywhere.
    shape: Option<Region>,
    pub(super) damage: Option<Damage>,
    pub(super) habit: Habit,
    pub(super) owner: Option<Tgid>,
    /// Whether the first report of the window's damage is still to come. That report covers the whole window,
    /// whatever was drawn.
    pub(super) is_new: bool,
    /// Whether the window was there before the eyes. If so, the drawings in it before the eyes
    /// came are unknown.
    was_there: bool,
    /// The number of pixels that the window's client has certainly drawn since the window was mapped; only
    /// pixels that a person can see count.
    drawn: u64,
    /// Whether all of the window is covered, as the server reports. The server does not check whether the
    /// covering windows show anything.
    is_obscured: bool,
    /// The region in which a person can see the window, with the generation of the model for this region.
    visible: Option<(u64, Region)>,
    /// Whether a person can see enough of the window, with the generation for which this was computed.
    is_in_sight: Option<(u64, bool)>,
}

/// All windows of a display that matter to the eyes.
#[derive(Debug)]
pub(super) struct Windows {
    root: Window,
    size: (u16, u16),
    /// The bits of a resource's number that a client chooses itself; the other bits name the client.
    own_bits: u32,
    nodes: HashMap<Window, Node>,
    /// The windows of the root, from the lowest to the highest.
    stack: Vec<Window>,
    /// New windows to be looked at, each with how its first damage counts.
    fresh: Vec<(Window, First)>,
    generation: u64,
    covers: Covers,
    /// For windows that are not followed: the outermost window around each, as the server gave
    /// it at that time.
    around: HashMap<Window, (Instant, Option<Window>)>,
}

/// The windows that hide others, for one generation of the model: one walk over all windows serves questions
/// about many of them.
#[derive(Debug, Default)]
struct Covers {
    generation: Option<u64>,
    /// Windows of the root that hide what is below them, from the lowest, each with its place in the stack.
    hiding: Vec<(usize, Window)>,
    places: HashMap<Window, usize>,
}

/// Whether the pixels count that were drawn in a window before the eyes began to watch it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    /// The pixels of the first report count: the window has just appeared, so its program drew them.
    Counts,
    /// The pixels of the first report do not count: they may have been drawn before the eyes began to watch.
    Forgotten,
}

impl Windows {
    /// Follows the windows of a display from now on.
    pub(super) fn begin(connection: &Server) -> Result<Windows, LinkError> {
        let setup = connection.setup();
        let screen = &setup.roots[0];
        let wanted = EventMask::SUBSTRUCTURE_NOTIFY | EventMask::STRUCTURE_NOTIFY;
        let attributes = ChangeWindowAttributesAux::new().event_mask(wanted);
        connection.change_window_attributes(screen.root, &attributes)?.check()?;
        let mut windows = Windows {
            root: screen.root,
            size: (screen.width_in_pixels, screen.height_in_pixels),
            own_bits: setup.resource_id_mask,
            nodes: HashMap::new(),
            stack: Vec::new(),
            fresh: Vec::new(),
            generation: 0,
            covers: Covers::default(),
            around: HashMap::new(),
        };
        let size = connection.get_geometry(screen.root)?.reply()?;
        windows.size = (size.width, size.height);
        for window in connection.query_tree(screen.root)?.reply()?.children {
            windows.insert(window, screen.root);
            windows.fresh.push((window, First::Forgotten));
        }
        Ok(windows)
    }

    /// The number of pixels of the screen.
    pub(super) fn screen_pixels(&self) -> u64 {
        (u64::from(self.size.0) * u64::from(self.size.1)).max(1)
    }

    /// The base of the resources of the client that made a window.
    pub(super) fn client(&self, window: Window) -> u32 {
        window & !self.own_bits
    }

    /// A number that changes whenever a window comes, goes, or changes its place.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn root(&self) -> Window {
        self.root
    }

    pub(super) fn node(&self, window: Window) -> Option<&Node> {
        self.nodes.get(&window)
    }

    pub(super) fn node_mut(&mut self, window: Window) -> Option<&mut Node> {
        self.nodes.get_mut(&window)
    }

    fn insert(&mut self, window: Window, parent: Window) {
        if self.nodes.len() >= WINDOWS_MAX {
            return;
        }
        let (top, depth) = match self.nodes.get(&parent) {
            None => (window, 0),
            Some(around) => (around.top, around.depth + 1),
        };
        if parent == self.root && !self.stack.contains(&window) {
            self.stack.push(window);
        }
        let node = Node {
            parent,
            top,
            depth,
            inside: 0,
            corner: (0, 0),
            size: (0, 0),
            border: 0,
            is_mapped: false,
            is_adopted: false,
            look: Look::Nothing,
            shape: None,
            damage: None,
            habit: Habit::default(),
            owner: None,
            is_new: false,
            was_there: false,
            drawn: 0,
            is_obscured: false,
            visible: None,
            is_in_sight: None,
        };
        if self.nodes.insert(window, node).is_none() {
            if let Some(around) = self.nodes.get_mut(&parent) {
                around.inside += 1;
            }
        }
    }

    /// Removes a window that was destroyed, and all windows inside it.
    fn remove(&mut self, window: Window) {
        let Some(node) = self.nodes.remove(&window) else { return };
        if node.parent == self.root {
            self.stack.retain(|&other| other != window);
        }
        if let Some(around) = self.nodes.get_mut(&node.parent) {
            around.inside = around.inside.saturating_sub(1);
        }
        if node.inside > 0 {
            let inside: Vec<Window> = self
                .nodes
                .iter()
                .filter(|(_, inner)| inner.parent == window)
                .map(|(&inner, _)| inner)
                .collect();
            inside.into_iter().for_each(|inner| self.remove(inner));
        }
        self.generation += 1;
    }

    /// Takes in a notice of the server.
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::CreateNotify(made)
                if made.parent == self.root || self.is_foreign(made.window, made.parent) =>
            {
                // A window that received input before this notice was read is followed already.
                if !self.nodes.contains_key(&made.window) {
                    self.insert(made.window, made.parent);
                }
                let corner = (made.x.into(), made.y.into());
                self.place(made.window, corner, (made.width, made.height), made.border_width);
            }
            Event::DestroyNotify(gone) => self.remove(gone.window),
            Event::MapNotify(shown) => self.mapped(shown.window),
            Event::UnmapNotify(hidden) => {
                if let Some(node) = self.nodes.get_mut(&hidden.window) {
                    (node.is_mapped, node.was_there, node.drawn) = (false, false, 0);
                    self.generation += 1;
                }
            }
            Event::VisibilityNotify(now) => {
                if let Some(node) = self.nodes.get_mut(&now.window) {
                    node.is_obscured = now.state == Visibility::FULLY_OBSCURED;
                }
            }
            Event::ConfigureNotify(now) if now.window == self.root => {
                self.size = (now.width, now.height);
                self.generation += 1;
            }
            Event::ConfigureNotify(now) => {
                self.place(
                    now.window,
                    (now.x.into(), now.y.into()),
                    (now.width, now.height),
                    now.border_width,
                );
                if now.event == self.root {
                    self.stack_above(now.window, now.above_sibling);
                }
            }
            Event::GravityNotify(now) => {
                if let Some(node) = self.nodes.get_mut(&now.window) {
                    node.corner = (now.x.into(), now.y.into());
                    self.generation += 1;
                }
            }
            Event::CirculateNotify(now) if now.event == self.root => {
                let to_top = now.place == x11rb::protocol::xproto::Place::ON_TOP;
                let last = self.stack.iter().rfind(|&&other| other != now.window).copied();
                self.stack_above(now.window, if to_top { last.unwrap_or(0) } else { 0 });
            }
            Event::ReparentNotify(now) => {
                self.reparented(now.window, now.parent, (now.x.into(), now.y.into()))
            }
            Event::ShapeNotify(now) if now.shape_kind == shape::SK::BOUNDING => {
                // The window is looked at again together with the next new windows.
                self.fresh.push((now.affected_window, First::Counts));
            }
            _ => {}
        }
    }

    fn mapped(&mut self, window: Window) {
        if let Some(node) = self.nodes.get_mut(&window) {
            node.is_mapped = true;
            if !node.is_adopted {
                self.fresh.push((window, First::Counts));
            }
            self.generation += 1;
        }
    }

    fn reparented(&mut self, window: Window, parent: Window, corner: (i32, i32)) {
        let was = self.nodes.get(&window).cloned();
        self.remove(window);
        let is_wanted = parent == self.root || self.is_foreign(window, parent);
        if !is_wanted {
            return;
        }
        self.insert(window, parent);
        if let Some(node) = self.nodes.get_mut(&window) {
            node.corner = corner;
            if let Some(was) = was {
                (node.size, node.border, node.is_mapped) = (was.size, was.border, was.is_mapped);
                (node.look, node.shape, node.damage, node.owner) =
                    (was.look, was.shape, was.damage, was.owner);
                (node.is_new, node.was_there, node.drawn) = (was.is_new, was.was_there, was.drawn);
                node.habit = was.habit;
            }
            self.fresh.push((window, First::Counts));
        }
    }

    /// Whether a window is another client's inside a window that is followed.
    fn is_foreign(&self, window: Window, parent: Window) -> bool {
        self.nodes.contains_key(&parent) && self.client(window) != self.client(parent)
    }

    fn place(&mut self, window: Window, corner: (i32, i32), size: (u16, u16), border: u16) {
        if let Some(node) = self.nodes.get_mut(&window) {
            if (node.corner, node.size, node.border) != (corner, size, border) {
                (node.corner, node.size, node.border) = (corner, size, border);
                self.generation += 1;
            }
        }
    }

    fn stack_above(&mut self, window: Window, sibling: Window) {
        let Some(from) = self.stack.iter().position(|&other| other == window) else { return };
        let at = from.checked_sub(1).map(|below| self.stack[below]).unwrap_or(0);
        if at == sibling {
            return;
        }
        self.stack.remove(from);
        let to = self.stack.iter().position(|&other| other == sibling).map_or(0, |below| below + 1);
        self.stack.insert(to, window);
        self.generation += 1;
    }
}
