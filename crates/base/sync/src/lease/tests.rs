//! Behavior of leases.

use std::thread;

use super::{Lease, Tenancy, Watcher};
use crate::cursor::{CursorError, ReadError};
use crate::testing::{ROUNDS, insist};
use crate::{CachePadded, SharedU64};

#[test]
fn a_lane_has_one_holder_at_a_time_and_counts_them() {
    let word = SharedU64::new(0);
    for earlier in 0..3 {
        let lease = Lease::take(&word).unwrap();
        assert_eq!(lease.earlier(), earlier);
        assert!(Lease::take(&word).is_none());
        lease.give_back();
    }
}

#[test]
fn a_count_at_its_end_is_never_leased() {
    assert!(Lease::take(&SharedU64::new(u64::MAX)).is_none());
    let last = SharedU64::new(u64::MAX - 1);
    Lease::take(&last).unwrap().give_back();
    assert!(Lease::take(&last).is_none(), "the lane stays leased and the count does not overflow");
}

#[test]
fn a_host_rejects_a_count_that_moved_back() {
    let word = SharedU64::new(0);
    let mut host = Watcher::new(&word);
    word.set(6);
    assert_eq!(host.look(), Ok(Tenancy::Returned));
    word.set(5);
    assert_eq!(host.look(), Err(ReadError::Damaged(CursorError::MovedBack { from: 6, to: 5 })));
}

#[test]
fn threads_share_few_lanes_but_never_hold_the_same_one() {
    let lanes = [CachePadded::new(SharedU64::new(0)), CachePadded::new(SharedU64::new(0))];
    let uses = [CachePadded::new(SharedU64::new(0)), CachePadded::new(SharedU64::new(0))];
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let (place, lease) = insist(|| Lease::take_first(lanes.iter().map(|lane| &**lane)));
                    // Not an atomic increment: with two holders at once, one increment would be lost.
                    uses[place].set(uses[place].get() + 1);
                    lease.give_back();
                }
            });
        }
    });
    assert_eq!(uses[0].get() + uses[1].get(), 3 * u64::from(ROUNDS));
}
