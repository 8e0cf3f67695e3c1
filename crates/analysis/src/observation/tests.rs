use proptest::prelude::*;
use tensortap_abi::DType;
use tensortap_format::{Assembler, Edge, Renewed, TaskKey, TaskPart};
use tensortap_geometry::Layout;

use super::*;
use crate::graph::TaskGraph;
use crate::graph::testing::{TaskMaker, assembled, graph_of, tasks_with};

fn edge(from: u64, to: u64) -> Edge {
    Edge { step: 0, from_step: 0, from, to, arg_index: 0, why: "event" }
}

/// Edges of a queue that keeps its order.
fn in_order(tasks: &[u64]) -> Vec<Edge> {
    tasks.windows(2).map(|pair| Edge { why: "queue_order", ..edge(pair[0], pair[1]) }).collect()
}

fn arg(graph: &TaskGraph, task_id: u64, arg_index: u16) -> (Task<'_>, Argument<'_>) {
    let task = graph.tasks().find(TaskKey { step: 0, task_id }).unwrap();
    (task, task.argument(arg_index).unwrap())
}

fn observed(graph: &TaskGraph, task_id: u64, index: u16) -> Option<Observed> {
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
    let outputs = graph.outputs_behind(arg(graph, task_id, index).1);
    ids(graph, outputs.iter().map(|output| output.task))
}

/// Bytes of a buffer at 0x1000.
fn bytes(task: TaskMaker, from: u64, len: u64) -> TaskMaker {
    task.view(0x1000 + from, DType::UInt8, Layout::contiguous(&[len], 8).unwrap())
}

#[test]
fn in_one_queue_what_changed_was_changed_by_its_task() {
    let made = vec![
        TaskMaker::new(1, "fill").output(0x1000, "zero").at(10),
        TaskMaker::new(2, "add").given(0x1000, "zero", "one").given(0x2000, "x", "x").at(20),
        TaskMaker::new(3, "read").given(0x1000, "one", "one").at(30),
        TaskMaker::new(4, "add").given(0x1000, "one", "two").at(40),
    ];
    let graph = graph_of(made, &in_order(&[1, 2, 3, 4]), None);
    assert_eq!(observed(&graph, 1, 0), None, "its role is known");
    assert_eq!(observed(&graph, 2, 0), Some(Observed::Changed));
    assert_eq!(observed(&graph, 2, 1), Some(Observed::Same));
    assert_eq!(producers(&graph, 3, 0), [2]);
    assert_eq!(producers(&graph, 4, 0), [2], "who left it as it was is passed through");
    let counts = ObservedCounts { same: 2, changed: 2, ambiguous: 0, unobserved: 0 };
    assert_eq!(graph.observations().unwrap().counts(), counts);
}

/// A writer in each of two queues, and a reader behind both.
fn two_queues(edges: &[Edge]) -> TaskGraph {
    let mut made = vec![
        TaskMaker::new(1, "left").given(0x1000, "a", "b").at(10),
        TaskMaker::new(2, "right").given(0x1000, "b", "c").at(20),
        TaskMaker::new(3, "read").given(0x1000, "c", "c").at(30),
    ];
    made[1].facts.queue = 2;
    graph_of(made, edges, None)
}

#[test]
fn two_queues_on_one_buffer_are_ambiguous_until_an_event_orders_them() {
    let graph = two_queues(&[]);
    assert_eq!(observed(&graph, 1, 0), Some(Observed::Ambiguous));
    assert_eq!(others(&graph, 1, 0), [2, 3], "whoever looks as if it changed nothing may have written, too");
    assert_eq!((others(&graph, 2, 0), producers(&graph, 3, 0)), (vec![1, 3], vec![]));
    let graph = two_queues(&[edge(1, 2), edge(2, 3)]);
    let all = [1, 2].map(|task| observed(&graph, task, 0).unwrap());
    assert_eq!((all, producers(&graph, 3, 0)), ([Observed::Changed; 2], vec![2]));
    let graph = two_queues(&[edge(1, 3), edge(2, 3)]);
    assert_eq!((others(&graph, 1, 0), others(&graph, 2, 0)), (vec![2], vec![1]));
    assert_eq!(producers(&graph, 3, 0), [2, 1], "both are candidates");
}

#[test]
fn a_task_that_only_reads_makes_nothing_ambiguous() {
    let made = vec![
        TaskMaker::new(1, "write").given(0x1000, "a", "b").at(10),
        TaskMaker::new(2, "copy").input(0x1000, "b").output(0x3000, "b").at(20),
    ];
    let graph = graph_of(made, &[], None);
    assert_eq!(observed(&graph, 1, 0), Some(Observed::Changed));
}

#[test]
fn halves_of_a_buffer_have_producers_of_their_own() {
    let half = |id, from| bytes(TaskMaker::new(id, "half").given(0, "a", "b"), from, 8).at(id * 10);
    let whole = |id: u64| bytes(TaskMaker::new(id, "whole").given(0, "b", "b"), 0, 16).at(id * 10);
    let graph = graph_of(vec![half(1, 0), half(2, 8), whole(3)], &[edge(1, 3), edge(2, 3)], None);
    assert_eq!([1, 2].map(|task| observed(&graph, task, 0).unwrap()), [Observed::Changed; 2]);
    assert_eq!(producers(&graph, 3, 0), [2, 1]);
    // A kernel that was given all of it, and changed it, hides both.
    let over = bytes(TaskMaker::new(4, "over").given(0, "b", "c"), 0, 16).at(40);
    let part = bytes(TaskMaker::new(5, "part").given(0, "c", "c"), 4, 8).at(50);
    let made = vec![half(1, 0), half(2, 8), whole(3), over, part];
    let graph = graph_of(made, &[edge(1, 3), edge(2, 3), edge(3, 4), edge(4, 5)], None);
    assert_eq!((producers(&graph, 4, 0), producers(&graph, 5, 0)), (vec![2, 1], vec![4]));
}

#[test]
fn a_barrier_orders_what_is_before_and_behind_it() {
    let made = vec![
        TaskMaker::new(1, "a").given(0x1000, "0", "1").at(10),
        TaskMaker::new(2, "b").given(0x2000, "0", "1").at(11),
        TaskMaker::new(3, "").at(20),
        TaskMaker::new(4, "c").given(0x1000, "1", "2").given(0x2000, "1", "1").at(30),
        TaskMaker::new(5, "d").given(0x2000, "1", "3").at(31),
    ];
    let graph = graph_of(made, &[edge(1, 3), edge(2, 3), edge(3, 4), edge(3, 5)], None);
    assert_eq!(observed(&graph, 1, 0), Some(Observed::Changed));
    assert_eq!(observed(&graph, 4, 0), Some(Observed::Changed));
    assert_eq!((observed(&graph, 5, 0), others(&graph, 5, 0)), (Some(Observed::Ambiguous), vec![4]));
    assert_eq!((producers(&graph, 4, 0), producers(&graph, 4, 1)), (vec![1], vec![2]));
}

#[test]
fn memory_of_the_host_is_ambiguous_where_it_changed() {
    let mut made = vec![TaskMaker::new(1, "a").given(0x1000, "0", "1").given(0x2000, "0", "1").at(10)];
    made[0].args[0].host_writable = true;
    let graph = graph_of(made, &[], None);
    assert_eq!(observed(&graph, 1, 0), Some(Observed::Ambiguous));
    let why = graph.observations().unwrap().ambiguity(arg(&graph, 1, 0).1).unwrap();
    assert_eq!(why, &Ambiguity { others: vec![], count: 0, host_writable: true, is_cut: false });
    assert_eq!(observed(&graph, 1, 1), Some(Observed::Changed));
    // The same by what was allocated there, while it is.
    let of = |freed_at: Option<u64>| {
        let made = vec![TaskMaker::new(1, "a").given(0x1000, "0", "1").at(100)];
        let taken = Renewed { at_ns: 10, address: 0x1000, bytes: 64, freed: false, host_writable: true };
        let freed = freed_at.map(|at_ns| Renewed { at_ns, freed: true, ..taken });
        let renewed: Vec<Renewed> = [Some(taken), freed].into_iter().flatten().collect();
        observed(&TaskGraph::build(tasks_with(made, &renewed), None), 1, 0).unwrap()
    };
    assert_eq!((of(None), of(Some(50))), (Observed::Ambiguous, Observed::Changed));
}

#[test]
fn what_was_not_captured_is_not_observed_and_may_have_been_written() {
    let mut made = vec![
        TaskMaker::new(1, "a").given(0x1000, "0", "1").at(10),
        TaskMaker::new(2, "b").given(0x1000, "1", "1").at(20),
        TaskMaker::new(3, "c").given(0x1000, "1", "1").at(30),
    ];
    made[1].args[0].after = None;
    let graph = graph_of(made, &in_order(&[1, 2, 3]), None);
    assert_eq!(observed(&graph, 2, 0), Some(Observed::Unobserved));
    assert_eq!(producers(&graph, 3, 0), [2]);
}

#[test]
fn what_was_freed_meanwhile_is_nobodys() {
    let made = || {
        vec![
            TaskMaker::new(1, "a").given(0x1000, "0", "1").at(10),
            TaskMaker::new(2, "b").given(0x1000, "x", "x").at(30),
            // So that not all are ordered.
            TaskMaker::new(3, "c").given(0x9000, "x", "x").at(31),
        ]
    };
    for edges in [vec![edge(1, 2)], in_order(&[1, 2, 3])] {
        let from = |at_ns| {
            let renewed = Renewed { at_ns, address: 0x1000, bytes: 64, freed: true, host_writable: false };
            let mut assembler = Assembler::default();
            assembler.take(TaskPart::Renewed(renewed));
            let graph = TaskGraph::build(assembled(assembler, made(), &edges), None);
            producers(&graph, 2, 0)
        };
        assert_eq!((from(20), from(5), from(50)), (vec![], vec![1], vec![1]));
    }
}

#[test]
fn memory_is_that_of_the_time_when_a_task_was_submitted_however_long_it_waited() {
    for edges in [vec![edge(1, 2)], in_order(&[1, 2, 3])] {
        let from = |at_ns| {
            let made = vec![
                TaskMaker::new(1, "a").given(0x1000, "0", "1").submitted(5).at(100),
                TaskMaker::new(2, "b").given(0x1000, "x", "x").submitted(15).at(110),
                TaskMaker::new(3, "c").given(0x9000, "x", "x").submitted(16).at(120),
            ];
            let renewed = Renewed { at_ns, address: 0x1000, bytes: 64, freed: true, host_writable: false };
            let mut assembler = Assembler::default();
            assembler.take(TaskPart::Renewed(renewed));
            producers(&TaskGraph::build(assembled(assembler, made, &edges), None), 2, 0)
        };
        assert_eq!((from(10), from(2), from(20), from(105)), (vec![], vec![1], vec![1], vec![1]));
    }
}

#[test]
fn who_wrote_before_is_not_decided_where_one_over_it_has_no_known_order() {
    // Tasks 1 and 3 write parts, task 4 all of it behind both, and task 5 stands behind everyone. Without room for lists, of task 4 only
    // its chain is known: that it is behind task 3.
    let edges = [edge(0, 2), edge(1, 2), edge(1, 4), edge(3, 4), edge(2, 5), edge(4, 5)];
    let left_to_5 = |parts: [u64; 2]| {
        let made = vec![
            TaskMaker::new(0, "other").at(0),
            bytes(TaskMaker::new(1, "part").output(0, "a"), parts[0], 4).at(10),
            TaskMaker::new(2, "other").at(20),
            bytes(TaskMaker::new(3, "part").output(0, "a"), parts[1], 4).at(30),
            bytes(TaskMaker::new(4, "all").output(0, "b"), 0, 6).at(40),
            bytes(TaskMaker::new(5, "read").given(0, "b", "b"), 0, 3).at(50),
        ];
        let graph = graph_of(made, &edges, None);
        assert_eq!(producers(&graph, 5, 0), [4], "with room, it is known");
        let order = Order::within(graph.tasks(), order::Room { words: 0, steps: u64::MAX });
        assert!(order.is_unknown(4) && !order.is_unknown(5));
        let (seen, origins) = Observations::within(graph.tasks(), order, Budget::new(u64::MAX, u64::MAX));
        let number = arg(&graph, 5, 0).1.number();
        [origins.get(number), seen.left_by.get(number)]
            .map(|found| (found.basis, ids(&graph, found.outputs.iter().map(|output| output.task))))
    };
    let undecided = (Basis::Undecided, vec![]);
    assert_eq!(left_to_5([2, 20]), [undecided.clone(), undecided], "task 4 may have written over task 1");
    let decided = (Basis::Bytes, vec![4]);
    assert_eq!(left_to_5([20, 2]), [decided.clone(), decided], "it did over task 3");
}

/// Who may have written between two tasks: nobody, by the definition.
fn is_clear(graph: &TaskGraph, found: (u64, u16), left: (u64, u16)) -> bool {
    let (task, arg_found) = arg(graph, found.0, found.1);
    let (by, _) = arg(graph, left.0, left.1);
    let left = OutputRef { task: by.place(), arg_index: left.1 };
    graph.observations().unwrap().unattributed(graph, task.place(), arg_found, left).is_some()
}

#[test]
fn a_change_between_two_tasks_is_attributed_to_nobody_unless_someone_was_unordered() {
    let mut made = vec![
        TaskMaker::new(1, "a").given(0x1000, "0", "1").at(10),
        TaskMaker::new(2, "b").given(0x1000, "other", "2").at(20),
    ];
    let graph = graph_of(made.clone(), &in_order(&[1, 2]), None);
    assert!(is_clear(&graph, (2, 0), (1, 0)));
    made.push(TaskMaker::new(3, "c").given(0x1000, "1", "1").at(15));
    let graph = graph_of(made.clone(), &in_order(&[1, 2]), None);
    assert!(!is_clear(&graph, (2, 0), (1, 0)), "task 3 may have");
    let graph = graph_of(made.clone(), &[edge(1, 2), edge(2, 3)], None);
    assert!(is_clear(&graph, (2, 0), (1, 0)), "it came later");
    made[2] = TaskMaker::new(3, "c").given(0x9000, "1", "1").at(15);
    assert!(is_clear(&graph_of(made, &in_order(&[1, 2]), None), (2, 0), (1, 0)), "it was given other memory");
}

/// A task of the naive model: queue, then of each argument first byte, bytes, whether its role is known (and what it is), whether it
/// changes.
type Modelled = (u32, Vec<Range>);
type Range = (u64, u64, u8, bool);

fn modelled() -> impl Strategy<Value = Vec<Modelled>> {
    let arg = (0_u64..10, 1_u64..8, 0_u8..8, any::<bool>());
    proptest::collection::vec((0_u32..3, proptest::collection::vec(arg, 0..3)), 2..12)
}

const READS: u8 = 0;
const WRITES: u8 = 1;

fn made_of(model: &[Modelled]) -> Vec<TaskMaker> {
    let task = |(id, (queue, args)): (u64, &Modelled)| {
        let mut task = TaskMaker::new(id, "k").at(id * 10);
        task.facts.queue = *queue;
        for &(from, len, known, changes) in args {
            task = match known {
                READS => task.input(0, "a"),
                WRITES => task.output(0, "b"),
                _ => task.given(0, "a", if changes { "b" } else { "a" }),
            };
            task = bytes(task, from, len);
        }
        task
    };
    (0..).zip(model).map(task).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Against the definitions, byte by byte and over the closure of edges.
    #[test]
    fn everything_is_as_defined(
        model in modelled(),
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
        let told: Vec<Edge> = edges.iter().map(|&(from, to)| edge(from as u64, to as u64)).collect();
        let graph = graph_of(made_of(&model), &told, None);
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
                    (_, _, _, false) => Some(Observed::Same),
                    _ if unordered.is_empty() => Some(Observed::Changed),
                    _ => Some(Observed::Ambiguous),
                };
                prop_assert_eq!(seen.observed(argument), expected);
                if expected == Some(Observed::Ambiguous) {
                    let mut named = unordered.clone();
                    named.truncate(NAMED);
                    let why = seen.ambiguity(argument).unwrap();
                    prop_assert_eq!((&why.others, why.count), (&named, unordered.len()));
                }
                if own.2 == WRITES {
                    continue;
                }
                // The last of each byte: no other that is asked for is between.
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
                // One task that holds a byte with two arguments names either in one chain, and both in several.
                let tasks_of = |all: &[(usize, u16)]| {
                    let mut tasks: Vec<usize> = all.iter().map(|a| a.0).collect();
                    tasks.dedup();
                    tasks
                };
                let wrote = |arg: &Range| arg.2 == WRITES || arg.2 > WRITES && arg.3;
                let touched = |arg: &Range| arg.2 != READS;
                let from = sorted(graph.outputs_behind(argument))?;
                prop_assert_eq!(tasks_of(&from), tasks_of(&last(&wrote)));
                let left = sorted(seen.left_by(argument))?;
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
                    // In one chain nobody is between who holds one of these bytes; who holds others of both ranges does not count.
                    prop_assert!(clear != is_open || seen.order().is_total());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// However few steps there are: an answer is the whole answer, or says that there is none.
    #[test]
    fn what_is_not_decided_is_never_claimed(
        model in modelled(),
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
                origins.get(arg.number()).basis == Basis::Undecided || cut.is_some_and(|why| why.others.is_empty()),
            );
            match cut {
                Some(why) => {
                    let all = whole.unordered(task, arg).tasks;
                    prop_assert!(why.others.iter().all(|other| all.contains(other)));
                    prop_assert_eq!(seen.observed(arg), Some(Observed::Ambiguous));
                }
                None => {
                    prop_assert_eq!(seen.observed(arg), whole.observed(arg));
                    prop_assert_eq!(seen.ambiguity(arg), whole.ambiguity(arg));
                }
            }
            // A change that is taken for ambiguous is still one: who wrote is the same.
            for (found, right) in [(origins.get(arg.number()), graph.origin(arg)), (seen.left_by.get(arg.number()), whole.left_by.get(arg.number()))] {
                prop_assert!(found.basis == Basis::Undecided || found == right);
                prop_assert!(found.basis != Basis::Undecided || found.outputs.is_empty());
            }
        }
        prop_assert_eq!(seen.undecided_count(), undecided);
    }

    /// However much of the order is not known: who is said to have written did.
    #[test]
    fn what_is_not_known_of_the_order_is_never_claimed(
        model in modelled(),
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
        let order = Order::within(graph.tasks(), order::Room { words, steps });
        let (seen, origins) = Observations::within(graph.tasks(), order, Budget::new(u64::MAX, u64::MAX));
        for arg in graph.tasks().iter().flat_map(|task| task.arguments()) {
            let (is, should) = (seen.observed(arg), whole.observed(arg));
            prop_assert!(is == should || is == Some(Observed::Ambiguous) && should == Some(Observed::Changed));
            let (found, left) = (origins.get(arg.number()), seen.left_by.get(arg.number()));
            prop_assert!(found.basis == Basis::Undecided || found == graph.origin(arg));
            prop_assert!(left.basis == Basis::Undecided || left == whole.left_by.get(arg.number()));
        }
    }
}
