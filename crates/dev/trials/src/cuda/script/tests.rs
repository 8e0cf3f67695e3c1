//! Streams wait for each other where memory conflicts, and differing memory is noticed.

use super::*;

/// No memory, or one range.
fn at(range: Range<usize>) -> Vec<Range<usize>> {
    Some(range).filter(|range| !range.is_empty()).into_iter().collect()
}

#[test]
fn streams_wait_only_for_conflicting_commands_that_they_are_not_ordered_after() {
    let mut order = Order::default();
    let mut waits = |lane, captured, written| order.waits(lane, 3, &at(captured), &at(written));
    assert!(waits(0, 0..0, 0..10).is_empty(), "the first command");
    assert!(waits(0, 0..100, 5..8).is_empty(), "the same stream");
    assert!(waits(1, 10..20, 0..0).is_empty(), "other memory");
    assert_eq!(waits(1, 9..20, 0..0), [0], "a snapshot reads what was written");
    assert!(waits(1, 0..9, 0..0).is_empty(), "the stream is ordered already");
    assert_eq!(waits(2, 0..0, 15..16), [0, 1], "it writes what snapshots read");
    assert_eq!(waits(0, 0..0, 15..30), [1, 2]);
    assert!(waits(1, 40..50, 0..0).is_empty());
}

#[test]
fn reading_needs_no_order() {
    let mut order = Order::default();
    assert!(order.waits(0, 2, &at(0..10), &[]).is_empty());
    assert!(order.waits(1, 2, &at(0..10), &[]).is_empty());
}

#[test]
fn one_byte_that_differs_is_found() {
    let runs = crate::cuda::plan(&mut fastrand::Rng::with_seed(4), crate::faults::Fault::None);
    let mut memory = runs.memory(&runs.golden);
    crate::machine::execute_in(&runs.golden, &mut memory, &mut crate::machine::Unobserved);
    let segments = memory.segments().iter().map(|segment| hex(memory.bytes(segment.clone())));
    let mut result = segments.collect::<Vec<_>>().join("\n");
    assert_eq!(compare(&memory, &result), Ok(()));
    assert!(compare(&memory, &format!("{result}\n00")).is_err(), "one segment more");
    let last = if result.ends_with('0') { "1" } else { "0" };
    result.replace_range(result.len() - 1.., last);
    let error = compare(&memory, &result).expect_err("one byte differs");
    assert!(error.contains("is not as expected"), "{error}");
}
