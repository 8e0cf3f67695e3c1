//! Model checks of the list of waiting successors.

use std::sync::Arc;

use loom::thread;

use super::{ListClosed, OPEN_EMPTY, close_with, is_closed_with, push_with};
use crate::SharedU32;
use crate::atomic::Ordering;
use crate::model::{RACE, RaceChecked, Steps, holds, refuted, weakened};
use crate::orderings::{FanoutOrderings, ProvenOrderings};

weakened! {
    PushRelaxed: FanoutOrderings { PUSH = Relaxed }
    SeeClosedRelaxed: FanoutOrderings { SEE_CLOSED = Relaxed }
    CloseWithoutAcquire: FanoutOrderings { CLOSE = Release }
    CloseWithoutRelease: FanoutOrderings { CLOSE = Acquire }
}

/// A producer with its output, and two edges with one successor each.
struct FanoutModel {
    head: SharedU32,
    links: [SharedU32; 2],
    successors: [RaceChecked<u32>; 2],
    output: RaceChecked<u32>,
    steps: Steps,
}

impl FanoutModel {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            head: SharedU32::new(OPEN_EMPTY),
            links: [SharedU32::new(0), SharedU32::new(0)],
            successors: [RaceChecked::new(0), RaceChecked::new(0)],
            output: RaceChecked::new(0),
            steps: Steps::new(),
        })
    }

    /// Returns true if the edge waits. Returns false if the producer was complete; its output must then be
    /// visible.
    fn depend<O: FanoutOrderings>(&self, node: u32) -> bool {
        self.steps.mark();
        self.successors[node as usize].write(100 + node);
        match push_with::<O, _>(&self.head, &self.links[..], node) {
            Ok(()) => true,
            Err(ListClosed) => {
                assert_eq!(self.output.read(), 9);
                false
            }
        }
    }

    /// How often the closer received each node.
    fn complete<O: FanoutOrderings>(&self) -> [u32; 2] {
        self.steps.mark();
        self.output.write(9);
        let mut given = [0; 2];
        for node in close_with::<O, _>(&self.head, &self.links[..]) {
            assert_eq!(self.successors[node as usize].read(), 100 + node);
            given[node as usize] += 1;
        }
        given
    }
}

fn one_pusher<O: FanoutOrderings + 'static>() {
    let shared = FanoutModel::new();
    let closer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.complete::<O>()
    });
    let waits = [0, 1].map(|node| u32::from(shared.depend::<O>(node)));
    assert_eq!(closer.join().unwrap(), waits);
}

fn two_pushers<O: FanoutOrderings + 'static>() {
    let shared = FanoutModel::new();
    let pushers = [0, 1].map(|node| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || u32::from(shared.depend::<O>(node)))
    });
    let given = shared.complete::<O>();
    assert_eq!(given, pushers.map(|pusher| pusher.join().unwrap()));
}

fn watcher<O: FanoutOrderings + 'static>() {
    let shared = FanoutModel::new();
    let closer = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.complete::<O>()
    });
    shared.steps.mark();
    if is_closed_with::<O>(&shared.head) {
        assert_eq!(shared.output.read(), 9);
    }
    assert_eq!(closer.join().unwrap(), [0, 0]);
}

#[test]
fn each_edge_is_either_handed_to_the_closer_or_refused() {
    holds(one_pusher::<ProvenOrderings>);
}

#[test]
fn edges_of_two_pushers_are_handed_over_once() {
    holds(two_pushers::<ProvenOrderings>);
}

#[test]
fn a_closed_list_shows_the_output() {
    holds(watcher::<ProvenOrderings>);
}

#[test]
fn push_without_release_is_refuted() {
    refuted(RACE, one_pusher::<PushRelaxed>);
    refuted(RACE, two_pushers::<PushRelaxed>);
}

#[test]
fn refusal_without_acquire_is_refuted() {
    refuted(RACE, one_pusher::<SeeClosedRelaxed>);
    refuted(RACE, watcher::<SeeClosedRelaxed>);
}

#[test]
fn close_without_acquire_is_refuted() {
    refuted(RACE, one_pusher::<CloseWithoutAcquire>);
}

#[test]
fn close_without_release_is_refuted() {
    refuted(RACE, one_pusher::<CloseWithoutRelease>);
    refuted(RACE, watcher::<CloseWithoutRelease>);
}
