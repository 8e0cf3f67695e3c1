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
