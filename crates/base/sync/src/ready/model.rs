//! Model checks of the ready queue.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use super::ReadyQueue;
use crate::atomic::Ordering;
use crate::model::{RACE, RaceChecked, Steps, holds, refuted, weakened};
use crate::orderings::{ProvenOrderings, ReadyOrderings};

weakened! {
    FillRelaxed: ReadyOrderings { FILL = Relaxed }
    SeeFilledRelaxed: ReadyOrderings { SEE_FILLED = Relaxed }
    EmptyRelaxed: ReadyOrderings { EMPTY = Relaxed }
    SeeFreeRelaxed: ReadyOrderings { SEE_FREE = Relaxed }
}

/// A queue, and one task per slot. The task is written before the push and changed after the pop.
struct ReadyModel<O> {
    queue: ReadyQueue<O>,
    tasks: [RaceChecked<u32>; 2],
    steps: Steps,
}

impl<O: ReadyOrderings + 'static> ReadyModel<O> {
    fn new(capacity: u32) -> Arc<Self> {
        let tasks = [RaceChecked::new(0), RaceChecked::new(0)];
        Arc::new(Self { queue: ReadyQueue::with_orderings(capacity), tasks, steps: Steps::new() })
    }

    fn submit(&self, slot: u32) {
        self.steps.mark();
        self.tasks[slot as usize].write(1);
        assert_eq!(self.queue.push(slot), Ok(()), "two slots fit");
    }

    /// Runs the oldest ready task, if any.
    fn dispatch(&self) -> usize {
        self.steps.mark();
        let taken = self.queue.pop();
        taken.into_iter().for_each(|slot| self.run(slot));
        usize::from(taken.is_some())
    }

    /// Runs the two oldest ready tasks, taken in one claim, or one if only one is ready.
    fn dispatch_two(&self) -> usize {
        self.steps.mark();
        let mut taken = [0; 2];
        let count = self.queue.pop_into(&mut taken);
        taken[..count].iter().for_each(|&slot| self.run(slot));
        count
    }

    /// Fails if a slot is delivered twice.
    fn run(&self, slot: u32) {
        let task = &self.tasks[slot as usize];
        assert_eq!(task.read(), 1, "slot {slot} delivered twice, or before its task was written");
        task.write(2);
    }

    fn spawn<T: 'static>(self: &Arc<Self>, run: impl FnOnce(&Self) -> T + 'static) -> JoinHandle<T> {
        let shared = Arc::clone(self);
        thread::spawn(move || run(&shared))
    }

    fn dispatch_all(&self) -> usize {
        core::iter::from_fn(|| Some(self.dispatch())).take_while(|&dispatched| dispatched > 0).sum()
    }
}

fn two_pushers<O: ReadyOrderings + 'static>() {
    let shared = ReadyModel::<O>::new(2);
    let pushers = [0, 1].map(|slot| shared.spawn(move |shared| shared.submit(slot)));
    let early = shared.dispatch();
    for pusher in pushers {
        pusher.join().unwrap();
    }
    assert_eq!(early + shared.dispatch_all(), 2);
    assert!(shared.queue.is_empty_hint());
}

fn two_poppers<O: ReadyOrderings + 'static>() {
    let shared = ReadyModel::<O>::new(2);
    let poppers = [(); 2].map(|()| shared.spawn(ReadyModel::dispatch));
    shared.submit(0);
    shared.submit(1);
    let dispatched: usize = poppers.map(|popper| popper.join().unwrap()).iter().sum();
    assert_eq!(dispatched + shared.dispatch_all(), 2);
}

/// Two pushers, the second of which may fill its cell first, and one popper that takes both in one claim.
fn a_popper_of_two<O: ReadyOrderings + 'static>() {
    let shared = ReadyModel::<O>::new(2);
    let pushers = [0, 1].map(|slot| shared.spawn(move |shared| shared.submit(slot)));
    let early = shared.dispatch_two();
    for pusher in pushers {
        pusher.join().unwrap();
    }
    assert_eq!(early + shared.dispatch_all(), 2);
}

/// One popper takes two slots in one claim while another takes one.
fn poppers_of_one_and_two<O: ReadyOrderings + 'static>() {
    let shared = ReadyModel::<O>::new(2);
    let poppers = [shared.spawn(ReadyModel::dispatch), shared.spawn(ReadyModel::dispatch_two)];
    shared.submit(0);
    shared.submit(1);
    let dispatched: usize = poppers.map(|popper| popper.join().unwrap()).iter().sum();
    assert_eq!(dispatched + shared.dispatch_all(), 2);
}

/// With one cell, the second push succeeds only after the pop of the first slot. The pusher must then see
/// the popper's earlier writes.
fn reused_cell<O: ReadyOrderings + 'static>() {
    let shared = ReadyModel::<O>::new(1);
    assert_eq!(shared.queue.push(0), Ok(()));
    let popper = shared.spawn(|shared| {
        shared.steps.mark();
        shared.tasks[0].write(7);
        assert_eq!(shared.queue.pop(), Some(0));
    });
    shared.steps.mark();
    match shared.queue.push(1) {
        Ok(()) => assert_eq!(shared.tasks[0].read(), 7),
        Err(slot) => assert_eq!(slot, 1),
    }
    popper.join().unwrap();
}

#[test]
fn slots_of_two_pushers_arrive_once_with_their_tasks() {
    holds(two_pushers::<ProvenOrderings>);
}

#[test]
fn two_poppers_never_share_a_slot() {
    holds(two_poppers::<ProvenOrderings>);
}

#[test]
fn two_slots_are_taken_at_once_only_when_both_are_filled() {
    holds(a_popper_of_two::<ProvenOrderings>);
}

#[test]
fn poppers_of_one_and_of_two_never_share_a_slot() {
    holds(poppers_of_one_and_two::<ProvenOrderings>);
}

#[test]
fn a_cell_is_reused_only_after_its_pop() {
    holds(reused_cell::<ProvenOrderings>);
}

#[test]
fn push_without_release_is_refuted() {
    refuted(RACE, two_pushers::<FillRelaxed>);
    refuted(RACE, two_poppers::<FillRelaxed>);
    refuted(RACE, a_popper_of_two::<FillRelaxed>);
    refuted(RACE, poppers_of_one_and_two::<FillRelaxed>);
}

#[test]
fn pop_without_acquire_is_refuted() {
    refuted(RACE, two_pushers::<SeeFilledRelaxed>);
    refuted(RACE, two_poppers::<SeeFilledRelaxed>);
    refuted(RACE, a_popper_of_two::<SeeFilledRelaxed>);
}

#[test]
fn emptying_without_release_is_refuted() {
    refuted(RACE, reused_cell::<EmptyRelaxed>);
}

#[test]
fn reuse_without_acquire_is_refuted() {
    refuted(RACE, reused_cell::<SeeFreeRelaxed>);
}
