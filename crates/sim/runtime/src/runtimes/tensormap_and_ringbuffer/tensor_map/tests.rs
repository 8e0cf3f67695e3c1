//! Compares the map with brute force over sets of bytes. They are enumerated without `geometry`'s overlap
//! code.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use tensortap_abi::Role;
use tensortap_geometry::{Footprint, Layout};

use super::{Dependency, TensorMap};

#[derive(Clone, Debug)]
struct Access {
    buffer: u64,
    shape: Vec<u64>,
    strides: Vec<i64>,
    start: u64,
    role: Role,
}

impl Access {
    fn bytes(&self) -> HashSet<u64> {
        let mut offsets = vec![i64::try_from(self.start).unwrap()];
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            offsets = offsets
                .iter()
                .flat_map(|o| (0..i64::try_from(size).unwrap()).map(move |i| o + i * stride))
                .collect();
        }
        let base = self.buffer * 4096;
        offsets.iter().flat_map(|&o| (0..2).map(move |b| base + u64::try_from(o).unwrap() * 2 + b)).collect()
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.shape, &self.strides, self.start, 16).unwrap()
    }
}

fn access() -> impl Strategy<Value = Access> {
    let dims = prop::collection::vec((0_u64..4, -5_i64..6), 0..3);
    let role = prop_oneof![Just(Role::Input), Just(Role::Output), Just(Role::InOut)];
    (0_u64..2, dims, 0_u64..12, role).prop_map(|(buffer, dims, extra, role)| {
        let (shape, strides): (Vec<u64>, Vec<i64>) = dims.into_iter().unzip();
        let lowest: i64 = shape
            .iter()
            .zip(&strides)
            .map(|(&n, &s)| if s < 0 { s * (i64::try_from(n).unwrap() - 1).max(0) } else { 0 })
            .sum();
        Access { buffer, shape, strides, start: lowest.unsigned_abs() + extra, role }
    })
}

/// Feeds tasks through the map. Returns for each task the tasks that it must wait for.
fn derive(tasks: &[Vec<Access>], done: &HashSet<usize>, remember: bool) -> Vec<HashSet<usize>> {
    let mut map = TensorMap::new(remember);
    let live = |task: usize| !done.contains(&task);
    let mut edges = Vec::new();
    for (me, accesses) in tasks.iter().enumerate() {
        let mut found: Vec<Dependency<usize>> = Vec::new();
        let prepared: Vec<_> = accesses
            .iter()
            .map(|a| (a.buffer * 4096, Footprint::new(&a.layout(), a.buffer * 4096), a.role))
            .collect();
        for (index, (buffer, bytes, role)) in prepared.iter().enumerate() {
            map.find(*buffer, bytes, *role, u16::try_from(index).unwrap(), live, &mut found);
        }
        for (buffer, bytes, role) in prepared {
            map.record(buffer, bytes, role, me, live);
        }
        edges.push(found.iter().map(|f| f.task).collect());
    }
    edges
}

fn conflict(a: &[Access], b: &[Access]) -> bool {
    a.iter()
        .any(|x| b.iter().any(|y| (x.role.writes() || y.role.writes()) && !x.bytes().is_disjoint(&y.bytes())))
}

/// All tasks that are reachable backward over edges.
fn ancestors(
    edges: &[HashSet<usize>],
    task: usize,
    memo: &mut HashMap<usize, HashSet<usize>>,
) -> HashSet<usize> {
    if let Some(known) = memo.get(&task) {
        return known.clone();
    }
    let mut all = edges[task].clone();
    for &from in &edges[task] {
        all.extend(ancestors(edges, from, memo));
    }
    memo.insert(task, all.clone());
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_conflict_is_ordered_and_every_edge_is_a_conflict(
        tasks in prop::collection::vec(prop::collection::vec(access(), 1..4), 1..12)
    ) {
        let edges = derive(&tasks, &HashSet::new(), false);
        let mut memo = HashMap::new();
        for later in 0..tasks.len() {
            let before = ancestors(&edges, later, &mut memo);
            for earlier in 0..later {
                if conflict(&tasks[earlier], &tasks[later]) {
                    prop_assert!(before.contains(&earlier), "{earlier} -> {later} is not ordered");
                }
            }
            for &from in &edges[later] {
                prop_assert!(conflict(&tasks[from], &tasks[later]), "{from} -> {later} share no byte");
            }
        }
    }

    #[test]
    fn no_task_waits_for_finished_tasks(
        tasks in prop::collection::vec(prop::collection::vec(access(), 1..4), 1..12),
        done in prop::collection::hash_set(0_usize..12, 0..6)
    ) {
        for edges in derive(&tasks, &done, false) {
            prop_assert!(edges.is_disjoint(&done));
        }
    }
}

proptest! {
    /// The data flow in a dump must not depend on how fast tasks finish.
    #[test]
    fn a_remembering_map_orders_every_read_and_overwrite_after_its_writers(
        tasks in prop::collection::vec(prop::collection::vec(access(), 1..4), 1..12),
        done in prop::collection::hash_set(0_usize..12, 0..12)
    ) {
        let edges = derive(&tasks, &done, true);
        let mut memo = HashMap::new();
        for later in 0..tasks.len() {
            let before = ancestors(&edges, later, &mut memo);
            for earlier in 0..later {
                let flows = tasks[earlier].iter().filter(|x| x.role.writes()).any(|x| {
                    tasks[later].iter().any(|y| !x.bytes().is_disjoint(&y.bytes()))
                });
                if flows {
                    prop_assert!(before.contains(&earlier), "{earlier} -> {later} is lost");
                }
            }
        }
    }
}

#[test]
fn a_read_only_tensor_creates_no_edges_and_its_readers_are_pruned() {
    let mut map = TensorMap::new(false);
    let bytes = Footprint::new(&Layout::contiguous(&[16], 32).unwrap(), 0);
    let mut found = Vec::new();
    for task in 0..10_000_u32 {
        let live = |other: u32| other + 8 > task;
        map.find(0, &bytes, Role::Input, 0, live, &mut found);
        map.record(0, bytes, Role::Input, task, live);
    }
    assert!(found.is_empty());
    assert!(map.buffers[&0].readers.len() <= 2 * super::FIRST_PRUNE);
}

#[test]
fn buffers_without_live_users_are_forgotten() {
    let mut map = TensorMap::new(false);
    let layout = Layout::contiguous(&[16], 32).unwrap();
    for task in 0..100_000_u64 {
        map.record(task * 64, Footprint::new(&layout, task * 64), Role::Output, task, |other| {
            other + 8 > task
        });
    }
    assert!(map.buffers.len() <= 2 * super::FIRST_SWEEP);
}
