//! Races that are likely, where roles are not known and neither run says who wrote first.
//!
//! Two tasks that nothing orders and that were both given the bytes which differ between two runs prove nothing: tasks may share a buffer and
//! work on parts of it. That one of them changed those very bytes, as far as was seen, makes a race likely. It is evidence against nobody.

use std::collections::HashMap;

use tensortap_abi::DumpStage;
use tensortap_format::{Argument, Dump, FormatError, Task};

use crate::compare::unless_gone;
use crate::graph::{TaskGraph, TensorView};
use crate::labels::{LikelyRace, Status, TaskStatus};
use crate::matching::Matching;
use crate::observation::NAMED;

/// Contents that are read for all of it; what comes later is ambiguous, and no more is said.
const MOST_BYTES: u64 = 256 << 20;

/// Arguments that are asked for, the first: questions about memory take steps, which labels need, too.
const MOST_ASKED: usize = 10_000;

/// A dump and its tasks.
#[derive(Clone, Copy)]
pub(super) struct Run<'r> {
    pub dump: &'r Dump,
    pub graph: &'r TaskGraph,
}

/// Likely races behind arguments outside their rules, by task and argument; those whose order was lost are not asked for.
///
/// # Errors
/// A file cannot be read.
pub(super) fn races(
    (ours, golden): (Run<'_>, Run<'_>),
    matching: &Matching,
    statuses: &[TaskStatus],
    lost_order: &HashMap<(usize, u16), usize>,
) -> Result<HashMap<(usize, u16), LikelyRace>, FormatError> {
    let mut found = HashMap::new();
    if ours.graph.observations().is_none() || golden.graph.observations().is_none() {
        return Ok(found);
    }
    let mut asked = 0;
    let mut search = Search { ours, golden, matching, left: MOST_BYTES };
    for task in ours.graph.tasks().iter() {
        let (Some(partner), TaskStatus::Compared(args)) =
            (matching.partner[task.place()], &statuses[task.place()])
        else {
            continue;
        };
        let partner = golden.graph.task(partner);
        for (arg, status) in task.arguments().zip(args).filter(|(arg, _)| !arg.is_scalar()) {
            let stage = match (&status.before, &status.after) {
                (Status::Outside, _) => DumpStage::BeforeDispatch,
                (_, Status::Outside) => DumpStage::AfterCompletion,
                _ => continue,
            };
            let key = (task.place(), arg.arg_index);
            let there = partner.argument(arg.arg_index).filter(|_| !lost_order.contains_key(&key));
            let Some(there) = there else { continue };
            let given = (Given { task, arg }, Given { task: partner, arg: there });
            if asked == MOST_ASKED {
                return Ok(found);
            }
            asked += 1;
            if let Some(race) = search.behind(given, stage)? {
                found.insert(key, race);
            }
        }
    }
    Ok(found)
}

/// An argument of a task.
#[derive(Clone, Copy)]
struct Given<'g> {
    task: Task<'g>,
    arg: Argument<'g>,
}

struct Search<'r> {
    ours: Run<'r>,
    golden: Run<'r>,
    matching: &'r Matching,
    /// Bytes that may still be read.
    left: u64,
}

impl Search<'_> {
    /// The race behind what differs in an argument: of the dump, or else of the golden.
    fn behind(
        &mut self,
        (here, there): (Given<'_>, Given<'_>),
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
                // The other run may have seen it.
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

    /// The argument by which a task changed some of these bytes of another's.
    fn changed(
        &mut self,
        run: Run<'_>,
        arg: Argument<'_>,
        other: usize,
        differs: &[bool],
    ) -> Result<Option<u16>, FormatError> {
        let Some((start, _)) = span(arg) else { return Ok(None) };
        for written in run.graph.task(other).arguments() {
            let writes = !written.role_known || written.role.writes();
            let Some((first, bytes)) = span(written).filter(|_| writes) else { continue };
            let differs_at = |place: u64| {
                let place = (first + place).checked_sub(start).and_then(|place| usize::try_from(place).ok());
                place.and_then(|place| differs.get(place)).is_some_and(|differs| *differs)
            };
            let is_changed = match (written.role_known, written.before) {
                // What is known to write wrote all of it.
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
        run: Run<'_>,
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

/// Tasks that nothing orders with an argument's, as far as that is known.
fn unordered(run: Run<'_>, Given { task, arg }: Given<'_>) -> Vec<usize> {
    let Some(seen) = run.graph.observations() else { return Vec::new() };
    let is_known = |other: &usize| !seen.order().is_unknown(task.place().max(*other));
    seen.unordered(task, arg).tasks.into_iter().filter(is_known).take(NAMED).collect()
}

/// The bytes that an argument is, where they lie together: the first, and how many.
fn span(arg: Argument<'_>) -> Option<(u64, u64)> {
    let layout = TensorView::of(arg)?.layout;
    let width = layout.elem_bits() / 8;
    let is_plain = layout.is_contiguous() && layout.elem_bits() % 8 == 0;
    let start = arg.address.checked_add(layout.start_offset().checked_mul(width.into())?)?;
    let bytes = layout.numel().checked_mul(width.into())?;
    start.checked_add(bytes).filter(|_| is_plain)?;
    Some((start, bytes))
}

/// The same in words, with what to do about it.
pub(super) fn words(
    (ours, golden): (Run<'_>, Run<'_>),
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
            "argument {arg_index} is ambiguous in the golden: there task {own:#x} and task {id:#x}, {changed}, likely race, as nothing orders the two; \
             a golden in which an event or a barrier orders them says what is right"
        );
    }
    let neither = if is_in_both { ", in the golden neither" } else { "" };
    format!(
        "argument {arg_index} is ambiguous: likely a race with task {id:#x}, {changed}, as nothing orders the two{neither}; an event of the one in the \
         wait list of the other, or a barrier between them, does"
    )
}
