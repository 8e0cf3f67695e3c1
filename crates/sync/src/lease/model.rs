//! Model checks of leasing and returning.

use std::sync::Arc;

use loom::thread;

use super::{Lease, Tenancy, Watcher};
use crate::SharedU64;
use crate::atomic::Ordering;
use crate::model::{Copied, Guarded, RACE, Steps, holds, refuted, weakened};
use crate::orderings::{LeaseOrderings, Proven};

weakened! {
    TakeRelaxed: LeaseOrderings { TAKE = Relaxed }
    GiveBackRelaxed: LeaseOrderings { GIVE_BACK = Relaxed }
    WatchRelaxed: LeaseOrderings { WATCH = Relaxed }
}

/// One lane, and what its holder keeps behind it.
struct Shared {
    word: SharedU64,
    behind: Guarded<u64>,
    steps: Steps,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { word: SharedU64::new(0), behind: Guarded::new(0), steps: Steps::new() })
    }

    fn use_once<O: LeaseOrderings>(&self) -> bool {
        self.steps.mark();
        let Some(lease) = Lease::<O>::take_with(&self.word) else { return false };
        assert_eq!(self.behind.read(), lease.earlier(), "every holder counts once");
        self.behind.write(lease.earlier() + 1);
        self.steps.mark();
        lease.give_back();
        true
    }
}

fn two_threads<O: LeaseOrderings + 'static>() {
    let shared = Shared::new();
    let other = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.use_once::<O>()
    });
    let mine = shared.use_once::<O>();
    let others = other.join().unwrap();
    assert!(mine || others, "a free lane is given to somebody");
    assert_eq!(shared.word.get(), 2 * (u64::from(mine) + u64::from(others)));
}

fn a_host_watches<O: LeaseOrderings + 'static>(copies: bool) {
    let shared = Shared::new();
    let holder = thread::spawn({
        let shared = Arc::clone(&shared);
        move || assert!(shared.use_once::<O>())
    });
    shared.steps.mark();
    let returned = if copies {
        Watcher::<_, O>::with_orderings(Copied(&shared.word)).look()
    } else {
        Watcher::<_, O>::with_orderings(&shared.word).look()
    };
    if returned.unwrap() == Tenancy::Returned {
        assert_eq!(shared.behind.read(), 1);
    }
    holder.join().unwrap();
}

#[test]
fn a_lane_has_one_holder_who_sees_what_the_last_one_left() {
    holds(two_threads::<Proven>);
}

#[test]
fn a_returned_lane_shows_what_was_left_there() {
    holds(|| a_host_watches::<Proven>(false));
    holds(|| a_host_watches::<Proven>(true));
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
