//! Writes SVG elements one after another; texts are escaped.

use std::fmt::Write as _;

use crate::markup::escape;

/// A place in a picture, in pixels to the right and downwards.
pub type Point = (f64, f64);

/// A picture that is being drawn. The classes are in the style sheet.
#[derive(Clone, Default, Debug)]
pub struct Canvas {
    svg: String,
}

impl Canvas {
    /// Draws a text at a place.
    pub fn text(&mut self, class: &str, (x, y): Point, text: &str) {
        _ = write!(self.svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
    }

    /// Draws a text that is read from below upwards, with its middle at a place.
    pub fn upward_text(&mut self, (x, y): Point, text: &str) {
        _ = write!(
            self.svg,
            "<text class=\"middle\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\">{}</text>",
            escape(text)
        );
    }

    /// Draws a line from the left to the right.
    pub fn across(&mut self, class: &str, (x, y): Point, to_x: f64) {
        _ = write!(self.svg, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}H{to_x:.1}\"/>");
    }

    /// Draws a line upwards or downwards.
    pub fn upright(&mut self, class: &str, (x, y): Point, to_y: f64) {
        _ = write!(self.svg, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}V{to_y:.1}\"/>");
    }

    /// Draws a line through some points. If it has a name, the name is shown when a person
    /// points at the line.
    pub fn curve(&mut self, class: &str, points: impl IntoIterator<Item = Point>, name: &str) {
        _ = write!(self.svg, "<path class=\"{class}\" d=\"");
        for (at, (x, y)) in points.into_iter().enumerate() {
            _ = write!(self.svg, "{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
        }
        self.svg += "\"";
        self.end("path", name);
    }

    /// Draws a rectangle, given by its upper left corner, width and height. If it has a name, the name is
    /// shown when a person points at the rectangle.
    pub fn rectangle(&mut self, class: &str, (x, y): Point, (w, h): (f64, f64), name: &str) {
        _ = write!(
            self.svg,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\""
        );
        self.end("rect", name);
    }

    /// Draws a dot. If it has a name, the name is shown when a person points at the dot.
    pub fn dot(&mut self, class: &str, (x, y): Point, radius: f64, name: &str) {
        _ = write!(self.svg, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"");
        self.end("circle", name);
    }

    fn end(&mut self, element: &str, name: &str) {
        if name.is_empty() {
            self.svg += "/>";
        } else {
            _ = write!(self.svg, "><title>{}</title></{element}>", escape(name));
        }
    }

    /// Draws what `draw` draws, with the origin at this place.
    pub fn at(&mut self, (x, y): Point, draw: impl FnOnce(&mut Canvas)) {
        _ = write!(self.svg, "<g transform=\"translate({x:.1} {y:.1})\">");
        draw(self);
        self.svg += "</g>";
    }

    /// All elements, without the `svg` element around them.
    pub fn into_svg(self) -> String {
        self.svg
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_an_element() {
        let mut canvas = Canvas::default();
        canvas.at((1.0, 2.0), |canvas| {
            canvas.text("end", (0.0, 1.25), "</text>");
            canvas.curve("curve s0", [(0.0, 1.0), (2.0, 3.0)], "</path>");
            canvas.dot("dot s0", (1.0, 1.0), 2.5, "");
        });
        let expected = "<g transform=\"translate(1.0 2.0)\">\
                        <text class=\"end\" x=\"0.0\" y=\"1.2\">&lt;/text&gt;</text>\
                        <path class=\"curve s0\" d=\"M0.0 1.0L2.0 3.0\"><title>&lt;/path&gt;</title></path>\
                        <circle class=\"dot s0\" cx=\"1.0\" cy=\"1.0\" r=\"2.5\"/></g>";
        assert_eq!(canvas.into_svg(), expected);
    }
}
