//! The windows of a display: where they are, which cover which, and whose they are, kept by the server's notices.

use std::collections::HashMap;

use spry_policy::Tgid;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{ConnectionExt as _, Damage, ReportLevel};
use x11rb::protocol::shape::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, ConnectionExt as _, EventMask, MapState, Window, WindowClass,
};

use super::link::{LinkError, Server};
use crate::region::{Rect, Region};

/// More windows are not followed: what is drawn there counts for the window around them.
const WINDOWS_MAX: usize = 8192;
/// So many windows inside one are looked at for windows of others.
const INSIDE_MAX: usize = 64;
/// So deep.
const DEPTH_MAX: u32 = 6;
/// Bits of a pixel of a window that may be seen through.
const TRANSLUCENT: u8 = 32;

/// Whether a window hides what is below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// It is not known, or only takes input.
    Nothing,
    /// It can be seen through.
    Translucent,
    /// It hides.
    Opaque,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    parent: Window,
    top: Window,
    depth: u32,
    /// Its outer corner, from the parent's inner one.
    corner: (i32, i32),
    size: (u16, u16),
    border: u16,
    is_mapped: bool,
    is_adopted: bool,
    look: Look,
    /// Where it has pixels, from its inner corner; nothing if everywhere.
    shape: Option<Region>,
    pub(super) damage: Option<Damage>,
    pub(super) owner: Option<Tgid>,
    /// Where it can be seen, at which generation of the model.
    visible: Option<(u64, Region)>,
}

/// All windows that matter.
#[derive(Debug)]
pub(super) struct Windows {
    root: Window,
    size: (u16, u16),
    /// Bits that number a client's own resources.
    own_bits: u32,
    nodes: HashMap<Window, Node>,
    /// Windows of the root, from the lowest.
    stack: Vec<Window>,
    /// To be looked at; how their first damage counts.
    fresh: Vec<(Window, First)>,
    generation: u64,
}

/// What a watch over a window finds drawn at its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    /// The window has just appeared, which its program did.
    Counts,
    /// The window was there before we were.
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
        };
        let size = connection.get_geometry(screen.root)?.reply()?;
        windows.size = (size.width, size.height);
        for window in connection.query_tree(screen.root)?.reply()?.children {
            windows.insert(window, screen.root);
            windows.fresh.push((window, First::Forgotten));
        }
        Ok(windows)
    }

    /// How many pixels the screen has.
    pub(super) fn screen_pixels(&self) -> u64 {
        (u64::from(self.size.0) * u64::from(self.size.1)).max(1)
    }

    /// The base of the resources of whoever made a window.
    pub(super) fn client(&self, window: Window) -> u32 {
        window & !self.own_bits
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
            corner: (0, 0),
            size: (0, 0),
            border: 0,
            is_mapped: false,
            is_adopted: false,
            look: Look::Nothing,
            shape: None,
            damage: None,
            owner: None,
            visible: None,
        };
        self.nodes.insert(window, node);
    }

    /// A window is gone, and all in it.
    fn remove(&mut self, window: Window) {
        let Some(node) = self.nodes.remove(&window) else { return };
        if node.parent == self.root {
            self.stack.retain(|&other| other != window);
        }
        // Nobody has windows inside whose window was never looked at.
        if node.is_adopted {
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

    /// Takes a notice of the server's.
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::CreateNotify(made)
                if made.parent == self.root || self.is_foreign(made.window, made.parent) =>
            {
                self.insert(made.window, made.parent);
                let corner = (made.x.into(), made.y.into());
                self.place(made.window, corner, (made.width, made.height), made.border_width);
            }
            Event::DestroyNotify(gone) => self.remove(gone.window),
            Event::MapNotify(shown) => self.mapped(shown.window),
            Event::UnmapNotify(hidden) => {
                if let Some(node) = self.nodes.get_mut(&hidden.window) {
                    node.is_mapped = false;
                    self.generation += 1;
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
                // Looked at again with the next fresh ones.
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
            }
            self.fresh.push((window, First::Counts));
        }
    }

    /// Whether a window is somebody else's inside a window that is followed.
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

    /// Looks at windows that have appeared, and begins to watch what is drawn into them. Says whether there were any.
    pub(super) fn adopt(&mut self, connection: &Server) -> Result<bool, LinkError> {
        let is_any = !self.fresh.is_empty();
        while !self.fresh.is_empty() {
            let mut fresh = std::mem::take(&mut self.fresh);
            // Gone again meanwhile, as many are.
            fresh.retain(|(window, _)| self.nodes.contains_key(window));
            let asked = fresh
                .into_iter()
                .map(|(window, first)| self.look_at(connection, window, first))
                .collect::<Result<Vec<_>, LinkError>>()?;
            for looks in asked {
                self.saw(looks)?;
            }
        }
        Ok(is_any)
    }

    fn look_at<'c>(
        &mut self,
        connection: &'c Server,
        window: Window,
        first: First,
    ) -> Result<Looks<'c>, LinkError> {
        let is_drawn_apart = self.nodes.get(&window).is_some_and(|node| {
            node.damage.is_none() && (node.parent == self.root || self.is_foreign(window, node.parent))
        });
        if !self.nodes.get(&window).is_some_and(|node| node.is_adopted) {
            let attributes = ChangeWindowAttributesAux::new().event_mask(EventMask::SUBSTRUCTURE_NOTIFY);
            connection.change_window_attributes(window, &attributes)?;
            connection.shape_select_input(window, true)?;
        }
        if is_drawn_apart {
            let damage = connection.generate_id()?;
            connection.damage_create(damage, window, ReportLevel::NON_EMPTY)?;
            if first == First::Forgotten {
                connection.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
            }
            if let Some(node) = self.nodes.get_mut(&window) {
                node.damage = Some(damage);
            }
        }
        Ok(Looks {
            window,
            first,
            attributes: connection.get_window_attributes(window)?,
            geometry: connection.get_geometry(window)?,
            shape: connection.shape_get_rectangles(window, shape::SK::BOUNDING)?,
            tree: connection.query_tree(window)?,
        })
    }

    fn saw(&mut self, looks: Looks<'_>) -> Result<(), LinkError> {
        let attributes = looks.attributes.reply_unchecked()?;
        let geometry = looks.geometry.reply_unchecked()?;
        let shape = looks.shape.reply_unchecked()?;
        let tree = looks.tree.reply_unchecked()?;
        let Some(node) = self.nodes.get_mut(&looks.window) else { return Ok(()) };
        let (Some(attributes), Some(geometry), Some(shape), Some(tree)) = (attributes, geometry, shape, tree)
        else {
            // Its end will be told.
            return Ok(());
        };
        let was_adopted = std::mem::replace(&mut node.is_adopted, true);
        node.is_mapped = attributes.map_state != MapState::UNMAPPED;
        node.corner = (geometry.x.into(), geometry.y.into());
        node.size = (geometry.width, geometry.height);
        node.border = geometry.border_width;
        node.look = match (attributes.class, geometry.depth) {
            (WindowClass::INPUT_ONLY, _) => Look::Nothing,
            (_, TRANSLUCENT) => Look::Translucent,
            _ => Look::Opaque,
        };
        let rects = shape
            .rectangles
            .iter()
            .map(|part| Rect::new(part.x.into(), part.y.into(), part.width, part.height));
        node.shape = Some(Region::of(rects));
        self.generation += 1;
        if was_adopted || node.depth >= DEPTH_MAX {
            return Ok(());
        }
        let top = node.top;
        let mut inside = self.nodes.values().filter(|node| node.top == top).count();
        for child in tree.children {
            if inside >= INSIDE_MAX {
                break;
            }
            if !self.nodes.contains_key(&child) {
                self.insert(child, looks.window);
                self.fresh.push((child, looks.first));
                inside += 1;
            }
        }
        Ok(())
    }

    /// Where a window's inner corner is on the screen.
    pub(super) fn origin(&self, window: Window) -> (i32, i32) {
        let mut origin = (0, 0);
        let mut at = window;
        // A tree has no circles, but what is told of it late might.
        for _ in 0..=DEPTH_MAX {
            let Some(node) = self.nodes.get(&at) else { break };
            origin.0 += node.corner.0 + i32::from(node.border);
            origin.1 += node.corner.1 + i32::from(node.border);
            at = node.parent;
        }
        origin
    }

    /// Its pixels on the screen, if it is mapped.
    fn extent(&self, window: Window) -> Region {
        let Some(node) = self.nodes.get(&window).filter(|node| node.is_mapped) else {
            return Region::default();
        };
        let origin = self.origin(window);
        let border = i32::from(node.border);
        let outer = Rect::new(-border, -border, node.size.0 + 2 * node.border, node.size.1 + 2 * node.border);
        match &node.shape {
            Some(shape) => shape.and(&outer.into()).moved(origin),
            None => Region::from(outer).moved(origin),
        }
    }

    /// Where somebody can see a window of the root, or a window in it: on the screen, and not below another that hides.
    pub(super) fn visible(&mut self, window: Window) -> Region {
        let Some(top) = self.nodes.get(&window).map(|node| node.top) else { return Region::default() };
        if let Some((generation, region)) = self.nodes.get(&top).and_then(|node| node.visible.as_ref()) {
            if *generation == self.generation {
                return region.clone();
            }
        }
        let mut region = self.extent(top).and(&Rect::new(0, 0, self.size.0, self.size.1).into());
        let above = self.stack.iter().rev().take_while(|&&other| other != top);
        for &other in above {
            if self.nodes.get(&other).is_some_and(|node| node.is_mapped && node.look == Look::Opaque) {
                region = region.without(&self.extent(other));
            }
        }
        let generation = self.generation;
        if let Some(node) = self.nodes.get_mut(&top) {
            node.visible = Some((generation, region.clone()));
        }
        region
    }

    /// What others draw apart inside a window.
    pub(super) fn drawn_apart(&self, window: Window) -> Region {
        let mut region = Region::default();
        let Some(top) = self.nodes.get(&window).map(|node| node.top) else { return region };
        let watched = self.nodes.iter().filter(|(_, node)| node.top == top && node.damage.is_some());
        for (&inner, node) in watched {
            if inner != window && node.is_mapped && self.is_inside(inner, window) {
                region.add(&self.extent(inner));
            }
        }
        region
    }

    fn is_inside(&self, inner: Window, outer: Window) -> bool {
        let mut at = inner;
        for _ in 0..=DEPTH_MAX {
            match self.nodes.get(&at) {
                Some(node) if node.parent == outer => return true,
                Some(node) => at = node.parent,
                None => break,
            }
        }
        false
    }
}

/// What was asked of a window.
struct Looks<'c> {
    window: Window,
    first: First,
    attributes: x11rb::cookie::Cookie<'c, Server, x11rb::protocol::xproto::GetWindowAttributesReply>,
    geometry: x11rb::cookie::Cookie<'c, Server, x11rb::protocol::xproto::GetGeometryReply>,
    shape: x11rb::cookie::Cookie<'c, Server, shape::GetRectanglesReply>,
    tree: x11rb::cookie::Cookie<'c, Server, x11rb::protocol::xproto::QueryTreeReply>,
}
