mod certain;
mod reordered;

use super::*;
use tensortap_abi::DType;
use tensortap_geometry::Layout;

use crate::graph::testing::{TaskBuilder, graph_of};

fn graph(tasks: Vec<TaskBuilder>) -> TaskGraph {
    graph_of(tasks, &[], None)
}

fn matched(first: &TaskGraph, second: &TaskGraph) -> Vec<(u64, Option<u64>)> {
    let matching = match_tasks(first, second, MatchOptions::default());
    let partner = |p: &Option<usize>| p.map(|p| second.task(p).task_id);
    first.tasks().iter().map(|t| t.task_id).zip(matching.partner.iter().map(partner)).collect()
}

/// Chains of two tasks, each with its own input content. Ids and times follow the given order.
fn chains(contents: &[&str], first_id: u64) -> TaskGraph {
    graph(chained(contents, first_id))
}

fn chained(contents: &[&str], first_id: u64) -> Vec<TaskBuilder> {
    let mut tasks = Vec::new();
    for (number, content) in (0..).zip(contents) {
        let (id, base) = (first_id + 2 * number, 0x1000 * (10 * number + 1));
        let made = format!("{content}'");
        tasks
            .push(TaskBuilder::new(id, "scale").input(base, content).output(base + 0x100, &made).at(id * 10));
        let last = TaskBuilder::new(id + 1, "sum").input(base + 0x100, &made).output(base + 0x200, "sum");
        tasks.push(last.at(id * 10 + 5));
    }
    tasks
}

#[test]
fn equal_tasks_in_another_order_are_matched_by_their_inputs() {
    let (first, second) = (chains(&["x", "y", "z"], 0), chains(&["z", "x", "y"], 0));
    let expected = [(0, Some(2)), (1, Some(3)), (2, Some(4)), (3, Some(5)), (4, Some(0)), (5, Some(1))];
    assert_eq!(matched(&first, &second), expected);
}

#[test]
fn different_ids_do_not_matter() {
    let (first, second) = (chains(&["x", "y"], 0), chains(&["x", "y"], 1 << 32));
    let at = |n: u64| Some((1 << 32) + n);
    assert_eq!(matched(&first, &second), [(0, at(0)), (1, at(1)), (2, at(2)), (3, at(3))]);
}

#[test]
fn content_that_a_task_wrote_does_not_matter() {
    let make = |written: &str| {
        graph(vec![
            TaskBuilder::new(0, "make").input(0x1000, "x").output(0x2000, written).at(1),
            TaskBuilder::new(1, "use").input(0x2000, written).output(0x3000, written).at(2),
        ])
    };
    assert_eq!(matched(&make("right"), &make("wrong")), [(0, Some(0)), (1, Some(1))]);
}

#[test]
fn consumers_distinguish_tasks_with_equal_producers() {
    let make = |kernels: [&str; 2]| {
        let mut tasks: Vec<_> =
            (0..2).map(|n| TaskBuilder::new(n, "fill").output(0x1000 * (n + 1), "zero").at(n)).collect();
        for (n, kernel) in (0..).zip(kernels) {
            tasks.push(TaskBuilder::new(n + 2, kernel).input(0x1000 * (n + 1), "zero").at(n + 10));
        }
        graph(tasks)
    };
    let pairs = matched(&make(["left", "right"]), &make(["right", "left"]));
    assert_eq!(pairs, [(0, Some(1)), (1, Some(0)), (2, Some(3)), (3, Some(2))]);
}

#[test]
fn garbage_in_scratch_memory_does_not_prevent_a_match() {
    let make = |garbage: &str, first_id: u64| {
        graph(vec![
            TaskBuilder::new(first_id, "begin").input(0x1000, "x").inout(0x2000, garbage, "a").at(1),
            TaskBuilder::new(first_id + 1, "go on").input(0x1100, "y").inout(0x2000, "a", "b").at(2),
        ])
    };
    assert_eq!(matched(&make("trash", 0), &make("junk", 70)), [(0, Some(70)), (1, Some(71))]);
}

#[test]
fn ids_decide_if_an_external_input_is_wrong() {
    let (first, second) = (chains(&["x", "y", "z"], 0), chains(&["x", "broken", "z"], 0));
    assert!(matched(&first, &second).iter().all(|(id, partner)| *partner == Some(*id)));
}

#[test]
fn a_task_with_a_different_scalar_is_still_matched() {
    let make = |bits| graph(vec![TaskBuilder::new(0, "fill").scalar(bits).output(0x1000, "x").at(1)]);
    assert_eq!(matched(&make(1), &make(2)), [(0, Some(0))]);
}

#[test]
fn a_dump_with_only_outputs_matches_a_complete_one() {
    let full = chains(&["x", "y"], 0);
    let mut captured = chained(&["x", "y"], 0);
    for arg in captured.iter_mut().flat_map(|task| &mut task.args) {
        arg.is_left_out = !arg.role.writes();
    }
    let mut outputs = graph_of(captured, &[], Some("filters kept 4 records out".into()));
    assert!(matched(&outputs, &full).iter().all(|(id, partner)| *partner == Some(*id)));
    outputs.gap = None;
    assert!(matched(&outputs, &full).iter().all(|(_, partner)| partner.is_none()));
}

#[test]
fn interchangeable_tasks_are_paired_in_order() {
    let make = || {
        graph((0..4).map(|n| TaskBuilder::new(n, "fill").output(0x1000 * (n + 1), "zero").at(n)).collect())
    };
    assert!(matched(&make(), &make()).iter().all(|(id, partner)| *partner == Some(*id)));
}

#[test]
fn a_different_shape_is_given_as_the_reason() {
    let of = |count: u64| {
        let row = Layout::contiguous(&[count], 32).unwrap();
        graph(vec![
            TaskBuilder::new(0, "fill").output(0x1000, "zero").view(0x1000, DType::Float32, row).at(1),
        ])
    };
    let matching = match_tasks(&of(1280), &of(1024), MatchOptions::default());
    let [one] = &matching.only_first[..] else { panic!("{matching:?}") };
    assert_eq!(
        one.reason,
        "the golden has no task of fill with these arguments; in an unmatched task there, argument 0 has shape \
         [1024] instead of [1280]"
    );
}

#[test]
fn tasks_without_a_partner_are_listed_with_reasons() {
    let one = graph(vec![
        TaskBuilder::new(0, "fill").output(0x1000, "zero").at(1),
        TaskBuilder::new(1, "fill").output(0x2000, "zero").at(2),
        TaskBuilder::new(2, "extra").output(0x3000, "zero").at(3),
    ]);
    let other = graph(vec![TaskBuilder::new(5, "fill").output(0x1000, "zero").at(1)]);
    let matching = match_tasks(&one, &other, MatchOptions::default());
    assert_eq!(matching.partner, [Some(0), None, None]);
    let reasons: Vec<&str> = matching.only_first.iter().map(|u| u.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "unequal numbers of such tasks of fill: 2 in the dump, 1 in the golden",
            "the golden has no task of extra with these arguments"
        ]
    );
    assert!(matching.only_second.is_empty());
    // The matching is symmetric.
    let matching = match_tasks(&other, &one, MatchOptions::default());
    let reasons: Vec<&str> = matching.only_second.iter().map(|u| u.reason.as_str()).collect();
    let expected = [
        "unequal numbers of such tasks of fill: 1 in the dump, 2 in the golden",
        "the dump has no task of extra with these arguments",
    ];
    assert_eq!(reasons, expected);
}

/// Lanes that differ only in their names.
fn lanes(names: &[&str], first_id: u64) -> TaskGraph {
    let tasks = (0..).zip(names).flat_map(|(number, name)| {
        let (id, base) = (first_id + 2 * number, 0x1000 * (number + 1));
        let make = TaskBuilder::new(id, "make").named(name, "first").output(base, "zero").at(id * 10);
        let take = TaskBuilder::new(id + 1, "take").named(name, "second").input(base, "zero").at(id * 10 + 5);
        [make, take]
    });
    graph(tasks.collect())
}

#[test]
fn names_distinguish_structurally_equal_tasks() {
    let (first, second) = (lanes(&["a", "b", "c"], 0), lanes(&["c", "a", "b"], 0));
    let expected = [(0, Some(2)), (1, Some(3)), (2, Some(4)), (3, Some(5)), (4, Some(0)), (5, Some(1))];
    assert_eq!(matched(&first, &second), expected);
}

#[test]
fn a_missing_task_does_not_shift_the_names_of_others() {
    let (first, second) = (lanes(&["a", "b", "c"], 0), lanes(&["a", "c"], 40));
    let expected = [(0, Some(40)), (1, Some(41)), (2, None), (3, None), (4, Some(42)), (5, Some(43))];
    assert_eq!(matched(&first, &second), expected);
}

#[test]
fn structure_decides_before_names() {
    let swapped = |names: [&str; 2]| {
        let make = |id: u64, name: &str, input: &str| {
            TaskBuilder::new(id, "scale")
                .named("layer", name)
                .input(0x1000 * (id + 1), input)
                .output(0x9000, "y")
                .at(id)
        };
        graph(vec![make(0, names[0], "left"), make(1, names[1], "right")])
    };
    let pairs = matched(&swapped(["a", "b"]), &swapped(["b", "a"]));
    assert_eq!(pairs, [(0, Some(0)), (1, Some(1))], "the content of external inputs is structure");
}
