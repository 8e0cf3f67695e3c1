//! Model checks of leasing and returning.

use std::sync::Arc;

use loom::thread;

use super::{Lease, Tenancy, Watcher};
use crate::SharedU64;
use crate::atomic::Ordering;
use crate::model::{CopiedWord, RACE, RaceChecked, Steps, holds, refuted, weakened};
use crate::orderings::{LeaseOrderings, ProvenOrderings};

weakened! {
    TakeRelaxed: LeaseOrderings { TAKE = Relaxed }
    GiveBackRelaxed: LeaseOrderings { GIVE_BACK = Relaxed }
    WatchRelaxed: LeaseOrderings { WATCH = Relaxed }
}

/// One lane, and the memory that its holder uses.
struct LeaseModel {
    word: SharedU64,
    guarded: RaceChecked<u64>,
    steps: Steps,
}

impl LeaseModel {
    fn new() -> Arc<Self> {
        Arc::new(Self { word: SharedU64::new(0), guarded: RaceChecked::new(0), steps: Steps::new() })
    }

    fn use_once<O: LeaseOrderings>(&self) -> bool {
        self.steps.mark();
        let Some(lease) = Lease::<O>::take_with(&self.word) else { return false };
        assert_eq!(self.guarded.read(), lease.earlier(), "every holder counts once");
        self.guarded.write(lease.earlier() + 1);
        self.steps.mark();
        lease.give_back();
        true
    }
}

fn two_threads<O: LeaseOrderings + 'static>() {
    let shared = LeaseModel::new();
    let other = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.use_once::<O>()
    });
    let mine = shared.use_once::<O>();
    let others = other.join().unwrap();
    assert!(mine || others, "one thread gets the free lane");
    assert_eq!(shared.word.get(), 2 * (u64::from(mine) + u64::from(others)));
}

fn a_host_watches<O: LeaseOrderings + 'static>(copies: bool) {
    let shared = LeaseModel::new();
    let holder = thread::spawn({
        let shared = Arc::clone(&shared);
        move || assert!(shared.use_once::<O>())
    });
    shared.steps.mark();
    let returned = if copies {
        Watcher::<_, O>::with_orderings(CopiedWord(&shared.word)).look()
    } else {
        Watcher::<_, O>::with_orderings(&shared.word).look()
    };
    if returned.unwrap() == Tenancy::Returned {
        assert_eq!(shared.guarded.read(), 1);
    }
    holder.join().unwrap();
}

#[test]
fn a_lane_has_one_holder_that_sees_its_predecessors_writes() {
    holds(two_threads::<ProvenOrderings>);
}

#[test]
fn a_returned_lane_shows_its_last_holders_writes() {
    holds(|| a_host_watches::<ProvenOrderings>(false));
    holds(|| a_host_watches::<ProvenOrderings>(true));
}

#[test]
fn taking_without_acquire_is_refuted() {
    refuted(RACE, two_threads::<TakeRelaxed>);
}

#[test]
fn returning_without_release_is_refuted() {
    refuted(RACE, two_threads::<GiveBackRelaxed>);
    refuted(RACE, || a_host_watches::<GiveBackRelaxed>(true));
}

#[test]
fn watching_without_acquire_is_refuted() {
    refuted(RACE, || a_host_watches::<WatchRelaxed>(false));
}
