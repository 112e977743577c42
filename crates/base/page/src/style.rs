//! The one style sheet of all pages, and the part of it for pictures.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The style of every page: colours of the light and the dark scheme, text, tables, charts. A page adds the
/// styles of elements that only it has.
pub const PAGE: &str = concat!(include_str!("style/page.css"), include_str!("style/chart.css"));

/// The part of the style sheet for charts.
const CHART: &str = include_str!("style/chart.css");

/// A style sheet for the picture `svg`, which is an SVG file of its own: the rules for charts and the rules
/// of `own`, in the light colours.
///
/// The result has no variables, because programs that draw SVG without a browser do not support them: a rule
/// that uses `--own` becomes one rule for each class in `svg` that sets `--own`. Such a rule must have one
/// selector. Rules of `own` in `@media` are left out; they must come last.
pub fn picture(svg: &str, own: &str) -> String {
    let classes: BTreeSet<&str> = svg
        .split("class=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .flat_map(str::split_whitespace)
        .collect();
    let values: Vec<(&str, &str)> = rules(PAGE).flat_map(|(_, body)| variables(body)).collect();
    let light = |body: &str| {
        let resolve =
            |body: String, (name, value): &(&str, &str)| body.replace(&format!("var({name})"), value);
        values.iter().filter(|(name, _)| *name != OWN).fold(body.to_owned(), resolve)
    };
    let all = || rules(CHART).chain(rules(own));
    let mut colours: Vec<(&str, String)> = Vec::new();
    for (selector, body) in all() {
        let own = variables(body).find(|(name, _)| *name == OWN);
        if let Some((_, value)) = own.filter(|_| classes.contains(selector.trim_start_matches('.'))) {
            colours.push((selector, light(value)));
        }
    }
    let mut out = String::new();
    for (selector, body) in all().filter(|(_, body)| variables(body).next().is_none()) {
        let body = light(body);
        if body.contains("var(--own)") {
            for (class, colour) in &colours {
                _ = writeln!(out, "{selector}{class} {{ {} }}", body.replace("var(--own)", colour));
            }
        } else {
            _ = writeln!(out, "{selector} {{ {body} }}");
        }
    }
    out
}

/// The variable for the individual colour of an element in a chart.
const OWN: &str = "--own";

/// The selectors and bodies of a style sheet, up to its first `@media`.
fn rules(sheet: &str) -> impl Iterator<Item = (&str, &str)> {
    let sheet = sheet.split("@media").next().unwrap_or(sheet);
    let rules = sheet.split('}').filter_map(|rule| rule.split_once('{'));
    rules.map(|(selector, body)| (selector.rsplit("*/").next().unwrap_or(selector).trim(), body.trim()))
}

/// The variables that a rule sets, with their values.
fn variables(body: &str) -> impl Iterator<Item = (&str, &str)> {
    let declarations = body.split(';').filter_map(|part| part.split_once(':'));
    declarations.map(|(name, value)| (name.trim(), value.trim())).filter(|(name, _)| name.starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_no_variables_and_only_its_own_colours() {
        let own = "/* Of a test. */ .hog { --own: #123; } .chart .bar { fill: var(--own); stroke: \
                   var(--card); }\n\
                   @media (prefers-color-scheme: dark) { .hog { --own: #fff; } }";
        let style = picture("<path class=\"curve s1\"/><rect class=\"bar hog\"/>", own);
        for rule in [
            ".chart .bar.hog { fill: #123; stroke: #fff; }",
            ".chart .curve.s1 { stroke: #c2570c; stroke-width: 2; stroke-linejoin: round; fill: none; }",
            ".chart .grid { stroke: #dfe3e8; fill: none; }",
        ] {
            assert!(style.contains(rule), "no `{rule}` in {style}");
        }
        assert!(!style.contains("var(") && !style.contains("--") && !style.contains(".s0"), "{style}");
    }

    #[test]
    fn every_colour_of_the_sheet_is_defined_in_light_and_dark() {
        for part in PAGE.split("var(").skip(1) {
            let name = part.split(')').next().unwrap_or_default();
            let defined = PAGE.matches(&format!("{name}:")).count();
            assert!(defined >= 2, "{name} is defined {defined} times");
        }
    }
}
