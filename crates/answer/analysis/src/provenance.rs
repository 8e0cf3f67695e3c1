//! Decides whether an input is what its producers wrote.
//!
//! Evidence: the captured outputs that the input came from. If one output is the same view, the hashes
//! decide. Otherwise the input is assembled from the bytes of several outputs. An input that differs was
//! overwritten in between, or was read too early.

use std::ops::Range;

use tensortap_format::{Argument, ArgumentSnapshot, Dump, FormatError};

use crate::compare::{damage, unless_gone};
use crate::graph::view::{Piece, pieces};
use crate::graph::{OriginBasis, OutputRef, TaskGraph, TensorView};

/// Larger views are not assembled from several outputs.
const MAX_BYTES: u64 = 1 << 28;

/// Whether an input equals the captured outputs that it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputProvenance {
    /// Equal byte for byte.
    Same,
    /// The input differs: it changed after this output was captured, or the task read it before the write.
    Changed(OutputRef),
    /// Not known, with the reason.
    Unknown(String),
}

/// Compares an input with the captured outputs that it came from: by hash if one output is the same view,
/// otherwise by the bytes of each output. An input without a captured producer counts as
/// [`InputProvenance::Same`].
///
/// # Errors
/// A payload cannot be read.
pub fn input_provenance(
    dump: &Dump,
    graph: &TaskGraph,
    task: usize,
    arg: Argument<'_>,
) -> Result<InputProvenance, FormatError> {
    let [output, others @ ..] = graph.last_holders(arg) else { return Ok(InputProvenance::Same) };
    if let Some(answer) = by_hash(graph, arg, *output, others.is_empty()) {
        return Ok(answer);
    }
    if graph.origin(arg).basis != OriginBasis::Bytes {
        return Ok(among(graph, arg));
    }
    match by_bytes(dump, graph, arg)? {
        Some(InputProvenance::Changed(output)) => Ok(match damage_of(dump, graph, arg, output)? {
            Some(reason) => InputProvenance::Unknown(reason),
            None => InputProvenance::Changed(output),
        }),
        Some(answer) => Ok(answer),
        None => Ok(InputProvenance::Unknown(format!(
            "argument {} of task {:#x} is only part of what other tasks wrote, and not all payloads are \
             stored; record with --dump-tensor=full",
            arg.arg_index,
            graph.task(task).task_id
        ))),
    }
}

/// Decides by hash if one output is the whole input.
fn by_hash(
    graph: &TaskGraph,
    arg: Argument<'_>,
    output: OutputRef,
    is_only: bool,
) -> Option<InputProvenance> {
    let written = graph.output(output)?;
    let is_whole = match (TensorView::of(arg), TensorView::of(written)) {
        (Some(here), Some(there)) => here.is_same_view(&there),
        _ => is_only && arg.dtype == written.dtype && arg.shape() == written.shape(),
    };
    let same = arg.hash_before()? == written.hash_after()?;
    is_whole.then_some(if same { InputProvenance::Same } else { InputProvenance::Changed(output) })
}

/// Decides without addresses: the input equals one of the outputs, or the answer is unknown.
fn among(graph: &TaskGraph, arg: Argument<'_>) -> InputProvenance {
    let hash = arg.hash_before();
    let holds_it = |output: &OutputRef| graph.output(*output).and_then(|o| o.hash_after()) == hash;
    if hash.is_some() && graph.last_holders(arg).iter().any(holds_it) {
        InputProvenance::Same
    } else {
        InputProvenance::Unknown("the dump does not record which bytes came from which task".into())
    }
}

/// Compares the input with the bytes of each output, the newest first; `None` if a payload is missing.
fn by_bytes(
    dump: &Dump,
    graph: &TaskGraph,
    arg: Argument<'_>,
) -> Result<Option<InputProvenance>, FormatError> {
    let Some((here, before)) = TensorView::of(arg).zip(arg.before.filter(ArgumentSnapshot::is_stored)) else {
        return Ok(None);
    };
    let record = dump.record(before.record)?;
    let Some(own) = pieces(&here).filter(|_| record.bin_size <= MAX_BYTES) else { return Ok(None) };
    let mut outputs = Vec::new();
    for &output in graph.last_holders(arg) {
        let Some(written) = graph.output(output) else { return Ok(None) };
        let after = written.after.filter(ArgumentSnapshot::is_stored);
        let Some((there, after)) = TensorView::of(written).zip(after) else { return Ok(None) };
        outputs.push((output, there, after));
    }
    let unit = CompareUnit::of(outputs.iter().map(|(_, there, _)| there).chain([&here]));
    let Some(given) = unless_gone(dump.payload(&record))? else { return Ok(None) };
    let given = unit.split(given);
    let mut known = vec![false; given.len()];
    for (output, there, after) in outputs {
        let Some(theirs) = pieces(&there) else { return Ok(None) };
        let shared_ranges = shared_ranges(&own, &theirs, unit);
        let Some(first) = shared_ranges.iter().map(|s| s.there).min() else { continue };
        let end = shared_ranges.iter().map(|s| s.there + s.len).max().unwrap_or(first);
        let record = dump.record(after.record)?;
        let (first, bytes) = unit.bytes(first..end);
        let mut content = vec![0; bytes.end - bytes.start];
        if unless_gone(dump.payload_part(&record, bytes.start as u64, &mut content))?.is_none() {
            return Ok(None);
        }
        let content = unit.split(content);
        for SharedRange { here, there, len } in shared_ranges {
            for n in 0..len {
                if !known[here + n] && given[here + n] != content[there - first + n] {
                    return Ok(Some(InputProvenance::Changed(output)));
                }
                known[here + n] = true;
            }
        }
    }
    Ok(Some(InputProvenance::Same))
}

/// The damage of one of the two payloads that differ, if any.
fn damage_of(
    dump: &Dump,
    graph: &TaskGraph,
    arg: Argument<'_>,
    output: OutputRef,
) -> Result<Option<String>, FormatError> {
    let written = graph.output(output).and_then(|a| a.after);
    for captured in [arg.before, written].into_iter().flatten() {
        if let Some(reason) = damage(dump, &dump.record(captured.record)?)? {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

/// The unit in which contents are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompareUnit {
    HalfByte,
    Byte,
}

impl CompareUnit {
    /// Half-bytes if any view has elements of four bits.
    pub fn of<'p>(mut views: impl Iterator<Item = &'p TensorView>) -> CompareUnit {
        if views.any(|view| view.layout.elem_bits() < 8) { CompareUnit::HalfByte } else { CompareUnit::Byte }
    }

    pub const fn half_bytes(self) -> usize {
        match self {
            CompareUnit::HalfByte => 1,
            CompareUnit::Byte => 2,
        }
    }

    /// One unit in each byte of the result, the low half of a byte first.
    pub fn split(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            CompareUnit::HalfByte => bytes.into_iter().flat_map(|byte| [byte & 0xf, byte >> 4]).collect(),
            CompareUnit::Byte => bytes,
        }
    }

    /// Reverses [`split`](CompareUnit::split).
    pub fn join(self, units: Vec<u8>) -> Vec<u8> {
        match self {
            CompareUnit::HalfByte => units.chunks(2).map(|p| p[0] | p.get(1).unwrap_or(&0) << 4).collect(),
            CompareUnit::Byte => units,
        }
    }

    /// The bytes that hold these units, and the number of the first unit in them.
    pub fn bytes(self, units: Range<usize>) -> (usize, Range<usize>) {
        let bytes = units.start * self.half_bytes() / 2..(units.end * self.half_bytes()).div_ceil(2);
        (bytes.start * 2 / self.half_bytes(), bytes)
    }
}

/// A memory range that two views share: its position in the content of each, in units.
pub(crate) struct SharedRange {
    pub here: usize,
    pub there: usize,
    pub len: usize,
}

pub(crate) fn shared_ranges(own: &[Piece], theirs: &[Piece], unit: CompareUnit) -> Vec<SharedRange> {
    let units =
        |half_bytes: u128| usize::try_from(half_bytes / unit.half_bytes() as u128).unwrap_or(usize::MAX);
    let mut shared_ranges = Vec::new();
    // The pieces of a view have equal length, so sorting them by start also sorts them by end.
    let (first, end) = (theirs.first().map_or(0, |p| p.start), theirs.last().map_or(0, |p| p.end));
    let within = own.partition_point(|p| p.end <= first)..own.partition_point(|p| p.start < end);
    for piece in own.get(within).unwrap_or_default() {
        let from = theirs.partition_point(|p| p.end <= piece.start);
        for other in theirs[from..].iter().take_while(|p| p.start < piece.end) {
            let (start, end) = (piece.start.max(other.start), piece.end.min(other.end));
            shared_ranges.push(SharedRange {
                here: units(piece.at + (start - piece.start)),
                there: units(other.at + (start - other.start)),
                len: units(end.saturating_sub(start)),
            });
        }
    }
    shared_ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_geometry::Layout;

    #[test]
    fn ranges_shared_by_two_views_have_positions_in_both() {
        let matrix = Layout::contiguous(&[4, 4], 16).unwrap();
        let column = matrix.slice(1, 1, 1).unwrap();
        let row = matrix.slice(0, 2, 1).unwrap();
        let [matrix, column, row] =
            [matrix, column, row].map(|l| pieces(&TensorView::new(l, 0x1000)).unwrap());
        let places = |own, theirs| -> Vec<_> {
            shared_ranges(own, theirs, CompareUnit::Byte).iter().map(|s| (s.here, s.there, s.len)).collect()
        };
        assert_eq!(places(&column, &row), [(4, 2, 2)]);
        assert_eq!(places(&column, &matrix), [(0, 2, 2), (2, 10, 2), (4, 18, 2), (6, 26, 2)]);
        assert_eq!(places(&row, &matrix), [(0, 16, 8)]);
    }

    #[test]
    fn half_bytes_shared_by_two_views_have_positions_in_both() {
        let row = |first, elements| Layout::new(&[elements], &[1], first, 4).unwrap();
        let bytes = TensorView::new(Layout::contiguous(&[4], 8).unwrap(), 0x1000);
        let [odd, even] = [row(3, 4), row(0, 6)].map(|l| TensorView::new(l, 0x1000));
        let places = |own: &TensorView, theirs: &TensorView| -> Vec<_> {
            let unit = CompareUnit::of([own, theirs].into_iter());
            assert_eq!(unit, CompareUnit::HalfByte);
            let (own, theirs) = (pieces(own).unwrap(), pieces(theirs).unwrap());
            shared_ranges(&own, &theirs, unit).iter().map(|s| (s.here, s.there, s.len)).collect()
        };
        assert_eq!(places(&odd, &even), [(0, 3, 3)]);
        assert_eq!(places(&odd, &bytes), [(0, 3, 4)]);
        assert_eq!(CompareUnit::HalfByte.bytes(3..6), (2, 1..3));
        assert_eq!(CompareUnit::Byte.bytes(3..6), (3, 3..6));
        assert_eq!(CompareUnit::HalfByte.split(vec![0x21, 0x43]), [1, 2, 3, 4]);
        assert_eq!(CompareUnit::HalfByte.join(vec![1, 2, 3]), [0x21, 0x03]);
    }
}
