//! When a host counts as gone.

use super::*;

const MS: u64 = 1_000_000;

#[test]
fn a_host_is_gone_after_silence_adding_up_to_the_limit() {
    let mut watch = HostWatch::new(250, 7);
    watch.begin(1000 * MS);
    for (now, alive) in [(1100, true), (1200, true), (1249, true), (1250, false), (1251, false)] {
        assert_eq!(watch.look(7, now * MS), alive, "at {now} ms");
    }
    assert!(watch.is_gone());
}

#[test]
fn a_heartbeat_restarts_the_count_but_does_not_revive_a_gone_host() {
    let mut watch = HostWatch::new(150, 7);
    watch.begin(0);
    assert!(watch.look(7, 100 * MS));
    assert!(watch.look(8, 149 * MS));
    assert!(watch.look(8, 249 * MS));
    assert!(!watch.look(8, 299 * MS));
    assert!(!watch.look(9, 300 * MS), "a gone host stays gone");
}

#[test]
fn an_interval_in_which_this_thread_was_stopped_counts_as_100_ms() {
    let mut watch = HostWatch::new(250, 7);
    watch.begin(0);
    assert!(watch.look(7, 3_600_000 * MS));
    assert!(watch.look(7, 7_200_000 * MS));
    assert!(!watch.look(7, 7_200_050 * MS));
}

#[test]
fn time_between_two_waits_does_not_count() {
    let mut watch = HostWatch::new(150, 7);
    watch.begin(0);
    assert!(watch.look(7, 90 * MS));
    watch.begin(10_000 * MS);
    assert!(watch.look(7, 10_059 * MS));
    assert!(!watch.look(7, 10_060 * MS), "90 ms and 60 ms of two waits add up");
}

#[test]
fn without_a_limit_a_host_is_never_gone() {
    let mut watch = HostWatch::new(0, 7);
    watch.begin(0);
    assert!((1..1000).all(|look| watch.look(7, look * 100 * MS)));
}

#[test]
fn pauses_grow_to_a_limit_and_start_short_again() {
    let mut watch = HostWatch::new(0, 0);
    watch.begin(0);
    let pauses = [(); 8].map(|()| watch.next_pause().as_millis());
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 50, 50]);
    watch.begin(0);
    assert_eq!(watch.next_pause().as_millis(), 1);
}

#[test]
fn a_limited_wait_ends_at_its_limit_and_the_next_one_restarts() {
    let mut watch = HostWatch::new(0, 7);
    watch.set_most(Some(Duration::from_millis(40)));
    watch.begin(0);
    assert!(watch.look(8, 30 * MS) && !watch.is_over(), "a heartbeat does not extend the limit");
    let rest = [(); 5].map(|()| watch.next_pause().as_millis());
    assert_eq!(rest, [1, 2, 4, 8, 10], "no pause goes past the limit");
    assert!(watch.look(9, 40 * MS) && watch.is_over());
    watch.begin(100 * MS);
    assert!(watch.look(9, 139 * MS) && !watch.is_over());
    watch.set_most(None);
    assert!(watch.look(9, 1000 * MS) && !watch.is_over());
}
