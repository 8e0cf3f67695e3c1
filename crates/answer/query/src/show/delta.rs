//! What a kernel changed in an in-out argument.

use std::fmt::Write;

use serde::Serialize;
use tensortap::DType;
use tensortap::format::{Dump, FormatError, Record};
use tensortap::values::{Element, decode_block, element_bits, elements_in};

use crate::Progress;
use crate::number::{grouped, json_float, significant};

/// Both payloads are read in pieces of this many bytes: whole elements of every dtype.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes compared at once before single elements are compared; at most [`ELEMENTS`] elements.
const BLOCK_BYTES: usize = 512;
const ELEMENTS: usize = 2 * BLOCK_BYTES;
/// Number of changed elements that are shown.
const FIRST: usize = 8;

/// The change of one argument.
#[derive(Debug, Default, Serialize)]
pub struct Delta {
    /// Index of the record before the task.
    pub before: u64,
    /// Index of the record after the task.
    pub after: u64,
    /// Compared elements.
    pub elements: u64,
    /// Elements whose bits changed.
    pub changed: u64,
    /// Lowest changed position along each axis; null if nothing changed.
    pub first_changed: Option<Vec<u64>>,
    /// Highest changed position along each axis; null if nothing changed.
    pub last_changed: Option<Vec<u64>>,
    /// The largest change between two finite values.
    pub greatest: Option<LargestChange>,
    /// Changed elements that were or became NaN or infinite.
    pub not_finite: u64,
    /// The first changed elements.
    pub changes: Vec<Change>,
}

/// One changed element.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Position along each axis.
    pub at: Vec<u64>,
    /// Value before the task.
    pub before: String,
    /// Value after the task.
    pub after: String,
}

/// The element with the largest change.
#[derive(Clone, Debug, Serialize)]
pub struct LargestChange {
    /// Magnitude of the change.
    #[serde(serialize_with = "json_float")]
    pub by: f64,
    /// Position and values.
    #[serde(flatten)]
    pub change: Change,
}

/// Compares an argument before and after its task bit by bit. `progress` counts bytes.
pub fn between(
    dump: &Dump,
    before: &Record,
    after: &Record,
    progress: &Progress<'_>,
) -> Result<Delta, FormatError> {
    let mut changes = Changes::new(before, after);
    let bytes = before.bin_size.min(after.bin_size);
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < bytes {
        let length = usize::try_from(bytes - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        old.resize(length, 0);
        new.resize(length, 0);
        dump.payload_part(before, at, &mut old)?;
        dump.payload_part(after, at, &mut new)?;
        for (old, new) in old.chunks(BLOCK_BYTES).zip(new.chunks(BLOCK_BYTES)) {
            changes.block(old, new);
        }
        at += length as u64;
        progress(at, bytes);
    }
    Ok(changes.end())
}

struct Changes<'r> {
    dtype: DType,
    shape: &'r [u64],
    numel: u64,
    /// Number of elements already compared.
    position: u64,
    low: Vec<u64>,
    high: Vec<u64>,
    /// Magnitude, position, old and new bits of the largest change.
    greatest: Option<(f64, u64, u128, u128)>,
    delta: Delta,
}

impl<'r> Changes<'r> {
    fn new(before: &'r Record, after: &Record) -> Changes<'r> {
        let shape = before.shape();
        Changes {
            dtype: before.dtype,
            shape,
            numel: before.numel,
            position: 0,
            low: vec![u64::MAX; shape.len()],
            high: vec![0; shape.len()],
            greatest: None,
            delta: Delta { before: before.index, after: after.index, ..Delta::default() },
        }
    }

    fn block(&mut self, old: &[u8], new: &[u8]) {
        let held = elements_in(self.dtype, old.len()) as u64;
        // The padding after a last odd nibble is not an element.
        let count = held.min(self.numel - self.position);
        if old != new {
            self.elements(old, new, usize::try_from(count).unwrap_or(0));
        }
        self.position += count;
    }

    fn elements(&mut self, old: &[u8], new: &[u8], count: usize) {
        let (mut old_values, mut new_values) = ([0.0; ELEMENTS], [0.0; ELEMENTS]);
        decode_block(self.dtype, old, &mut old_values);
        decode_block(self.dtype, new, &mut new_values);
        for place in 0..count.min(ELEMENTS) {
            let bits = |side| element_bits(self.dtype, side, place).unwrap_or_default();
            let (old_bits, new_bits) = (bits(old), bits(new));
            if old_bits != new_bits {
                let by = self.distance(&old_values, &new_values, place);
                self.changed(self.position + place as u64, old_bits, new_bits, by);
            }
        }
    }

    /// Magnitude of the change of an element.
    fn distance(&self, old: &[f64], new: &[f64], place: usize) -> f64 {
        match self.dtype.is_complex() {
            true => (new[2 * place] - old[2 * place]).hypot(new[2 * place + 1] - old[2 * place + 1]),
            false => (new[place] - old[place]).abs(),
        }
    }

    fn changed(&mut self, position: u64, old: u128, new: u128, by: f64) {
        let at = coordinate(position, self.shape);
        for ((low, high), &at) in self.low.iter_mut().zip(&mut self.high).zip(&at) {
            (*low, *high) = ((*low).min(at), (*high).max(at));
        }
        self.delta.changed += 1;
        if !by.is_finite() {
            self.delta.not_finite += 1;
        } else if self.greatest.is_none_or(|(most, ..)| by > most) {
            self.greatest = Some((by, position, old, new));
        }
        if self.delta.changes.len() < FIRST {
            let change = self.change(at, old, new);
            self.delta.changes.push(change);
        }
    }

    fn change(&self, at: Vec<u64>, before: u128, after: u128) -> Change {
        let text = |bits| Element { dtype: self.dtype, bits }.to_string();
        Change { at, before: text(before), after: text(after) }
    }

    fn end(mut self) -> Delta {
        self.delta.elements = self.position;
        self.delta.greatest = self.greatest.map(|(by, position, old, new)| LargestChange {
            by,
            change: self.change(coordinate(position, self.shape), old, new),
        });
        if self.delta.changed > 0 {
            (self.delta.first_changed, self.delta.last_changed) = (Some(self.low), Some(self.high));
        }
        self.delta
    }
}

/// The coordinate of an element of a contiguous tensor.
pub fn coordinate(position: u64, shape: &[u64]) -> Vec<u64> {
    let mut left = position;
    let mut at: Vec<u64> = shape
        .iter()
        .rev()
        .map(|&size| {
            let here = left % size.max(1);
            left /= size.max(1);
            here
        })
        .collect();
    at.reverse();
    at
}

impl Delta {
    /// The bounding box of all changes, in the syntax of `--slice`.
    pub fn bounds(&self) -> Option<String> {
        let (first, last) = (self.first_changed.as_ref()?, self.last_changed.as_ref()?);
        let ranges: Vec<String> =
            first.iter().zip(last).map(|(first, last)| format!("{first}:{}", last + 1)).collect();
        Some(ranges.join(","))
    }

    /// The change as text.
    pub fn text(&self) -> String {
        let (changed, elements) = (grouped(self.changed), grouped(self.elements));
        if self.changed == 0 {
            return format!("none of {elements} elements changed\n");
        }
        let mut text =
            format!("{changed} of {elements} elements changed ({})\n", percent(self.changed, self.elements));
        if let Some(bounds) = self.bounds().filter(|bounds| !bounds.is_empty()) {
            let _ = writeln!(text, "  all within    --slice {bounds}");
        }
        if let Some(LargestChange { by, change }) = &self.greatest {
            let _ = writeln!(text, "  largest       by {}, {}", significant(*by, 6), change.text());
        }
        if self.not_finite > 0 {
            let _ = writeln!(
                text,
                "  not finite    {} changed from or to NaN or infinity",
                grouped(self.not_finite)
            );
        }
        for (place, change) in self.changes.iter().enumerate() {
            let label = if place == 0 { "first" } else { "" };
            let _ = writeln!(text, "  {label:<12}  {}", change.text());
        }
        text
    }
}

impl Change {
    fn text(&self) -> String {
        let at: Vec<String> = self.at.iter().map(u64::to_string).collect();
        format!("[{}]  {} -> {}", at.join(","), self.before, self.after)
    }
}

/// A percentage with three digits: never 0 % for a nonzero part, never 100 % for less than all.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    if part < whole && share > 99.9 { "> 99.9 %".into() } else { format!("{} %", significant(share, 3)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn never_rounds_percentages_to_zero_or_all() {
        assert_eq!(percent(1, 4), "25.0 %");
        assert_eq!(percent(4, 4), "100 %");
        assert_eq!(percent(999_999, 1_000_000), "> 99.9 %");
        assert_eq!(percent(1, 1_000_000), "1.00e-4 %");
    }

    proptest! {
        #[test]
        fn a_coordinate_gives_back_its_position(shape in proptest::collection::vec(1u64..6, 0..5), seed: u64) {
            let position = seed % shape.iter().product::<u64>();
            let at = coordinate(position, &shape);
            let back = at.iter().zip(&shape).fold(0, |sum, (at, size)| sum * size + at);
            prop_assert_eq!(back, position);
        }
    }
}
