//! The one palette, as variables of a style sheet.

use std::fmt::Write;

use tensortap_query::palette::{PLAIN, THEMED, labels};

/// Variables for every colour of `query`'s palette: `--label-wrong_here-fill`, `--label-wrong_here-ink`, `--plain-fill`, and those that
/// differ on dark pages, such as `--dump`; and classes for each label's chips and boxes. It stands behind
/// [`crate::assets::STYLE`], whose plain chips and boxes these colour.
#[must_use]
pub fn css() -> String {
    let mut light = String::new();
    for (name, colour) in labels().chain([("plain", PLAIN)]) {
        let prefix = if name == "plain" { "" } else { "label-" };
        let _ = write!(light, "--{prefix}{name}-fill:{};--{prefix}{name}-ink:{};", colour.fill, colour.ink);
    }
    let mut chips = String::new();
    for (name, _) in labels() {
        let (fill, ink) = (format!("var(--label-{name}-fill)"), format!("var(--label-{name}-ink)"));
        let _ = writeln!(chips, ".chip-{name}{{background:{fill};color:{ink}}}");
        let _ = writeln!(chips, ".box-{name} rect{{fill:{fill};stroke:{ink}}}.box-{name} text{{fill:{ink}}}");
    }
    let mut dark = String::new();
    for colour in THEMED {
        let _ = write!(light, "--{}:{};", colour.name, colour.light);
        let _ = write!(dark, "--{}:{};", colour.name, colour.dark);
    }
    format!(":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n{chips}")
}
