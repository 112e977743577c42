//! The parts that pages and printed reports share: [`words`] for numbers, escaping of text inside HTML and
//! SVG, one [`style`] sheet, the beginning and end of pages ([`html`]), and parts of charts ([`chart`]).

pub mod chart;
pub mod html;
mod markup;
pub mod style;
pub mod words;

pub use markup::{escape, escape_json};
