use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

/// An order tracker that numbers joining tasks and keeps all edges, to check which task is before which.
#[derive(Default)]
struct Rig {
    orders: OrderTracker,
    joining: u64,
    predecessors: HashMap<u64, Vec<u64>>,
}

impl Rig {
    fn keep_edges(&mut self, submission: &Submission) -> OrderToken {
        for (task, waits) in &submission.barriers {
            self.predecessors.insert(*task, waits.iter().map(|wait| wait.on).collect());
        }
        self.predecessors
            .insert(submission.token.task, submission.waits.iter().map(|wait| wait.on).collect());
        submission.token
    }

    fn submit(&mut self, queue: QueueKey, task: u64, events: &[OrderToken]) -> OrderToken {
        let joining = &mut self.joining;
        let submission = self.orders.submit(queue, task, events, &mut || {
            *joining += 1;
            1_000_000 + *joining
        });
        self.keep_edges(&submission)
    }

    fn barrier(&mut self, queue: QueueKey, task: u64, events: &[OrderToken], blocks: bool) -> OrderToken {
        let joining = &mut self.joining;
        let submission = self.orders.submit_barrier(queue, task, events, blocks, &mut || {
            *joining += 1;
            1_000_000 + *joining
        });
        self.keep_edges(&submission)
    }

    fn finish(&mut self, queue: QueueKey) {
        let tokens = self.orders.submitted(queue);
        self.orders.host_waited(&tokens);
    }

    fn is_before(&self, first: u64, second: u64) -> bool {
        let (mut seen, mut left) = (HashSet::new(), vec![second]);
        while let Some(task) = left.pop() {
            for &before in self.predecessors.get(&task).into_iter().flatten() {
                if before == first {
                    return true;
                }
                if seen.insert(before) {
                    left.push(before);
                }
            }
        }
        false
    }
}

#[test]
fn two_queues_are_unordered_until_an_event_or_the_host_orders_them() {
    let mut rig = Rig::default();
    rig.orders.add_queue(1, true);
    rig.orders.add_queue(2, true);
    let a = rig.submit(1, 10, &[]);
    rig.submit(2, 20, &[]);
    assert!(!rig.is_before(10, 20) && !rig.is_before(20, 10));
    rig.submit(2, 21, &[a]);
    assert!(rig.is_before(10, 21) && rig.is_before(20, 21));
    rig.submit(1, 11, &[]);
    rig.submit(2, 22, &[]);
    assert!(rig.is_before(10, 11) && !rig.is_before(11, 22));
    rig.finish(1);
    rig.submit(2, 23, &[]);
    assert!(rig.is_before(11, 23));
}

#[test]
fn concurrent_commands_are_unordered_but_ordered_with_all_others() {
    let mut rig = Rig::default();
    rig.orders.add_queue(1, true);
    rig.submit(1, 10, &[]);
    rig.submit(1, 11, &[]);
    for task in [12, 13] {
        let submission =
            rig.orders.submit_concurrent(1, task, &[], &mut || unreachable!("no waits are joined"));
        rig.keep_edges(&submission);
    }
    // A wait for the whole queue is a wait for each of them.
    rig.finish(1);
    rig.submit(2, 20, &[]);
    rig.submit(1, 14, &[]);
    let submission = rig.orders.submit_concurrent(1, 15, &[], &mut || unreachable!("no waits are joined"));
    rig.keep_edges(&submission);
    for beside in [11, 12, 13] {
        assert!(rig.is_before(10, beside), "{beside}");
        assert!([11, 12, 13].iter().all(|&other| !rig.is_before(other, beside)), "{beside}");
        assert!([14, 15, 20].iter().all(|&later| rig.is_before(beside, later)), "{beside}");
    }
    assert!(!rig.is_before(14, 15) && !rig.is_before(15, 14));
}

#[test]
fn barriers_order_an_out_of_order_queue_and_markers_do_not() {
    let mut rig = Rig::default();
    rig.orders.add_queue(1, false);
    let a = rig.submit(1, 10, &[]);
    rig.submit(1, 11, &[]);
    rig.barrier(1, 12, &[], false);
    rig.submit(1, 13, &[]);
    assert!(!rig.is_before(10, 13), "later commands do not wait for a marker");
    rig.barrier(1, 14, &[a], true);
    rig.submit(1, 15, &[]);
    assert!(
        rig.is_before(10, 15) && !rig.is_before(11, 15),
        "a barrier with a wait list waits only for the list"
    );
    rig.barrier(1, 16, &[], true);
    rig.submit(1, 17, &[]);
    for task in [10, 11, 13, 15] {
        assert!(rig.is_before(task, 17), "{task}");
    }
}

#[test]
fn many_host_waits_do_not_need_an_edge_for_each_pair() {
    let mut rig = Rig::default();
    rig.orders.add_queue(1, false);
    rig.orders.add_queue(2, false);
    for task in 0..100 {
        rig.submit(1, task, &[]);
    }
    rig.finish(1);
    for task in 200..300 {
        rig.submit(2, task, &[]);
    }
    assert!(rig.is_before(0, 299) && rig.is_before(99, 200));
    let edges: usize = rig.predecessors.values().map(Vec::len).sum();
    assert!(edges < 310, "{edges}");
}

#[derive(Clone, Debug)]
enum Step {
    Submit { queue: usize, waits: Vec<prop::sample::Index> },
    Barrier { queue: usize, waits: Vec<prop::sample::Index>, blocks: bool },
    Wait(Vec<prop::sample::Index>),
    Finish(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let waits = || prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    prop_oneof![
        6 => (0..4_usize, waits()).prop_map(|(queue, waits)| Step::Submit { queue, waits }),
        1 => (0..4_usize, waits(), any::<bool>())
            .prop_map(|(queue, waits, blocks)| Step::Barrier { queue, waits, blocks }),
        1 => prop::collection::vec(any::<prop::sample::Index>(), 1..4).prop_map(Step::Wait),
        1 => (0..4_usize).prop_map(Step::Finish),
    ]
}

/// The rules in their simplest form: the set of all predecessors of a command at its submission.
#[derive(Default)]
struct Model {
    before: HashMap<u64, HashSet<u64>>,
    queues: HashMap<usize, Vec<u64>>,
    blocked: HashMap<usize, Vec<u64>>,
    host: HashSet<u64>,
}

impl Model {
    fn submit(&mut self, queue: usize, task: u64, waits: &[u64], kind: Option<bool>) {
        let is_in_order = queue < 2;
        let all = self.queues.get(&queue).cloned().unwrap_or_default();
        let waits_for_all = is_in_order || (kind.is_some() && waits.is_empty());
        let mut direct: Vec<u64> = waits.to_vec();
        direct.extend(&self.host);
        direct.extend(self.blocked.get(&queue).into_iter().flatten());
        if waits_for_all {
            direct.extend(&all);
        }
        let mut before: HashSet<u64> = direct.iter().copied().collect();
        for task in direct {
            before.extend(&self.before[&task]);
        }
        self.before.insert(task, before);
        self.queues.entry(queue).or_default().push(task);
        if kind == Some(true) {
            self.blocked.entry(queue).or_default().push(task);
        }
    }

    fn wait(&mut self, tasks: &[u64]) {
        for task in tasks {
            self.host.insert(*task);
            self.host.extend(&self.before[task]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_tracker_agrees_with_the_simple_model(steps in prop::collection::vec(step(), 1..60)) {
        let (mut rig, mut model) = (Rig::default(), Model::default());
        for queue in 0..4 {
            rig.orders.add_queue(queue, queue < 2);
        }
        let mut tokens: Vec<OrderToken> = Vec::new();
        let pick = |tokens: &[OrderToken], indices: &[prop::sample::Index]| -> Vec<OrderToken> {
            if tokens.is_empty() { return Vec::new() }
            indices.iter().map(|index| *index.get(tokens)).collect()
        };
        let tasks = |tokens: &[OrderToken]| tokens.iter().map(|token| token.task).collect::<Vec<u64>>();
        for (number, step) in (1_u64..).zip(steps) {
            match step {
                Step::Submit { queue, waits } => {
                    let waits = pick(&tokens, &waits);
                    tokens.push(rig.submit(queue, number, &waits));
                    model.submit(queue, number, &tasks(&waits), None);
                }
                Step::Barrier { queue, waits, blocks } => {
                    let waits = pick(&tokens, &waits);
                    tokens.push(rig.barrier(queue, number, &waits, blocks));
                    model.submit(queue, number, &tasks(&waits), Some(blocks));
                }
                Step::Wait(waits) => {
                    let waits = pick(&tokens, &waits);
                    rig.orders.host_waited(&waits);
                    model.wait(&tasks(&waits));
                }
                Step::Finish(queue) => {
                    rig.finish(queue);
                    let all = model.queues.get(&queue).cloned().unwrap_or_default();
                    model.wait(&all);
                }
            }
        }
        for second in tasks(&tokens) {
            for first in tasks(&tokens) {
                let expected = model.before[&second].contains(&first);
                prop_assert_eq!(rig.is_before(first, second), expected, "{} before {}", first, second);
            }
        }
    }
}

#[test]
fn a_host_that_waits_for_every_command_needs_no_memory_and_no_joining_tasks() {
    let mut rig = Rig::default();
    rig.orders.add_queue(1, false);
    for task in 1..1000 {
        let token = rig.submit(1, task, &[]);
        rig.orders.host_waited(&[token]);
    }
    assert!(rig.is_before(1, 999) && rig.joining == 0);
    assert_eq!(rig.orders.submitted(1), [], "the host has waited for all commands");
    let edges: usize = rig.predecessors.values().map(Vec::len).sum();
    assert_eq!(edges, 998);
}
