//! Texts for kinds of error: what is wrong with the values, and which elements are wrong.

use serde::Serialize;
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::kind::{ErrorKind, ErrorRegion, Relation};

use crate::number::{counted, grouped, json_optional_float, significant};
use crate::words::{arg_words, task_reference};

/// Digits of a factor or an offset.
const DIGITS: usize = 4;

/// The JSON document of a kind of error.
#[derive(Serialize)]
pub struct KindDocument {
    /// `sign`, `nan`, `zero`, `shifted` and so on.
    relation: &'static str,
    /// The factor, offset, distance or value of the relation.
    #[serde(serialize_with = "json_optional_float")]
    value: Option<f64>,
    /// Number of wrong elements among the checked ones.
    failing: u64,
    looked_at: u64,
    elements: u64,
    /// The same as text.
    words: String,
}

impl KindDocument {
    /// The document of an error in a task of this graph.
    #[must_use]
    pub fn of(graph: &TaskGraph, kind: &ErrorKind) -> KindDocument {
        let ErrorKind { relation, failing, elements, looked_at, .. } = kind;
        #[expect(clippy::cast_precision_loss, reason = "a few elements")]
        let value = match *relation {
            Relation::Scaled(value)
            | Relation::Offset(value)
            | Relation::Constant(value)
            | Relation::Near(value) => Some(value),
            Relation::Shifted(by) | Relation::InputsShifted(by) => Some(by as f64),
            _ => None,
        };
        let (failing, looked_at, elements) = (*failing, *looked_at, *elements);
        KindDocument {
            relation: relation.name(),
            value,
            failing,
            looked_at,
            elements,
            words: kind_words(graph, kind),
        }
    }
}

/// The whole description: `the wrong sign, in all 256 elements`.
#[must_use]
pub fn kind_words(graph: &TaskGraph, kind: &ErrorKind) -> String {
    let what = relation_words(graph, kind);
    if kind.relation == Relation::AsItCame {
        return what;
    }
    let part = match kind.looked_at < kind.elements {
        true => {
            format!(
                " (only the first {} of {} were checked)",
                grouped(kind.looked_at),
                grouped(kind.elements)
            )
        }
        false => String::new(),
    };
    format!("{what}, {}{part}", spot_words(kind))
}

/// What the values are. The text follows `it shows`.
fn relation_words(graph: &TaskGraph, kind: &ErrorKind) -> String {
    let apart = |by: i64| {
        let way = if by > 0 { "later" } else { "earlier" };
        format!("{} {way}", counted(by.unsigned_abs(), "element"))
    };
    match &kind.relation {
        Relation::AsItCame => "the same content as before the task".into(),
        Relation::Nan => "NaN".into(),
        Relation::Infinite => "infinite values".into(),
        Relation::NotFinite { nan, infinite } => {
            let parts = [(*nan, "NaN"), (*infinite, "infinite")];
            let parts = parts.iter().filter(|(count, _)| *count > 0);
            let parts: Vec<String> =
                parts.map(|(count, word)| format!("{} {word}", grouped(*count))).collect();
            format!("{} and wrong numbers", parts.join(", "))
        }
        Relation::Wrapped => "values off by half the range of their dtype, as integers that wrapped".into(),
        Relation::Sign => "the wrong sign".into(),
        Relation::Zero => "zeros, as in uninitialized memory".into(),
        Relation::Constant(value) => format!("the same value {}", significant(*value, DIGITS)),
        Relation::Earlier { task, arg_index, stage } => {
            let task = graph.task(*task);
            format!(
                "old content: the same bytes as {} {} {}",
                arg_words(task, *arg_index),
                stage.word(),
                task_reference(task)
            )
        }
        Relation::Shifted(by) => format!("shifted values: each is the value expected {}", apart(*by)),
        Relation::Transposed => "transposed values: the last two axes are swapped".into(),
        Relation::Scaled(factor) => format!("values scaled by {}", significant(*factor, DIGITS)),
        Relation::Offset(by) => format!("values off by the constant {}", significant(*by, DIGITS)),
        Relation::Moved => "the right values in the wrong places".into(),
        Relation::InputsShifted(by) => {
            format!("the result of inputs read in the wrong place, {}", apart(*by))
        }
        Relation::Near(share) => {
            format!("values close to the expected ones, at most {} % off", significant(share * 100.0, 3))
        }
        Relation::Other => "wrong values".into(),
    }
}

/// Which elements are wrong.
fn spot_words(kind: &ErrorKind) -> String {
    let elements = grouped(kind.looked_at);
    match &kind.spot {
        ErrorRegion::Everywhere => format!("in all {elements} elements"),
        ErrorRegion::One { .. } if kind.looked_at == 1 => "in its only element".into(),
        ErrorRegion::One { coordinate, is_last: true } => {
            format!("only in the last of {elements} elements, {coordinate:?}")
        }
        ErrorRegion::One { coordinate, .. } => format!("only in element {coordinate:?} of {elements}"),
        ErrorRegion::Axis { axis, axes, extent, first, last, step } => {
            let (one, many) = match (axes, axis) {
                (2, 0) => ("row", "rows"),
                (2, _) => ("column", "columns"),
                _ => ("position", "positions"),
            };
            let of = if *axes == 2 { String::new() } else { format!(" on axis {axis}") };
            let of_all = format!("of {extent} {many}");
            match (last - first, step) {
                (0, _) if last + 1 == *extent => format!("only in {one} {first}{of}, the last"),
                (0, _) => format!("only in {one} {first}{of} ({of_all})"),
                (_, 1) => format!("only in {many} {first} to {last}{of} ({of_all})"),
                _ => format!("only in every {} {one}{of}, from {first} to {last}", ordinal(*step)),
            }
        }
        ErrorRegion::Range { first, last, to_end: true } => {
            format!(
                "only in elements {first} to {last}, the last {} of {elements}",
                grouped(last - first + 1)
            )
        }
        ErrorRegion::Range { first, last, .. } => format!("only in elements {first} to {last} of {elements}"),
        ErrorRegion::Every { step, first } => {
            format!("only in every {} element, starting at element {first}", ordinal(*step))
        }
        ErrorRegion::Block(bounds) => format!("only in the block {}", slice(bounds)),
        ErrorRegion::Scattered(bounds) => {
            format!("in {} of {elements} elements, all within {}", grouped(kind.failing), slice(bounds))
        }
    }
}

/// `2nd`, `16th`.
fn ordinal(number: u64) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{}{ending}", grouped(number))
}

/// A box in the syntax of `--slice`.
fn slice(bounds: &[(u64, u64)]) -> String {
    let ranges: Vec<String> = bounds.iter().map(|(low, high)| format!("{low}:{}", high + 1)).collect();
    ranges.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(relation: Relation, spot: ErrorRegion) -> ErrorKind {
        ErrorKind { relation, spot, failing: 3, elements: 24, looked_at: 24 }
    }

    #[test]
    fn describes_the_position_of_wrong_elements() {
        let said = |spot| spot_words(&kind(Relation::Other, spot));
        let axis =
            |axis, axes, first, last, step| ErrorRegion::Axis { axis, axes, extent: 6, first, last, step };
        assert_eq!(said(ErrorRegion::Everywhere), "in all 24 elements");
        assert_eq!(said(axis(0, 2, 5, 5, 1)), "only in row 5, the last");
        assert_eq!(said(axis(1, 2, 0, 0, 1)), "only in column 0 (of 6 columns)");
        assert_eq!(said(axis(1, 2, 1, 5, 2)), "only in every 2nd column, from 1 to 5");
        assert_eq!(said(axis(2, 3, 1, 3, 1)), "only in positions 1 to 3 on axis 2 (of 6 positions)");
        assert_eq!(
            said(ErrorRegion::Every { step: 16, first: 15 }),
            "only in every 16th element, starting at element 15"
        );
        assert_eq!(
            said(ErrorRegion::One { coordinate: vec![3, 5], is_last: true }),
            "only in the last of 24 elements, [3, 5]"
        );
        let range = ErrorRegion::Range { first: 20, last: 23, to_end: true };
        assert_eq!(said(range), "only in elements 20 to 23, the last 4 of 24");
        assert_eq!(
            said(ErrorRegion::Scattered(vec![(0, 2), (1, 4)])),
            "in 3 of 24 elements, all within 0:3,1:5"
        );
        assert_eq!(
            [1, 2, 3, 11, 12, 21, 112].map(ordinal),
            ["1st", "2nd", "3rd", "11th", "12th", "21st", "112th"]
        );
    }
}
