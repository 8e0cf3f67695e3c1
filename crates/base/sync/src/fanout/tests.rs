//! Behavior of the list of waiting successors.

use std::thread;

use proptest::prelude::*;

use super::{CLOSED, ListClosed, OPEN_EMPTY, close, is_closed, open, push};
use crate::SharedU32;
use crate::testing::{Lockstep, ROUNDS, cases};

fn links(count: usize) -> Vec<SharedU32> {
    (0..count).map(|_| SharedU32::new(CLOSED)).collect()
}

#[test]
fn an_empty_list_closes_with_no_nodes() {
    let head = SharedU32::new(0);
    open(&head);
    assert!(!is_closed(&head));
    assert_eq!(close(&head, &links(0)[..]).next(), None);
    assert!(is_closed(&head));
}

#[test]
fn a_closed_list_refuses_a_node_and_does_not_write_its_link() {
    let (head, links) = (SharedU32::new(OPEN_EMPTY), links(1));
    assert_eq!(close(&head, &links[..]).count(), 0);
    assert_eq!(push(&head, &links[..], 0), Err(ListClosed));
    assert_eq!(links[0].get(), CLOSED, "the link was not written");
    open(&head);
    assert_eq!(push(&head, &links[..], 0), Ok(()), "an opened list accepts again");
}

#[test]
fn a_node_may_be_reused_as_soon_as_it_is_returned() {
    let (head, links) = (SharedU32::new(OPEN_EMPTY), links(4));
    let other = SharedU32::new(OPEN_EMPTY);
    for node in 0..4 {
        push(&head, &links[..], node).unwrap();
    }
    let mut given = Vec::new();
    for node in close(&head, &links[..]) {
        given.push(node);
        push(&other, &links[..], node).unwrap();
    }
    assert_eq!(given, [3, 2, 1, 0]);
    assert_eq!(close(&other, &links[..]).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn closing_returns_the_pushed_nodes_newest_first(nodes in Just((0..40_u32).collect::<Vec<_>>()).prop_shuffle(), count in 0..40_usize) {
        let (head, links) = (SharedU32::new(OPEN_EMPTY), links(40));
        for &node in &nodes[..count] {
            prop_assert_eq!(push(&head, &links[..], node), Ok(()));
        }
        let given: Vec<u32> = close(&head, &links[..]).collect();
        prop_assert!(given.iter().eq(nodes[..count].iter().rev()));
    }
}

/// One thread pushes node `n` to list `n` while another closes it, for each of many lists.
#[test]
fn under_threads_each_edge_is_handed_over_or_refused() {
    let heads: Vec<SharedU32> = (0..ROUNDS).map(|_| SharedU32::new(OPEN_EMPTY)).collect();
    let links = links(heads.len());
    let lockstep = Lockstep::default();
    let push_in_step = |(head, node)| {
        lockstep.begin(node, 2);
        push(head, &links[..], node).is_err()
    };
    let close_in_step = |(head, node)| {
        lockstep.begin(node, 2);
        close(head, &links[..]).eq([node])
    };
    let (refused, given): (Vec<bool>, Vec<bool>) = thread::scope(|scope| {
        let closer = scope.spawn(|| heads.iter().zip(0..).map(close_in_step).collect());
        (heads.iter().zip(0..).map(push_in_step).collect(), closer.join().unwrap())
    });
    for (node, (refused, given)) in refused.iter().zip(&given).enumerate() {
        assert_ne!(refused, given, "node {node} was lost or seen twice");
    }
}

#[cfg(debug_assertions)]
mod misuse {
    use super::*;

    #[test]
    #[should_panic(expected = "is a sentinel")]
    fn pushing_a_sentinel_is_caught() {
        let _ = push(&SharedU32::new(OPEN_EMPTY), &links(1)[..], OPEN_EMPTY);
    }

    #[test]
    #[should_panic(expected = "closed twice")]
    fn closing_twice_is_caught() {
        let head = SharedU32::new(CLOSED);
        let _ = close(&head, &links(0)[..]);
    }
}
