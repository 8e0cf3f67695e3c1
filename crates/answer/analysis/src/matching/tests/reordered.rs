//! Programs with several threads or queues, which start tasks in another order each time.

use super::*;

/// A program whose tasks run the same kernel: the id, the queue, and what the task writes. The digits of that are its scalar.
fn program(launches: &[(u64, u32, &str)], gap: Option<&str>) -> TaskGraph {
    let task = |&(id, queue, part): &(u64, u32, &str)| {
        let number = part.trim_end_matches(char::is_alphabetic).parse::<u64>().unwrap();
        let task = TaskBuilder::new(id, "scale").scalar(number);
        let mut task = task.unknown_role(0x1000 * (number + 1), "", part).at(id);
        task.facts.queue = queue;
        task
    };
    let mut graph = graph_of(launches.iter().map(task).collect(), &[], gap.map(str::to_owned));
    graph.others_write = true;
    graph
}

fn pairs(first: &TaskGraph, second: &TaskGraph) -> Vec<Option<u64>> {
    let matching = match_tasks(first, second, MatchOptions::default());
    let certain = matching.certain();
    certain.partner.iter().map(|partner| partner.map(|place| second.task(place).task_id)).collect()
}

/// A program of these tasks with names.
fn named(tasks: Vec<TaskBuilder>, names: &[&str], gap: Option<&str>) -> TaskGraph {
    let named = tasks.into_iter().zip(names).map(|(task, name)| task.named("", name));
    let mut graph = graph_of(named.collect(), &[], gap.map(str::to_owned));
    graph.others_write = true;
    graph
}

#[test]
fn tasks_that_changed_places_are_paired_by_their_arguments() {
    let golden = program(&[(0, 1, "0"), (1, 2, "1"), (2, 1, "2")], None);
    // Another thread was faster, and a later launch is missing.
    let dump = program(&[(0, 1, "1"), (1, 2, "0")], None);
    assert_eq!(pairs(&dump, &golden), [Some(1), Some(0)]);
}

#[test]
fn what_another_task_of_the_golden_left_makes_a_pair_uncertain() {
    // No argument tells the launches apart, only what they write.
    let run = |contents: [&str; 2]| {
        let task = |(id, content): (u64, &str)| {
            let mut task = TaskBuilder::new(id, "fill").output(0x1000 * (id + 1), content).at(id);
            task.facts.queue = u32::try_from(id).unwrap() + 1;
            task
        };
        let mut graph = graph((0..).zip(contents).map(task).collect());
        graph.others_write = true;
        graph
    };
    let golden = run(["x", "y"]);
    assert_eq!(pairs(&run(["x", "wrong"]), &golden), [Some(0), Some(1)], "a wrong task keeps its partner");
    assert_eq!(pairs(&run(["y", "x"]), &golden), [None, None], "they have changed places");
}

#[test]
fn queues_that_tasks_moved_between_show_no_order() {
    let run = |launches: &[(u64, u32, &str)]| {
        let task = |&(id, queue, kernel): &(u64, u32, &str)| {
            let mut task =
                TaskBuilder::new(id, kernel).unknown_role(0x1000 * (id + 1), "", &format!("{id}")).at(id);
            task.facts.queue = queue;
            task
        };
        let mut graph = graph(launches.iter().map(task).collect());
        graph.others_write = true;
        graph
    };
    let golden = run(&[(0, 1, "load"), (1, 1, "scale"), (2, 2, "scale"), (3, 2, "store")]);
    // The same queues, and a launch is missing: the place in the queue identifies the other one.
    assert_eq!(pairs(&run(&[(0, 1, "load"), (4, 2, "scale"), (5, 2, "store")]), &golden)[1], Some(2));
    // In a pool, tasks are in other queues.
    assert_eq!(pairs(&run(&[(0, 2, "load"), (4, 2, "scale"), (5, 1, "store")]), &golden)[1], None);
}

#[test]
fn in_incomplete_dumps_only_a_name_of_its_own_makes_an_unlike_pair_certain() {
    let tasks = |sizes: [u64; 2]| -> Vec<TaskBuilder> {
        let task = |(id, size): (u64, u64)| {
            let row = tensortap_geometry::Layout::contiguous(&[size], 32).unwrap();
            let task = TaskBuilder::new(id, "scale").output(0x1000 * (id + 1), "x");
            let mut task = task.view(0x1000 * (id + 1), tensortap_abi::DType::Float32, row).at(id);
            task.facts.queue = u32::try_from(id).unwrap() + 1;
            task
        };
        (0..).zip(sizes).map(task).collect()
    };
    let gap = Some("filters removed 4 records");
    let of = |names: [&str; 2]| (named(tasks([4, 5]), &names, gap), named(tasks([4, 8]), &names, gap));
    let (dump, golden) = of(["a", "b"]);
    assert_eq!(pairs(&dump, &golden), [Some(0), Some(1)]);
    let (dump, golden) = of(["a", "a"]);
    assert_eq!(pairs(&dump, &golden)[1], None);
}
