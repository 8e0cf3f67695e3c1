//! One verdict for a run of many ranks.
//!
//! A collective exchanges content between ranks: its inputs on all ranks of its group are inputs of its task on each
//! rank. [`Blame`] labels the tasks of one rank and does not know the other ranks. [`join`] corrects the labels of
//! all ranks afterwards:
//!
//! - A collective whose output is wrong although its own inputs are right is `inherited` if an input on another
//!   rank is wrong. It is `unknown` if an input on another rank is not known. It stays `wrong_here` only if the
//!   inputs on all ranks are right.
//! - The same holds for a collective that is `fed` by uninitialized memory: precedence puts `inherited` and `unknown`
//!   before `fed`. If the inputs on all ranks are right, it stays `fed`.
//! - The same holds for a task that amplifies an error that came from another rank within its rule. Noise may be the
//!   reason if tasks before all collectives differ from the golden, too; then an unknown error is no excuse.
//!
//! | module | answers |
//! | --- | --- |
//! | [`names`] | which tasks are collectives by their names? |
//! | [`operations`] | which tasks of all ranks belong to one collective? |
//! | [`recorded`] | the same, for collectives with a recorded group |
//! | [`groups`] | which ranks form a group? |
//! | [`inputs`] | are the inputs of a collective on one rank right? |
//! | [`spread`] | where do errors go from one rank to another? |

mod groups;
mod inputs;
mod names;
mod operations;
mod recorded;
mod spread;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tensortap_abi::DumpStage;
use tensortap_format::Tasks;
use tensortap_judge::Verdict;

use crate::blame::Blame;
use crate::graph::TaskGraph;
use crate::labels::{Finding, Label};
use inputs::{InputState, input_state, output_verdict, source_of};
pub use names::CollectiveNames;
pub use operations::{GroupBasis, GroupOperation, Unaligned};
use spread::{JudgedOperations, OpenSpread, SpreadErrors, first_wrong};

/// A rank, or a process without a rank, with the labels of its tasks.
pub struct RankBlame {
    /// Its name among the dumps: `rank 3`.
    pub name: String,
    /// The labels, compared with a golden dump.
    pub blame: Blame,
}

/// A rank whose tasks could not be compared.
pub struct MissingRank {
    /// Its name: `rank 3`.
    pub name: String,
    /// Why it could not be compared.
    pub why: String,
    /// Its tasks, from its own dump or from that of the golden; `None` without either.
    pub tasks: Option<Tasks>,
}

/// A task of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RankTask {
    /// Position of the rank.
    pub rank: usize,
    /// Position of the task in the graph of the rank.
    pub task: usize,
}

/// Whether some task is a collective: recorded as one, or by its name.
#[must_use]
pub fn has_collectives(tasks: &Tasks, names: &CollectiveNames) -> bool {
    tasks.iter().any(|task| task.collective().is_some() || names.kind_of(task).is_some())
}

/// The verdict on a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunVerdict {
    /// Something was compared on every rank, and nothing is wrong.
    Pass,
    /// Some task is wrong, or a rank cannot be judged.
    Fail,
    /// A rank that is missing could decide.
    Undecided,
}

/// A collective that is wrong on several ranks although its inputs on all ranks are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongCollective {
    /// Position of the operation.
    pub operation: usize,
    /// Positions of the ranks on which its output is wrong.
    pub ranks: Vec<usize>,
    /// Whether these outputs are equal.
    pub is_same: bool,
}

/// What the ranks of a run show together.
#[derive(Default)]
pub struct JointBlame {
    /// The collectives, each with its tasks on all ranks.
    pub operations: Vec<GroupOperation>,
    /// Collectives that do not line up, so nothing was concluded from other ranks.
    pub unaligned: Vec<Unaligned>,
    /// The task of another rank that an `inherited` task got its error from.
    pub from_rank: HashMap<RankTask, RankTask>,
    /// Tasks at which an error began and that no error of any rank led to, earliest first.
    pub first_wrong: Vec<RankTask>,
    /// Collectives that are wrong as a whole.
    pub wrong_collectives: Vec<WrongCollective>,
    /// By missing rank: the operations that only it can decide.
    pub undecided: BTreeMap<usize, Vec<usize>>,
}

/// Corrects the labels of all ranks by what the other ranks show. The first wrong tasks of each rank are then those of
/// the whole run.
#[must_use]
pub fn join(ranks: &mut [RankBlame], missing: &[MissingRank], names: &CollectiveNames) -> JointBlame {
    let found = operations::collectives(ranks, missing, names);
    let inputs = inputs_of(ranks, &found.operations);
    let by_task = by_task(&found.operations);
    let judged = JudgedOperations { operations: &found.operations, inputs: &inputs, by_task: &by_task };
    let spread = SpreadErrors::of(ranks, &judged);
    let open = open_collectives(&found, &inputs, &spread);
    let collectives: Vec<RankTask> = tasks_of(&found);
    let open_tasks: Vec<RankTask> = open.iter().map(|(at, _)| *at).collect();
    let open_spread = OpenSpread::of(ranks, &collectives, &open_tasks);
    let mut joiner = Joiner {
        ranks,
        missing,
        judged: &judged,
        spread: &spread,
        open: &open,
        open_spread: &open_spread,
        joint: JointBlame::default(),
    };
    let changes = joiner.changes(&found.unaligned);
    let joint = joiner.joint;
    for (at, finding) in changes {
        let blame = &mut ranks[at.rank].blame;
        blame.slots.remove(&at.task);
        blame.findings[at.task] = finding;
    }
    let first_wrong = first_wrong(ranks, &judged);
    for (number, rank) in ranks.iter_mut().enumerate() {
        let own = first_wrong.iter().filter(|at| at.rank == number);
        rank.blame.first_wrong = own.map(|at| at.task).collect();
    }
    let wrong_collectives = wrong_collectives(ranks, &judged);
    JointBlame {
        operations: found.operations,
        unaligned: found.unaligned,
        first_wrong,
        wrong_collectives,
        ..joint
    }
}

impl JointBlame {
    /// The verdict on the run. `passes` is whether every rank passes by itself; `is_missing` is whether a rank that is
    /// not allowed to be missing is.
    ///
    /// A missing rank could decide if it may hold the first wrong task: only other ranks' errors are known, or
    /// nothing is wrong without it.
    #[must_use]
    pub fn verdict(&self, ranks: &[RankBlame], passes: bool, is_missing: bool) -> RunVerdict {
        let is_stopped = ranks.iter().any(|rank| !rank.blame.stopped.is_empty());
        if !self.first_wrong.is_empty() || is_stopped {
            return RunVerdict::Fail;
        }
        match (is_missing || !self.undecided.is_empty(), passes) {
            (true, _) => RunVerdict::Undecided,
            (false, true) => RunVerdict::Pass,
            (false, false) => RunVerdict::Fail,
        }
    }

    /// The number of operations of each name, of those with a recorded group or of those found by name.
    #[must_use]
    pub fn counts(&self, are_recorded: bool) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for operation in self.operations.iter().filter(|one| one.group.is_some() == are_recorded) {
            *counts.entry(operation.name.as_str()).or_default() += 1;
        }
        counts
    }

    /// The tasks of a rank that inherited an error from another rank, in the order of reports.
    #[must_use]
    pub fn inherited_by(&self, ranks: &[RankBlame], rank: usize) -> Vec<usize> {
        let own = self.from_rank.keys().filter(|at| at.rank == rank);
        let mut places: Vec<usize> = own.map(|at| at.task).collect();
        ranks[rank].blame.graph.sort(&mut places);
        places
    }
}

fn inputs_of(ranks: &[RankBlame], operations: &[GroupOperation]) -> Vec<Vec<Option<InputState>>> {
    let of_rank = |(rank, task): (usize, &Option<usize>)| Some(input_state(&ranks[rank].blame, (*task)?));
    operations.iter().map(|operation| operation.tasks.iter().enumerate().map(of_rank).collect()).collect()
}

fn by_task(operations: &[GroupOperation]) -> HashMap<RankTask, usize> {
    let of = |(at, operation): (usize, &GroupOperation)| {
        operation.members().map(|(rank, task)| (RankTask { rank, task }, at)).collect::<Vec<_>>()
    };
    operations.iter().enumerate().flat_map(of).collect()
}

/// Why the inputs of a collective are not known on all ranks.
enum OpenInputs {
    /// Those of this operation on some rank, or a rank is missing.
    Operation(usize),
    /// The collectives do not line up, for this reason.
    Unaligned(String),
}

/// Tasks of collectives whose inputs are not known on all ranks.
fn open_collectives(
    found: &operations::Collectives,
    inputs: &[Vec<Option<InputState>>],
    spread: &SpreadErrors,
) -> Vec<(RankTask, OpenInputs)> {
    let mut open = Vec::new();
    for (number, operation) in found.operations.iter().enumerate() {
        let is_unknown = inputs[number].iter().flatten().any(|state| matches!(state, InputState::Unknown(_)));
        if is_unknown || !operation.missing.is_empty() || spread.is_unproven(number) {
            let tasks = operation.members().map(|(rank, task)| RankTask { rank, task });
            open.extend(tasks.map(|at| (at, OpenInputs::Operation(number))));
        }
    }
    for one in &found.unaligned {
        let why = || OpenInputs::Unaligned(unaligned_words(one));
        open.extend(one.tasks.iter().map(|&(rank, task)| (RankTask { rank, task }, why())));
    }
    open
}

/// The tasks of all collectives.
fn tasks_of(found: &operations::Collectives) -> Vec<RankTask> {
    let aligned = found.operations.iter().flat_map(GroupOperation::members);
    let unaligned = found.unaligned.iter().flat_map(|one| one.tasks.iter().copied());
    aligned.chain(unaligned).map(|(rank, task)| RankTask { rank, task }).collect()
}

struct Joiner<'a> {
    ranks: &'a [RankBlame],
    missing: &'a [MissingRank],
    judged: &'a JudgedOperations<'a>,
    spread: &'a SpreadErrors,
    open: &'a [(RankTask, OpenInputs)],
    open_spread: &'a OpenSpread,
    joint: JointBlame,
}

impl Joiner<'_> {
    /// The findings that change, of tasks where an error began by the evidence of their own ranks, or may have begun.
    fn changes(&mut self, unaligned: &[Unaligned]) -> Vec<(RankTask, Finding)> {
        let all = unaligned;
        let unaligned: HashMap<RankTask, &Unaligned> = unaligned
            .iter()
            .flat_map(|one| one.tasks.iter().map(move |&(rank, task)| (RankTask { rank, task }, one)))
            .collect();
        let mut changes = Vec::new();
        for (rank, own) in self.ranks.iter().enumerate() {
            for task in 0..own.blame.findings.len() {
                let at = RankTask { rank, task };
                let finding = &own.blame.findings[task];
                let is_open = match finding.label {
                    Label::WrongHere => true,
                    Label::Fed => !self.is_fed(at),
                    Label::Unknown => finding.is_amplified,
                    _ => false,
                };
                if !is_open {
                    continue;
                }
                let change = match (self.judged.by_task.get(&at), unaligned.get(&at)) {
                    (Some(&operation), _) => self.collective(at, operation),
                    // If all tasks of that name received what is right, it does not matter which of them belong together.
                    (None, Some(unaligned)) => {
                        let is_alike =
                            |one: &&Unaligned| (&one.name, one.step) == (&unaligned.name, unaligned.step);
                        let mut alike = all.iter().filter(is_alike);
                        let is_right = alike.all(|one| self.have_equal_inputs(one));
                        (!is_right).then(|| self.unknown(at, &unaligned_words(unaligned)))
                    }
                    (None, None) => self.amplified(at).filter(|_| finding.label != Label::Fed),
                };
                changes.extend(change.map(|finding| (at, finding)));
            }
        }
        changes
    }

    /// Whether the inputs of collectives are those of the golden on all ranks. An incomplete dump may lack some of them.
    fn have_equal_inputs(&self, collectives: &Unaligned) -> bool {
        let is_whole = |rank: &RankBlame| {
            let graphs = [Some(&rank.blame.graph), rank.blame.golden.as_ref()];
            graphs.into_iter().flatten().all(|graph| graph.gap.is_none())
        };
        self.missing.is_empty()
            && self.ranks.iter().all(is_whole)
            && collectives.tasks.iter().all(|&(rank, task)| {
                let blame = &self.ranks[rank].blame;
                input_state(blame, task) == InputState::Right && !spread::has_near_input(blame, task)
            })
    }

    /// Whether a task that is fed certainly read something wrong, so that other ranks cannot explain its output.
    /// Uninitialized memory is no such evidence: most collectives only write it.
    fn is_fed(&self, at: RankTask) -> bool {
        matches!(input_state(&self.ranks[at.rank].blame, at.task), InputState::Wrong(_))
    }

    /// The finding of a collective with right inputs on its own rank and a wrong output.
    fn collective(&mut self, at: RankTask, number: usize) -> Option<Finding> {
        let operation = &self.judged.operations[number];
        let others = || {
            let inputs = self.judged.inputs[number].iter().enumerate().filter(|(rank, _)| *rank != at.rank);
            inputs.filter_map(|(rank, state)| Some((rank, operation.tasks[rank]?, state.as_ref()?)))
        };
        let wrong = others().find_map(|(rank, task, state)| match state {
            InputState::Wrong(arg) => Some((rank, source_of(&self.ranks[rank].blame, task, *arg))),
            InputState::Right | InputState::Unknown(_) => None,
        });
        if let Some((rank, task)) = wrong {
            return Some(match self.doubt(at, rank, operation) {
                None => self.inherited(at, RankTask { rank, task }, false),
                Some(doubt) => {
                    let (name, other) = (&operation.name, &self.ranks[rank].name);
                    self.unknown(at, &format!("the input of `{name}` on {other} is wrong, but {doubt}"))
                }
            });
        }
        if let Some(source) = self.spread.remote_source(at) {
            return Some(match self.doubt(at, source.rank, operation) {
                None => self.inherited(at, source, true),
                Some(doubt) => {
                    let source = self.task_words(source);
                    self.unknown(at, &format!("an error came from {source}, but {doubt}"))
                }
            });
        }
        if self.spread.is_unproven(number) {
            let reason = "an error of another rank may have come through this collective, but nothing shows which ranks \
                          form its group";
            return Some(self.unknown(at, reason));
        }
        let unknown = others().find_map(|(rank, _, state)| match state {
            InputState::Unknown(reason) => Some((rank, reason)),
            InputState::Right | InputState::Wrong(_) => None,
        });
        let is_open = unknown.is_some() || !operation.missing.is_empty();
        if !is_open || self.is_proven_by_equal_results(at, number) {
            return self.whole(at, number);
        }
        let name = &operation.name;
        if let Some((rank, reason)) = unknown {
            let other = &self.ranks[rank].name;
            return Some(
                self.unknown(at, &format!("the input of `{name}` on {other} is not known: {reason}")),
            );
        }
        for &rank in &operation.missing {
            self.joint.undecided.entry(rank).or_default().push(number);
        }
        let missing: Vec<&str> =
            operation.missing.iter().map(|&rank| self.missing[rank].name.as_str()).collect();
        let reason =
            format!("the input of `{name}` on {} could be wrong: {}", listed(&missing), self.why(operation));
        Some(self.unknown(at, &reason))
    }

    /// Why an error of another rank may have nothing to do with this task, although a collective of that rank was joined
    /// with it: the ranks may be in different groups.
    fn doubt(&self, at: RankTask, other: usize, operation: &GroupOperation) -> Option<&'static str> {
        if operation.is_group_uncertain() {
            return Some("nothing shows that both ranks are in one group");
        }
        let task = operation.tasks[other]?;
        let outputs = [(at.rank, at.task), (other, task)]
            .map(|(rank, task)| changed_hashes(&self.ranks[rank].blame.graph, task));
        let [Some(ours), Some(theirs)] = outputs else { return None };
        let is_by_content = operation.basis == GroupBasis::Content;
        let differs = is_by_content && ours != theirs && !self.is_noisy(&operation.name);
        differs.then_some("the outputs of the two ranks differ, so they may be in different groups")
    }

    /// Whether right results of a collective differ between ranks although they are equal in the golden.
    fn is_noisy(&self, name: &str) -> bool {
        let operations = self.judged.operations.iter();
        operations.filter(|one| one.name == name && one.basis == GroupBasis::Content).any(|operation| {
            let right = operation.members().filter(|&(rank, task)| {
                output_verdict(&self.ranks[rank].blame, task, None) == Verdict::Within
            });
            let outputs: BTreeSet<_> =
                right.map(|(rank, task)| changed_hashes(&self.ranks[rank].blame.graph, task)).collect();
            outputs.len() > 1
        })
    }

    /// Why the first missing rank of an operation could not be compared.
    fn why(&self, operation: &GroupOperation) -> &str {
        operation.missing.first().map_or("", |&rank| self.missing[rank].why.as_str())
    }

    /// Whether a right output on another rank proves that all inputs are right: the collective leaves the same
    /// content on all ranks, by its name and in the golden.
    fn is_proven_by_equal_results(&self, at: RankTask, number: usize) -> bool {
        let operation = &self.judged.operations[number];
        let expected = golden_output(&self.ranks[at.rank].blame, at.task);
        let is_right = |(rank, task): (usize, usize)| {
            let blame = &self.ranks[rank].blame;
            output_verdict(blame, task, None) == Verdict::Within
                && golden_output(blame, task) == expected
                && !self.judged.inputs[number][rank]
                    .as_ref()
                    .is_some_and(|state| matches!(state, InputState::Wrong(_)))
        };
        let is_group = !operation.is_group_uncertain();
        expected.is_some() && operation.has_equal_results && is_group && operation.members().any(is_right)
    }

    /// The reason if the collective is wrong on other ranks, too. Its label stays.
    fn whole(&self, at: RankTask, number: usize) -> Option<Finding> {
        let operation = &self.judged.operations[number];
        let wrong = wrong_members(self.ranks, operation);
        let finding = self.ranks[at.rank].blame.findings[at.task].clone();
        if wrong.len() < 2 || finding.label != Label::WrongHere {
            return None;
        }
        let names: Vec<&str> = wrong.iter().map(|&rank| self.ranks[rank].name.as_str()).collect();
        let reason = format!(
            "all inputs of `{}` are right, and its output is wrong on {}: the collective itself is wrong",
            operation.name,
            listed(&names)
        );
        Some(Finding { reason: Some(reason), ..finding })
    }

    /// The finding of a task that is no collective and has an input with an error of another rank within its rule.
    fn amplified(&mut self, at: RankTask) -> Option<Finding> {
        let Some((arg_index, source)) = self.spread.near_error(&self.ranks[at.rank].blame, at) else {
            return self.may_be_amplified(at);
        };
        self.joint.from_rank.insert(at, source);
        let reason = format!(
            "argument {arg_index} is within its rule but not equal to the golden, and an error came from {} through \
             a collective",
            self.task_words(source)
        );
        Some(self.relabeled(at, Label::Inherited, reason, Some(arg_index), true))
    }

    /// The finding of a task with an input that an unknown error of another rank may explain.
    fn may_be_amplified(&self, at: RankTask) -> Option<Finding> {
        let (arg_index, number) = self.open_spread.explains(&self.ranks[at.rank].blame, at)?;
        let why = match &self.open[number].1 {
            OpenInputs::Unaligned(why) => why.clone(),
            OpenInputs::Operation(number) => {
                let name = &self.judged.operations[*number].name;
                format!("the inputs of `{name}` are not known on all ranks")
            }
        };
        let reason = format!(
            "argument {arg_index} is within its rule but not equal to the golden, and an error of another rank may \
             explain that: {why}"
        );
        let finding = self.unknown(at, &reason);
        Some(Finding { arg_index: Some(arg_index), is_amplified: true, ..finding })
    }

    fn inherited(&mut self, at: RankTask, source: RankTask, is_amplified: bool) -> Finding {
        self.joint.from_rank.insert(at, source);
        let within = if is_amplified { ", within its rule but not equal to the golden" } else { "" };
        let reason = format!("from {}, through this collective{within}", self.task_words(source));
        self.relabeled(at, Label::Inherited, reason, None, is_amplified)
    }

    fn unknown(&self, at: RankTask, reason: &str) -> Finding {
        let finding = self.relabeled(at, Label::Unknown, reason.to_owned(), None, false);
        Finding { depends_on_ranks: true, ..finding }
    }

    fn relabeled(
        &self,
        at: RankTask,
        label: Label,
        reason: String,
        arg_index: Option<u16>,
        is_amplified: bool,
    ) -> Finding {
        let finding = self.ranks[at.rank].blame.findings[at.task].clone();
        let arg_index = arg_index.or(finding.arg_index);
        Finding { label, reason: Some(reason), arg_index, race: None, is_amplified, ..finding }
    }

    /// `task 0x7 (backward) on rank 2`.
    fn task_words(&self, at: RankTask) -> String {
        let task = self.ranks[at.rank].blame.graph.task(at.task);
        let kernels = task.short_kernel_names();
        let step = if task.step == 0 { String::new() } else { format!("{}@", task.step) };
        format!("task {step}{:#x} ({kernels}) on {}", task.task_id, self.ranks[at.rank].name)
    }
}

fn unaligned_words(unaligned: &Unaligned) -> String {
    let Unaligned { name, reason, .. } = unaligned;
    format!(
        "its inputs on other ranks are not known: the `{name}` tasks of the ranks do not line up: {reason}"
    )
}

/// `rank 1, rank 2 and rank 3`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Positions of the ranks on which the output of an operation is wrong.
fn wrong_members(ranks: &[RankBlame], operation: &GroupOperation) -> Vec<usize> {
    let is_wrong =
        |(rank, task): &(usize, usize)| output_verdict(&ranks[*rank].blame, *task, None) == Verdict::Outside;
    operation.members().filter(is_wrong).map(|(rank, _)| rank).collect()
}

/// The golden's task for a task.
fn partner_of(blame: &Blame, place: usize) -> Option<usize> {
    blame.matching.partner.get(place).copied().flatten()
}

/// Hashes of the outputs of a task's partner in the golden.
fn golden_output(blame: &Blame, place: usize) -> Option<Vec<u128>> {
    let (partner, golden) = partner_of(blame, place).zip(blame.golden.as_ref())?;
    changed_hashes(golden, partner)
}

/// Hashes of what a task left. Memory of unknown role counts if the task changed it.
fn changed_hashes(graph: &TaskGraph, place: usize) -> Option<Vec<u128>> {
    let outputs = graph.task(place).outputs().filter(|arg| !arg.is_scalar());
    let written = outputs.filter(|arg| arg.role_known || !arg.is_unchanged());
    let hashes: Option<Vec<u128>> = written.map(|arg| arg.hash_after()).collect();
    hashes.filter(|hashes| !hashes.is_empty())
}

/// Hashes of the outputs of a task.
fn output_hashes(blame: &Blame, place: usize) -> Option<Vec<u128>> {
    let wrong = blame.outside(place).filter(|one| one.stage == DumpStage::AfterCompletion);
    wrong.map(|one| blame.graph.task(place).argument(one.arg_index)?.hash_after()).collect()
}

/// Collectives of which several tasks are still wrong here.
fn wrong_collectives(ranks: &[RankBlame], judged: &JudgedOperations<'_>) -> Vec<WrongCollective> {
    let mut found = Vec::new();
    for (number, operation) in judged.operations.iter().enumerate() {
        let is_named =
            |&(rank, task): &(usize, usize)| ranks[rank].blame.findings[task].label == Label::WrongHere;
        let named: Vec<(usize, usize)> = operation.members().filter(is_named).collect();
        if named.len() > 1 {
            let outputs: BTreeSet<_> =
                named.iter().map(|&(rank, task)| output_hashes(&ranks[rank].blame, task)).collect();
            let is_same = outputs.len() == 1 && !outputs.contains(&None);
            let ranks = named.into_iter().map(|(rank, _)| rank).collect();
            found.push(WrongCollective { operation: number, ranks, is_same });
        }
    }
    found
}

#[cfg(test)]
mod tests;
