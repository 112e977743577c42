//! The beginning and the end of HTML pages, which can be opened without a network.

use crate::markup::escape;
use crate::style;

/// Whether a page may have scripts; scripts are always part of the page itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scripts {
    /// The page may have no scripts, whatever text a name contains.
    Forbidden,
    /// The page may have scripts.
    Inline,
}

/// The beginning of a page, up to its content. `title` is plain text; `own` is a style sheet for elements
/// that only this page has.
pub fn begin(title: &str, own: &str, scripts: Scripts) -> String {
    let scripts = match scripts {
        Scripts::Forbidden => "",
        Scripts::Inline => "; script-src 'unsafe-inline'",
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'{scripts}\">\
         <title>{}</title>\n<style>\n{}{own}</style></head><body><main>\n",
        escape(title),
        style::PAGE
    )
}

/// The end of a page.
pub const END: &str = "</main></body></html>\n";

/// Escapes a text of several lines; an element that holds it must keep the line feeds.
pub fn lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_may_have_scripts_only_where_it_says_so() {
        let page = |scripts| begin("<b>", ".x { color: red; }", scripts) + END;
        assert!(!page(Scripts::Forbidden).contains("script"));
        assert!(page(Scripts::Inline).contains("style-src 'unsafe-inline'; script-src 'unsafe-inline'\">"));
        assert!(page(Scripts::Inline).contains("<title>&lt;b&gt;</title>"));
    }
}
