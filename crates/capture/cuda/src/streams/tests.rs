use tensortap_queue::Cause;

use super::*;

const LEGACY_STREAM: Stream = Stream::Legacy(1);

struct World {
    streams: Streams,
    next: u64,
}

impl World {
    fn new() -> World {
        let mut streams = Streams::default();
        assert!(streams.meet(LEGACY_STREAM, 1, true));
        assert!(!streams.meet(LEGACY_STREAM, 1, true), "it is known already");
        streams.meet(Stream::Made(100), 1, true);
        streams.meet(Stream::Made(200), 1, true);
        streams.meet(Stream::Made(300), 1, false);
        World { streams, next: 0 }
    }

    fn host_saw(&mut self, what: impl FnOnce(&Streams) -> Vec<OrderToken>) {
        let tokens = what(&self.streams);
        self.streams.host_waited(&tokens);
    }

    /// Submits a task. Returns its number and its direct predecessors.
    fn submit(&mut self, stream: Stream) -> (u64, Vec<u64>) {
        self.next += 1;
        let task = self.next;
        let mut none = || unreachable!("no waits are joined here");
        let submission = self.streams.submit((stream, false), task, &mut none).unwrap();
        let mut waits: Vec<u64> = submission.waits.iter().map(|wait| wait.on).collect();
        waits.sort_unstable();
        (task, waits)
    }
}

#[test]
fn null_means_the_thread_stream_in_per_thread_functions() {
    assert_eq!(Stream::of(0, false, 3, 9), Stream::Legacy(3));
    assert_eq!(Stream::of(1, true, 3, 9), Stream::Legacy(3));
    assert_eq!(Stream::of(0, true, 3, 9), Stream::OfThread(3, 9));
    assert_eq!(Stream::of(2, false, 3, 9), Stream::OfThread(3, 9));
    assert_eq!(Stream::of(4096, true, 3, 9), Stream::Made(4096));
    assert_eq!([0, 1, 2, 77].map(|handle| Stream::of(handle, true, 3, 9).handle()), [2, 1, 2, 77]);
}

#[test]
fn the_legacy_stream_is_ordered_with_blocking_streams_only() {
    let mut world = World::new();
    let (a, b, free) = (Stream::Made(100), Stream::Made(200), Stream::Made(300));
    assert_eq!(world.submit(a), (1, vec![]));
    assert_eq!(world.submit(b), (2, vec![]), "two streams are unordered");
    assert_eq!(world.submit(free), (3, vec![]));
    assert_eq!(world.submit(LEGACY_STREAM), (4, vec![1, 2]), "after the blocking streams, not the other one");
    assert_eq!(world.submit(free), (5, vec![3]));
    assert_eq!(world.submit(a), (6, vec![1, 4]));
    assert_eq!(world.submit(a), (7, vec![6]), "waited for once");
    assert_eq!(world.submit(b), (8, vec![2, 4]));
    assert_eq!(world.submit(LEGACY_STREAM), (9, vec![4, 7, 8]));
}

#[test]
fn an_event_follows_the_commands_and_waits_of_its_stream() {
    let mut world = World::new();
    let (a, b, free) = (Stream::Made(100), Stream::Made(200), Stream::Made(300));
    world.submit(a);
    world.streams.record(7, a, 1);
    world.submit(a);
    world.streams.wait(free, 7);
    // Nothing was submitted in between. The second event still follows the first.
    world.streams.record(8, free, 1);
    world.streams.wait(b, 8);
    assert_eq!(world.submit(b), (3, vec![1]), "not the commands after the event");
    assert_eq!(world.submit(free), (4, vec![1]));
    assert_eq!(world.submit(free), (5, vec![4]), "waited for once");
    world.streams.record(7, free, 1);
    world.streams.wait(a, 7);
    assert_eq!(world.submit(a), (6, vec![2, 5]), "the event was recorded again");
    world.streams.forget_event(7);
    world.streams.wait(b, 7);
    assert_eq!(world.submit(b), (7, vec![3]), "an event that was never recorded orders nothing");
}

#[test]
fn host_waits_order_all_later_commands() {
    let mut world = World::new();
    let (a, b, free) = (Stream::Made(100), Stream::Made(200), Stream::Made(300));
    world.submit(a);
    world.host_saw(|streams| streams.of_stream(a));
    let mut none = || unreachable!();
    let submission = world.streams.submit((b, false), 20, &mut none).unwrap();
    assert_eq!((submission.waits[0].on, submission.waits[0].cause), (1, Cause::HostWait));
    world.next = 20;
    world.submit(b);
    world.host_saw(|streams| streams.of_context(1));
    assert_eq!(world.submit(free), (22, vec![1, 21]));
    world.host_saw(|streams| streams.of_context(2));
    assert_eq!(world.submit(a).1, [1, 21]);
}

#[test]
fn a_new_stream_with_an_old_handle_has_no_predecessors() {
    let mut world = World::new();
    let a = Stream::Made(100);
    world.submit(a);
    world.streams.forget(a);
    assert!(world.streams.meet(a, 1, true));
    assert_eq!(world.submit(a), (2, vec![]));
    let mut none = || unreachable!();
    assert_eq!(world.streams.submit((Stream::Made(5), false), 9, &mut none), None, "an unknown stream");
}

#[test]
fn streams_and_events_are_forgotten_with_their_context() {
    let mut world = World::new();
    let (own, others) = (Stream::Made(100), Stream::Made(400));
    world.streams.meet(others, 2, false);
    world.submit(own);
    world.submit(others);
    world.streams.record(7, own, 1);
    world.streams.record(8, others, 2);
    world.streams.forget_context(1);
    assert!(world.streams.of_event(7).is_empty() && world.streams.of_context(1).is_empty());
    assert_eq!(world.streams.of_event(8).iter().map(|token| token.task).collect::<Vec<_>>(), [2]);
    assert!(world.streams.meet(own, 3, false), "its handle belongs to a new stream");
    world.streams.wait(own, 7);
    assert_eq!(world.submit(own), (3, vec![]), "a new stream waits for nothing of the old one");
    assert_eq!(world.submit(others), (4, vec![2]));
}
