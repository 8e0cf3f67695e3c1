//! Behavior of the ready queue.

use std::collections::VecDeque;
use std::thread;

use proptest::prelude::*;

use super::ReadyQueue;
use crate::testing::{ROUNDS, cases, insist};

#[test]
fn capacity_is_the_next_power_of_two() {
    for (requested, capacity) in [(0, 1), (1, 1), (2, 2), (3, 4), (64, 64), (65, 128)] {
        assert_eq!(ReadyQueue::new(requested).capacity(), capacity, "requested {requested}");
    }
}

#[test]
fn a_full_queue_returns_the_slot() {
    for capacity in [1, 2, 8] {
        let queue = ReadyQueue::new(capacity);
        for slot in 0..capacity {
            assert_eq!(queue.push(slot), Ok(()));
        }
        assert_eq!(queue.push(99), Err(99), "capacity {capacity}");
        assert_eq!(queue.pop(), Some(0));
        assert_eq!(queue.push(99), Ok(()));
    }
}

#[test]
fn the_hint_follows_pushes_and_pops() {
    let queue = ReadyQueue::new(2);
    assert!(queue.is_empty_hint());
    queue.push(5).unwrap();
    assert!(!queue.is_empty_hint());
    queue.pop().unwrap();
    assert!(queue.is_empty_hint());
    assert_eq!(queue.pop(), None);
    assert!(queue.is_empty_hint(), "a pop that finds nothing claims nothing");
}

#[test]
fn the_cursors_do_not_share_a_cache_line() {
    let queue = ReadyQueue::new(2);
    let (push, pop) = ((&raw const queue.next_push).addr(), (&raw const queue.next_pop).addr());
    assert_ne!(push / 64, pop / 64);
    assert_eq!((push % 64, pop % 64), (0, 0));
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn it_behaves_as_a_bounded_fifo(
        capacity in 1..9_u32,
        steps in prop::collection::vec(prop_oneof![any::<u32>().prop_map(Ok), (0..12_usize).prop_map(Err)], 0..200),
    ) {
        let queue = ReadyQueue::new(capacity);
        let mut model = VecDeque::new();
        for step in steps {
            match step {
                Ok(slot) if model.len() as u64 == queue.capacity() => prop_assert_eq!(queue.push(slot), Err(slot)),
                Ok(slot) => {
                    prop_assert_eq!(queue.push(slot), Ok(()));
                    model.push_back(slot);
                }
                Err(1) => prop_assert_eq!(queue.pop(), model.pop_front()),
                Err(at_once) => {
                    let mut taken = vec![0; at_once];
                    let count = queue.pop_into(&mut taken);
                    let expected: Vec<u32> = model.drain(..at_once.min(model.len())).collect();
                    prop_assert_eq!(&taken[..count], expected);
                }
            }
            prop_assert_eq!(queue.len_hint(), model.len() as u64);
            prop_assert_eq!(queue.is_empty_hint(), model.is_empty());
        }
    }
}

const PUSHERS: u32 = 2;
/// One popper that takes single slots and one that takes several at once.
const POPPERS: u32 = 2;

/// Pushes `ROUNDS` slots whose lowest digit is the pusher's number.
fn push_all(queue: &ReadyQueue, pusher: u32) {
    for round in 0..ROUNDS {
        insist(|| queue.push(round * PUSHERS + pusher).ok());
    }
}

/// Takes this popper's share, up to `at_once` slots at a time.
fn pop_share(queue: &ReadyQueue, at_once: usize) -> Vec<u32> {
    let share = (ROUNDS * PUSHERS / POPPERS) as usize;
    let (mut popped, mut room) = (Vec::new(), vec![0; at_once]);
    while popped.len() < share {
        let wanted = at_once.min(share - popped.len());
        let count = insist(|| Some(queue.pop_into(&mut room[..wanted])).filter(|count| *count > 0));
        popped.extend_from_slice(&room[..count]);
    }
    popped
}

#[test]
fn threads_get_every_slot_once_and_in_order_per_pusher() {
    for capacity in [1, 2, 64] {
        let queue = ReadyQueue::new(capacity);
        let popped: Vec<Vec<u32>> = thread::scope(|scope| {
            for pusher in 0..PUSHERS {
                let queue = &queue;
                scope.spawn(move || push_all(queue, pusher));
            }
            let queue = &queue;
            let poppers = [1, 5].map(|at_once| scope.spawn(move || pop_share(queue, at_once)));
            poppers.into_iter().map(|popper| popper.join().unwrap()).collect()
        });
        for (slots, pusher) in popped.iter().flat_map(|slots| (0..PUSHERS).map(move |pusher| (slots, pusher)))
        {
            assert!(slots.iter().filter(|&slot| slot % PUSHERS == pusher).is_sorted());
        }
        let mut all = popped.concat();
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..ROUNDS * PUSHERS));
        assert!(queue.is_empty_hint());
    }
}
