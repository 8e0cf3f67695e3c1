//! Finds bytes that no recorded task wrote, in dumps with unknown roles, so that uninitialized memory is not
//! judged as a task's output.
//!
//! For each record outside its rule, the scan follows the memory back through the tasks that last touched it,
//! in both runs. Bytes that no task on the way changed are unwritten.

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError};

use super::observed::{is_written, lacks_records};
use super::values::is_value;
use super::{Blame, ComparedArg};
use crate::compare::unless_gone;
use crate::graph::TaskGraph;

/// Larger contents are not read.
const MAX_BYTES: u64 = 64 << 20;
/// Limit on the number of tasks that are followed back.
const MAX_TASKS_BACK: usize = 256;
/// Limit on the number of those tasks that changed content, whose contents are read.
const MAX_CHANGES: usize = 16;

/// How many of a record's differing elements are unwritten memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnwrittenShare {
    /// None.
    #[default]
    None,
    /// This many elements.
    Some(u64),
    /// All of them.
    All,
}

impl UnwrittenShare {
    fn of(count: u64, all: u64) -> UnwrittenShare {
        match count {
            0 => UnwrittenShare::None,
            count if count == all => UnwrittenShare::All,
            count => UnwrittenShare::Some(count),
        }
    }
}

/// How much of a difference is memory that no recorded task changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnwrittenMemory {
    /// Unwritten in both runs: no evidence against any task, so the comparison ignores it.
    pub in_both: UnwrittenShare,
    /// Only the golden wrote the rest, all of it: a write is missing in the dump. Not set if the dump lacks only
    /// some of these writes, because a task may write what uninitialized memory held.
    pub here: bool,
    /// Only the dump wrote the rest, all of it: the expected value is unknown.
    pub in_golden: bool,
    /// The argument is no memory: it was passed by value and may hold addresses of its run.
    pub is_value: bool,
}

/// The result of scanning a record.
#[derive(Default)]
pub(crate) struct UnwrittenScan {
    pub unwritten: UnwrittenMemory,
    /// The content of the record with the golden's bytes where neither run wrote; `None` if nothing was
    /// replaced.
    pub masked: Option<Vec<u8>>,
}

/// The bytes of an argument that no recorded task of its run changed.
enum UnwrittenBytes {
    Nothing,
    All,
    Bytes(Vec<bool>),
}

impl UnwrittenBytes {
    fn holds(&self, bytes: std::ops::Range<usize>) -> bool {
        match self {
            UnwrittenBytes::Nothing => false,
            UnwrittenBytes::All => true,
            UnwrittenBytes::Bytes(mask) => mask.get(bytes).is_some_and(|mask| mask.iter().all(|byte| *byte)),
        }
    }
}

/// Scans a record that is outside its rule.
///
/// # Errors
/// A file cannot be read.
pub(super) fn scan(
    blame: &Blame,
    dumps: (&Dump, &Dump),
    task: usize,
    compared: &ComparedArg,
) -> Result<UnwrittenScan, FormatError> {
    let partner = blame.matching.partner[task].zip(blame.golden.as_ref());
    let Some((partner, theirs)) = partner else { return Ok(UnwrittenScan::default()) };
    scan_argument(dumps, (&blame.graph, theirs), (task, partner), (compared.arg_index, compared.stage))
}

/// Scans an argument of two partner tasks.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn scan_argument(
    (dump, golden): (&Dump, &Dump),
    (graph, theirs): (&TaskGraph, &TaskGraph),
    (task, partner): (usize, usize),
    (arg_index, stage): (u16, DumpStage),
) -> Result<UnwrittenScan, FormatError> {
    let argument = graph.task(task).argument(arg_index);
    if argument.is_some_and(|arg| is_value(graph, graph.task(task), arg)) {
        let unwritten =
            UnwrittenMemory { in_both: UnwrittenShare::All, is_value: true, ..UnwrittenMemory::default() };
        return Ok(UnwrittenScan { unwritten, masked: None });
    }
    let here = untouched(dump, graph, (task, arg_index), stage)?;
    let other = argument.and_then(|arg| theirs.task(partner).counterpart(arg));
    let there_index = other.map_or(arg_index, |other| other.arg_index);
    let there = untouched(golden, theirs, (partner, there_index), stage)?;
    let of = |in_both, here, in_golden| UnwrittenScan {
        unwritten: UnwrittenMemory { in_both, here, in_golden, is_value: false },
        masked: None,
    };
    match (&here, &there) {
        (UnwrittenBytes::Nothing, UnwrittenBytes::Nothing) => return Ok(UnwrittenScan::default()),
        (UnwrittenBytes::All, UnwrittenBytes::All) => return Ok(of(UnwrittenShare::All, false, false)),
        (UnwrittenBytes::All, UnwrittenBytes::Nothing) => return Ok(of(UnwrittenShare::None, true, false)),
        (UnwrittenBytes::Nothing, UnwrittenBytes::All) => return Ok(of(UnwrittenShare::None, false, true)),
        _ => {}
    }
    let Some((ours, other)) = argument.zip(other) else { return Ok(UnwrittenScan::default()) };
    let contents = (content(dump, ours, stage)?, content(golden, other, stage)?);
    let (Some(ours_bytes), Some(their_bytes)) = contents else { return Ok(UnwrittenScan::default()) };
    let width = usize::try_from(ours.dtype.bits() / 8).unwrap_or(1).max(1);
    Ok(masked((ours_bytes, &here), (&their_bytes, &there), width))
}

/// Counts differing elements, and replaces those that neither run wrote by the golden's.
fn masked(
    (mut ours, here): (Vec<u8>, &UnwrittenBytes),
    (golden, there): (&[u8], &UnwrittenBytes),
    width: usize,
) -> UnwrittenScan {
    if ours.len() != golden.len() {
        return UnwrittenScan::default();
    }
    let (mut all, mut in_both, mut only_here, mut only_there) = (0, 0, 0, 0);
    for at in (0..ours.len()).step_by(width) {
        let element = at..(at + width).min(golden.len());
        if ours[element.clone()] == golden[element.clone()] {
            continue;
        }
        all += 1;
        match (here.holds(element.clone()), there.holds(element.clone())) {
            (true, true) => {
                in_both += 1;
                ours[element.clone()].copy_from_slice(&golden[element]);
            }
            (true, false) => only_here += 1,
            (false, true) => only_there += 1,
            (false, false) => {}
        }
    }
    let rest = all - in_both;
    let unwritten = UnwrittenMemory {
        in_both: UnwrittenShare::of(in_both, all),
        here: rest > 0 && only_here == rest,
        in_golden: rest > 0 && only_there == rest,
        is_value: false,
    };
    UnwrittenScan { unwritten, masked: (in_both > 0).then_some(ours) }
}

/// Follows an argument back to uninitialized memory. The result excludes the bytes that tasks on the way
/// changed.
fn untouched(
    dump: &Dump,
    graph: &TaskGraph,
    (mut place, mut arg_index): (usize, u16),
    mut stage: DumpStage,
) -> Result<UnwrittenBytes, FormatError> {
    let mut changed: Vec<Argument<'_>> = Vec::new();
    // A missing task may have written.
    if graph.observations().is_none() || lacks_records(dump) {
        return Ok(UnwrittenBytes::Nothing);
    }
    for _ in 0..MAX_TASKS_BACK {
        let task = graph.task(place);
        let arg = task.argument(arg_index).filter(|arg| !arg.is_scalar() && !arg.host_writable);
        let Some(arg) = arg else { return Ok(UnwrittenBytes::Nothing) };
        if stage == DumpStage::AfterCompletion {
            if arg.before.is_none() || changed.len() == MAX_CHANGES {
                return Ok(UnwrittenBytes::Nothing);
            }
            changed.extend(Some(arg).filter(|arg| !arg.is_unchanged()));
        }
        if !is_written(graph, task, arg) {
            return but_changed(dump, &changed);
        }
        let [left] = graph.last_holders(arg) else { return Ok(UnwrittenBytes::Nothing) };
        let hash = graph.output(*left).and_then(|output| output.hash_after());
        if hash.is_none() || hash != arg.hash_before() {
            return Ok(UnwrittenBytes::Nothing);
        }
        (place, arg_index, stage) = (left.task, left.arg_index, DumpStage::AfterCompletion);
    }
    Ok(UnwrittenBytes::Nothing)
}

/// All bytes except those that one of these arguments changed over its task.
fn but_changed(dump: &Dump, changed: &[Argument<'_>]) -> Result<UnwrittenBytes, FormatError> {
    let mut mask: Option<Vec<bool>> = None;
    for &arg in changed {
        let before = content(dump, arg, DumpStage::BeforeDispatch)?;
        let Some((before, after)) = before.zip(content(dump, arg, DumpStage::AfterCompletion)?) else {
            return Ok(UnwrittenBytes::Nothing);
        };
        let mask = mask.get_or_insert_with(|| vec![true; after.len()]);
        if [before.len(), mask.len()] != [after.len(); 2] {
            return Ok(UnwrittenBytes::Nothing);
        }
        mask.iter_mut().zip(before.iter().zip(&after)).for_each(|(mask, (old, new))| *mask &= old == new);
        // Most often one task writes everything, so the contents of earlier tasks need not be read.
        if !mask.contains(&true) {
            return Ok(UnwrittenBytes::Nothing);
        }
    }
    Ok(mask.map_or(UnwrittenBytes::All, UnwrittenBytes::Bytes))
}

/// The content of an argument, if it is stored and not too large.
pub(super) fn content(
    dump: &Dump,
    arg: Argument<'_>,
    stage: DumpStage,
) -> Result<Option<Vec<u8>>, FormatError> {
    let captured = arg.captured(stage);
    let captured = captured.filter(|captured| captured.is_stored() && captured.bytes <= MAX_BYTES);
    let Some(captured) = captured else { return Ok(None) };
    Ok(unless_gone(dump.payload(&dump.record(captured.record)?))?.map(|bytes| bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_no_run_wrote_are_masked_and_counted() {
        let bytes =
            |mask: [bool; 4]| UnwrittenBytes::Bytes(mask.iter().flat_map(|&byte| [byte; 2]).collect());
        let (ours, golden) = ([1, 0, 2, 0, 3, 0, 4, 0], [1, 0, 9, 0, 9, 0, 9, 0]);
        let found = masked(
            (ours.to_vec(), &bytes([true, true, true, false])),
            (&golden, &bytes([true, true, false, true])),
            2,
        );
        assert_eq!(
            found.unwritten,
            UnwrittenMemory { in_both: UnwrittenShare::Some(1), ..UnwrittenMemory::default() }
        );
        assert_eq!(found.masked, Some(vec![1, 0, 9, 0, 3, 0, 4, 0]));
        let none = masked((ours.to_vec(), &UnwrittenBytes::Nothing), (&golden, &UnwrittenBytes::All), 2);
        assert_eq!((none.unwritten.in_golden, none.masked), (true, None));
        // An element with one byte written unchanged is still written, so it is not masked.
        let half = UnwrittenBytes::Bytes(vec![true, false, true, false, true, false, true, false]);
        assert_eq!(masked((ours.to_vec(), &half), (&golden, &half), 2).unwritten, UnwrittenMemory::default());
    }
}
