//! The shared palette as CSS variables.

use std::fmt::Write;

use tensortap_query::palette::{PLAIN, THEMED, labels};

/// CSS variables for every color of `query`'s palette: `--label-wrong_here-fill`, `--label-wrong_here-ink`,
/// `--plain-fill`, and those that differ on dark pages, such as `--dump`. Also the classes of chips and boxes
/// for each label. It must follow [`crate::assets::STYLE`], whose plain chips and boxes it overrides.
#[must_use]
pub fn css() -> String {
    let mut light = String::new();
    for (name, color) in labels().chain([("plain", PLAIN)]) {
        let prefix = if name == "plain" { "" } else { "label-" };
        let _ = write!(light, "--{prefix}{name}-fill:{};--{prefix}{name}-ink:{};", color.fill, color.ink);
    }
    let mut chips = String::new();
    for (name, _) in labels() {
        let (fill, ink) = (format!("var(--label-{name}-fill)"), format!("var(--label-{name}-ink)"));
        let _ = writeln!(chips, ".chip-{name}{{background:{fill};color:{ink}}}");
        let _ = writeln!(chips, ".box-{name} rect{{fill:{fill};stroke:{ink}}}.box-{name} text{{fill:{ink}}}");
    }
    let mut dark = String::new();
    for color in THEMED {
        let _ = write!(light, "--{}:{};", color.name, color.light);
        let _ = write!(dark, "--{}:{};", color.name, color.dark);
    }
    format!(":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n{chips}")
}
