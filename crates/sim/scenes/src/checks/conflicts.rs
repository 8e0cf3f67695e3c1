//! Finds tasks that access the same memory, and the order that explicit edges impose on tasks.

use std::collections::{HashMap, HashSet};

use tensortap_abi::TensorDesc;
use tensortap_scene::SequentialGraph;

/// For each task, the set of tasks that a path of edges puts before it.
pub(super) fn ancestors(graph: &SequentialGraph) -> Vec<TaskSet> {
    let mut direct = vec![Vec::new(); graph.len()];
    for &(from, to) in graph.edges() {
        assert!(from < to, "an edge goes backward");
        direct[to as usize].push(from as usize);
    }
    let mut sets: Vec<TaskSet> = Vec::with_capacity(graph.len());
    for predecessors in direct {
        let mut set = TaskSet::new(graph.len());
        for from in predecessors {
            set.insert_all(&sets[from]);
            set.insert(from);
        }
        sets.push(set);
    }
    sets
}

/// A set of tasks, as a bit mask.
pub(super) struct TaskSet(Vec<u64>);

impl TaskSet {
    fn new(tasks: usize) -> TaskSet {
        TaskSet(vec![0; tasks.div_ceil(64)])
    }

    fn insert(&mut self, task: usize) {
        self.0[task / 64] |= 1 << (task % 64);
    }

    fn insert_all(&mut self, other: &TaskSet) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    pub(super) fn contains(&self, task: usize) -> bool {
        self.0[task / 64] >> (task % 64) & 1 != 0
    }
}

/// Pairs of tasks that access a common element, one of them writing. The earlier task comes first.
pub(super) fn conflicts(graph: &SequentialGraph) -> HashSet<(usize, usize)> {
    let mut touched: HashMap<u64, Vec<(usize, bool)>> = HashMap::new();
    let mut pairs = HashSet::new();
    for task in 0..graph.len() {
        for (desc, role) in graph.tensors(task) {
            for address in element_addresses(desc) {
                let earlier = touched.entry(address).or_default();
                let clash = |&&(other, wrote): &&(usize, bool)| other != task && (wrote || role.writes());
                pairs.extend(earlier.iter().filter(clash).map(|&(other, _)| (other, task)));
                earlier.push((task, role.writes()));
            }
        }
    }
    pairs
}

/// The address of each element of a view. All views of a buffer have the same dtype, so two elements are
/// identical or disjoint.
fn element_addresses(desc: &TensorDesc) -> Vec<u64> {
    let width = i128::from(desc.dtype().expect("a known dtype").bits() / 8);
    let mut addresses = vec![i128::from(desc.buffer_addr) + i128::from(desc.start_offset) * width];
    for (&size, &stride) in desc.dims().iter().zip(desc.dim_strides()) {
        let steps = (0..i128::from(size)).map(|i| i * i128::from(stride) * width);
        addresses = steps.flat_map(|step| addresses.iter().map(move |a| a + step)).collect();
    }
    addresses.into_iter().map(|a| u64::try_from(a).expect("inside a buffer")).collect()
}
