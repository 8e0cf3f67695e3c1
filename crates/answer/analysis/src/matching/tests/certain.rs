//! Which pairs are certain.

use super::*;
use crate::graph::RunExtent;

/// Independent tasks of one kernel, each with its own written content.
fn scales(ids: std::ops::Range<u64>) -> Vec<TaskBuilder> {
    ids.map(|id| TaskBuilder::new(id, "scale").output(0x1000 * (id + 1), &format!("{id}")).at(id)).collect()
}

/// The same tasks around one task of another kernel.
fn scales_around(kernel: &str, before: u64, after: u64) -> Vec<TaskBuilder> {
    let mut tasks = scales(0..before + 1 + after);
    let place = usize::try_from(before).unwrap();
    tasks[place] = TaskBuilder::new(before, kernel).output(0x1000 * (before + 1), kernel).at(before);
    tasks
}

fn pairs(first: &TaskGraph, second: &TaskGraph) -> Matching {
    match_tasks(first, second, MatchOptions::default())
}

fn filtered(tasks: Vec<TaskBuilder>, records: u64) -> TaskGraph {
    let mut graph = graph_of(tasks, &[], Some("filters removed 4 records".into()));
    graph.extent = RunExtent { records: Some(records), ..RunExtent::default() };
    graph
}

fn whole(tasks: Vec<TaskBuilder>, records: u64) -> TaskGraph {
    let mut graph = graph(tasks);
    graph.extent = RunExtent { records: Some(records), ..RunExtent::default() };
    graph
}

fn partner_ids(matching: &Matching, second: &TaskGraph) -> Vec<Option<u64>> {
    matching.partner.iter().map(|partner| partner.map(|place| second.task(place).task_id)).collect()
}

#[test]
fn the_order_of_submission_decides_between_tasks_that_were_dispatched_in_another_order() {
    // Two heads read the same tensor. The numbers of the second run begin elsewhere.
    let run = |first_id: u64, starts: [u64; 2]| {
        let mut tasks = vec![TaskBuilder::new(first_id, "project").output(0x1000, "x").at(1)];
        for (head, start) in (1..).zip(starts) {
            let head_task = TaskBuilder::new(first_id + head, "attend").input(0x1000, "x");
            tasks.push(head_task.output(0x2000 * head, &format!("head {head}")).at(start));
        }
        graph(tasks)
    };
    let golden = run(100, [10, 20]);
    for starts in [[10, 20], [20, 10]] {
        let dump = run(0, starts);
        let matching = pairs(&dump, &golden);
        let partners = partner_ids(&matching, &golden);
        let ids = dump.tasks().iter().map(|task| Some(task.task_id + 100)).collect::<Vec<_>>();
        assert_eq!(partners, ids, "{starts:?}");
        assert!(matching.uncertain.is_empty(), "{starts:?}: {matching:?}");
    }
}

/// Named tasks in an order, and one that reads all their outputs. `gap` is a task whose output is not recorded.
fn named_parts(order: &[u64], gap: Option<u64>) -> TaskGraph {
    let address = |part: u64| 0x1000 * (part + 1);
    let mut tasks = Vec::new();
    for (id, &part) in (0..).zip(order) {
        let task =
            TaskBuilder::new(id, "part").named("", &format!("part {part}")).input(0x100, "x").scalar(part);
        let output = |task: TaskBuilder| task.output(address(part), &format!("{part}"));
        tasks.push(if gap == Some(part) { task } else { output(task) }.at(id));
    }
    let sum = TaskBuilder::new(order.len() as u64, "sum").named("", "sum").at(100);
    let parts = 0..order.len() as u64;
    tasks.push(parts.fold(sum, |sum, part| sum.input(address(part), &format!("{part}"))));
    graph(tasks)
}

#[test]
fn ids_are_not_trusted_if_they_contradict_names() {
    // The threads number their tasks as they come. One output is missing, so no task looks the same with its surroundings.
    let (dump, golden) = (named_parts(&[3, 2, 1, 0], Some(3)), named_parts(&[0, 1, 2, 3], None));
    let matching = pairs(&dump, &golden);
    assert_eq!(partner_ids(&matching, &golden)[1..], [Some(2), Some(1), Some(0), Some(4)]);
    assert!(matching.partner[0].is_none() || matching.uncertain.contains_key(&0), "{matching:?}");
}

#[test]
fn ids_find_the_partners_of_filtered_tasks() {
    let golden = whole(scales(0..10), 10);
    let some = scales(0..10).into_iter().filter(|task| [3, 5, 8].contains(&task.facts.task_id)).collect();
    let dump = filtered(some, 10);
    let matching = pairs(&dump, &golden);
    assert_eq!(partner_ids(&matching, &golden), [Some(3), Some(5), Some(8)]);
    assert!(matching.uncertain.is_empty() && matching.parts_at.is_none(), "{matching:?}");
    let matching = pairs(&golden, &dump);
    let expected = [3, 5, 8].map(Some);
    assert_eq!(
        partner_ids(&matching, &dump).into_iter().filter(Option::is_some).collect::<Vec<_>>(),
        expected
    );
    assert!(matching.uncertain.is_empty());
}

#[test]
fn a_task_that_the_other_dump_lacks_gets_no_other_partner() {
    let [dump, golden] = [6_u64, 5].map(|first| {
        let last = scales(0..9).into_iter().filter(|task| [first, 7, 8].contains(&task.facts.task_id));
        filtered(last.collect(), 9)
    });
    let matching = pairs(&dump, &golden);
    assert_eq!(partner_ids(&matching, &golden), [None, Some(7), Some(8)]);
    assert!(matching.uncertain.is_empty());
}

#[test]
fn ids_of_a_filtered_dump_are_not_trusted_if_the_run_had_more_launches() {
    let golden = whole(scales(0..10), 10);
    let some = scales(0..11).into_iter().filter(|task| [3, 5, 8].contains(&task.facts.task_id)).collect();
    let dump = filtered(some, 11);
    let matching = pairs(&dump, &golden);
    assert!((0..3).all(|task| matching.uncertain.contains_key(&task)), "{matching:?}");
}

#[test]
fn a_filter_of_tasks_makes_pairs_by_name_uncertain() {
    // The first tasks of one run and the last ones of another: what both have looks unique, but is not.
    let run = |ids: std::ops::Range<u64>| {
        let task = |id: u64| TaskBuilder::new(id, "scale").output(0x1000 * (id + 1), &format!("{id}")).at(id);
        let mut graph = filtered(ids.map(task).collect(), 2);
        graph.others_write = true;
        graph
    };
    let (mut first, mut last) = (run(0..1), run(4..5));
    assert!(pairs(&first, &last).uncertain.is_empty(), "nothing shows that tasks are missing");
    first.extent.filters_tasks = Some(true);
    last.extent.filters_tasks = Some(true);
    assert!(pairs(&first, &last).uncertain.contains_key(&0));
}

#[test]
fn a_filter_of_arguments_leaves_all_tasks() {
    // The ids do not begin at 0, as if the first tasks were missing.
    let run = || filtered(scales(4..7), 3);
    let tasks = |graph: TaskGraph, filters_tasks| {
        let mut graph = graph;
        (graph.extent.filters_tasks, graph.extent.records) = (filters_tasks, None);
        graph
    };
    assert!(!ids::lacks_tasks(&tasks(run(), Some(false))));
    assert!(ids::lacks_tasks(&tasks(run(), None)) && ids::lacks_tasks(&tasks(run(), Some(true))));
}

#[test]
fn scalars_find_the_partners_if_ids_are_shifted() {
    let numbered = |shift: u64| -> Vec<TaskBuilder> {
        (0..10).zip(scales(shift..10 + shift)).map(|(number, task)| task.scalar(number)).collect()
    };
    let golden = whole(numbered(0), 20);
    let some = numbered(1).into_iter().filter(|task| [4, 6, 9].contains(&task.facts.task_id)).collect();
    let matching = pairs(&filtered(some, 22), &golden);
    assert_eq!(partner_ids(&matching, &golden), [Some(3), Some(5), Some(8)]);
    assert!(matching.uncertain.is_empty(), "{matching:?}");
}

#[test]
fn equal_ids_of_two_filtered_dumps_are_not_trusted_if_the_runs_differ_in_length() {
    let some = || scales(0..12).into_iter().filter(|task| [3, 5, 8].contains(&task.facts.task_id)).collect();
    for (records, are_certain) in [(11, false), (10, true)] {
        let matching = pairs(&filtered(some(), records), &filtered(some(), 10));
        assert_eq!(matching.uncertain.is_empty(), are_certain, "{matching:?}");
        assert!(matching.partner.iter().all(Option::is_some));
    }
}

#[test]
fn ids_that_contradict_a_certain_pair_are_not_trusted() {
    // The one task that is unlike the others has another id: all later ids are shifted.
    let (golden, dump) = (graph(scales_around("sum", 3, 4)), graph(scales_around("sum", 4, 3)));
    let matching = pairs(&dump, &golden);
    assert_eq!(matching.partner[4], Some(3));
    assert!(!matching.uncertain.contains_key(&4), "{matching:?}");
    assert!((0..4).chain(5..8).all(|task| matching.uncertain.contains_key(&task)), "{matching:?}");
}

#[test]
fn an_extra_task_among_equal_ones_makes_their_pairs_uncertain() {
    let (golden, dump) = (graph(scales_around("sum", 3, 2)), graph(scales_around("sum", 4, 2)));
    let matching = pairs(&dump, &golden);
    let uncertain = |task| matching.uncertain.get(&task).map(String::as_str);
    assert!((0..4).filter(|task| matching.partner[*task].is_some()).all(|task| uncertain(task).is_some()));
    assert_eq!(matching.partner[4..], [Some(3), Some(4), Some(5)], "the tasks after it line up again");
    assert!((4..7).all(|task| uncertain(task).is_none()), "{matching:?}");
}

#[test]
fn a_replaced_stretch_is_a_region_and_the_rest_is_certain() {
    let with = |kernels: &[&str]| {
        let all = ["embed", "mul", "mul"].iter().chain(kernels).chain(&["mul", "norm", "mul"]);
        let task = |(id, kernel): (u64, &&str)| {
            let (from, to) = (format!("{id}"), format!("{}", id + 1));
            TaskBuilder::new(id, kernel).input(0x1000 * (id + 1), &from).output(0x1000 * (id + 2), &to).at(id)
        };
        graph((0..).zip(all).map(task).collect())
    };
    let (dump, golden) = (with(&["attention"]), with(&["scores", "softmax", "values"]));
    let matching = pairs(&dump, &golden);
    let expected = [0, 1, 2, 6, 7, 8].map(Some);
    assert_eq!([&matching.partner[..3], &matching.partner[4..]].concat(), expected);
    assert!(matching.uncertain.is_empty(), "{:?}", matching.uncertain);
    let stretch = UnmatchedStretch { after: Some(2), first: vec![3], second: vec![3, 4, 5] };
    assert_eq!(matching.parts_at, Some(stretch));
    let back = UnmatchedStretch { after: Some(2), first: vec![3, 4, 5], second: vec![3] };
    assert_eq!(pairs(&golden, &dump).parts_at, Some(back));
}

#[test]
fn a_launch_with_another_buffer_is_paired_by_its_place_in_the_queue() {
    // The second launch gets a buffer of another size.
    let with = |elements: u64, kernel: &str| {
        let mut tasks = scales_around("mul", 1, 2);
        let row = tensortap_geometry::Layout::contiguous(&[elements], 32).unwrap();
        let task = TaskBuilder::new(1, kernel).output(0x2000, "mul");
        tasks[1] = task.view(0x2000, tensortap_abi::DType::Float32, row).at(1);
        tasks.iter_mut().for_each(|task| task.facts.queue = 1);
        let mut graph = graph(tasks);
        graph.others_write = true;
        graph
    };
    let golden = with(4, "mul");
    let matching = pairs(&with(37, "mul"), &golden);
    assert_eq!(matching.partner[1], Some(1));
    assert!(matching.uncertain.is_empty(), "{matching:?}");
    assert_eq!(pairs(&with(37, "add"), &golden).partner[1], None, "another kernel");
}

#[test]
fn interchangeable_tasks_are_certain_if_the_golden_has_equal_contents() {
    let fills = |first_id: u64, contents: [&str; 3]| {
        // In another order of ids and scopes, so that neither distinguishes the tasks.
        let task = |(number, content): (u64, &&str)| {
            let scope = if first_id == 0 { "a" } else { "b" };
            let task = TaskBuilder::new(first_id + number, "scale").named(scope, "fill");
            task.output(0x1000 * (number + 1), content).at(number)
        };
        graph((0..).zip(&contents).map(task).collect())
    };
    let right = fills(0, ["x", "x", "x"]);
    let matching = pairs(&fills(7, ["x", "wrong", "x"]), &right);
    assert!(matching.uncertain.is_empty() && matching.partner.iter().all(Option::is_some), "{matching:?}");
    let matching = pairs(&fills(7, ["x", "y", "z"]), &fills(0, ["x", "y", "z"]));
    assert_eq!(matching.partner, [Some(0), Some(1), Some(2)]);
    let reasons: Vec<&str> = (0..3).map(|task| matching.uncertain[&task].as_str()).collect();
    assert_eq!(reasons, ["3 tasks of scale fit equally well"; 3]);
}

#[test]
fn the_only_candidate_of_several_tasks_is_no_certain_partner() {
    // The golden's dump has the first three tasks. Task 1 of its run is missing here, and later tasks have its id.
    let part = |(id, part): (u64, u64)| {
        let task = TaskBuilder::new(id, "scale").named("", &format!("part {part}")).scalar(part);
        task.output(0x1000 * (part + 1), &format!("{part}")).at(id)
    };
    let golden = filtered((0..3).map(|id| part((id, id))).collect(), 10);
    let dump = whole((0..).zip([0, 2, 3, 4]).map(part).collect(), 8);
    let matching = pairs(&dump, &golden);
    assert_eq!(partner_ids(&matching, &golden)[..2], [Some(0), Some(2)]);
    let is_open = |task: usize| matching.partner[task].is_none() || matching.uncertain.contains_key(&task);
    assert!((2..4).all(is_open), "{matching:?}");
}

#[test]
fn ids_that_threads_took_as_they_came_are_not_trusted() {
    // Two threads launch the same kernel; in the dump, they took turns differently.
    let run = |threads: [u32; 4]| {
        let mut tasks = scales(0..4);
        tasks.iter_mut().zip(threads).for_each(|(task, thread)| task.facts.thread = Some(thread));
        let mut graph = graph(tasks);
        graph.others_write = true;
        graph
    };
    let (golden, same, dump) = (run([0, 0, 1, 1]), run([1, 1, 0, 0]), run([0, 1, 0, 1]));
    assert!(pairs(&same, &golden).uncertain.is_empty());
    let matching = pairs(&dump, &golden);
    assert!((0..4).all(|task| matching.uncertain.contains_key(&task)), "{matching:?}");
}
