//! Choices that no analysis can follow are errors.

use spry_analysis::{Engine, Error, Options, Selection};
use spry_trace::Header;

#[test]
fn choices_that_cannot_be_are_refused() {
    let engine = |selection, options| Engine::new(&Header::default(), selection, options).err();
    let named = Options { analyses: vec!["magic".into()], ..Options::default() };
    assert_eq!(engine(Selection::default(), named), Some(Error::UnknownAnalysis { name: "magic".into() }));
    let rate = Options { rates_hz: vec![0], ..Options::default() };
    assert_eq!(engine(Selection::default(), rate), Some(Error::Rate { hz: 0 }));
    let window = Selection { from_ns: 5, to_ns: Some(5), ..Selection::default() };
    assert_eq!(engine(window, Options::default()), Some(Error::Window { from_ns: 5, to_ns: 5 }));
}
