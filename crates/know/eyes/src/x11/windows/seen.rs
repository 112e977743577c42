//! Whether a person can see the window that receives input.
//!
//! Input goes to a window of a client, often to a small or input-only window inside a window that a person
//! sees: GTK and Java have such windows for the keyboard. So the eyes look at the outermost window of the
//! same client around it; around that there may be a window manager's frame. Input counts if this
//! outermost window shows pixels, a person can see enough of them, and its client has drawn as many since
//! the window was mapped.
//!
//! A window in which nothing was drawn shows what is below it (its background is None), and does not count,
//! however large it is. A window that was there before the eyes has to draw as well: its earlier drawings are
//! unknown, and a program must gain nothing if it waits for the daemon to begin. A window of 32 bits has to
//! draw, too, since toolkits make their main windows so. A gap remains: a client may copy the contents below
//! its window onto it, or fill it with pixels that a compositor takes for transparent. Then it has drawn, and
//! no notice of the server shows the result.

use std::time::{Duration, Instant};

use x11rb::protocol::xproto::{ConnectionExt as _, Window};

use super::{DEPTH_MAX, First, Look, Node, Server, Windows};
use crate::region::Region;
use crate::x11::link::LinkError;

/// A window counts if so many pixels of it can be seen: a tray icon of 16x16 has as many, and is the smallest
/// thing that a person aims at by sight.
const PIXELS_LEAST: u64 = 256;
/// The eyes follow windows around a window up to so many levels.
const CLIMB_MAX: usize = 32;
/// For a window that is not followed, the server's answer about the windows around it is used
/// again for this time.
const BELIEVED: Duration = Duration::from_secs(1);
/// For at most so many windows the windows around them are remembered.
const AROUND_MAX: usize = 4096;

impl Node {
    /// Whether the window hides what is below it. A window in which nothing was drawn hides nothing: else a
    /// window that shows nothing could take the person's programs out of use.
    pub(super) fn hides(&self) -> bool {
        let is_drawn = self.was_there || self.drawn >= PIXELS_LEAST;
        self.is_mapped && self.look == Look::Opaque && is_drawn
    }
}

impl Windows {
    /// Adds to the pixels that a window's client has drawn and that a person can see.
    pub(in crate::x11) fn drew(&mut self, window: Window, pixels: u64) {
        let Some(node) = self.nodes.get_mut(&window).filter(|node| node.is_mapped) else { return };
        let was_drawn = node.drawn >= PIXELS_LEAST;
        node.drawn = node.drawn.saturating_add(pixels);
        if !was_drawn && node.drawn >= PIXELS_LEAST {
            // From now on the window hides what is below it.
            self.generation += 1;
        }
    }

    /// Whether a window cannot be seen through.
    pub(in crate::x11) fn is_opaque(&self, window: Window) -> bool {
        self.nodes.get(&window).is_some_and(|node| node.look == Look::Opaque)
    }

    /// Whether a person can see this window and its client drew it. The window is an outermost
    /// window of its client.
    pub(in crate::x11) fn is_seen(&mut self, window: Window) -> bool {
        let generation = self.generation;
        let Some(node) = self.nodes.get(&window) else { return false };
        if node.look == Look::Nothing || node.drawn < PIXELS_LEAST {
            return false;
        }
        // The window may be inside another client's window. The windows beside it are not followed, but the
        // server reports whether it is fully covered. If the window of the root around it is fully covered as
        // well, that report is not used: the covering window may show nothing.
        let is_top_obscured = self.nodes.get(&node.top).is_some_and(|top| top.is_obscured);
        if node.is_obscured && !is_top_obscured {
            return false;
        }
        if let Some((_, is_in_sight)) = node.is_in_sight.filter(|(at, _)| *at == generation) {
            return is_in_sight;
        }
        let is_in_sight = self.in_sight(window).pixels() >= PIXELS_LEAST;
        if let Some(node) = self.nodes.get_mut(&window) {
            node.is_in_sight = Some((generation, is_in_sight));
        }
        is_in_sight
    }

    /// The region in which a person can see a window: the visible part of the window of the root around it,
    /// and inside all windows around it.
    fn in_sight(&mut self, window: Window) -> Region {
        let mut region = self.visible(window);
        let mut at = window;
        for _ in 0..=DEPTH_MAX + 1 {
            let Some(node) = self.nodes.get(&at).filter(|node| node.parent != self.root) else { break };
            region = region.and(&self.extent(at));
            at = node.parent;
        }
        region
    }

    /// The outermost window of the same client around this window; it may be this window itself. `None` if
    /// the window was destroyed, or if too many windows are inside each other.
    pub(in crate::x11) fn outermost(
        &mut self,
        connection: &Server,
        window: Window,
    ) -> Result<Option<Window>, LinkError> {
        if self.nodes.contains_key(&window) {
            return Ok(self.outermost_followed(window, self.client(window)));
        }
        if let Some((since, outermost)) = self.around.get(&window) {
            if since.elapsed() < BELIEVED {
                return Ok(*outermost);
            }
        }
        let outermost = self.climb(connection, window)?;
        if self.around.len() >= AROUND_MAX {
            self.around.clear();
        }
        self.around.insert(window, (Instant::now(), outermost));
        Ok(outermost)
    }

    /// The outermost of the followed windows around this window that the client made; it may be
    /// this window itself.
    fn outermost_followed(&self, window: Window, client: u32) -> Option<Window> {
        let mut outermost = None;
        let mut at = window;
        for _ in 0..=DEPTH_MAX + 1 {
            let Some(node) = self.nodes.get(&at) else { break };
            if self.client(at) == client {
                outermost = Some(at);
            }
            at = node.parent;
        }
        outermost
    }

    /// Asks the server for the windows around a window that is not followed. From then on the outermost
    /// window of the same client is followed, and so are the windows around it.
    fn climb(&mut self, connection: &Server, window: Window) -> Result<Option<Window>, LinkError> {
        let client = self.client(window);
        let mut path = vec![window];
        let parent = loop {
            let Some(&at) = path.last().filter(|_| path.len() <= CLIMB_MAX) else { return Ok(None) };
            // A destroyed window has no windows around it.
            let Some(tree) = connection.query_tree(at)?.reply_unchecked()? else { return Ok(None) };
            if tree.parent == self.root || self.nodes.contains_key(&tree.parent) {
                break tree.parent;
            }
            path.push(tree.parent);
        };
        if let Some(outermost) = self.outermost_followed(parent, client) {
            return Ok(Some(outermost));
        }
        let Some(at) = path.iter().rposition(|&around| self.client(around) == client) else {
            return Ok(None);
        };
        let mut parent = parent;
        for &around in path[at..].iter().rev() {
            if self.nodes.get(&parent).is_some_and(|node| node.depth >= DEPTH_MAX) {
                return Ok(None);
            }
            self.insert(around, parent);
            self.fresh.push((around, First::Counts));
            parent = around;
        }
        Ok(Some(path[at]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::region::Rect;

    const ROOT: Window = 1;
    /// Two clients' bases of resource numbers.
    const EDITOR: Window = 0x20_0000;
    const OTHER: Window = 0x40_0000;

    /// A screen of 800x600 without windows.
    fn screen() -> Windows {
        Windows {
            root: ROOT,
            size: (800, 600),
            own_bits: 0x1f_ffff,
            nodes: HashMap::new(),
            stack: Vec::new(),
            fresh: Vec::new(),
            generation: 0,
            covers: Default::default(),
            around: HashMap::new(),
        }
    }

    /// Shows a window, above the windows that there are.
    fn show(
        windows: &mut Windows,
        window: Window,
        parent: Window,
        (x, y, width, height): (i32, i32, u16, u16),
    ) {
        windows.insert(window, parent);
        windows.place(window, (x, y), (width, height), 0);
        let node = windows.nodes.get_mut(&window).expect("it is followed");
        (node.is_mapped, node.is_adopted, node.look) = (true, true, Look::Opaque);
        windows.generation += 1;
    }

    #[test]
    fn a_window_is_seen_when_enough_of_it_was_drawn_and_shows() {
        let mut windows = screen();
        show(&mut windows, EDITOR, ROOT, (0, 0, 100, 100));
        assert!(!windows.is_seen(EDITOR), "nothing is drawn");
        windows.drew(EDITOR, PIXELS_LEAST - 1);
        assert!(!windows.is_seen(EDITOR));
        windows.drew(EDITOR, 1);
        assert!(windows.is_seen(EDITOR));
        windows.place(EDITOR, (-97, 0), (100, 100), 0);
        assert!(windows.is_seen(EDITOR), "300 pixels are on the screen");
        windows.place(EDITOR, (-98, 0), (100, 100), 0);
        assert!(!windows.is_seen(EDITOR), "200 are");
    }

    #[test]
    fn a_window_hides_what_is_below_it_once_it_is_drawn() {
        let mut windows = screen();
        show(&mut windows, EDITOR, ROOT, (0, 0, 100, 100));
        windows.drew(EDITOR, 10_000);
        show(&mut windows, OTHER, ROOT, (0, 0, 800, 600));
        assert!(windows.is_seen(EDITOR));
        windows.drew(OTHER, 10_000);
        assert!(windows.is_seen(OTHER) && !windows.is_seen(EDITOR));
        let node = windows.nodes.get_mut(&OTHER).expect("it is followed");
        node.shape = Some(Rect::new(50, 0, 750, 600).into());
        windows.generation += 1;
        assert!(windows.is_seen(EDITOR), "half of it shows");
    }

    #[test]
    fn in_a_frame_what_is_within_the_frame_shows() {
        let mut windows = screen();
        show(&mut windows, OTHER, ROOT, (100, 100, 50, 50));
        show(&mut windows, EDITOR, OTHER, (40, 40, 500, 500));
        windows.drew(EDITOR, 10_000);
        assert!(!windows.is_seen(EDITOR), "10x10 of it is in the frame");
        windows.place(EDITOR, (10, 10), (500, 500), 0);
        assert!(windows.is_seen(EDITOR));
        windows.nodes.get_mut(&OTHER).expect("it is followed").is_mapped = false;
        windows.generation += 1;
        assert!(!windows.is_seen(EDITOR), "the frame is not shown");
    }

    #[test]
    fn the_outermost_window_of_a_client_is_found_in_another_s_frame() {
        let mut windows = screen();
        show(&mut windows, OTHER, ROOT, (0, 0, 300, 300));
        show(&mut windows, EDITOR, OTHER, (0, 0, 300, 300));
        show(&mut windows, EDITOR + 1, EDITOR, (0, 0, 1, 1));
        assert_eq!(windows.outermost_followed(EDITOR + 1, EDITOR), Some(EDITOR));
        assert_eq!(windows.outermost_followed(OTHER, OTHER), Some(OTHER));
        assert_eq!(windows.outermost_followed(EDITOR + 2, EDITOR), None);
    }
}
