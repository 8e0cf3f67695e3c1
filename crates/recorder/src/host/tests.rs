//! When a host counts as gone.

use super::*;

const MS: u64 = 1_000_000;

#[test]
fn a_host_is_gone_after_silence_adding_up_to_the_limit() {
    let mut patience = Patience::new(250, 7);
    patience.begin(1000 * MS);
    for (now, alive) in [(1100, true), (1200, true), (1249, true), (1250, false), (1251, false)] {
        assert_eq!(patience.look(7, now * MS), alive, "at {now} ms");
    }
    assert!(patience.is_gone());
}

#[test]
fn a_heartbeat_starts_the_count_again_but_revives_nobody() {
    let mut patience = Patience::new(150, 7);
    patience.begin(0);
    assert!(patience.look(7, 100 * MS));
    assert!(patience.look(8, 149 * MS));
    assert!(patience.look(8, 249 * MS));
    assert!(!patience.look(8, 299 * MS));
    assert!(!patience.look(9, 300 * MS), "gone for good");
}

#[test]
fn an_interval_in_which_this_thread_stood_still_counts_as_a_tenth_of_a_second() {
    let mut patience = Patience::new(250, 7);
    patience.begin(0);
    assert!(patience.look(7, 3_600_000 * MS));
    assert!(patience.look(7, 7_200_000 * MS));
    assert!(!patience.look(7, 7_200_050 * MS));
}

#[test]
fn time_between_two_waits_does_not_count() {
    let mut patience = Patience::new(150, 7);
    patience.begin(0);
    assert!(patience.look(7, 90 * MS));
    patience.begin(10_000 * MS);
    assert!(patience.look(7, 10_059 * MS));
    assert!(!patience.look(7, 10_060 * MS), "90 ms and 60 ms of two waits add up");
}

#[test]
fn without_a_limit_a_host_is_never_gone() {
    let mut patience = Patience::new(0, 7);
    patience.begin(0);
    assert!((1..1000).all(|look| patience.look(7, look * 100 * MS)));
}

#[test]
fn pauses_grow_to_a_limit_and_start_short_again() {
    let mut patience = Patience::new(0, 0);
    patience.begin(0);
    let pauses = [(); 8].map(|()| patience.next_pause().as_millis());
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 50, 50]);
    patience.begin(0);
    assert_eq!(patience.next_pause().as_millis(), 1);
}

#[test]
fn a_wait_with_a_limit_ends_with_it_and_the_next_one_begins_anew() {
    let mut patience = Patience::new(0, 7);
    patience.set_most(Some(Duration::from_millis(40)));
    patience.begin(0);
    assert!(patience.look(8, 30 * MS) && !patience.is_over(), "a beating heart changes nothing");
    let rest = [(); 5].map(|()| patience.next_pause().as_millis());
    assert_eq!(rest, [1, 2, 4, 8, 10], "no pause goes past the limit");
    assert!(patience.look(9, 40 * MS) && patience.is_over());
    patience.begin(100 * MS);
    assert!(patience.look(9, 139 * MS) && !patience.is_over());
    patience.set_most(None);
    assert!(patience.look(9, 1000 * MS) && !patience.is_over());
}
