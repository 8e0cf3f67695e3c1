//! Behaviour of leases.

use std::thread;

use super::{Lease, Tenancy, Watcher};
use crate::cursor::{CursorError, ReadError};
use crate::testing::{ROUNDS, insist};
use crate::{Line, SharedU64};

#[test]
fn a_lane_is_leased_to_one_at_a_time_and_counts_its_holders() {
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
    assert!(Lease::take(&last).is_none(), "it stays leased for good, and nothing overflowed");
}

#[test]
fn a_host_refuses_a_count_that_moved_back() {
    let word = SharedU64::new(0);
    let mut host = Watcher::new(&word);
    word.set(6);
    assert_eq!(host.look(), Ok(Tenancy::Returned));
    word.set(5);
    assert_eq!(host.look(), Err(ReadError::Damaged(CursorError::MovedBack { from: 6, to: 5 })));
}

#[test]
fn threads_share_few_lanes_and_never_one() {
    let lanes = [Line::new(SharedU64::new(0)), Line::new(SharedU64::new(0))];
    let uses = [Line::new(SharedU64::new(0)), Line::new(SharedU64::new(0))];
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let (place, lease) = insist(|| Lease::take_first(lanes.iter().map(|lane| &**lane)));
                    // Not an atomic increment: two holders at once would lose one.
                    uses[place].set(uses[place].get() + 1);
                    lease.give_back();
                }
            });
        }
    });
    assert_eq!(uses[0].get() + uses[1].get(), 3 * u64::from(ROUNDS));
}
