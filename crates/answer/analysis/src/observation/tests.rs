use proptest::prelude::*;
use tensortap_abi::DType;
use tensortap_format::{AllocationEvent, Assembler, Edge, TaskKey, TaskPart};
use tensortap_geometry::Layout;

use super::*;
use crate::graph::TaskGraph;
use crate::graph::testing::{TaskBuilder, assembled, graph_of, tasks_with};

fn edge(from: u64, to: u64) -> Edge {
    Edge { step: 0, from_step: 0, from, to, arg_index: 0, why: "event" }
}

/// Edges of an in-order queue.
fn in_order(tasks: &[u64]) -> Vec<Edge> {
    tasks.windows(2).map(|pair| Edge { why: "queue_order", ..edge(pair[0], pair[1]) }).collect()
}

fn arg(graph: &TaskGraph, task_id: u64, arg_index: u16) -> (Task<'_>, Argument<'_>) {
    let task = graph.tasks().find(TaskKey { step: 0, task_id }).unwrap();
    (task, task.argument(arg_index).unwrap())
}

fn observed(graph: &TaskGraph, task_id: u64, index: u16) -> Option<Observation> {
    graph.observed(arg(graph, task_id, index).1)
}

fn ids(graph: &TaskGraph, places: impl IntoIterator<Item = usize>) -> Vec<u64> {
    places.into_iter().map(|place| graph.task(place).task_id).collect()
}

fn others(graph: &TaskGraph, task_id: u64, index: u16) -> Vec<u64> {
    let ambiguity = graph.observations().unwrap().ambiguity(arg(graph, task_id, index).1).unwrap();
    assert_eq!(ambiguity.count, ambiguity.others.len());
    ids(graph, ambiguity.others.iter().copied())
}

fn producers(graph: &TaskGraph, task_id: u64, index: u16) -> Vec<u64> {
    let outputs = graph.producers_of(arg(graph, task_id, index).1);
    ids(graph, outputs.iter().map(|output| output.task))
}

/// Bytes of a buffer at 0x1000.
fn bytes(task: TaskBuilder, from: u64, len: u64) -> TaskBuilder {
    task.view(0x1000 + from, DType::UInt8, Layout::contiguous(&[len], 8).unwrap())
}

#[test]
fn in_one_queue_each_change_belongs_to_its_task() {
    let made = vec![
        TaskBuilder::new(1, "fill").output(0x1000, "zero").at(10),
        TaskBuilder::new(2, "add").unknown_role(0x1000, "zero", "one").unknown_role(0x2000, "x", "x").at(20),
        TaskBuilder::new(3, "read").unknown_role(0x1000, "one", "one").at(30),
        TaskBuilder::new(4, "add").unknown_role(0x1000, "one", "two").at(40),
    ];
    let graph = graph_of(made, &in_order(&[1, 2, 3, 4]), None);
    assert_eq!(observed(&graph, 1, 0), None, "its role is known");
    assert_eq!(observed(&graph, 2, 0), Some(Observation::Changed));
    assert_eq!(observed(&graph, 2, 1), Some(Observation::Same));
    assert_eq!(producers(&graph, 3, 0), [2]);
    assert_eq!(producers(&graph, 4, 0), [2], "a task that left it unchanged is skipped");
    let counts = ObservationCounts { same: 2, changed: 2, ambiguous: 0, unobserved: 0 };
    assert_eq!(graph.observations().unwrap().counts(), counts);
}

/// A writer in each of two queues, and a reader after both.
fn two_queues(edges: &[Edge]) -> TaskGraph {
    let mut made = vec![
        TaskBuilder::new(1, "left").unknown_role(0x1000, "a", "b").at(10),
        TaskBuilder::new(2, "right").unknown_role(0x1000, "b", "c").at(20),
        TaskBuilder::new(3, "read").unknown_role(0x1000, "c", "c").at(30),
    ];
    made[1].facts.queue = 2;
    graph_of(made, edges, None)
}

#[test]
fn two_queues_on_one_buffer_are_ambiguous_until_an_event_orders_them() {
    let graph = two_queues(&[]);
    assert_eq!(observed(&graph, 1, 0), Some(Observation::Ambiguous));
    assert_eq!(others(&graph, 1, 0), [2, 3], "a task without an observed change may have written, too");
    assert_eq!((others(&graph, 2, 0), producers(&graph, 3, 0)), (vec![1, 3], vec![]));
    let graph = two_queues(&[edge(1, 2), edge(2, 3)]);
    let all = [1, 2].map(|task| observed(&graph, task, 0).unwrap());
    assert_eq!((all, producers(&graph, 3, 0)), ([Observation::Changed; 2], vec![2]));
    let graph = two_queues(&[edge(1, 3), edge(2, 3)]);
    assert_eq!((others(&graph, 1, 0), others(&graph, 2, 0)), (vec![2], vec![1]));
    assert_eq!(producers(&graph, 3, 0), [2, 1], "both are candidates");
}

#[test]
fn a_task_with_known_inputs_makes_nothing_ambiguous() {
    let made = vec![
        TaskBuilder::new(1, "write").unknown_role(0x1000, "a", "b").at(10),
        TaskBuilder::new(2, "copy").input(0x1000, "b").output(0x3000, "b").at(20),
    ];
    let graph = graph_of(made, &[], None);
    assert_eq!(observed(&graph, 1, 0), Some(Observation::Changed));
}

#[test]
fn halves_of_a_buffer_have_separate_producers() {
    let half = |id, from| bytes(TaskBuilder::new(id, "half").unknown_role(0, "a", "b"), from, 8).at(id * 10);
    let whole = |id: u64| bytes(TaskBuilder::new(id, "whole").unknown_role(0, "b", "b"), 0, 16).at(id * 10);
    let graph = graph_of(vec![half(1, 0), half(2, 8), whole(3)], &[edge(1, 3), edge(2, 3)], None);
    assert_eq!([1, 2].map(|task| observed(&graph, task, 0).unwrap()), [Observation::Changed; 2]);
    assert_eq!(producers(&graph, 3, 0), [2, 1]);
    // A kernel that changed the whole buffer replaces both.
    let over = bytes(TaskBuilder::new(4, "over").unknown_role(0, "b", "c"), 0, 16).at(40);
    let part = bytes(TaskBuilder::new(5, "part").unknown_role(0, "c", "c"), 4, 8).at(50);
    let made = vec![half(1, 0), half(2, 8), whole(3), over, part];
    let graph = graph_of(made, &[edge(1, 3), edge(2, 3), edge(3, 4), edge(4, 5)], None);
    assert_eq!((producers(&graph, 4, 0), producers(&graph, 5, 0)), (vec![2, 1], vec![4]));
}

#[test]
fn a_barrier_orders_the_tasks_before_and_after_it() {
    let made = vec![
        TaskBuilder::new(1, "a").unknown_role(0x1000, "0", "1").at(10),
        TaskBuilder::new(2, "b").unknown_role(0x2000, "0", "1").at(11),
        TaskBuilder::new(3, "").at(20),
        TaskBuilder::new(4, "c").unknown_role(0x1000, "1", "2").unknown_role(0x2000, "1", "1").at(30),
        TaskBuilder::new(5, "d").unknown_role(0x2000, "1", "3").at(31),
    ];
    let graph = graph_of(made, &[edge(1, 3), edge(2, 3), edge(3, 4), edge(3, 5)], None);
    assert_eq!(observed(&graph, 1, 0), Some(Observation::Changed));
    assert_eq!(observed(&graph, 4, 0), Some(Observation::Changed));
    assert_eq!((observed(&graph, 5, 0), others(&graph, 5, 0)), (Some(Observation::Ambiguous), vec![4]));
    assert_eq!((producers(&graph, 4, 0), producers(&graph, 4, 1)), (vec![1], vec![2]));
}

#[test]
fn changed_host_memory_is_ambiguous() {
    let mut made =
        vec![TaskBuilder::new(1, "a").unknown_role(0x1000, "0", "1").unknown_role(0x2000, "0", "1").at(10)];
    made[0].args[0].host_writable = true;
    let graph = graph_of(made, &[], None);
    assert_eq!(observed(&graph, 1, 0), Some(Observation::Ambiguous));
    let why = graph.observations().unwrap().ambiguity(arg(&graph, 1, 0).1).unwrap();
    assert_eq!(why, &Ambiguity { others: vec![], count: 0, host_writable: true, is_cut: false });
    assert_eq!(observed(&graph, 1, 1), Some(Observation::Changed));
    // The same with a host-writable allocation, while it exists.
    let of = |freed_at: Option<u64>| {
        let made = vec![TaskBuilder::new(1, "a").unknown_role(0x1000, "0", "1").at(100)];
        let taken = AllocationEvent {
            at_ns: 10,
            address: 0x1000,
            bytes: 64,
            freed: false,
            host_writable: true,
            ..AllocationEvent::default()
        };
        let freed = freed_at.map(|at_ns| AllocationEvent { at_ns, freed: true, ..taken });
        let renewed: Vec<AllocationEvent> = [Some(taken), freed].into_iter().flatten().collect();
        observed(&TaskGraph::build(tasks_with(made, &renewed), None), 1, 0).unwrap()
    };
    assert_eq!((of(None), of(Some(50))), (Observation::Ambiguous, Observation::Changed));
}

#[test]
fn uncaptured_content_is_unobserved_and_may_have_been_written() {
    let mut made = vec![
        TaskBuilder::new(1, "a").unknown_role(0x1000, "0", "1").at(10),
        TaskBuilder::new(2, "b").unknown_role(0x1000, "1", "1").at(20),
        TaskBuilder::new(3, "c").unknown_role(0x1000, "1", "1").at(30),
    ];
    made[1].args[0].after = None;
    let graph = graph_of(made, &in_order(&[1, 2, 3]), None);
    assert_eq!(observed(&graph, 2, 0), Some(Observation::Unobserved));
    assert_eq!(producers(&graph, 3, 0), [2]);
}

#[test]
fn freed_memory_has_no_producer() {
    let made = || {
        vec![
            TaskBuilder::new(1, "a").unknown_role(0x1000, "0", "1").at(10),
            TaskBuilder::new(2, "b").unknown_role(0x1000, "x", "x").at(30),
            // So that the order is not total.
            TaskBuilder::new(3, "c").unknown_role(0x9000, "x", "x").at(31),
        ]
    };
    for edges in [vec![edge(1, 2)], in_order(&[1, 2, 3])] {
        let from = |at_ns| {
            let renewed = AllocationEvent {
                at_ns,
                address: 0x1000,
                bytes: 64,
                freed: true,
                host_writable: false,
                ..AllocationEvent::default()
            };
            let mut assembler = Assembler::default();
            assembler.take(TaskPart::AllocationEvent(renewed));
            let graph = TaskGraph::build(assembled(assembler, made(), &edges), None);
            producers(&graph, 2, 0)
        };
        assert_eq!((from(20), from(5), from(50)), (vec![], vec![1], vec![1]));
    }
}

#[test]
fn allocations_are_matched_by_submission_time() {
    for edges in [vec![edge(1, 2)], in_order(&[1, 2, 3])] {
        let from = |at_ns| {
            let made = vec![
                TaskBuilder::new(1, "a").unknown_role(0x1000, "0", "1").submitted(5).at(100),
                TaskBuilder::new(2, "b").unknown_role(0x1000, "x", "x").submitted(15).at(110),
                TaskBuilder::new(3, "c").unknown_role(0x9000, "x", "x").submitted(16).at(120),
            ];
            let renewed = AllocationEvent {
                at_ns,
                address: 0x1000,
                bytes: 64,
                freed: true,
                host_writable: false,
                ..AllocationEvent::default()
            };
            let mut assembler = Assembler::default();
            assembler.take(TaskPart::AllocationEvent(renewed));
            producers(&TaskGraph::build(assembled(assembler, made, &edges), None), 2, 0)
        };
        assert_eq!((from(10), from(2), from(20), from(105)), (vec![], vec![1], vec![1], vec![1]));
    }
}

#[test]
fn the_last_writer_is_undecided_if_a_covering_task_has_unknown_order() {
    // Tasks 1 and 3 write parts, task 4 writes everything after both, and task 5 comes last. With no words
    // for lists, only the chain of task 4 is known: it comes after task 3.
    let edges = [edge(0, 2), edge(1, 2), edge(1, 4), edge(3, 4), edge(2, 5), edge(4, 5)];
    let left_to_5 = |parts: [u64; 2]| {
        let made = vec![
            TaskBuilder::new(0, "other").at(0),
            bytes(TaskBuilder::new(1, "part").output(0, "a"), parts[0], 4).at(10),
            TaskBuilder::new(2, "other").at(20),
            bytes(TaskBuilder::new(3, "part").output(0, "a"), parts[1], 4).at(30),
            bytes(TaskBuilder::new(4, "all").output(0, "b"), 0, 6).at(40),
            bytes(TaskBuilder::new(5, "read").unknown_role(0, "b", "b"), 0, 3).at(50),
        ];
        let graph = graph_of(made, &edges, None);
        assert_eq!(producers(&graph, 5, 0), [4], "with lists, the order is known");
        let order = Order::within(graph.tasks(), order::OrderBudget { words: 0, steps: u64::MAX });
        assert!(order.is_unknown(4) && !order.is_unknown(5));
        let (seen, origins) = Observations::within(graph.tasks(), order, Budget::new(u64::MAX, u64::MAX));
        let number = arg(&graph, 5, 0).1.number();
        [origins.get(number), seen.last_holders.get(number)]
            .map(|found| (found.basis, ids(&graph, found.outputs.iter().map(|output| output.task))))
    };
    let undecided = (OriginBasis::Undecided, vec![]);
    assert_eq!(left_to_5([2, 20]), [undecided.clone(), undecided], "task 4 may have overwritten task 1");
    let decided = (OriginBasis::Bytes, vec![4]);
    assert_eq!(left_to_5([20, 2]), [decided.clone(), decided], "task 4 overwrote task 3");
}

/// Whether no task can have written between two others, by the definition.
fn is_clear(graph: &TaskGraph, found: (u64, u16), left: (u64, u16)) -> bool {
    let (task, arg_found) = arg(graph, found.0, found.1);
    let (by, _) = arg(graph, left.0, left.1);
    let left = OutputRef { task: by.place(), arg_index: left.1 };
    graph.observations().unwrap().unattributed(graph, task.place(), arg_found, left).is_some()
}

#[test]
fn a_change_between_two_tasks_is_unattributed_unless_an_unordered_task_may_have_written() {
    let mut made = vec![
        TaskBuilder::new(1, "a").unknown_role(0x1000, "0", "1").at(10),
        TaskBuilder::new(2, "b").unknown_role(0x1000, "other", "2").at(20),
    ];
    let graph = graph_of(made.clone(), &in_order(&[1, 2]), None);
    assert!(is_clear(&graph, (2, 0), (1, 0)));
    made.push(TaskBuilder::new(3, "c").unknown_role(0x1000, "1", "1").at(15));
    let graph = graph_of(made.clone(), &in_order(&[1, 2]), None);
    assert!(!is_clear(&graph, (2, 0), (1, 0)), "task 3 may have written");
    let graph = graph_of(made.clone(), &[edge(1, 2), edge(2, 3)], None);
    assert!(is_clear(&graph, (2, 0), (1, 0)), "task 3 came later");
    made[2] = TaskBuilder::new(3, "c").unknown_role(0x9000, "1", "1").at(15);
    assert!(is_clear(&graph_of(made, &in_order(&[1, 2]), None), (2, 0), (1, 0)), "task 3 used other memory");
}

/// A task of the naive model: its queue, and for each argument the first byte, the size, the role (if known),
/// and whether it changes.
type ModelTask = (u32, Vec<Range>);
type Range = (u64, u64, u8, bool);

fn model_tasks() -> impl Strategy<Value = Vec<ModelTask>> {
    let arg = (0_u64..10, 1_u64..8, 0_u8..8, any::<bool>());
    proptest::collection::vec((0_u32..3, proptest::collection::vec(arg, 0..3)), 2..12)
}

const READS: u8 = 0;
const WRITES: u8 = 1;

fn made_of(model: &[ModelTask]) -> Vec<TaskBuilder> {
    let task = |(id, (queue, args)): (u64, &ModelTask)| {
        let mut task = TaskBuilder::new(id, "k").at(id * 10);
        task.facts.queue = *queue;
        for &(from, len, known, changes) in args {
            task = match known {
                READS => task.input(0, "a"),
                WRITES => task.output(0, "b"),
                _ => task.unknown_role(0, "a", if changes { "b" } else { "a" }),
            };
            task = bytes(task, from, len);
        }
        task
    };
    (0..).zip(model).map(task).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Compared with the definitions, byte by byte and over the closure of edges.
    #[test]
    fn observations_agree_with_their_definitions(
        model in model_tasks(),
        pairs in proptest::collection::vec((0_usize..12, 0_usize..12), 0..24),
        in_queues in any::<bool>(),
    ) {
        let count = model.len();
        let mut edges: Vec<(usize, usize)> = pairs
            .iter()
            .map(|&(a, b)| (a % count, b % count))
            .filter(|(a, b)| a < b)
            .collect();
        for queue in (0..3).filter(|_| in_queues) {
            let of: Vec<usize> = (0..count).filter(|&task| model[task].0 == queue).collect();
            edges.extend(of.windows(2).map(|pair| (pair[0], pair[1])));
        }
        let mut reach = vec![vec![false; count]; count];
        edges.iter().for_each(|&(from, to)| reach[from][to] = true);
        for through in 0..count {
            for from in 0..count {
                for to in 0..count {
                    reach[from][to] |= reach[from][through] && reach[through][to];
                }
            }
        }
        let declared: Vec<Edge> = edges.iter().map(|&(from, to)| edge(from as u64, to as u64)).collect();
        let graph = graph_of(made_of(&model), &declared, None);
        prop_assume!(graph.observations().is_some());
        let seen = graph.observations().unwrap();
        let holds = |&(from, len, ..): &Range, byte: u64| (from..from + len).contains(&byte);
        let shares = |a: &Range, b: &Range| {
            (0..20).any(|byte| holds(a, byte) && holds(b, byte))
        };
        for (task, (_, args)) in model.iter().enumerate() {
            for (index, own) in args.iter().enumerate() {
                let index = u16::try_from(index).unwrap();
                let (node, argument) = arg(&graph, task as u64, index);
                prop_assert_eq!(node.place(), task);
                let is_apart = |other: usize| other != task && !reach[task][other] && !reach[other][task];
                let mut unordered: Vec<usize> = (0..count).filter(|&other| is_apart(other)).collect();
                unordered.retain(|&other| model[other].1.iter().any(|arg| arg.2 != READS && shares(arg, own)));
                let expected = match own {
                    (_, _, READS | WRITES, _) => None,
                    (_, _, _, false) => Some(Observation::Same),
                    _ if unordered.is_empty() => Some(Observation::Changed),
                    _ => Some(Observation::Ambiguous),
                };
                prop_assert_eq!(seen.observed(argument), expected);
                if expected == Some(Observation::Ambiguous) {
                    let mut named = unordered.clone();
                    named.truncate(NAMED);
                    let why = seen.ambiguity(argument).unwrap();
                    prop_assert_eq!((&why.others, why.count), (&named, unordered.len()));
                }
                if own.2 == WRITES {
                    continue;
                }
                // The last writers of each byte: no other candidate is in between.
                let last = |asked: &dyn Fn(&Range) -> bool| {
                    let holders = |byte: u64| -> Vec<(usize, u16)> {
                        let before = (0..count).filter(|&other| reach[other][task]);
                        let all = before.flat_map(|other| (0_u16..).zip(&model[other].1).map(move |a| (other, a)));
                        let all = all.filter(|(_, (_, arg))| asked(arg) && holds(arg, byte) && holds(own, byte));
                        all.map(|(other, (index, _))| (other, index)).collect()
                    };
                    let mut last: Vec<(usize, u16)> = (0..20)
                        .flat_map(|byte| {
                            let all = holders(byte);
                            let hidden = |one: usize| all.iter().any(|&(other, _)| reach[one][other]);
                            all.iter().copied().filter(|&(one, _)| !hidden(one)).collect::<Vec<_>>()
                        })
                        .collect();
                    last.sort_unstable();
                    last.dedup();
                    last
                };
                let sorted = |outputs: &[OutputRef]| {
                    let mut all: Vec<(usize, u16)> = outputs.iter().map(|o| (o.task, o.arg_index)).collect();
                    prop_assert!(all.is_sorted_by(|a, b| a >= b));
                    all.sort_unstable();
                    Ok(all)
                };
                // If one task holds a byte with two arguments, a total order names either and a partial order
                // both.
                let tasks_of = |all: &[(usize, u16)]| {
                    let mut tasks: Vec<usize> = all.iter().map(|a| a.0).collect();
                    tasks.dedup();
                    tasks
                };
                let wrote = |arg: &Range| arg.2 == WRITES || arg.2 > WRITES && arg.3;
                let touched = |arg: &Range| arg.2 != READS;
                let from = sorted(graph.producers_of(argument))?;
                prop_assert_eq!(tasks_of(&from), tasks_of(&last(&wrote)));
                let left = sorted(seen.last_holders(argument))?;
                prop_assert_eq!(tasks_of(&left), tasks_of(&last(&touched)));
                for (by, by_index) in left {
                    let written = &model[by].1[usize::from(by_index)];
                    let may = |other: usize| {
                        let both = |arg: &&Range| touched(arg) && shares(arg, own) && shares(arg, written);
                        other != by && other != task && !reach[other][by] && !reach[task][other]
                            && model[other].1.iter().any(|arg| both(&arg))
                    };
                    let is_open = (0..count).any(may);
                    let clear = is_clear(&graph, (task as u64, index), (by as u64, by_index));
                    // In a total order, only holders of the shared bytes count.
                    prop_assert!(clear != is_open || seen.order().is_total());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// For any number of steps, an answer is complete or undecided.
    #[test]
    fn with_any_step_limit_answers_are_complete_or_undecided(
        model in model_tasks(),
        pairs in proptest::collection::vec((0_u64..12, 0_u64..12), 0..24),
        steps in 0_u64..400,
        most in prop_oneof![0_u64..40, Just(u64::MAX)],
    ) {
        let count = model.len() as u64;
        let edges = pairs.iter().map(|&(a, b)| (a % count, b % count)).filter(|(a, b)| a < b);
        let edges: Vec<Edge> = edges.map(|(from, to)| edge(from, to)).collect();
        let graph = graph_of(made_of(&model), &edges, None);
        prop_assume!(graph.observations().is_some());
        let whole = graph.observations().unwrap();
        let (seen, origins) = Observations::within(graph.tasks(), Order::of(graph.tasks()), Budget::new(steps, most));
        let mut undecided = 0;
        for (task, arg) in graph.tasks().iter().flat_map(|task| task.arguments().map(move |arg| (task, arg))) {
            let cut = seen.ambiguity(arg).filter(|why| why.is_cut);
            undecided += usize::from(
                origins.get(arg.number()).basis == OriginBasis::Undecided || cut.is_some_and(|why| why.others.is_empty()),
            );
            match cut {
                Some(why) => {
                    let all = whole.unordered(task, arg).tasks;
                    prop_assert!(why.others.iter().all(|other| all.contains(other)));
                    prop_assert_eq!(seen.observed(arg), Some(Observation::Ambiguous));
                }
                None => {
                    prop_assert_eq!(seen.observed(arg), whole.observed(arg));
                    prop_assert_eq!(seen.ambiguity(arg), whole.ambiguity(arg));
                }
            }
            // A change that is reported as ambiguous still counts as a write, so the producers are the same.
            for (found, right) in [(origins.get(arg.number()), graph.origin(arg)), (seen.last_holders.get(arg.number()), whole.last_holders.get(arg.number()))] {
                prop_assert!(found.basis == OriginBasis::Undecided || found == right);
                prop_assert!(found.basis != OriginBasis::Undecided || found.outputs.is_empty());
            }
        }
        prop_assert_eq!(seen.undecided_count(), undecided);
    }

    /// For any unknown part of the order, every reported writer is a real one.
    #[test]
    fn with_unknown_order_every_reported_writer_is_real(
        model in model_tasks(),
        pairs in proptest::collection::vec((0_u64..12, 0_u64..12), 0..24),
        words in 0_usize..4,
        steps in 0_u64..40,
    ) {
        let count = model.len() as u64;
        let edges = pairs.iter().map(|&(a, b)| (a % count, b % count)).filter(|(a, b)| a < b);
        let edges: Vec<Edge> = edges.map(|(from, to)| edge(from, to)).collect();
        let graph = graph_of(made_of(&model), &edges, None);
        prop_assume!(graph.observations().is_some());
        let whole = graph.observations().unwrap();
        let order = Order::within(graph.tasks(), order::OrderBudget { words, steps });
        let (seen, origins) = Observations::within(graph.tasks(), order, Budget::new(u64::MAX, u64::MAX));
        for arg in graph.tasks().iter().flat_map(|task| task.arguments()) {
            let (is, should) = (seen.observed(arg), whole.observed(arg));
            prop_assert!(is == should || is == Some(Observation::Ambiguous) && should == Some(Observation::Changed));
            let (found, left) = (origins.get(arg.number()), seen.last_holders.get(arg.number()));
            prop_assert!(found.basis == OriginBasis::Undecided || found == graph.origin(arg));
            prop_assert!(left.basis == OriginBasis::Undecided || left == whole.last_holders.get(arg.number()));
        }
    }
}
