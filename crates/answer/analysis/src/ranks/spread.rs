//! How errors spread across ranks: within a rank from task to task, between ranks through collectives.

use std::collections::{HashMap, HashSet, VecDeque};

use tensortap_format::Argument;

use super::inputs::{InputState, source_of};
use super::operations::GroupOperation;
use super::{RankBlame, RankTask, partner_of};
use crate::blame::Blame;
use crate::labels::Label;

/// The operations of a run with the inputs of their members.
pub(super) struct JudgedOperations<'a> {
    pub operations: &'a [GroupOperation],
    /// By operation and rank: its inputs; `None` if the rank is not in the group.
    pub inputs: &'a [Vec<Option<InputState>>],
    /// The operation of a task.
    pub by_task: &'a HashMap<RankTask, usize>,
}

/// Errors that are within their rules and crossed from one rank to another. A correct kernel can amplify such an
/// error, so its task must not be blamed.
pub(super) struct SpreadErrors {
    /// Tasks that such an error reached, each with the task on another rank it came from.
    from: HashMap<RankTask, RankTask>,
    /// By rank: whether an error of the same rank reached a task.
    own: Vec<Vec<bool>>,
    /// Operations that an error reached and whose groups are not certain.
    unproven: HashSet<usize>,
}

impl SpreadErrors {
    /// Follows errors from every wrong task, through inputs that are not equal to the golden, and through
    /// collectives to all other ranks. Each task is visited once.
    pub fn of(ranks: &[RankBlame], judged: &JudgedOperations<'_>) -> SpreadErrors {
        let near: Vec<NearEdges> = ranks.iter().map(|rank| NearEdges::of(&rank.blame)).collect();
        let own = ranks.iter().zip(&near).map(|(rank, near)| near.reached(&rank.blame)).collect();
        let mut spread = SpreadErrors { from: HashMap::new(), own, unproven: HashSet::new() };
        let mut queue: VecDeque<RankTask> = VecDeque::new();
        let mut is_done = vec![false; judged.operations.len()];
        for (at, inputs) in judged.inputs.iter().enumerate() {
            let sent = inputs.iter().enumerate().find_map(|(rank, state)| {
                let task = judged.operations[at].tasks[rank]?;
                let is_sent = match state {
                    Some(InputState::Wrong(arg)) => Some(*arg),
                    _ => near[rank].reached_input(&ranks[rank].blame, task, &spread.own[rank]),
                };
                Some(RankTask { rank, task: source_of(&ranks[rank].blame, task, is_sent?) })
            });
            if let Some(source) = sent {
                is_done[at] = true;
                spread.enter(at, judged, source, &mut queue);
            }
        }
        while let Some(at) = queue.pop_front() {
            let source = spread.from[&at];
            for &next in near[at.rank].consumers.get(&at.task).into_iter().flatten() {
                let next = RankTask { task: next, ..at };
                if spread.from.contains_key(&next) {
                    continue;
                }
                spread.from.insert(next, source);
                queue.push_back(next);
                let operation = judged.by_task.get(&next);
                if let Some(&operation) = operation.filter(|&&operation| !is_done[operation]) {
                    is_done[operation] = true;
                    spread.enter(operation, judged, source, &mut queue);
                }
            }
        }
        spread
    }

    /// The error of `source` reaches the tasks of an operation on all other ranks, unless some of them may be in another
    /// group.
    fn enter(
        &mut self,
        number: usize,
        judged: &JudgedOperations<'_>,
        source: RankTask,
        queue: &mut VecDeque<RankTask>,
    ) {
        let operation = &judged.operations[number];
        if operation.is_group_uncertain() {
            self.unproven.insert(number);
            return;
        }
        for (rank, task) in operation.members().filter(|(rank, _)| *rank != source.rank) {
            let at = RankTask { rank, task };
            self.from.entry(at).or_insert_with(|| {
                queue.push_back(at);
                source
            });
        }
    }

    /// The input of a task that is not equal to the golden and that only an error of another rank explains, with
    /// the task it came from.
    pub fn near_error(&self, blame: &Blame, at: RankTask) -> Option<(u16, RankTask)> {
        blame.graph.task(at.task).inputs().filter(|arg| is_near(blame, at.task, *arg)).find_map(|arg| {
            let mut producers = blame.graph.producers_of(arg).iter().map(|output| output.task);
            let source = producers.find_map(|task| {
                let is_only_there = !self.own[at.rank][task];
                self.from.get(&RankTask { task, ..at }).filter(|_| is_only_there).copied()
            })?;
            Some((arg.arg_index, source))
        })
    }

    /// Whether an error of some rank reached an operation whose group is not certain.
    pub fn is_unproven(&self, operation: usize) -> bool {
        self.unproven.contains(&operation)
    }

    /// The task of another rank whose error came into a collective within its rule.
    pub fn remote_source(&self, at: RankTask) -> Option<RankTask> {
        self.from.get(&at).copied()
    }
}

/// Differences within their rules that an unknown error of another rank may explain, because they came through a
/// collective whose inputs are not known on all ranks.
pub(super) struct OpenSpread {
    /// By rank: the open collective that may explain what a task left.
    from: Vec<HashMap<usize, usize>>,
    /// By rank: whether tasks before all collectives differ within their rules, too. Such noise explains itself.
    is_noisy: Vec<bool>,
}

impl OpenSpread {
    /// Follows inputs that are not equal to the golden from the collectives that are `open`: the task and its
    /// number among them. `collectives` are all tasks that are collectives.
    pub fn of(ranks: &[RankBlame], collectives: &[RankTask], open: &[RankTask]) -> OpenSpread {
        let near: Vec<NearEdges> = ranks.iter().map(|rank| NearEdges::of(&rank.blame)).collect();
        let mut from: Vec<HashMap<usize, usize>> = vec![HashMap::new(); ranks.len()];
        for (number, at) in open.iter().enumerate() {
            let mut queue = vec![at.task];
            while let Some(task) = queue.pop() {
                if from[at.rank].insert(task, number).is_none() {
                    queue.extend(near[at.rank].consumers.get(&task).into_iter().flatten());
                }
            }
        }
        let is_noisy = ranks.iter().enumerate().map(|(rank, own)| {
            let collectives = collectives.iter().filter(|at| at.rank == rank).map(|at| at.task);
            has_noise(&own.blame, collectives)
        });
        OpenSpread { is_noisy: is_noisy.collect(), from }
    }

    /// The input of a task that an unknown error of another rank may explain, with the number of the open collective.
    pub fn explains(&self, blame: &Blame, at: RankTask) -> Option<(u16, usize)> {
        let mut near = blame.graph.task(at.task).inputs().filter(|arg| is_near(blame, at.task, *arg));
        near.find_map(|arg| {
            let mut producers = blame.graph.producers_of(arg).iter();
            let number = producers.find_map(|output| self.from[at.rank].get(&output.task).copied())?;
            (!self.is_noisy[at.rank]).then_some((arg.arg_index, number))
        })
    }
}

/// Whether a task that no collective and no wrong task of the rank led to has an input that is not equal to the golden.
fn has_noise(blame: &Blame, collectives: impl Iterator<Item = usize>) -> bool {
    let consumers = blame.graph.consumers();
    let mut queue: Vec<usize> = collectives.flat_map(|task| consumers[task].iter().copied()).collect();
    let is_wrong = |task: &usize| !matches!(blame.findings[*task].label, Label::Ok | Label::Unknown);
    queue.extend((0..blame.findings.len()).filter(is_wrong));
    let mut led_to = vec![false; blame.findings.len()];
    while let Some(task) = queue.pop() {
        if !std::mem::replace(&mut led_to[task], true) {
            queue.extend(&consumers[task]);
        }
    }
    let mut others = (0..led_to.len()).filter(|&task| !led_to[task]);
    others.any(|task| has_near_input(blame, task))
}

/// Inputs that are within their rules, but not equal to the golden.
struct NearEdges {
    /// By producer: the tasks that read such an input from it.
    consumers: HashMap<usize, Vec<usize>>,
}

impl NearEdges {
    fn of(blame: &Blame) -> NearEdges {
        let mut consumers: HashMap<usize, Vec<usize>> = HashMap::new();
        for task in blame.graph.tasks().iter() {
            for arg in task.inputs().filter(|arg| is_near(blame, task.place(), *arg)) {
                for output in blame.graph.producers_of(arg) {
                    consumers.entry(output.task).or_default().push(task.place());
                }
            }
        }
        NearEdges { consumers }
    }

    /// By task: whether it is wrong, or an error of the same rank reached it.
    fn reached(&self, blame: &Blame) -> Vec<bool> {
        let mut reached: Vec<bool> = blame
            .findings
            .iter()
            .map(|finding| !matches!(finding.label, Label::Ok | Label::Unknown))
            .collect();
        let mut queue: Vec<usize> = (0..reached.len()).filter(|&task| reached[task]).collect();
        while let Some(task) = queue.pop() {
            for &next in self.consumers.get(&task).into_iter().flatten() {
                if !std::mem::replace(&mut reached[next], true) {
                    queue.push(next);
                }
            }
        }
        reached
    }

    /// The argument through which an error of the same rank came into a task.
    fn reached_input(&self, blame: &Blame, place: usize, reached: &[bool]) -> Option<u16> {
        let mut near = blame.graph.task(place).inputs().filter(|arg| is_near(blame, place, *arg));
        let is_reached = |arg: &Argument<'_>| blame.graph.producers_of(*arg).iter().any(|o| reached[o.task]);
        near.find(is_reached).map(|arg| arg.arg_index)
    }
}

/// Whether some input of a task that another task wrote is not equal to the golden's.
pub(super) fn has_near_input(blame: &Blame, place: usize) -> bool {
    // Memory that no task wrote may hold anything.
    let is_written = |arg: Argument<'_>| !blame.graph.producers_of(arg).is_empty();
    blame.graph.task(place).inputs().any(|arg| is_written(arg) && is_near(blame, place, arg))
}

/// Whether an input is not equal to the golden's.
fn is_near(blame: &Blame, place: usize, arg: Argument<'_>) -> bool {
    let partner = partner_of(blame, place).zip(blame.golden.as_ref());
    let theirs = partner.and_then(|(partner, golden)| golden.task(partner).counterpart(arg));
    let hashes = arg.hash_before().zip(theirs.and_then(|theirs| theirs.hash_before()));
    hashes.is_some_and(|(ours, theirs)| ours != theirs)
}

/// Positions of the tasks at which an error began and that no other error led to, on any rank, earliest first.
pub(super) fn first_wrong(ranks: &[RankBlame], judged: &JudgedOperations<'_>) -> Vec<RankTask> {
    let roots: Vec<RankTask> = (0..ranks.len())
        .flat_map(|rank| {
            let findings = ranks[rank].blame.findings.iter().enumerate();
            findings
                .filter(|(_, finding)| finding.label.is_root())
                .map(move |(task, _)| RankTask { rank, task })
        })
        .collect();
    let led_to = led_to(ranks, judged, &roots);
    let mut first: Vec<RankTask> = roots.iter().copied().filter(|at| !led_to[at.rank][at.task]).collect();
    // Only a damaged dump can have a circle of causes.
    if first.is_empty() {
        first = roots;
    }
    first.sort_by_key(|at| {
        let graph = &ranks[at.rank].blame.graph;
        (graph.task(at.task).step, graph.depth(at.task), graph.task(at.task).key(), at.rank)
    });
    first
}

/// By rank and task: whether an error of one of these tasks can have reached its inputs.
fn led_to(ranks: &[RankBlame], judged: &JudgedOperations<'_>, roots: &[RankTask]) -> Vec<Vec<bool>> {
    let consumers: Vec<Vec<Vec<usize>>> = ranks.iter().map(|rank| rank.blame.graph.consumers()).collect();
    let mut led_to: Vec<Vec<bool>> = consumers.iter().map(|tasks| vec![false; tasks.len()]).collect();
    let mut queue: Vec<RankTask> = roots.to_vec();
    let mut entered = vec![false; judged.operations.len()];
    // A wrong input of a collective is an error on all ranks, also if its own rank has no earlier task.
    for (at, inputs) in judged.inputs.iter().enumerate() {
        let wrong = inputs.iter().position(|state| matches!(state, Some(InputState::Wrong(_))));
        if let Some(wrong) = wrong {
            let others = judged.operations[at].members().filter(|(rank, _)| *rank != wrong);
            for (rank, task) in others {
                led_to[rank][task] = true;
                queue.push(RankTask { rank, task });
            }
        }
    }
    while let Some(at) = queue.pop() {
        for &task in &consumers[at.rank][at.task] {
            let next = RankTask { task, ..at };
            if std::mem::replace(&mut led_to[at.rank][task], true) {
                continue;
            }
            queue.push(next);
            let Some(&operation) = judged.by_task.get(&next) else { continue };
            if std::mem::replace(&mut entered[operation], true) {
                continue;
            }
            for (rank, task) in judged.operations[operation].members() {
                if !std::mem::replace(&mut led_to[rank][task], true) {
                    queue.push(RankTask { rank, task });
                }
            }
        }
    }
    led_to
}
