//! Parts of a screen, as rectangles that do not overlap.

use std::iter;

/// A region keeps at most so many rectangles. A region that is cut into more loses the rest, so no client
/// gains by many small rectangles.
const RECTS_MAX: usize = 1024;

/// A rectangle from the pixel `left`, `top` to the pixel `right`, `bottom`, which is not part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rect {
    left: i32,
    top: i32,
    right: i32,
    bottom: i32,
}

/// A set of pixels.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Region {
    rects: Vec<Rect>,
}

impl Rect {
    /// A rectangle with this upper left corner and this size.
    pub(crate) fn new(x: i32, y: i32, width: u16, height: u16) -> Rect {
        Rect { left: x, top: y, right: x + i32::from(width), bottom: y + i32::from(height) }
    }

    fn and(self, other: Rect) -> Option<Rect> {
        let both = Rect {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        };
        (both.left < both.right && both.top < both.bottom).then_some(both)
    }

    /// The part of this rectangle that is not in the other: up to four rectangles.
    fn without(self, other: Rect) -> impl Iterator<Item = Rect> {
        let hole = self.and(other);
        let whole = hole.is_none().then_some(self);
        let around = hole.into_iter().flat_map(move |hole| {
            let above = Rect { bottom: hole.top, ..self };
            let below = Rect { top: hole.bottom, ..self };
            let left = Rect { right: hole.left, top: hole.top, bottom: hole.bottom, ..self };
            let right = Rect { left: hole.right, top: hole.top, bottom: hole.bottom, ..self };
            [above, below, left, right]
                .into_iter()
                .filter(|part| part.left < part.right && part.top < part.bottom)
        });
        whole.into_iter().chain(around)
    }

    fn pixels(self) -> u64 {
        u64::from(self.left.abs_diff(self.right)) * u64::from(self.top.abs_diff(self.bottom))
    }

    /// The rectangle, moved by so many pixels.
    pub(crate) fn moved(self, (x, y): (i32, i32)) -> Rect {
        Rect { left: self.left + x, top: self.top + y, right: self.right + x, bottom: self.bottom + y }
    }
}

impl From<Rect> for Region {
    fn from(rect: Rect) -> Region {
        Region { rects: rect.and(rect).into_iter().collect() }
    }
}

impl Region {
    /// A region of rectangles that do not overlap, as the server sends them.
    pub(crate) fn of_disjoint(rects: impl IntoIterator<Item = Rect>) -> Region {
        Region { rects: rects.into_iter().take(RECTS_MAX).collect() }
    }

    /// A region of any rectangles, which may overlap.
    pub(crate) fn of(rects: impl IntoIterator<Item = Rect>) -> Region {
        let mut region = Region::default();
        rects.into_iter().take(RECTS_MAX).for_each(|rect| region.add(&rect.into()));
        region
    }

    /// The number of pixels of the region.
    pub(crate) fn pixels(&self) -> u64 {
        self.rects.iter().map(|rect| rect.pixels()).sum()
    }

    /// Whether the region has no pixels.
    pub(crate) fn is_empty(&self) -> bool {
        self.rects.is_empty()
    }

    /// The pixels that are in both regions.
    #[must_use]
    pub(crate) fn and(&self, other: &Region) -> Region {
        let pairs = self.rects.iter().flat_map(|rect| iter::repeat(*rect).zip(&other.rects));
        Region::of_disjoint(pairs.filter_map(|(rect, other)| rect.and(*other)))
    }

    /// The pixels of this region that are not in the other.
    #[must_use]
    pub(crate) fn without(&self, other: &Region) -> Region {
        let mut left = self.clone();
        for hole in &other.rects {
            left = Region::of_disjoint(left.rects.iter().flat_map(|rect| rect.without(*hole)));
        }
        left
    }

    /// Adds the pixels of another region to this one.
    pub(crate) fn add(&mut self, other: &Region) {
        let more = other.without(self);
        let room = RECTS_MAX.saturating_sub(self.rects.len());
        self.rects.extend(more.rects.into_iter().take(room));
    }

    /// The region, moved by so many pixels.
    #[must_use]
    pub(crate) fn moved(&self, by: (i32, i32)) -> Region {
        Region { rects: self.rects.iter().map(|rect| rect.moved(by)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(parts: &[(i32, i32, u16, u16)]) -> Region {
        Region::of(parts.iter().map(|&(x, y, width, height)| Rect::new(x, y, width, height)))
    }

    #[test]
    fn a_hole_is_not_counted() {
        let whole = region(&[(0, 0, 10, 10)]);
        assert_eq!(whole.without(&region(&[(2, 2, 3, 3)])).pixels(), 91);
        assert_eq!(whole.without(&region(&[(-5, -5, 30, 30)])).pixels(), 0);
        assert_eq!(whole.without(&region(&[(10, 0, 5, 5)])).pixels(), 100);
    }

    #[test]
    fn an_overlap_counts_once() {
        let two = region(&[(0, 0, 10, 10), (5, 5, 10, 10)]);
        assert_eq!(two.pixels(), 175);
        assert_eq!(two.and(&region(&[(0, 0, 6, 6)])).pixels(), 36);
        assert_eq!(two.moved((100, -100)).pixels(), 175);
    }

    #[test]
    fn a_region_counts_a_bounded_number_of_rectangles() {
        let dots = (0..100).flat_map(|x| (0..100).map(move |y| Rect::new(2 * x, 2 * y, 1, 1)));
        assert_eq!(Region::of_disjoint(dots).pixels(), RECTS_MAX as u64);
    }
}
