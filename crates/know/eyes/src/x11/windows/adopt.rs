//! The eyes look at windows that have appeared, and watch drawings in them from then on.

use x11rb::connection::Connection;
use x11rb::protocol::damage::{ConnectionExt as _, ReportLevel};
use x11rb::protocol::shape::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    ChangeWindowAttributesAux, ConnectionExt as _, EventMask, MapState, Window, WindowClass,
};

use super::{DEPTH_MAX, First, INSIDE_MAX, Look, Server, TRANSLUCENT, Windows};
use crate::region::{Rect, Region};
use crate::x11::link::LinkError;

impl Windows {
    /// Looks at windows that have appeared, and begins to watch what is drawn in them: `drawn` is the
    /// connection for that. Returns whether there were any.
    pub(in crate::x11) fn adopt(&mut self, connection: &Server, drawn: &Server) -> Result<bool, LinkError> {
        let is_any = !self.fresh.is_empty();
        while !self.fresh.is_empty() {
            let mut fresh = std::mem::take(&mut self.fresh);
            // Many windows are destroyed again by now: they are left out.
            fresh.retain(|(window, _)| self.nodes.contains_key(window));
            let asked = fresh
                .into_iter()
                .map(|(window, first)| self.look_at((connection, drawn), window, first))
                .collect::<Result<Vec<_>, LinkError>>()?;
            drawn.flush()?;
            for looks in asked {
                self.saw(looks)?;
            }
        }
        Ok(is_any)
    }

    fn look_at<'c>(
        &mut self,
        (connection, drawn): (&'c Server, &Server),
        window: Window,
        first: First,
    ) -> Result<Looks<'c>, LinkError> {
        let node = self.nodes.get(&window);
        let is_apart =
            node.is_some_and(|node| node.parent == self.root || self.is_foreign(window, node.parent));
        let is_drawn_apart = is_apart && node.is_some_and(|node| node.damage.is_none());
        if !node.is_some_and(|node| node.is_adopted) {
            let covered = if is_apart { EventMask::VISIBILITY_CHANGE } else { EventMask::NO_EVENT };
            let wanted = EventMask::SUBSTRUCTURE_NOTIFY | covered;
            let attributes = ChangeWindowAttributesAux::new().event_mask(wanted);
            connection.change_window_attributes(window, &attributes)?;
            connection.shape_select_input(window, true)?;
        }
        if is_drawn_apart {
            let damage = drawn.generate_id()?;
            drawn.damage_create(damage, window, ReportLevel::NON_EMPTY)?;
            if first == First::Forgotten {
                drawn.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
            }
            if let Some(node) = self.nodes.get_mut(&window) {
                node.damage = Some(damage);
                (node.is_new, node.was_there) = (first == First::Counts, first == First::Forgotten);
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
        let is_server_s = self.client(looks.window) == self.client(self.root);
        let Some(node) = self.nodes.get_mut(&looks.window) else { return Ok(()) };
        let (Some(attributes), Some(geometry), Some(shape), Some(tree)) = (attributes, geometry, shape, tree)
        else {
            // The window was destroyed: a notice of the server will report that.
            return Ok(());
        };
        let was_adopted = std::mem::replace(&mut node.is_adopted, true);
        node.is_mapped = attributes.map_state != MapState::UNMAPPED;
        node.corner = (geometry.x.into(), geometry.y.into());
        node.size = (geometry.width, geometry.height);
        node.border = geometry.border_width;
        node.look = match (attributes.class, geometry.depth) {
            (WindowClass::INPUT_ONLY, _) => Look::Nothing,
            // A compositor's overlay shows the windows that it seems to cover.
            _ if is_server_s => Look::Nothing,
            (_, TRANSLUCENT) => Look::Translucent,
            _ => Look::Opaque,
        };
        let rects = shape
            .rectangles
            .iter()
            .map(|part| Rect::new(part.x.into(), part.y.into(), part.width, part.height));
        node.shape = Some(Region::of(rects));
        self.generation += 1;
        if was_adopted || node.depth >= DEPTH_MAX || tree.children.is_empty() {
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
}

/// The questions that were sent to the server about one window.
struct Looks<'c> {
    window: Window,
    first: First,
    attributes: x11rb::cookie::Cookie<'c, Server, x11rb::protocol::xproto::GetWindowAttributesReply>,
    geometry: x11rb::cookie::Cookie<'c, Server, x11rb::protocol::xproto::GetGeometryReply>,
    shape: x11rb::cookie::Cookie<'c, Server, shape::GetRectanglesReply>,
    tree: x11rb::cookie::Cookie<'c, Server, x11rb::protocol::xproto::QueryTreeReply>,
}
