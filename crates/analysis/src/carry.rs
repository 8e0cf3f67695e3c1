//! Whether a task was given what the tasks before it had written.

use std::ops::Range;

use tensortap_format::{Argument, Captured, Dump, FormatError};

use crate::compare::{damage, unless_gone};
use crate::graph::view::{Piece, pieces};
use crate::graph::{Basis, OutputRef, TaskGraph, TensorView};

/// Larger views than this are not put together from several outputs.
const MAX_BYTES: u64 = 1 << 28;

/// Whether an input is what was captured of the outputs it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Byte for byte.
    Same,
    /// It changed after this output was captured, or was read before it was written.
    Changed(OutputRef),
    /// Nothing says, and why.
    Unknown(String),
}

/// Compares an input with the captured outputs that it came from: by hash where an output is the same view, else the bytes
/// that it took from each. An input that came from no captured task is the same.
///
/// # Errors
/// A payload cannot be read.
pub fn carried(
    dump: &Dump,
    graph: &TaskGraph,
    task: usize,
    arg: Argument<'_>,
) -> Result<Carried, FormatError> {
    let [output, others @ ..] = graph.left_behind(arg) else { return Ok(Carried::Same) };
    if let Some(answer) = by_hash(graph, arg, *output, others.is_empty()) {
        return Ok(answer);
    }
    if graph.origin(arg).basis != Basis::Bytes {
        return Ok(among(graph, arg));
    }
    match by_bytes(dump, graph, arg)? {
        Some(Carried::Changed(output)) => Ok(match damage_of(dump, graph, arg, output)? {
            Some(reason) => Carried::Unknown(reason),
            None => Carried::Changed(output),
        }),
        Some(answer) => Ok(answer),
        None => Ok(Carried::Unknown(format!(
            "argument {} of task {:#x} is part of what others wrote, and not all payloads are stored",
            arg.arg_index,
            graph.task(task).task_id
        ))),
    }
}

/// Decides where one output is the whole input.
fn by_hash(graph: &TaskGraph, arg: Argument<'_>, output: OutputRef, is_only: bool) -> Option<Carried> {
    let written = graph.output(output)?;
    let is_whole = match (TensorView::of(arg), TensorView::of(written)) {
        (Some(here), Some(there)) => here.is_same_view(&there),
        _ => is_only && arg.dtype == written.dtype && arg.shape() == written.shape(),
    };
    let same = arg.hash_before()? == written.hash_after()?;
    is_whole.then_some(if same { Carried::Same } else { Carried::Changed(output) })
}

/// Without addresses: the input is one of the outputs, or it cannot be told.
fn among(graph: &TaskGraph, arg: Argument<'_>) -> Carried {
    let hash = arg.hash_before();
    let holds_it = |output: &OutputRef| graph.output(*output).and_then(|o| o.hash_after()) == hash;
    if hash.is_some() && graph.left_behind(arg).iter().any(holds_it) {
        Carried::Same
    } else {
        Carried::Unknown("the dump does not say which bytes came from which task".into())
    }
}

/// Puts the input together from outputs, the newest first; `None` when something is missing.
fn by_bytes(dump: &Dump, graph: &TaskGraph, arg: Argument<'_>) -> Result<Option<Carried>, FormatError> {
    let Some((here, before)) = TensorView::of(arg).zip(arg.before.filter(Captured::is_stored)) else {
        return Ok(None);
    };
    let record = dump.record(before.record)?;
    let Some(own) = pieces(&here).filter(|_| record.bin_size <= MAX_BYTES) else { return Ok(None) };
    let mut outputs = Vec::new();
    for &output in graph.left_behind(arg) {
        let Some(written) = graph.output(output) else { return Ok(None) };
        let after = written.after.filter(Captured::is_stored);
        let Some((there, after)) = TensorView::of(written).zip(after) else { return Ok(None) };
        outputs.push((output, there, after));
    }
    let unit = Unit::of(outputs.iter().map(|(_, there, _)| there).chain([&here]));
    let Some(given) = unless_gone(dump.payload(&record))? else { return Ok(None) };
    let given = unit.split(given);
    let mut known = vec![false; given.len()];
    for (output, there, after) in outputs {
        let Some(theirs) = pieces(&there) else { return Ok(None) };
        let shared = shared(&own, &theirs, unit);
        let Some(first) = shared.iter().map(|s| s.there).min() else { continue };
        let end = shared.iter().map(|s| s.there + s.len).max().unwrap_or(first);
        let record = dump.record(after.record)?;
        let (first, bytes) = unit.bytes(first..end);
        let mut content = vec![0; bytes.end - bytes.start];
        if unless_gone(dump.payload_part(&record, bytes.start as u64, &mut content))?.is_none() {
            return Ok(None);
        }
        let content = unit.split(content);
        for Shared { here, there, len } in shared {
            for n in 0..len {
                if !known[here + n] && given[here + n] != content[there - first + n] {
                    return Ok(Some(Carried::Changed(output)));
                }
                known[here + n] = true;
            }
        }
    }
    Ok(Some(Carried::Same))
}

/// What is wrong with one of the two payloads that differ.
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

/// What contents are compared in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    HalfByte,
    Byte,
}

impl Unit {
    /// Half-bytes where any of the views has elements of that size.
    pub fn of<'p>(mut views: impl Iterator<Item = &'p TensorView>) -> Unit {
        if views.any(|view| view.layout.elem_bits() < 8) { Unit::HalfByte } else { Unit::Byte }
    }

    pub const fn half_bytes(self) -> usize {
        match self {
            Unit::HalfByte => 1,
            Unit::Byte => 2,
        }
    }

    /// One unit in each, the low half of a byte first.
    pub fn split(self, bytes: Vec<u8>) -> Vec<u8> {
        match self {
            Unit::HalfByte => bytes.into_iter().flat_map(|byte| [byte & 0xf, byte >> 4]).collect(),
            Unit::Byte => bytes,
        }
    }

    /// What [`split`](Unit::split) took apart.
    pub fn join(self, units: Vec<u8>) -> Vec<u8> {
        match self {
            Unit::HalfByte => units.chunks(2).map(|p| p[0] | p.get(1).unwrap_or(&0) << 4).collect(),
            Unit::Byte => units,
        }
    }

    /// The whole bytes that hold units, and the first unit of those.
    pub fn bytes(self, units: Range<usize>) -> (usize, Range<usize>) {
        let bytes = units.start * self.half_bytes() / 2..(units.end * self.half_bytes()).div_ceil(2);
        (bytes.start * 2 / self.half_bytes(), bytes)
    }
}

/// What two views share, by its places in the content of each, in units.
pub(crate) struct Shared {
    pub here: usize,
    pub there: usize,
    pub len: usize,
}

pub(crate) fn shared(own: &[Piece], theirs: &[Piece], unit: Unit) -> Vec<Shared> {
    let units =
        |half_bytes: u128| usize::try_from(half_bytes / unit.half_bytes() as u128).unwrap_or(usize::MAX);
    let mut shared = Vec::new();
    // Pieces of a view are equally long: sorted by their starts they are by their ends.
    let (first, end) = (theirs.first().map_or(0, |p| p.start), theirs.last().map_or(0, |p| p.end));
    let within = own.partition_point(|p| p.end <= first)..own.partition_point(|p| p.start < end);
    for piece in own.get(within).unwrap_or_default() {
        let from = theirs.partition_point(|p| p.end <= piece.start);
        for other in theirs[from..].iter().take_while(|p| p.start < piece.end) {
            let (start, end) = (piece.start.max(other.start), piece.end.min(other.end));
            shared.push(Shared {
                here: units(piece.at + (start - piece.start)),
                there: units(other.at + (start - other.start)),
                len: units(end.saturating_sub(start)),
            });
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_geometry::Layout;

    #[test]
    fn bytes_that_two_views_share_are_placed_in_both() {
        let matrix = Layout::contiguous(&[4, 4], 16).unwrap();
        let column = matrix.slice(1, 1, 1).unwrap();
        let row = matrix.slice(0, 2, 1).unwrap();
        let [matrix, column, row] =
            [matrix, column, row].map(|l| pieces(&TensorView::new(l, 0x1000)).unwrap());
        let places = |own, theirs| -> Vec<_> {
            shared(own, theirs, Unit::Byte).iter().map(|s| (s.here, s.there, s.len)).collect()
        };
        assert_eq!(places(&column, &row), [(4, 2, 2)]);
        assert_eq!(places(&column, &matrix), [(0, 2, 2), (2, 10, 2), (4, 18, 2), (6, 26, 2)]);
        assert_eq!(places(&row, &matrix), [(0, 16, 8)]);
    }

    #[test]
    fn half_bytes_that_two_views_share_are_placed_in_both() {
        let row = |first, elements| Layout::new(&[elements], &[1], first, 4).unwrap();
        let bytes = TensorView::new(Layout::contiguous(&[4], 8).unwrap(), 0x1000);
        let [odd, even] = [row(3, 4), row(0, 6)].map(|l| TensorView::new(l, 0x1000));
        let places = |own: &TensorView, theirs: &TensorView| -> Vec<_> {
            let unit = Unit::of([own, theirs].into_iter());
            assert_eq!(unit, Unit::HalfByte);
            let (own, theirs) = (pieces(own).unwrap(), pieces(theirs).unwrap());
            shared(&own, &theirs, unit).iter().map(|s| (s.here, s.there, s.len)).collect()
        };
        assert_eq!(places(&odd, &even), [(0, 3, 3)]);
        assert_eq!(places(&odd, &bytes), [(0, 3, 4)]);
        assert_eq!(Unit::HalfByte.bytes(3..6), (2, 1..3));
        assert_eq!(Unit::Byte.bytes(3..6), (3, 3..6));
        assert_eq!(Unit::HalfByte.split(vec![0x21, 0x43]), [1, 2, 3, 4]);
        assert_eq!(Unit::HalfByte.join(vec![1, 2, 3]), [0x21, 0x03]);
    }
}
