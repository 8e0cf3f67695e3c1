//! Likely races in dumps with unknown roles, where neither run shows who wrote first.
//!
//! Two tasks without an order between them may use the differing bytes, but that alone proves nothing: tasks
//! may share a buffer and use different parts of it. If one of the tasks changed exactly those bytes, a race
//! is likely. A likely race is not proof, so no task is accused.

use std::collections::HashMap;

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, Task};

use crate::compare::unless_gone;
use crate::graph::{TaskGraph, TensorView};
use crate::labels::{LikelyRace, Status, TaskStatus};
use crate::matching::Matching;
use crate::observation::NAMED;

/// Limit on the content read in total. Beyond it, arguments stay ambiguous without naming a race.
const MAX_BYTES: u64 = 256 << 20;

/// Limit on the number of arguments examined. Memory queries use up the step budget that labels need too.
const MAX_QUESTIONS: usize = 10_000;

/// A dump and its task graph.
#[derive(Clone, Copy)]
pub(super) struct RecordedRun<'r> {
    pub dump: &'r Dump,
    pub graph: &'r TaskGraph,
}

/// Likely races for arguments outside their rules, by task and argument. Arguments whose order was lost are
/// skipped.
///
/// # Errors
/// A file cannot be read.
pub(super) fn races(
    (ours, golden): (RecordedRun<'_>, RecordedRun<'_>),
    matching: &Matching,
    statuses: &[TaskStatus],
    lost_order: &HashMap<(usize, u16), usize>,
) -> Result<HashMap<(usize, u16), LikelyRace>, FormatError> {
    let mut found = HashMap::new();
    if ours.graph.observations().is_none() || golden.graph.observations().is_none() {
        return Ok(found);
    }
    let mut asked = 0;
    let mut search = LikelyRaceSearch { ours, golden, matching, left: MAX_BYTES };
    for task in ours.graph.tasks().iter() {
        let (Some(partner), TaskStatus::Compared(args)) =
            (matching.partner[task.place()], &statuses[task.place()])
        else {
            continue;
        };
        let partner = golden.graph.task(partner);
        for (arg, status) in
            task.arguments().zip(args).filter(|(arg, _)| !arg.is_scalar() && !arg.is_candidate())
        {
            let stage = match (&status.before, &status.after) {
                (Status::Outside, _) => DumpStage::BeforeDispatch,
                (_, Status::Outside) => DumpStage::AfterCompletion,
                _ => continue,
            };
            let key = (task.place(), arg.arg_index);
            let there = partner.counterpart(arg).filter(|_| !lost_order.contains_key(&key));
            let Some(there) = there else { continue };
            let given = (TaskArg { task, arg }, TaskArg { task: partner, arg: there });
            if asked == MAX_QUESTIONS {
                return Ok(found);
            }
            asked += 1;
            if let Some(race) = search.race_for(given, stage)? {
                found.insert(key, race);
            }
        }
    }
    Ok(found)
}

/// An argument with its task.
#[derive(Clone, Copy)]
struct TaskArg<'g> {
    task: Task<'g>,
    arg: Argument<'g>,
}

struct LikelyRaceSearch<'r> {
    ours: RecordedRun<'r>,
    golden: RecordedRun<'r>,
    matching: &'r Matching,
    /// Bytes that may still be read.
    left: u64,
}

impl LikelyRaceSearch<'_> {
    /// The likely race that explains the difference in an argument: a race in the dump, or else in the
    /// golden.
    fn race_for(
        &mut self,
        (here, there): (TaskArg<'_>, TaskArg<'_>),
        stage: DumpStage,
    ) -> Result<Option<LikelyRace>, FormatError> {
        let (others, theirs) = (unordered(self.ours, here), unordered(self.golden, there));
        if others.is_empty() && theirs.is_empty() {
            return Ok(None);
        }
        let contents =
            (self.content(self.ours, here.arg, stage)?, self.content(self.golden, there.arg, stage)?);
        let (Some(bytes), Some(golden)) = contents else { return Ok(None) };
        if bytes.len() != golden.len() {
            return Ok(None);
        }
        let differs: Vec<bool> = bytes.iter().zip(&golden).map(|(ours, golden)| ours != golden).collect();
        for &other in &others {
            let partner = self.matching.partner[other].filter(|partner| theirs.contains(partner));
            let arg_index = match self.changed(self.ours, here.arg, other, &differs)? {
                Some(arg_index) => Some(arg_index),
                // The golden run may have captured the change.
                None => match partner {
                    Some(partner) => self.changed(self.golden, there.arg, partner, &differs)?,
                    None => None,
                },
            };
            if let Some(other_arg) = arg_index {
                return Ok(Some(LikelyRace {
                    other,
                    other_arg,
                    is_of_golden: false,
                    is_in_both: partner.is_some(),
                }));
            }
        }
        for &other in &theirs {
            if let Some(other_arg) = self.changed(self.golden, there.arg, other, &differs)? {
                return Ok(Some(LikelyRace { other, other_arg, is_of_golden: true, is_in_both: false }));
            }
        }
        Ok(None)
    }

    /// The argument through which a task changed some of the differing bytes of another argument.
    fn changed(
        &mut self,
        run: RecordedRun<'_>,
        arg: Argument<'_>,
        other: usize,
        differs: &[bool],
    ) -> Result<Option<u16>, FormatError> {
        let Some((start, _)) = span(arg) else { return Ok(None) };
        for written in run.graph.task(other).arguments() {
            let writes = written.may_be_written();
            let Some((first, bytes)) = span(written).filter(|_| writes) else { continue };
            let differs_at = |place: u64| {
                let place = (first + place).checked_sub(start).and_then(|place| usize::try_from(place).ok());
                place.and_then(|place| differs.get(place)).is_some_and(|differs| *differs)
            };
            let is_changed = match (written.role_known, written.before) {
                // A known output without content before the task: the task wrote all of it.
                (true, None) => (0..bytes).any(differs_at),
                _ => {
                    let before = self.content(run, written, DumpStage::BeforeDispatch)?;
                    let after = self.content(run, written, DumpStage::AfterCompletion)?;
                    let both = before.zip(after).filter(|_| !written.is_unchanged());
                    both.is_some_and(|(before, after)| {
                        let mut places = (0..).zip(before.iter().zip(&after));
                        places.any(|(place, (old, new))| old != new && differs_at(place))
                    })
                }
            };
            if is_changed {
                return Ok(Some(written.arg_index));
            }
        }
        Ok(None)
    }

    fn content(
        &mut self,
        run: RecordedRun<'_>,
        arg: Argument<'_>,
        stage: DumpStage,
    ) -> Result<Option<Vec<u8>>, FormatError> {
        let captured =
            arg.captured(stage).filter(|captured| captured.is_stored() && captured.bytes <= self.left);
        let Some(captured) = captured.filter(|_| span(arg).is_some()) else { return Ok(None) };
        self.left -= captured.bytes;
        Ok(unless_gone(run.dump.payload(&run.dump.record(captured.record)?))?.map(|bytes| bytes.to_vec()))
    }
}

/// Tasks that are known to have no order with the task of an argument.
fn unordered(run: RecordedRun<'_>, TaskArg { task, arg }: TaskArg<'_>) -> Vec<usize> {
    let Some(seen) = run.graph.observations() else { return Vec::new() };
    let is_known = |other: &usize| !seen.order().is_unknown(task.place().max(*other));
    seen.unordered(task, arg).tasks.into_iter().filter(is_known).take(NAMED).collect()
}

/// The first byte of an argument and its size in bytes; `None` if its memory is not contiguous.
fn span(arg: Argument<'_>) -> Option<(u64, u64)> {
    let layout = TensorView::of(arg)?.layout;
    let width = layout.elem_bits() / 8;
    let is_plain = layout.is_contiguous() && layout.elem_bits() % 8 == 0;
    let start = arg.address.checked_add(layout.start_offset().checked_mul(width.into())?)?;
    let bytes = layout.numel().checked_mul(width.into())?;
    start.checked_add(bytes).filter(|_| is_plain)?;
    Some((start, bytes))
}

/// Describes a likely race and what to do about it.
pub(super) fn describe(
    (ours, golden): (RecordedRun<'_>, RecordedRun<'_>),
    matching: &Matching,
    (task, arg_index): (usize, u16),
    race: LikelyRace,
) -> String {
    let LikelyRace { other, other_arg, is_of_golden, is_in_both } = race;
    let run = if is_of_golden { golden } else { ours };
    let id = run.graph.task(other).task_id;
    let changed = format!("which changed bytes that differ (its argument {other_arg})");
    if is_of_golden {
        let own = matching.partner[task].map_or(0, |partner| golden.graph.task(partner).task_id);
        return format!(
            "argument {arg_index} is ambiguous in the golden: nothing orders task {own:#x} with task {id:#x}, {changed}. \
             Record a golden in which an event or a barrier orders them"
        );
    }
    let runs = if is_in_both { "in both runs" } else { "unlike in the golden" };
    format!(
        "argument {arg_index} is ambiguous: {runs}, nothing orders the task with task {id:#x}, {changed}. If the program \
         has no other order, add an event dependency or a barrier"
    )
}
