//! The places of windows on the screen, and the parts of them that can be seen there.

use x11rb::protocol::xproto::Window;

use super::{DEPTH_MAX, Node, Windows};
use crate::region::{Rect, Region};

impl Windows {
    /// The position of a window's inner corner on the screen, pixels.
    pub(in crate::x11) fn origin(&self, window: Window) -> (i32, i32) {
        let mut origin = (0, 0);
        let mut at = window;
        // The loop is bounded: a tree has no circles, but notices that come late might make one in the model.
        for _ in 0..=DEPTH_MAX {
            let Some(node) = self.nodes.get(&at) else { break };
            origin.0 += node.corner.0 + i32::from(node.border);
            origin.1 += node.corner.1 + i32::from(node.border);
            at = node.parent;
        }
        origin
    }

    /// The pixels of a window, its border included, on the screen; empty if the window is not mapped.
    pub(super) fn extent(&self, window: Window) -> Region {
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

    /// The region in which a person can see a window of the root, or the window of the root around an inner
    /// window: on the screen, and not below another window that hides it.
    pub(in crate::x11) fn visible(&mut self, window: Window) -> Region {
        let Some(top) = self.nodes.get(&window).map(|node| node.top) else { return Region::default() };
        if let Some((generation, region)) = self.nodes.get(&top).and_then(|node| node.visible.as_ref()) {
            if *generation == self.generation {
                return region.clone();
            }
        }
        let mut region = self.extent(top).and(&Rect::new(0, 0, self.size.0, self.size.1).into());
        self.look_for_covers();
        let place = self.covers.places.get(&top).copied().unwrap_or_default();
        for &(_, other) in self.covers.hiding.iter().rev().take_while(|(above, _)| *above > place) {
            region = region.without(&self.extent(other));
        }
        let generation = self.generation;
        if let Some(node) = self.nodes.get_mut(&top) {
            node.visible = Some((generation, region.clone()));
        }
        region
    }

    /// Computes anew which windows hide others, if the model has changed since the last time.
    fn look_for_covers(&mut self) {
        if self.covers.generation == Some(self.generation) {
            return;
        }
        let stack = || self.stack.iter().copied().enumerate();
        let hides = |window: &Window| self.nodes.get(window).is_some_and(Node::hides);
        self.covers.hiding = stack().filter(|(_, window)| hides(window)).collect();
        self.covers.places = stack().map(|(place, window)| (window, place)).collect();
        self.covers.generation = Some(self.generation);
    }

    /// The parts of a window that are covered by inner windows with a damage of their own.
    pub(in crate::x11) fn drawn_apart(&self, window: Window) -> Region {
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

    pub(in crate::x11) fn is_inside(&self, inner: Window, outer: Window) -> bool {
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
