//! Whether a task was given what the tasks before it had written.

use tensortap_format::{Dump, FormatError};

use crate::graph::pieces::{Piece, pieces};
use crate::graph::{Argument, Basis, Source, TaskGraph};

/// Larger views than this are not put together from several outputs.
const MAX_BYTES: u64 = 1 << 28;

/// Whether an input is what was captured of the outputs it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// Byte for byte.
    Same,
    /// It changed after this output was captured, or was read before it was written.
    Changed(Source),
    /// Nothing says, and why.
    Unknown(String),
}

/// Compares an input with the captured outputs that it came from: by hash where an output is the same view, else the bytes
/// that it took from each. An input that came from no captured task is the same.
///
/// # Errors
/// A payload cannot be read.
pub fn carried(dump: &Dump, graph: &TaskGraph, task: usize, arg: &Argument) -> Result<Carried, FormatError> {
    let [source, others @ ..] = arg.origin.sources.as_slice() else { return Ok(Carried::Same) };
    if let Some(answer) = by_hash(graph, arg, *source, others.is_empty()) {
        return Ok(answer);
    }
    if arg.origin.basis != Basis::Bytes {
        return Ok(among(graph, arg));
    }
    match by_bytes(dump, graph, arg)? {
        Some(answer) => Ok(answer),
        None => Ok(Carried::Unknown(format!(
            "argument {} of task {:#x} is part of what others wrote, and not all payloads are stored",
            arg.arg_index, graph.tasks[task].task_id
        ))),
    }
}

fn hash_after(graph: &TaskGraph, source: Source) -> Option<u128> {
    graph.tasks[source.task].arg(source.arg_index)?.after?.hash
}

/// Decides where one output is the whole input.
fn by_hash(graph: &TaskGraph, arg: &Argument, source: Source, is_only: bool) -> Option<Carried> {
    let written = graph.tasks[source.task].arg(source.arg_index)?;
    let is_whole = match (&arg.place, &written.place) {
        (Some(here), Some(there)) => here.is_same_view(there),
        _ => is_only && arg.dtype == written.dtype && arg.shape == written.shape,
    };
    let same = arg.before?.hash? == hash_after(graph, source)?;
    is_whole.then_some(if same { Carried::Same } else { Carried::Changed(source) })
}

/// Without addresses: the input is one of the outputs, or it cannot be told.
fn among(graph: &TaskGraph, arg: &Argument) -> Carried {
    let hash = arg.before.and_then(|c| c.hash);
    if hash.is_some() && arg.origin.sources.iter().any(|s| hash_after(graph, *s) == hash) {
        Carried::Same
    } else {
        Carried::Unknown("the dump does not say which bytes came from which task".into())
    }
}

/// Puts the input together from outputs, the newest first; `None` when something is missing.
fn by_bytes(dump: &Dump, graph: &TaskGraph, arg: &Argument) -> Result<Option<Carried>, FormatError> {
    let Some((here, before)) = arg.place.as_ref().zip(arg.before.filter(|c| c.stored)) else {
        return Ok(None);
    };
    if here.layout.elem_bits() < 8 {
        return Ok(None);
    }
    let record = dump.record(before.record)?;
    let Some(own) = pieces(here).filter(|_| record.bin_size <= MAX_BYTES) else { return Ok(None) };
    let given = dump.payload(&record)?;
    let mut known = vec![false; given.len()];
    for &source in &arg.origin.sources {
        let Some(written) = graph.tasks[source.task].arg(source.arg_index) else { return Ok(None) };
        let Some((there, after)) = written.place.as_ref().zip(written.after.filter(|c| c.stored)) else {
            return Ok(None);
        };
        let Some(theirs) = pieces(there).filter(|_| there.layout.elem_bits() >= 8) else { return Ok(None) };
        let shared = shared(&own, &theirs);
        let Some(first) = shared.iter().map(|s| s.there).min() else { continue };
        let end = shared.iter().map(|s| s.there + s.len).max().unwrap_or(first);
        let output = dump.record(after.record)?;
        let mut bytes = vec![0; end - first];
        dump.payload_part(&output, first as u64, &mut bytes)?;
        for Shared { here, there, len } in shared {
            for n in 0..len {
                if !known[here + n] && given[here + n] != bytes[there - first + n] {
                    return Ok(Some(Carried::Changed(source)));
                }
                known[here + n] = true;
            }
        }
    }
    Ok(Some(Carried::Same))
}

/// Bytes that two views share, by their places in the content of each.
struct Shared {
    here: usize,
    there: usize,
    len: usize,
}

fn shared(own: &[Piece], theirs: &[Piece]) -> Vec<Shared> {
    let bytes = |half_bytes: u128| usize::try_from(half_bytes / 2).unwrap_or(usize::MAX);
    let mut shared = Vec::new();
    for piece in own {
        let from = theirs.partition_point(|p| p.end <= piece.start);
        for other in theirs[from..].iter().take_while(|p| p.start < piece.end) {
            let (start, end) = (piece.start.max(other.start), piece.end.min(other.end));
            shared.push(Shared {
                here: bytes(piece.at + (start - piece.start)),
                there: bytes(other.at + (start - other.start)),
                len: bytes(end.saturating_sub(start)),
            });
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Place;
    use tensortap_geometry::Layout;

    #[test]
    fn bytes_that_two_views_share_are_placed_in_both() {
        let matrix = Layout::contiguous(&[4, 4], 16).unwrap();
        let column = matrix.slice(1, 1, 1).unwrap();
        let row = matrix.slice(0, 2, 1).unwrap();
        let [matrix, column, row] = [matrix, column, row].map(|l| pieces(&Place::new(l, 0x1000)).unwrap());
        let places = |own, theirs| -> Vec<_> {
            shared(own, theirs).iter().map(|s| (s.here, s.there, s.len)).collect()
        };
        assert_eq!(places(&column, &row), [(4, 2, 2)]);
        assert_eq!(places(&column, &matrix), [(0, 2, 2), (2, 10, 2), (4, 18, 2), (6, 26, 2)]);
        assert_eq!(places(&row, &matrix), [(0, 16, 8)]);
    }
}
