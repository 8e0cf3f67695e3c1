use super::*;
use crate::carry::Carried;
use crate::graph::testing::TaskMaker;
use crate::graph::{Argument, Dependency, GraphTask, TaskGraph, Why};

/// Labels a run by a golden of the same tasks: contents of another name are outside.
struct Case {
    graph: TaskGraph,
    statuses: Vec<TaskStatus>,
}

impl Case {
    fn new(run: Vec<GraphTask>, golden: &[GraphTask], edges: &[(u64, u64)]) -> Case {
        let edges: Vec<_> = edges
            .iter()
            .map(|&(from, to)| Dependency { from, to, arg_index: 0, why: Why::Explicit })
            .collect();
        let graph = TaskGraph::build(run, &edges, None);
        let statuses = graph.tasks.iter().map(|task| status(task, golden)).collect();
        Case { graph, statuses }
    }

    fn findings(&self) -> Vec<(u64, Finding)> {
        let findings = label_tasks(&self.graph, &self.statuses, |_, arg| self.carried(arg));
        self.graph.tasks.iter().map(|t| t.task_id).zip(findings).collect()
    }

    fn labels(&self) -> Vec<(u64, Label)> {
        self.findings().into_iter().map(|(id, finding)| (id, finding.label)).collect()
    }

    fn carried(&self, arg: &Argument) -> Carried {
        let source = arg.origin.sources[0];
        let written = self.graph.tasks[source.task].arg(source.arg_index).unwrap();
        let same = arg.before.unwrap().hash == written.after.unwrap().hash;
        if same { Carried::Same } else { Carried::Changed(source) }
    }
}

fn status(task: &GraphTask, golden: &[GraphTask]) -> TaskStatus {
    let Some(other) = golden.iter().find(|g| g.task_id == task.task_id) else {
        return TaskStatus::Unmatched("the golden has no such task".into());
    };
    let of =
        |ours: Option<crate::graph::Captured>, theirs: Option<crate::graph::Captured>| match (ours, theirs) {
            (None, None) => Status::NotApplicable,
            (Some(ours), Some(theirs)) if ours.hash == theirs.hash => Status::Within,
            (Some(_), Some(_)) => Status::Outside,
            _ => Status::Unknown("it was not captured".into()),
        };
    let args = task.args.iter().zip(&other.args);
    TaskStatus::Compared(
        args.map(|(a, g)| {
            let before = match (a.scalar_bits, g.scalar_bits) {
                (Some(ours), Some(theirs)) if ours != theirs => Status::Outside,
                (Some(_), _) => Status::Within,
                _ => of(a.before, g.before),
            };
            ArgStatus { before, after: of(a.after, g.after) }
        })
        .collect(),
    )
}

/// a -> b -> c, with the content each writes.
fn line(contents: [&str; 3]) -> Vec<GraphTask> {
    let [a, b, c] = contents;
    vec![
        TaskMaker::new(0, "a").input(0x1000, "in").output(0x2000, a).at(10).done(),
        TaskMaker::new(1, "b").input(0x2000, a).output(0x3000, b).at(20).done(),
        TaskMaker::new(2, "c").input(0x3000, b).output(0x4000, c).at(30).done(),
    ]
}

#[test]
fn a_run_like_its_golden_is_ok() {
    let case = Case::new(line(["a", "b", "c"]), &line(["a", "b", "c"]), &[]);
    assert!(case.labels().iter().all(|(_, label)| *label == Label::Ok));
}

#[test]
fn the_first_wrong_output_is_wrong_here_and_what_follows_inherits_it() {
    let case = Case::new(line(["a", "b!", "c!"]), &line(["a", "b", "c"]), &[]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::WrongHere), (2, Label::Inherited)]);
    let findings: Vec<Finding> = case.findings().into_iter().map(|(_, f)| f).collect();
    assert_eq!(first_wrong(&case.graph, &findings), [1]);
    assert_eq!(chain(&case.graph, &findings, 1), [1, 2]);
}

#[test]
fn an_error_that_goes_no_further_is_masked() {
    let case = Case::new(line(["a!", "b", "c"]), &line(["a", "b", "c"]), &[]);
    assert_eq!(case.labels(), [(0, Label::WrongHere), (1, Label::Masked), (2, Label::Ok)]);
}

#[test]
fn a_reader_that_came_too_early_raced_with_its_producer() {
    let golden = line(["a", "b", "c"]);
    let run = vec![
        TaskMaker::new(0, "a").input(0x1000, "in").output(0x2000, "a").at(50).done(),
        TaskMaker::new(1, "b").input(0x2000, "stale").output(0x3000, "b!").at(20).done(),
        TaskMaker::new(2, "c").input(0x3000, "b!").output(0x4000, "c!").at(30).done(),
    ];
    let case = Case::new(run, &golden, &[(0, 1)]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::Raced), (2, Label::Inherited)]);
    assert_eq!(case.findings()[1].1.race, Some(Race { other: 0, kind: RaceKind::ReadTooEarly }));
}

#[test]
fn a_successor_that_overwrote_an_input_is_named() {
    // 0 and 1 swap two buffers; 1 ran first, read nothing of 0, and overwrote what 0 was to read.
    let make = |contents: [&str; 4], times: [u64; 2]| {
        let [in0, out0, in1, out1] = contents;
        vec![
            TaskMaker::new(0, "step").input(0x1000, in0).output(0x2000, out0).at(times[0]).done(),
            TaskMaker::new(1, "step").input(0x2000, in1).output(0x1000, out1).at(times[1]).done(),
        ]
    };
    let golden = make(["in", "x", "x", "y"], [10, 20]);
    let case = Case::new(make(["y!", "x!", "stale", "y!"], [50, 20]), &golden, &[(0, 1)]);
    assert_eq!(case.labels(), [(0, Label::Raced), (1, Label::Raced)]);
    let findings: Vec<Finding> = case.findings().into_iter().map(|(_, f)| f).collect();
    assert_eq!(findings[0].race, Some(Race { other: 1, kind: RaceKind::Overwritten }));
    assert_eq!(findings[1].race, Some(Race { other: 0, kind: RaceKind::ReadTooEarly }));
    assert_eq!(first_wrong(&case.graph, &findings), [0]);
}

#[test]
fn a_task_into_whose_output_another_wrote_meanwhile_is_not_blamed_alone() {
    let make = |written: &str, ends: [u64; 2]| {
        let mut tasks = vec![
            TaskMaker::new(0, "a").input(0x1000, "in").output(0x2000, written).at(10).done(),
            TaskMaker::new(1, "b").output(0x2000, "b").at(20).done(),
        ];
        for (task, end) in tasks.iter_mut().zip(ends) {
            task.completed_ns = Some(end);
        }
        tasks
    };
    let golden = make("a", [11, 21]);
    let overlapped = Case::new(make("a!", [30, 40]), &golden, &[(0, 1)]);
    assert_eq!(overlapped.findings()[0].1.race, Some(Race { other: 1, kind: RaceKind::Overlapped }));
    let alone = Case::new(make("a!", [11, 21]), &golden, &[(0, 1)]);
    assert_eq!(alone.labels()[0], (0, Label::WrongHere));
}

#[test]
fn a_wrong_input_from_outside_feeds_and_is_named() {
    let make = |input: &str, output: &str| {
        vec![
            TaskMaker::new(0, "a")
                .input(0x1000, "in")
                .input(0x1100, input)
                .output(0x2000, output)
                .at(1)
                .done(),
        ]
    };
    let case = Case::new(make("w!", "a!"), &make("w", "a"), &[]);
    let (_, finding) = &case.findings()[0];
    assert_eq!((finding.label, finding.arg_index), (Label::Fed, Some(1)));
}

#[test]
fn another_scalar_feeds() {
    let make =
        |bits, output: &str| vec![TaskMaker::new(0, "a").output(0x2000, output).scalar(bits).at(1).done()];
    let case = Case::new(make(1, "a!"), &make(2, "a"), &[]);
    assert_eq!(case.labels(), [(0, Label::Fed)]);
}

/// A result buffer is handed through every step and written by the last.
fn with_result(garbage: &str, contents: [&str; 3]) -> Vec<GraphTask> {
    let [a, b, result] = contents;
    vec![
        TaskMaker::new(0, "a")
            .input(0x1000, "in")
            .output(0x2000, a)
            .inout(0x9000, garbage, garbage)
            .at(1)
            .done(),
        TaskMaker::new(1, "b")
            .input(0x2000, a)
            .output(0x3000, b)
            .inout(0x9000, garbage, garbage)
            .at(2)
            .done(),
        TaskMaker::new(2, "end").input(0x3000, b).inout(0x9000, garbage, result).at(3).done(),
    ]
}

#[test]
fn garbage_that_is_only_passed_through_does_not_hide_the_culprit() {
    let golden = with_result("junk", ["a", "b", "r"]);
    let case = Case::new(with_result("trash", ["a", "b!", "r!"]), &golden, &[]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::WrongHere), (2, Label::Inherited)]);
    let set_aside: Vec<_> = case.findings().into_iter().map(|(_, f)| f.set_aside).collect();
    assert_eq!(set_aside, [vec![2], vec![2], vec![]]);
}

#[test]
fn garbage_that_the_last_step_overwrites_is_masked_or_feeds() {
    let golden = with_result("junk", ["a", "b", "r"]);
    let good = Case::new(with_result("trash", ["a", "b", "r"]), &golden, &[]);
    assert_eq!(good.labels()[2], (2, Label::Masked));
    // The evidence does not allow more: the garbage may matter.
    let wrong = Case::new(with_result("trash", ["a", "b", "r!"]), &golden, &[]);
    assert_eq!(wrong.labels()[2], (2, Label::Fed));
}

#[test]
fn an_accumulator_that_a_task_forgot_to_change_is_wrong_here() {
    let make = |steps: [&str; 3]| {
        let [zero, one, two] = steps;
        vec![
            TaskMaker::new(0, "zero").output(0x1000, zero).at(1).done(),
            TaskMaker::new(1, "add").inout(0x1000, zero, one).at(2).done(),
            TaskMaker::new(2, "add").inout(0x1000, one, two).at(3).done(),
        ]
    };
    let case = Case::new(make(["0", "0", "1"]), &make(["0", "1", "2"]), &[]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::WrongHere), (2, Label::Inherited)]);
}

#[test]
fn what_is_not_captured_is_unknown_with_the_reason() {
    let mut run = line(["a", "b!", "c"]);
    run[1].args[0].before = None;
    run[2].args[1].after = None;
    let mut extra = TaskMaker::new(7, "d").input(0x4000, "c").output(0x5000, "d").at(40).done();
    extra.in_flight = true;
    run.push(extra);
    let case = Case::new(run, &line(["a", "b", "c"]), &[]);
    let labels: Vec<Label> = case.labels().into_iter().map(|(_, l)| l).collect();
    assert_eq!(labels, [Label::Ok, Label::Unknown, Label::Unknown, Label::Unknown]);
    assert!(case.findings().iter().skip(1).all(|(_, f)| f.reason.is_some()));
}

#[test]
fn a_change_that_an_uncaptured_task_may_have_made_is_no_race() {
    let mut run = line(["a", "b!", "c!"]);
    run[1].args[0] = TaskMaker::new(1, "b").input(0x2000, "changed").done().args[0].clone();
    let golden = line(["a", "b", "c"]);
    let mut case = Case::new(run, &golden, &[]);
    assert_eq!(case.labels()[1].1, Label::Raced);
    assert_eq!(case.findings()[1].1.race, Some(Race { other: 0, kind: RaceKind::Changed }));
    case.graph.gap = Some("filters kept 3 records out".into());
    assert_eq!(case.labels()[1].1, Label::Unknown);
}
