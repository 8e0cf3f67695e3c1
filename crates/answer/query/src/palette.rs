//! The palette of all pictures. Color is never the only sign: colored items also have text.

use tensortap::analysis::labels::Label;

/// The color of a label: fill of an area, and ink for lines and text on it. Readable on light and dark pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelColor {
    /// Fill color, `#rrggbb`.
    pub fill: &'static str,
    /// Color of lines and text on it.
    pub ink: &'static str,
}

/// The color without a label.
pub const PLAIN: LabelColor = LabelColor { fill: "#e8eef7", ink: "#1f2d3d" };

/// The color of a label.
#[must_use]
pub const fn of_label(label: Label) -> LabelColor {
    match label {
        Label::Ok => LabelColor { fill: "#d9efdc", ink: "#14532d" },
        Label::WrongHere => LabelColor { fill: "#f2b8b5", ink: "#7f1d1d" },
        Label::Inherited => LabelColor { fill: "#fbdcb2", ink: "#7c3d0a" },
        Label::Raced => LabelColor { fill: "#e3cdf5", ink: "#4c1d80" },
        Label::Fed => LabelColor { fill: "#c7dcfa", ink: "#1e3a8a" },
        Label::Masked => LabelColor { fill: "#f5efb3", ink: "#5f5200" },
        Label::Unknown => LabelColor { fill: "#e0e0e0", ink: "#3f3f46" },
    }
}

/// A color for pictures of values, for light and dark pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThemeColor {
    /// Name of its CSS variable.
    pub name: &'static str,
    /// Color on light pages, `#rrggbb`.
    pub light: &'static str,
    /// Color on dark pages.
    pub dark: &'static str,
}

/// Colors for pictures of values. Dump and golden differ in lightness, too, so that color-blind users can
/// distinguish them.
pub const THEMED: &[ThemeColor] = &[
    ThemeColor { name: "dump", light: "#1f6fb2", dark: "#6cb4ee" },
    ThemeColor { name: "golden", light: "#c77700", dark: "#f0b04f" },
    // A signed scale: below zero, zero, above zero. Magnitudes go from zero to above.
    ThemeColor { name: "below", light: "#1b5e9b", dark: "#6cb4ee" },
    ThemeColor { name: "zero", light: "#f4f1ea", dark: "#20242c" },
    ThemeColor { name: "above", light: "#b3401a", dark: "#ff8f5c" },
    // NaN and infinities. Pictures also mark them with a pattern.
    ThemeColor { name: "nan", light: "#a3248f", dark: "#f07ce0" },
    ThemeColor { name: "inf", light: "#4b2a99", dark: "#b59cff" },
];

/// All labels by name, with their colors, in the order of reports.
pub fn labels() -> impl Iterator<Item = (&'static str, LabelColor)> {
    Label::ALL.into_iter().map(|label| (label.name(), of_label(label)))
}
