//! Behavior of parking. No test here asserts how long anything takes.

use std::thread;
use std::time::Duration;

use super::{ASLEEP, AWAKE, Parker, SPINS, WaitOutcome, YIELDS, spins_for};
use crate::atomic::{AtomicU32, Ordering};
use crate::testing::{ROUNDS, insist};

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn nothing_spins_when_threads_outnumber_cpus() {
    assert_eq!([spins_for(1, 2), spins_for(2, 2), spins_for(3, 2)], [SPINS, SPINS, 0]);
}

#[test]
fn a_wait_with_work_checks_once_and_does_not_sleep() {
    let parker = Parker::new(3, 3);
    let mut looks = 0;
    parker.wait(|| {
        looks += 1;
        false
    });
    assert_eq!(looks, 1);
}

#[test]
fn a_wait_spins_and_yields_as_configured_before_it_raises_its_flag() {
    let parker = Parker::new(3, 2);
    let mut flags = Vec::new();
    parker.wait(|| {
        flags.push(parker.flag.word().load(Ordering::Relaxed));
        flags.len() < 7
    });
    assert_eq!(flags, [AWAKE, AWAKE, AWAKE, AWAKE, AWAKE, AWAKE, ASLEEP]);
    assert_eq!(parker.flag.word().load(Ordering::Relaxed), AWAKE, "the flag is lowered again");
}

#[test]
fn a_limit_ends_an_idle_wait() {
    let parker = Parker::new(0, 0);
    assert_eq!(parker.wait_timeout(SHORT, || true), WaitOutcome::TimedOut);
    assert_eq!(parker.wait_timeout(Duration::ZERO, || true), WaitOutcome::TimedOut);
    assert_eq!(parker.wait_timeout(Duration::ZERO, || false), WaitOutcome::Ready);
}

#[test]
fn work_found_at_the_limit_counts() {
    let parker = Parker::new(0, 0);
    let mut looks = 0;
    // The first check, then the last one, because no time is left.
    let waited = parker.wait_timeout(Duration::ZERO, || {
        looks += 1;
        looks < 2
    });
    assert_eq!((waited, looks), (WaitOutcome::Ready, 2));
}

#[test]
fn a_wake_is_not_remembered() {
    let parker = Parker::new(0, 0);
    parker.wake();
    assert_eq!(parker.wait_timeout(SHORT, || true), WaitOutcome::TimedOut);
}

#[test]
fn a_sleeper_without_limit_is_woken() {
    let (parker, work) = (Parker::new(0, 0), AtomicU32::new(0));
    thread::scope(|scope| {
        let sleeper =
            scope.spawn(|| parker.wait_timeout(Duration::MAX, || work.load(Ordering::Acquire) == 0));
        let sleeps = || (parker.flag.word().load(Ordering::Relaxed) == ASLEEP).then_some(());
        insist(sleeps);
        parker.wake();
        // A wake-up without work: the thread sleeps again.
        insist(sleeps);
        work.store(1, Ordering::Release);
        parker.wake();
        assert_eq!(sleeper.join().unwrap(), WaitOutcome::Ready);
    });
}

/// Two threads take turns; a lost wake-up would leave both asleep.
fn take_turns(spins: u32, yields: u32) {
    let parkers = [Parker::new(spins, yields), Parker::new(spins, yields)];
    let turn = AtomicU32::new(0);
    let play = |own: usize| {
        let first = u32::from(own == 1);
        for mine in (first..ROUNDS).step_by(2) {
            parkers[own].wait(|| turn.load(Ordering::Acquire) != mine);
            turn.store(mine + 1, Ordering::Release);
            parkers[1 - own].wake();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play(1));
        play(0);
    });
    assert_eq!(turn.load(Ordering::Relaxed), ROUNDS);
}

#[test]
fn taking_turns_never_hangs_when_sleeping_at_once() {
    take_turns(0, 0);
}

#[test]
fn taking_turns_never_hangs_when_spinning_and_yielding_first() {
    take_turns(if cfg!(miri) { 1 } else { SPINS }, if cfg!(miri) { 1 } else { YIELDS });
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "two threads wait at one parker")]
fn a_second_sleeper_is_caught() {
    let parker = Parker::new(0, 0);
    // A nested wait acts as a second thread.
    let mut looks = 0;
    parker.wait(|| {
        looks += 1;
        if looks == 2 {
            let _ = parker.wait_timeout(SHORT, || true);
        }
        looks < 3
    });
}
