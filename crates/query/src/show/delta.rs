//! What a kernel changed in an argument that it read and wrote.

use std::fmt::Write;

use serde::Serialize;
use tensortap::DType;
use tensortap::format::{Dump, FormatError, Record};
use tensortap::values::{Element, decode_bits, decode_block, elements_in};

use crate::Progress;
use crate::number::{grouped, json_float, significant};

/// Both payloads pass in pieces of this many bytes: whole elements of every dtype.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes compared as a whole before any element is looked at; at most [`ELEMENTS`] elements.
const BLOCK_BYTES: usize = 512;
const ELEMENTS: usize = 2 * BLOCK_BYTES;
/// Changed elements that are shown.
const FIRST: usize = 8;

/// The change of one argument.
#[derive(Debug, Default, Serialize)]
pub struct Delta {
    /// Record of what the task was given.
    pub before: u64,
    /// Record of what it left.
    pub after: u64,
    /// Elements compared.
    pub elements: u64,
    /// Elements whose bits changed.
    pub changed: u64,
    /// Lowest and highest changed position along each axis; none when nothing changed.
    pub first_changed: Option<Vec<u64>>,
    /// The highest.
    pub last_changed: Option<Vec<u64>>,
    /// The greatest change between two finite values.
    pub greatest: Option<Greatest>,
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
    /// What it was.
    pub before: String,
    /// What it became.
    pub after: String,
}

/// The element that changed most.
#[derive(Clone, Debug, Serialize)]
pub struct Greatest {
    /// How much.
    #[serde(serialize_with = "json_float")]
    pub by: f64,
    /// Where, from what, to what.
    #[serde(flatten)]
    pub change: Change,
}

/// Compares what a task was given with what it left, bit by bit. `progress` is told bytes.
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
    /// Elements behind.
    position: u64,
    low: Vec<u64>,
    high: Vec<u64>,
    /// Position, old and new bits of the greatest change.
    greatest: Option<(f64, u64, u64, u64)>,
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
        // A last odd nibble has a neighbour that is none.
        let count = held.min(self.numel - self.position);
        if old != new {
            self.elements(old, new, usize::try_from(count).unwrap_or(0));
        }
        self.position += count;
    }

    fn elements(&mut self, old: &[u8], new: &[u8], count: usize) {
        let (mut old_bits, mut new_bits) = ([0; ELEMENTS], [0; ELEMENTS]);
        let (mut old_values, mut new_values) = ([0.0; ELEMENTS], [0.0; ELEMENTS]);
        decode_bits(self.dtype, old, &mut old_bits);
        decode_bits(self.dtype, new, &mut new_bits);
        decode_block(self.dtype, old, &mut old_values);
        decode_block(self.dtype, new, &mut new_values);
        for place in (0..count.min(ELEMENTS)).filter(|&place| old_bits[place] != new_bits[place]) {
            let position = self.position + place as u64;
            self.changed(position, old_bits[place], new_bits[place], new_values[place] - old_values[place]);
        }
    }

    fn changed(&mut self, position: u64, old: u64, new: u64, difference: f64) {
        let at = coordinate(position, self.shape);
        for ((low, high), &at) in self.low.iter_mut().zip(&mut self.high).zip(&at) {
            (*low, *high) = ((*low).min(at), (*high).max(at));
        }
        self.delta.changed += 1;
        let by = difference.abs();
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

    fn change(&self, at: Vec<u64>, before: u64, after: u64) -> Change {
        let text = |bits| Element { dtype: self.dtype, bits }.to_string();
        Change { at, before: text(before), after: text(after) }
    }

    fn end(mut self) -> Delta {
        self.delta.elements = self.position;
        self.delta.greatest = self.greatest.map(|(by, position, old, new)| Greatest {
            by,
            change: self.change(coordinate(position, self.shape), old, new),
        });
        if self.delta.changed > 0 {
            (self.delta.first_changed, self.delta.last_changed) = (Some(self.low), Some(self.high));
        }
        self.delta
    }
}

/// The position along each axis of an element of a contiguous tensor.
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
    /// The box of all changes, as `--slice` takes it.
    pub fn bounds(&self) -> Option<String> {
        let (first, last) = (self.first_changed.as_ref()?, self.last_changed.as_ref()?);
        let ranges: Vec<String> =
            first.iter().zip(last).map(|(first, last)| format!("{first}:{}", last + 1)).collect();
        Some(ranges.join(","))
    }

    /// In words.
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
        if let Some(Greatest { by, change }) = &self.greatest {
            let _ = writeln!(text, "  greatest      by {}, {}", significant(*by, 6), change.text());
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

/// Three digits; never 0 % of something, never 100 % of less than all.
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
    fn shares_are_never_rounded_to_none_or_all() {
        assert_eq!(percent(1, 4), "25.0 %");
        assert_eq!(percent(4, 4), "100 %");
        assert_eq!(percent(999_999, 1_000_000), "> 99.9 %");
        assert_eq!(percent(1, 1_000_000), "1.00e-4 %");
    }

    proptest! {
        #[test]
        fn a_coordinate_leads_back_to_its_position(shape in proptest::collection::vec(1u64..6, 0..5), seed: u64) {
            let position = seed % shape.iter().product::<u64>();
            let at = coordinate(position, &shape);
            let back = at.iter().zip(&shape).fold(0, |sum, (at, size)| sum * size + at);
            prop_assert_eq!(back, position);
        }
    }
}
