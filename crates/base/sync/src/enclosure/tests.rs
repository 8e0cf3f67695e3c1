//! Behavior of enclosures.

use std::thread;

use super::{EnclosureCells, Enclosures};
use crate::SharedU64;
use crate::testing::{ROUNDS, insist};

type Places = Vec<[SharedU64; 2]>;

fn places(count: usize) -> (SharedU64, Places) {
    (SharedU64::new(0), (0..count).map(|_| Default::default()).collect())
}

fn over<'p>(
    (used, places): &'p (SharedU64, Places),
) -> Enclosures<'p, impl Fn(usize) -> Option<EnclosureCells<'p>> + Copy + Sync> {
    Enclosures::new(used, |place: usize| {
        places.get(place).map(|[thread, task]| EnclosureCells { thread, task })
    })
}

#[test]
fn tasks_nest_and_the_place_is_free_after_the_last() {
    let places = places(1);
    let enclosures = over(&places);
    assert!(enclosures.is_unused());
    assert_eq!((enclosures.enter(1, 10), enclosures.enter(1, 11)), (Some(0), Some(10)));
    assert_eq!(enclosures.enter(2, 20), None, "the only place is taken");
    enclosures.leave(1, 10, 0);
    assert_eq!(enclosures.enclosing(1), 11, "10 is not the innermost one");
    enclosures.leave(1, 11, 10);
    enclosures.leave(1, 10, 0);
    assert_eq!((enclosures.enter(2, 20), enclosures.enclosing(1), enclosures.enclosing(2)), (Some(0), 0, 20));
}

#[test]
fn a_task_closed_by_another_thread_is_no_longer_the_innermost() {
    let places = places(2);
    let enclosures = over(&places);
    enclosures.enter(1, 10).unwrap();
    enclosures.leave_from_outside(1, 10, 0);
    assert_eq!(enclosures.enclosing(1), 0);
    assert_eq!((enclosures.enter(1, 12), enclosures.enclosing(1)), (Some(0), 12));
    enclosures.leave_from_outside(1, 10, 0);
    assert_eq!(enclosures.enclosing(1), 12, "it opened another one meanwhile");
}

#[test]
fn words_that_a_program_overwrote_lead_nowhere() {
    let places = places(2);
    let enclosures = over(&places);
    places.0.set(u64::MAX);
    assert_eq!(enclosures.enclosing(3), 0);
    assert_eq!((enclosures.enter(3, 30), enclosures.enclosing(3)), (Some(0), 30));
}

#[test]
fn every_thread_finds_its_own_tasks_only() {
    let places = places(2);
    let enclosures = over(&places);
    thread::scope(|scope| {
        for thread in 1..=3_u64 {
            scope.spawn(move || {
                for round in 0..u64::from(ROUNDS) {
                    let task = thread << 32 | (round + 1);
                    assert_eq!(enclosures.enclosing(thread), 0);
                    // Two places for three threads.
                    let around = insist(|| enclosures.enter(thread, task));
                    assert_eq!((around, enclosures.enclosing(thread)), (0, task));
                    enclosures.leave(thread, task, 0);
                }
            });
        }
    });
}
