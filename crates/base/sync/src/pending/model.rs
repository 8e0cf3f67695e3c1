//! Model checks of the pending count.

use std::sync::Arc;

use loom::thread;

use super::{arm, guard, satisfy_with};
use crate::SharedU32;
use crate::atomic::Ordering;
use crate::fanout::{EdgeTable, OPEN_EMPTY, close_with, push_with};
use crate::model::{RACE, RaceChecked, Steps, holds, refuted, weakened};
use crate::orderings::{FanoutOrderings, PendingOrderings, ProvenOrderings};

weakened! {
    SatisfyRelaxed: PendingOrderings { SATISFY = Relaxed }
    SatisfyWithoutAcquire: PendingOrderings { SATISFY = Release }
    SatisfyWithoutRelease: PendingOrderings { SATISFY = Acquire }
}

struct GraphClosesWithoutRelease;
impl FanoutOrderings for GraphClosesWithoutRelease {
    const CLOSE: Ordering = Ordering::Acquire;
}
impl PendingOrderings for GraphClosesWithoutRelease {}

struct GraphSatisfiesWithoutAcquire;
impl FanoutOrderings for GraphSatisfiesWithoutAcquire {}
impl PendingOrderings for GraphSatisfiesWithoutAcquire {
    const SATISFY: Ordering = Ordering::Release;
}

struct PendingModel {
    count: SharedU32,
    outputs: [RaceChecked<u32>; 3],
}

impl PendingModel {
    /// Writes output `index` and satisfies; if last, all outputs must be visible.
    fn complete<O: PendingOrderings>(&self, index: usize) -> usize {
        self.outputs[index].write(1);
        let last = satisfy_with::<O>(&self.count);
        if last {
            assert_eq!(self.outputs.each_ref().map(RaceChecked::read), [1; 3]);
        }
        usize::from(last)
    }
}

/// Two producers complete while the orchestrator releases the guard.
fn three_completions<O: PendingOrderings + 'static>() {
    let shared = PendingModel { count: SharedU32::new(0), outputs: [(); 3].map(|()| RaceChecked::new(0)) };
    guard(&shared.count);
    arm(&shared.count);
    arm(&shared.count);
    let shared = Arc::new(shared);
    let producers = [0, 1].map(|index| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.complete::<O>(index))
    });
    let mut last = shared.complete::<O>(2);
    for producer in producers {
        last += producer.join().unwrap();
    }
    assert_eq!(last, 1, "exactly one caller is last");
}

/// One task that depends on two producers, which complete while the task is being built.
struct Graph {
    count: SharedU32,
    heads: [SharedU32; 2],
    links: [SharedU32; 2],
    outputs: [RaceChecked<u32>; 2],
    steps: Steps,
}

impl EdgeTable for Graph {
    fn next(&self, node: u32) -> &SharedU32 {
        &self.links[node as usize]
    }
}

impl Graph {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            count: SharedU32::new(0),
            heads: [SharedU32::new(OPEN_EMPTY), SharedU32::new(OPEN_EMPTY)],
            links: [SharedU32::new(0), SharedU32::new(0)],
            outputs: [RaceChecked::new(0), RaceChecked::new(0)],
            steps: Steps::new(),
        })
    }

    /// How often this caller had to make the task ready.
    fn satisfy<O: PendingOrderings>(&self) -> usize {
        let ready = satisfy_with::<O>(&self.count);
        if ready {
            assert_eq!(self.outputs.each_ref().map(RaceChecked::read), [1; 2]);
        }
        usize::from(ready)
    }

    fn complete<O: FanoutOrderings + PendingOrderings>(&self, producer: usize) -> usize {
        self.steps.mark();
        self.outputs[producer].write(1);
        close_with::<O, _>(&self.heads[producer], self).map(|_| self.satisfy::<O>()).sum()
    }

    fn build<O: FanoutOrderings + PendingOrderings>(&self) -> usize {
        self.steps.mark();
        guard(&self.count);
        let mut ready = 0;
        for (head, node) in self.heads.iter().zip(0..) {
            arm(&self.count);
            if push_with::<O, _>(head, self, node).is_err() {
                ready += self.satisfy::<O>();
            }
        }
        self.steps.mark();
        ready + self.satisfy::<O>()
    }
}

fn build_while_completing<O: FanoutOrderings + PendingOrderings + 'static>() {
    let graph = Graph::new();
    let producers = [0, 1].map(|producer| {
        let graph = Arc::clone(&graph);
        thread::spawn(move || graph.complete::<O>(producer))
    });
    let mut ready = graph.build::<O>();
    for producer in producers {
        ready += producer.join().unwrap();
    }
    assert_eq!(ready, 1, "the task becomes ready exactly once");
}

#[test]
fn a_task_becomes_ready_once_however_its_producers_complete() {
    holds(build_while_completing::<ProvenOrderings>);
}

#[test]
fn building_on_a_weak_close_is_refuted() {
    refuted(RACE, build_while_completing::<GraphClosesWithoutRelease>);
}

#[test]
fn building_on_a_weak_count_is_refuted() {
    refuted(RACE, build_while_completing::<GraphSatisfiesWithoutAcquire>);
}

#[test]
fn exactly_one_caller_is_last_and_sees_all_outputs() {
    holds(three_completions::<ProvenOrderings>);
}

#[test]
fn satisfy_relaxed_is_refuted() {
    refuted(RACE, three_completions::<SatisfyRelaxed>);
}

#[test]
fn satisfy_without_acquire_is_refuted() {
    refuted(RACE, three_completions::<SatisfyWithoutAcquire>);
}

#[test]
fn satisfy_without_release_is_refuted() {
    refuted(RACE, three_completions::<SatisfyWithoutRelease>);
}
