//! The evidence model: for every byte that differs from the golden outside its rule, where the difference came from.
//!
//! Tasks are visited in dependency order. For each argument outside its rule, every differing position gets an
//! [`ErrorOrigin`]. Positions that are within their rule get none. What a task wrote is decided per element:
//!
//! - An element counts as written if the role is a known output, or if its bytes changed over the task in the dump or
//!   in the golden. A known in-out argument whose content before the task was not captured counts as written.
//! - A differing element that the task wrote has the origin [`Written`](ErrorOrigin::Written): it is evidence against
//!   the task. If the golden's task changed it and this one did not, the output is *stale*.
//! - A differing element that neither run wrote keeps the origin it had before the task. So uninitialized bytes next to
//!   defined ones, and errors of earlier tasks, are never evidence against a task that did not touch them.
//!
//! The origin of a differing element *before* a task follows from the last tasks that held its memory, the newest first:
//!
//! | the last holder | origin |
//! | --- | --- |
//! | left the same bytes, and they were wrong there | the origin that they had there |
//! | left the same bytes, and they were right there | [`Misplaced`](ErrorOrigin::Misplaced): the golden took its content from elsewhere |
//! | left other bytes | [`Changed`](ErrorOrigin::Changed) in between |
//! | is not in the golden, and received nothing wrong | [`Misplaced`](ErrorOrigin::Misplaced) |
//! | does not exist, and the allocation is known, but a task of the golden wrote it | [`Unwritten`](ErrorOrigin::Unwritten) |
//! | does not exist in either run, and the allocation is known | [`Uninitialized`](ErrorOrigin::Uninitialized), unless it still is what a task left wrong there before the allocation |
//! | does not exist | [`External`](ErrorOrigin::External): the memory had this content before recording, or an unrecorded writer left it |
//! | wrote it, but was not captured in both runs or has no certain partner | [`NotCompared`](ErrorOrigin::NotCompared), with the reason |
//! | may have written it, but the captured facts do not decide | [`Unknown`](ErrorOrigin::Unknown), with the reason |
//!
//! At level `hash`, an argument is one position: equal hashes prove that all of it is right, and different hashes
//! accuse a task only if the argument is a known output or was equal before the task.
//!
//! [`crate::labels`] turns origins into labels. A run that equals its golden reads no payload.

mod candidates;
mod content;
mod gatherer;
mod holders;
mod inputs;
mod marks;
mod missing_tasks;
mod outputs;
mod spans;
mod undefined;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tensortap_abi::{DumpStage, Role};
use tensortap_format::Argument;

use crate::graph::{OutputRef, TaskGraph};
pub(crate) use content::{all_positions, difference_between, holds_content_before, holds_output_of};
use gatherer::ArgPair;
pub(crate) use gatherer::{Gatherer, Recording};
pub(crate) use inputs::covered_by;
pub(crate) use marks::ErrorOrigin;
use marks::{Mark, Marks};
pub(crate) use spans::Spans;
pub(crate) use undefined::UninitializedUse;

/// What is known about an argument outside its rule before its task.
#[derive(Clone, Debug, Default)]
pub(crate) struct InputEvidence {
    marks: Marks,
    /// Every part of the argument is uninitialized or external: no recorded task defined any of it.
    pub is_undefined: bool,
    /// How the task used its uninitialized content.
    pub uninitialized: UninitializedUse,
    /// In one of the runs, nothing orders the task with another one that may have written the argument.
    is_unordered: bool,
    /// A task left elements there that are within their rule, but not equal.
    is_near: bool,
}

impl InputEvidence {
    /// The differing elements that no task of the run wrote.
    fn undefined_spans(&self) -> Spans {
        let is_undefined =
            |mark: &&Mark| matches!(mark.origin, ErrorOrigin::Uninitialized | ErrorOrigin::External);
        let marks = self.marks.0.iter().filter(is_undefined);
        Spans::of_unsorted(marks.map(|mark| mark.span.clone()).collect())
    }

    /// The distinct origins of its differing elements, with the first range of each in bytes.
    pub fn origins(&self) -> Vec<(ErrorOrigin, Range<u64>)> {
        let mut found: Vec<(ErrorOrigin, Range<u64>)> = Vec::new();
        for mark in &self.marks.0 {
            if !found.iter().any(|(origin, _)| *origin == mark.origin) {
                found.push((mark.origin, mark.span.start / 2..mark.span.end.div_ceil(2)));
            }
        }
        found
    }
}

/// What is known about an argument outside its rule after its task.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputEvidence {
    marks: Marks,
    /// The task did not change elements that the golden's task changed, and these are wrong.
    pub is_stale: bool,
    /// Why it is not known whether the task wrote wrong elements; the number of the reason.
    undecided: Option<u32>,
    /// A task of the run left elements that are within their rule, but not equal.
    is_near: bool,
    /// The task changed the argument, and its partner in the golden left it alone.
    changed_only_here: bool,
    /// Only hashes or statistics show the difference, so it is not known which elements differ.
    is_by_hash: bool,
    /// A task of the run left something else than in the golden, but it may have been another task, or not be wrong.
    is_open: bool,
}

impl OutputEvidence {
    fn of(marks: Marks) -> OutputEvidence {
        OutputEvidence { marks, ..OutputEvidence::default() }
    }
}

/// Arguments that differ after their tasks, by task position and argument index.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrongOutputs {
    /// The task wrote wrong elements, as contents show.
    pub written: HashSet<(usize, u16)>,
    /// The task wrote wrong elements, as hashes show.
    pub written_by_hash: HashSet<(usize, u16)>,
    /// It is not known whether the task wrote them, or whether they are wrong.
    pub open: HashSet<(usize, u16)>,
}

/// The evidence about every argument that is outside its rule. See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    inputs: HashMap<(usize, u16), InputEvidence>,
    outputs: HashMap<OutputRef, OutputEvidence>,
    reasons: Vec<String>,
    /// The ids of the golden's tasks that wrote what no task of the dump wrote, by position.
    golden_tasks: HashMap<usize, u64>,
    /// Why writes may be missing from one of the dumps.
    gap: Option<String>,
}

impl Evidence {
    /// Why writes may be missing from one of the dumps; `None` if every write was captured.
    pub fn gap(&self) -> Option<&str> {
        self.gap.as_deref()
    }

    /// The evidence about an argument before its task; `None` if nothing differs there.
    pub fn input(&self, task: usize, arg_index: u16) -> Option<&InputEvidence> {
        self.inputs.get(&(task, arg_index))
    }

    /// Whether a task wrote wrong elements into an argument.
    pub fn wrote_wrong(&self, task: usize, arg_index: u16) -> bool {
        let output = OutputRef { task, arg_index };
        self.has_origin(output, |origin| origin == ErrorOrigin::Written(output))
    }

    /// Whether a task did not write elements that it should have written.
    pub fn is_stale(&self, task: usize, arg_index: u16) -> bool {
        self.outputs.get(&OutputRef { task, arg_index }).is_some_and(|output| output.is_stale)
    }

    /// Whether an argument left its task with wrong elements that a task of the run is the reason for.
    pub fn is_left_wrong(&self, task: usize, arg_index: u16) -> bool {
        let is_known = |origin: ErrorOrigin| origin.is_of_run() && origin.unknown_reason().is_none();
        self.has_origin(OutputRef { task, arg_index }, is_known)
    }

    /// Whether a task changed an argument that its partner in the golden left alone.
    pub fn is_changed_only_here(&self, task: usize, arg_index: u16) -> bool {
        self.outputs.get(&OutputRef { task, arg_index }).is_some_and(|output| output.changed_only_here)
    }

    /// Arguments outside their rule before their tasks, of which other parts are within it, but not equal.
    pub fn near_inputs(&self) -> impl Iterator<Item = (usize, u16)> + '_ {
        self.inputs.iter().filter(|(_, input)| input.is_near).map(|(key, _)| *key)
    }

    /// The arguments that differ before their tasks and are not, or not only, what an earlier task left there wrong;
    /// with the last holder if it left something else.
    pub fn changed_inputs(&self) -> impl Iterator<Item = ((usize, u16), Option<OutputRef>)> + '_ {
        self.inputs.iter().filter_map(|(key, input)| {
            input.marks.0.iter().find_map(|mark| match mark.origin {
                ErrorOrigin::Changed(holder) => Some((*key, Some(holder))),
                ErrorOrigin::External => Some((*key, None)),
                _ => None,
            })
        })
    }

    /// The id of the golden's task that wrote what no task of the dump wrote.
    pub fn golden_task(&self, output: OutputRef) -> u64 {
        self.golden_tasks.get(&output.task).copied().unwrap_or_default()
    }

    /// Why it is not known whether a task wrote wrong elements into an argument, if that is not known.
    pub fn unknown_output(&self, task: usize, arg_index: u16) -> Option<&str> {
        let undecided = self.outputs.get(&OutputRef { task, arg_index })?.undecided;
        undecided.map(|reason| self.reason(reason))
    }

    /// Arguments that differ at a stage because of something that happened in the run. Memory that only a word inside a
    /// value points to counts only where its task wrote it: other errors there are shown by the tasks that made them.
    pub fn counting(&self, graph: &TaskGraph) -> HashSet<(usize, u16, DumpStage)> {
        let is_candidate = |task: usize, arg_index: u16| {
            graph.task(task).argument(arg_index).is_some_and(|arg| arg.is_candidate())
        };
        let inputs = self.inputs.iter().filter(|((task, arg_index), input)| {
            let is_by_order = |origin| {
                let is_of_holder = matches!(
                    origin,
                    ErrorOrigin::Changed(_) | ErrorOrigin::Misplaced(_) | ErrorOrigin::NotCompared(_)
                );
                input.is_unordered && is_of_holder
            };
            let mut origins = input.marks.0.iter().map(|mark| mark.origin);
            !is_candidate(*task, *arg_index)
                && origins.any(|origin| origin.is_of_run() && !is_by_order(origin))
        });
        let inputs = inputs.map(|((task, arg_index), _)| (*task, *arg_index, DumpStage::BeforeDispatch));
        let outputs = self.outputs.iter().filter(|(output, found)| {
            let is_candidate = is_candidate(output.task, output.arg_index);
            let counts = |origin: ErrorOrigin| match is_candidate {
                true => origin == ErrorOrigin::Written(**output),
                false => origin.is_of_run(),
            };
            found.marks.0.iter().any(|mark| counts(mark.origin))
        });
        let outputs = outputs.map(|(output, _)| (output.task, output.arg_index, DumpStage::AfterCompletion));
        inputs.chain(outputs).collect()
    }

    /// The arguments for which the task wrote wrong elements, and those for which that remains open.
    pub fn wrong_outputs(&self) -> WrongOutputs {
        let of = |is: &dyn Fn(&OutputRef, &OutputEvidence) -> bool| {
            let found = self.outputs.iter().filter(|(output, found)| is(output, found));
            found.map(|(output, _)| (output.task, output.arg_index)).collect()
        };
        WrongOutputs {
            written: of(&|output, found| {
                !found.is_by_hash && self.wrote_wrong(output.task, output.arg_index)
            }),
            written_by_hash: of(&|output, found| {
                found.is_by_hash && self.wrote_wrong(output.task, output.arg_index)
            }),
            open: of(&|_, found| found.is_open),
        }
    }

    /// The positions of an argument that differ at a stage.
    pub fn differing(&self, task: usize, arg_index: u16, stage: DumpStage) -> Spans {
        let marks = match stage {
            DumpStage::BeforeDispatch => self.inputs.get(&(task, arg_index)).map(|input| &input.marks),
            DumpStage::AfterCompletion => {
                self.outputs.get(&OutputRef { task, arg_index }).map(|output| &output.marks)
            }
        };
        marks.map(Marks::spans).unwrap_or_default()
    }

    /// The text of a reason.
    pub fn reason(&self, number: u32) -> &str {
        self.reasons.get(number as usize).map_or("it is not known", String::as_str)
    }

    fn has_origin(&self, output: OutputRef, is: impl Fn(ErrorOrigin) -> bool) -> bool {
        self.outputs.get(&output).is_some_and(|found| found.marks.0.iter().any(|mark| is(mark.origin)))
    }

    fn unknown(&mut self, reason: impl Into<String>) -> ErrorOrigin {
        ErrorOrigin::Unknown(self.number_of(reason))
    }

    /// The origin of content that a task left in an argument that was not compared. A declared output is written whole.
    fn not_compared(&mut self, left_in: Argument<'_>, reason: impl Into<String>) -> ErrorOrigin {
        let reason = self.number_of(reason);
        match left_in.role_known && left_in.role == Role::Output {
            true => ErrorOrigin::NotCompared(reason),
            false => ErrorOrigin::Unknown(reason),
        }
    }

    fn number_of(&mut self, reason: impl Into<String>) -> u32 {
        let reason = reason.into();
        // Neighboring arguments often have the same reason.
        let known = self.reasons.iter().rev().take(8).position(|known| *known == reason);
        let number = known.map_or(self.reasons.len(), |back| self.reasons.len() - 1 - back);
        if known.is_none() {
            self.reasons.push(reason);
        }
        u32::try_from(number).unwrap_or(u32::MAX)
    }
}
