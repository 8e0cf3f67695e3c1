//! One palette for every picture. Colours never stand alone: whatever has one also says its word.

use tensortap::analysis::labels::Label;

/// A colour of a label: what an area is filled with, and what lines and letters on it are drawn with. Readable on light and dark pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// Of the area, `#rrggbb`.
    pub fill: &'static str,
    /// Of lines and letters on it.
    pub ink: &'static str,
}

/// What has no label.
pub const PLAIN: Colour = Colour { fill: "#e8eef7", ink: "#1f2d3d" };

/// The colour of a label.
#[must_use]
pub const fn of_label(label: Label) -> Colour {
    match label {
        Label::Ok => Colour { fill: "#d9efdc", ink: "#14532d" },
        Label::WrongHere => Colour { fill: "#f2b8b5", ink: "#7f1d1d" },
        Label::Inherited => Colour { fill: "#fbdcb2", ink: "#7c3d0a" },
        Label::Raced => Colour { fill: "#e3cdf5", ink: "#4c1d80" },
        Label::Fed => Colour { fill: "#c7dcfa", ink: "#1e3a8a" },
        Label::Masked => Colour { fill: "#f5efb3", ink: "#5f5200" },
        Label::Unknown => Colour { fill: "#e0e0e0", ink: "#3f3f46" },
    }
}

/// A colour that pictures of values use, for light pages and for dark ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Themed {
    /// What it stands for, in the letters of a style sheet's variable.
    pub name: &'static str,
    /// On light pages, `#rrggbb`.
    pub light: &'static str,
    /// On dark pages.
    pub dark: &'static str,
}

/// Colours of pictures of values. Dump and golden are told apart by those who see few colours, too, and by their lightness.
pub const THEMED: &[Themed] = &[
    Themed { name: "dump", light: "#1f6fb2", dark: "#6cb4ee" },
    Themed { name: "golden", light: "#c77700", dark: "#f0b04f" },
    // A signed scale: below zero, zero, above zero. A magnitude goes from zero to above.
    Themed { name: "below", light: "#1b5e9b", dark: "#6cb4ee" },
    Themed { name: "zero", light: "#f4f1ea", dark: "#20242c" },
    Themed { name: "above", light: "#b3401a", dark: "#ff8f5c" },
    // What is no number; pictures also mark it by a pattern.
    Themed { name: "nan", light: "#a3248f", dark: "#f07ce0" },
    Themed { name: "inf", light: "#4b2a99", dark: "#b59cff" },
];

/// Every label by its name, with its colour, in the order of reports.
pub fn labels() -> impl Iterator<Item = (&'static str, Colour)> {
    Label::ALL.into_iter().map(|label| (label.name(), of_label(label)))
}
