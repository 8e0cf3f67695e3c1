//! Memory that no recorded task wrote, where roles are not known: what lies in it is nothing that a task made, and is not judged as if it were.

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError};

use super::observed::{is_written, lacks_tasks};
use super::values::is_value;
use super::{Blame, ComparedArg};
use crate::compare::unless_gone;
use crate::graph::TaskGraph;

/// Larger contents are not looked into.
const MOST_BYTES: u64 = 64 << 20;
/// Tasks that are followed back to where memory comes from.
const MOST_BACK: usize = 256;
/// Tasks among them that changed some of it, whose contents are read.
const MOST_CHANGES: usize = 16;

/// How much of what differs in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// Nothing.
    #[default]
    None,
    /// So many elements.
    Some(u64),
    /// All of it.
    All,
}

impl Share {
    fn of(count: u64, all: u64) -> Share {
        match count {
            0 => Share::None,
            count if count == all => Share::All,
            count => Share::Some(count),
        }
    }
}

/// How much of what differs is memory that no recorded task changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// In both runs: it is evidence against nobody, and left out of what is said of the record.
    pub in_both: Share,
    /// All of the rest in the dump alone: what should have been written was not. Of less nothing is said: a task may write what lay there.
    pub here: bool,
    /// All of the rest in the golden alone: what it should be is not known.
    pub in_golden: bool,
    /// It is no memory, but was passed by value, and may hold addresses of its run.
    pub is_value: bool,
}

/// What a look at a record came to.
#[derive(Default)]
pub(crate) struct Looked {
    pub unwritten: Unwritten,
    /// What the record holds, with the golden's content where neither run wrote any.
    pub masked: Option<Vec<u8>>,
}

/// Which bytes of an argument no recorded task of its run changed.
enum Untouched {
    Nothing,
    All,
    Bytes(Vec<bool>),
}

impl Untouched {
    fn holds(&self, bytes: std::ops::Range<usize>) -> bool {
        match self {
            Untouched::Nothing => false,
            Untouched::All => true,
            Untouched::Bytes(mask) => mask.get(bytes).is_some_and(|mask| mask.iter().all(|byte| *byte)),
        }
    }
}

/// Looks at a record that is outside its rule.
///
/// # Errors
/// A file cannot be read.
pub(super) fn look(
    blame: &Blame,
    dumps: (&Dump, &Dump),
    task: usize,
    compared: &ComparedArg,
) -> Result<Looked, FormatError> {
    let partner = blame.matching.partner[task].zip(blame.golden.as_ref());
    let Some((partner, theirs)) = partner else { return Ok(Looked::default()) };
    look_at(dumps, (&blame.graph, theirs), (task, partner), (compared.arg_index, compared.stage))
}

/// The same of an argument of two tasks that are partners.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn look_at(
    (dump, golden): (&Dump, &Dump),
    (graph, theirs): (&TaskGraph, &TaskGraph),
    (task, partner): (usize, usize),
    (arg_index, stage): (u16, DumpStage),
) -> Result<Looked, FormatError> {
    let argument = graph.task(task).argument(arg_index);
    if argument.is_some_and(|arg| is_value(graph, graph.task(task), arg)) {
        let unwritten = Unwritten { in_both: Share::All, is_value: true, ..Unwritten::default() };
        return Ok(Looked { unwritten, masked: None });
    }
    let here = untouched(dump, graph, (task, arg_index), stage)?;
    let there = untouched(golden, theirs, (partner, arg_index), stage)?;
    let of = |in_both, here, in_golden| Looked {
        unwritten: Unwritten { in_both, here, in_golden, is_value: false },
        masked: None,
    };
    match (&here, &there) {
        (Untouched::Nothing, Untouched::Nothing) => return Ok(Looked::default()),
        (Untouched::All, Untouched::All) => return Ok(of(Share::All, false, false)),
        (Untouched::All, Untouched::Nothing) => return Ok(of(Share::None, true, false)),
        (Untouched::Nothing, Untouched::All) => return Ok(of(Share::None, false, true)),
        _ => {}
    }
    let (ours, other) = (graph.task(task).argument(arg_index), theirs.task(partner).argument(arg_index));
    let Some((ours, other)) = ours.zip(other) else { return Ok(Looked::default()) };
    let contents = (content(dump, ours, stage)?, content(golden, other, stage)?);
    let (Some(ours_bytes), Some(their_bytes)) = contents else { return Ok(Looked::default()) };
    let width = usize::try_from(ours.dtype.bits() / 8).unwrap_or(1).max(1);
    Ok(masked((ours_bytes, &here), (&their_bytes, &there), width))
}

/// Counts elements that differ, and takes the golden's where neither run wrote them.
fn masked(
    (mut ours, here): (Vec<u8>, &Untouched),
    (golden, there): (&[u8], &Untouched),
    width: usize,
) -> Looked {
    if ours.len() != golden.len() {
        return Looked::default();
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
    let unwritten = Unwritten {
        in_both: Share::of(in_both, all),
        here: rest > 0 && only_here == rest,
        in_golden: rest > 0 && only_there == rest,
        is_value: false,
    };
    Looked { unwritten, masked: (in_both > 0).then_some(ours) }
}

/// Follows an argument back to memory that nobody had written, and leaves out what tasks on the way changed.
fn untouched(
    dump: &Dump,
    graph: &TaskGraph,
    (mut place, mut arg_index): (usize, u16),
    mut stage: DumpStage,
) -> Result<Untouched, FormatError> {
    let mut changed: Vec<Argument<'_>> = Vec::new();
    // What was left out may have written.
    if graph.observations().is_none() || lacks_tasks(dump) {
        return Ok(Untouched::Nothing);
    }
    for _ in 0..MOST_BACK {
        let task = graph.task(place);
        let arg = task.argument(arg_index).filter(|arg| !arg.is_scalar() && !arg.host_writable);
        let Some(arg) = arg else { return Ok(Untouched::Nothing) };
        if stage == DumpStage::AfterCompletion {
            if arg.before.is_none() || changed.len() == MOST_CHANGES {
                return Ok(Untouched::Nothing);
            }
            changed.extend(Some(arg).filter(|arg| !arg.is_unchanged()));
        }
        if !is_written(graph, task, arg) {
            return but_changed(dump, &changed);
        }
        let [left] = graph.left_behind(arg) else { return Ok(Untouched::Nothing) };
        let hash = graph.output(*left).and_then(|output| output.hash_after());
        if hash.is_none() || hash != arg.hash_before() {
            return Ok(Untouched::Nothing);
        }
        (place, arg_index, stage) = (left.task, left.arg_index, DumpStage::AfterCompletion);
    }
    Ok(Untouched::Nothing)
}

/// What is left of all bytes where these changed some.
fn but_changed(dump: &Dump, changed: &[Argument<'_>]) -> Result<Untouched, FormatError> {
    let mut mask: Option<Vec<bool>> = None;
    for &arg in changed {
        let before = content(dump, arg, DumpStage::BeforeDispatch)?;
        let Some((before, after)) = before.zip(content(dump, arg, DumpStage::AfterCompletion)?) else {
            return Ok(Untouched::Nothing);
        };
        let mask = mask.get_or_insert_with(|| vec![true; after.len()]);
        if [before.len(), mask.len()] != [after.len(); 2] {
            return Ok(Untouched::Nothing);
        }
        mask.iter_mut().zip(before.iter().zip(&after)).for_each(|(mask, (old, new))| *mask &= old == new);
        // Mostly one task writes all of it, and those before it need not be read.
        if !mask.contains(&true) {
            return Ok(Untouched::Nothing);
        }
    }
    Ok(mask.map_or(Untouched::All, Untouched::Bytes))
}

/// What an argument held, where that is stored.
pub(super) fn content(
    dump: &Dump,
    arg: Argument<'_>,
    stage: DumpStage,
) -> Result<Option<Vec<u8>>, FormatError> {
    let captured = arg.captured(stage);
    let captured = captured.filter(|captured| captured.is_stored() && captured.bytes <= MOST_BYTES);
    let Some(captured) = captured else { return Ok(None) };
    Ok(unless_gone(dump.payload(&dump.record(captured.record)?))?.map(|bytes| bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_no_run_wrote_are_the_goldens_and_counted() {
        let bytes = |mask: [bool; 4]| Untouched::Bytes(mask.iter().flat_map(|&byte| [byte; 2]).collect());
        let (ours, golden) = ([1, 0, 2, 0, 3, 0, 4, 0], [1, 0, 9, 0, 9, 0, 9, 0]);
        let found = masked(
            (ours.to_vec(), &bytes([true, true, true, false])),
            (&golden, &bytes([true, true, false, true])),
            2,
        );
        assert_eq!(found.unwritten, Unwritten { in_both: Share::Some(1), ..Unwritten::default() });
        assert_eq!(found.masked, Some(vec![1, 0, 9, 0, 3, 0, 4, 0]));
        let none = masked((ours.to_vec(), &Untouched::Nothing), (&golden, &Untouched::All), 2);
        assert_eq!((none.unwritten.in_golden, none.masked), (true, None));
        // Half of an element that was written by chance as it was is no element that nobody wrote.
        let half = Untouched::Bytes(vec![true, false, true, false, true, false, true, false]);
        assert_eq!(masked((ours.to_vec(), &half), (&golden, &half), 2).unwritten, Unwritten::default());
    }
}
