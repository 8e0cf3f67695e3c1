//! Behavior of the pending count.

use std::thread;

use proptest::prelude::*;

use super::{arm, guard, satisfy};
use crate::SharedU32;
use crate::testing::{Lockstep, ROUNDS, cases};

#[test]
fn without_producers_the_guard_is_last() {
    let count = SharedU32::new(77);
    guard(&count);
    assert!(satisfy(&count));
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn only_the_last_caller_gets_true(producers in 0..20_usize) {
        let count = SharedU32::new(0);
        guard(&count);
        for _ in 0..producers {
            arm(&count);
        }
        let answers: Vec<bool> = (0..=producers).map(|_| satisfy(&count)).collect();
        prop_assert_eq!(answers.iter().position(|&last| last), Some(producers));
    }
}

/// A producer completes while the orchestrator releases the guard, for each of many tasks.
#[test]
fn under_threads_exactly_one_caller_gets_true() {
    let counts: Vec<SharedU32> = (0..ROUNDS).map(|_| SharedU32::new(0)).collect();
    for count in &counts {
        guard(count);
        arm(count);
    }
    let lockstep = Lockstep::default();
    let satisfy_all = || {
        let satisfy_in_step = |(count, round)| {
            lockstep.begin(round, 2);
            satisfy(count)
        };
        counts.iter().zip(0..).map(satisfy_in_step).collect::<Vec<bool>>()
    };
    let answers = thread::scope(|scope| {
        let producer = scope.spawn(satisfy_all);
        [satisfy_all(), producer.join().unwrap()]
    });
    for (task, (own, other)) in answers[0].iter().zip(&answers[1]).enumerate() {
        assert_ne!(own, other, "task {task}");
    }
}

#[cfg(debug_assertions)]
mod misuse {
    use super::*;

    #[test]
    #[should_panic(expected = "call pending::guard first")]
    fn arming_without_the_guard_is_caught() {
        arm(&SharedU32::new(0));
    }

    #[test]
    #[should_panic(expected = "more often than armed")]
    fn satisfying_too_often_is_caught() {
        let _ = satisfy(&SharedU32::new(0));
    }
}
