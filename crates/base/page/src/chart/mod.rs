//! The parts that all kinds of charts share: scales with their ticks, colours of series, and SVG elements.

mod canvas;
mod scale;

pub use self::canvas::{Canvas, Point};
pub use self::scale::{Kind, Scale};

use crate::markup::escape;

/// How many colours the style sheet has for series.
const COLOURS: usize = 6;

/// The classes of a series, by its number from 0: its colour, and `dashed` if the colour is
/// used a second time.
pub fn series(nth: usize) -> String {
    let dashed = if nth >= COLOURS { " dashed" } else { "" };
    format!("s{}{dashed}", nth % COLOURS)
}

/// The names and colours of all series in their order, as a paragraph of HTML.
pub fn legend<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let keys = names.into_iter().enumerate().map(|(nth, name)| {
        let key = if nth >= COLOURS { "▧" } else { "■" };
        format!("<span class=\"key s{}\">{key}</span> {}", nth % COLOURS, escape(name))
    });
    format!("<p class=\"note\">{}</p>", keys.collect::<Vec<_>>().join(" &nbsp; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_come_again_dashed() {
        assert_eq!([0, 5, 6].map(series), ["s0", "s5", "s0 dashed"]);
        let legend = legend(["<a>", "b", "c", "d", "e", "f", "g"]);
        assert!(legend.contains("<span class=\"key s0\">■</span> &lt;a&gt;"), "{legend}");
        assert!(legend.contains("<span class=\"key s0\">▧</span> g"), "{legend}");
    }
}
