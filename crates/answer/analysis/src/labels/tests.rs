use super::*;
use crate::graph::testing::{TaskBuilder, TestArg, graph_of};
use crate::provenance::InputProvenance;
use tensortap_format::{Argument, ArgumentSnapshot, Edge, Task};

/// Labels a run by a golden of the same tasks. Contents with another name are outside their rules.
struct Case {
    graph: TaskGraph,
    statuses: Vec<TaskStatus>,
    inputs: InputFacts,
}

impl Case {
    fn new(run: Vec<TaskBuilder>, golden: &[TaskBuilder], edges: &[(u64, u64)]) -> Case {
        let edges: Vec<_> = edges
            .iter()
            .map(|&(from, to)| Edge { step: 0, from_step: 0, from, to, arg_index: 0, why: "explicit" })
            .collect();
        let graph = graph_of(run, &edges, None);
        let statuses = graph.tasks().iter().map(|task| status(task, golden)).collect();
        Case { graph, statuses, inputs: InputFacts::default() }
    }

    /// Marks an input as within its rule but not equal.
    fn near(mut self, task: usize, arg_index: u16) -> Case {
        let TaskStatus::Compared(args) = &mut self.statuses[task] else { panic!("it was compared") };
        args[usize::from(arg_index)].before = Status::Within;
        self.inputs.near.insert((task, arg_index));
        self
    }

    fn findings(&self) -> Vec<(u64, Finding)> {
        let findings = label_tasks(&self.graph, &self.statuses, &self.inputs, |_, arg| self.provenance(arg));
        self.graph.tasks().iter().map(|t| t.task_id).zip(findings).collect()
    }

    fn labels(&self) -> Vec<(u64, Label)> {
        self.findings().into_iter().map(|(id, finding)| (id, finding.label)).collect()
    }

    fn provenance(&self, arg: Argument<'_>) -> InputProvenance {
        let output = self.graph.producers_of(arg)[0];
        let same = arg.hash_before() == self.graph.output(output).unwrap().hash_after();
        if same { InputProvenance::Same } else { InputProvenance::Changed(output) }
    }
}

fn status(task: Task<'_>, golden: &[TaskBuilder]) -> TaskStatus {
    let Some(other) = golden.iter().find(|g| g.facts.task_id == task.task_id) else {
        return TaskStatus::Unmatched("the golden has no such task".into());
    };
    let of = |ours: Option<ArgumentSnapshot>, theirs: Option<u128>| match (ours, theirs) {
        (None, None) => Status::NotApplicable,
        (Some(ours), Some(theirs)) if ours.hash() == Some(theirs) => Status::Within,
        (Some(_), Some(_)) => Status::Outside,
        _ => Status::Unknown("it was not captured".into()),
    };
    let args = task.arguments().zip(&other.args);
    TaskStatus::Compared(
        args.map(|(a, g): (Argument<'_>, &TestArg)| {
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

/// A chain a -> b -> c with the content that each task writes.
fn line(contents: [&str; 3]) -> Vec<TaskBuilder> {
    let [a, b, c] = contents;
    vec![
        TaskBuilder::new(0, "a").input(0x1000, "in").output(0x2000, a).at(10),
        TaskBuilder::new(1, "b").input(0x2000, a).output(0x3000, b).at(20),
        TaskBuilder::new(2, "c").input(0x3000, b).output(0x4000, c).at(30),
    ]
}

#[test]
fn a_run_equal_to_its_golden_is_ok() {
    let case = Case::new(line(["a", "b", "c"]), &line(["a", "b", "c"]), &[]);
    assert!(case.labels().iter().all(|(_, label)| *label == Label::Ok));
}

#[test]
fn the_first_wrong_output_is_wrong_here_and_later_ones_are_inherited() {
    let case = Case::new(line(["a", "b!", "c!"]), &line(["a", "b", "c"]), &[]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::WrongHere), (2, Label::Inherited)]);
    let findings: Vec<Finding> = case.findings().into_iter().map(|(_, f)| f).collect();
    assert_eq!(first_wrong(&case.graph, &findings), [1]);
    assert_eq!(chain(&case.graph, &findings, 1), [1, 2]);
}

#[test]
fn an_error_that_grew_out_of_its_rule_is_inherited() {
    let made = || Case::new(line(["a", "b!", "c!"]), &line(["a", "b", "c"]), &[]).near(2, 0);
    assert_eq!(made().labels(), [(0, Label::Ok), (1, Label::WrongHere), (2, Label::Inherited)]);
    let [_, _, (_, last)] = &made().findings()[..] else { panic!("three tasks") };
    assert!(last.is_amplified && last.reason.as_deref().unwrap().contains("came from task 0x1"), "{last:?}");
    // No earlier task is outside its rule. A right kernel may have amplified the difference, unless such differences are
    // usual: then the rule decides.
    let alone = Case::new(line(["a~", "b!", "c!"]), &line(["a", "b", "c"]), &[]);
    let mut alone = alone.near(1, 0);
    let TaskStatus::Compared(args) = &mut alone.statuses[0] else { panic!("it was compared") };
    args[1].after = Status::Within;
    assert_eq!(alone.labels(), [(0, Label::Ok), (1, Label::Unknown), (2, Label::Inherited)]);
    alone.inputs.is_noisy = true;
    assert_eq!(alone.labels(), [(0, Label::Ok), (1, Label::WrongHere), (2, Label::Inherited)]);
}

#[test]
fn noise_explains_what_a_task_with_another_scalar_left() {
    // a gets a scalar that differs, perhaps garbage. Its output is within its rule, and the one of b is not.
    let run = |scalar: u64, contents: [&str; 2]| {
        let [a, b] = contents;
        vec![
            TaskBuilder::new(0, "a").output(0x2000, a).scalar(scalar).at(10),
            TaskBuilder::new(1, "b").input(0x2000, a).output(0x3000, b).at(20),
        ]
    };
    let mut case = Case::new(run(1, ["a~", "b!"]), &run(2, ["a", "b"]), &[]).near(1, 0);
    let TaskStatus::Compared(args) = &mut case.statuses[0] else { panic!("it was compared") };
    args[0].after = Status::Within;
    assert_eq!(case.labels(), [(0, Label::Masked), (1, Label::Inherited)]);
    case.inputs.is_noisy = true;
    assert_eq!(case.labels(), [(0, Label::Masked), (1, Label::WrongHere)]);
}

#[test]
fn an_error_spreads_through_tasks_within_their_rules() {
    // b masks the error of a, c is within its rule, and d is not.
    let four = |contents: [&str; 4]| {
        let mut tasks = line([contents[0], contents[1], contents[2]]);
        tasks.push(TaskBuilder::new(3, "d").input(0x4000, contents[2]).output(0x5000, contents[3]).at(40));
        tasks
    };
    let mut case =
        Case::new(four(["a!", "b~", "c~", "d!"]), &four(["a", "b", "c", "d"]), &[]).near(2, 0).near(3, 0);
    for task in [1, 2] {
        let TaskStatus::Compared(args) = &mut case.statuses[task] else { panic!("it was compared") };
        args[1].after = Status::Within;
    }
    let labels: Vec<Label> = case.labels().into_iter().map(|(_, label)| label).collect();
    assert_eq!(labels, [Label::WrongHere, Label::Masked, Label::Ok, Label::Inherited]);
}

#[test]
fn another_view_of_right_content_is_fed() {
    let run = vec![
        TaskBuilder::new(0, "a").output(0x2000, "a").at(10),
        TaskBuilder::new(1, "b").input(0x2000, "a").output(0x3000, "b!").at(20),
    ];
    let golden = vec![
        TaskBuilder::new(0, "a").output(0x2000, "a").at(10),
        TaskBuilder::new(1, "b").input(0x2000, "other part of a").output(0x3000, "b").at(20),
    ];
    let mut case = Case::new(run, &golden, &[]);
    case.inputs.wiring_changed.insert((1, 0));
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::Fed)]);
    let reason = case.findings()[1].1.reason.clone();
    assert_eq!(reason.as_deref(), Some("argument 0 is taken differently than in the golden, from task 0x0"));
}

#[test]
fn an_error_that_does_not_spread_is_masked() {
    let case = Case::new(line(["a!", "b", "c"]), &line(["a", "b", "c"]), &[]);
    assert_eq!(case.labels(), [(0, Label::WrongHere), (1, Label::Masked), (2, Label::Ok)]);
}

#[test]
fn a_task_that_read_before_its_producer_wrote_raced() {
    let golden = line(["a", "b", "c"]);
    let run = vec![
        TaskBuilder::new(0, "a").input(0x1000, "in").output(0x2000, "a").at(50),
        TaskBuilder::new(1, "b").input(0x2000, "stale").output(0x3000, "b!").at(20),
        TaskBuilder::new(2, "c").input(0x3000, "b!").output(0x4000, "c!").at(30),
    ];
    let case = Case::new(run, &golden, &[(0, 1)]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::Raced), (2, Label::Inherited)]);
    assert_eq!(case.findings()[1].1.race, Some(Race { other: 0, kind: RaceKind::ReadTooEarly }));
}

#[test]
fn a_task_that_overwrote_an_input_too_early_is_named() {
    // Tasks 0 and 1 swap two buffers. Task 1 ran first, read nothing of 0, and overwrote the input of 0.
    let make = |contents: [&str; 4], times: [u64; 2]| {
        let [in0, out0, in1, out1] = contents;
        vec![
            TaskBuilder::new(0, "step").input(0x1000, in0).output(0x2000, out0).at(times[0]),
            TaskBuilder::new(1, "step").input(0x2000, in1).output(0x1000, out1).at(times[1]),
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
fn a_task_is_not_blamed_if_another_wrote_its_output_meanwhile() {
    let make = |written: &str, ends: [u64; 2]| {
        let mut tasks = vec![
            TaskBuilder::new(0, "a").input(0x1000, "in").output(0x2000, written).at(10),
            TaskBuilder::new(1, "b").output(0x2000, "b").at(20),
        ];
        tasks = tasks.into_iter().zip(ends).map(|(task, end)| task.until(end)).collect();
        tasks
    };
    let golden = make("a", [11, 21]);
    let overlapped = Case::new(make("a!", [30, 40]), &golden, &[(0, 1)]);
    assert_eq!(overlapped.findings()[0].1.race, Some(Race { other: 1, kind: RaceKind::Overlapped }));
    let alone = Case::new(make("a!", [11, 21]), &golden, &[(0, 1)]);
    assert_eq!(alone.labels()[0], (0, Label::WrongHere));
}

#[test]
fn an_input_overwritten_by_a_late_task_raced_with_that_task() {
    // Task 1 adds to the output of 0, and 2 reads the sum. Task 0 ran late and overwrote the sum, which 1 had
    // captured right.
    let make = |[given, sum, read, made]: [&str; 4], times: [(u64, u64); 3]| {
        let at = |maker: TaskBuilder, place: usize| maker.at(times[place].0).until(times[place].1);
        vec![
            at(TaskBuilder::new(0, "make").output(0x1000, "first"), 0),
            at(TaskBuilder::new(1, "add").inout(0x1000, given, sum), 1),
            at(TaskBuilder::new(2, "use").input(0x1000, read).output(0x2000, made), 2),
        ]
    };
    let golden = make(["first", "sum", "sum", "made"], [(10, 11), (20, 21), (30, 31)]);
    let wrong = ["old", "sum!", "first", "made!"];
    // The last task began after the late one ended, or while it ran.
    for times in [[(10, 60), (20, 30), (70, 80)], [(10, 60), (20, 30), (50, 80)]] {
        let case = Case::new(make(wrong, times), &golden, &[(0, 1), (1, 2)]);
        assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::Raced), (2, Label::Raced)]);
        let races: Vec<_> = case.findings().into_iter().map(|(_, f)| f.race).collect();
        assert_eq!(races[1], Some(Race { other: 0, kind: RaceKind::ReadTooEarly }));
        assert_eq!(races[2], Some(Race { other: 0, kind: RaceKind::Overwritten }), "{times:?}");
    }
}

#[test]
fn a_late_writer_of_neighboring_memory_is_no_race() {
    // Task 1 wrote the row after that of 0 and ended later. The task that changed the row of 0 is not known.
    let make = |read: [&str; 2], made: &str| {
        let neighbor = TaskBuilder::new(1, "make").output(0x1040, "b").at(10).until(40);
        let reader = TaskBuilder::new(2, "use").input(0x1000, read[0]).input(0x1040, read[1]);
        vec![
            TaskBuilder::new(0, "make").output(0x1000, "a").at(10).until(20),
            neighbor,
            reader.output(0x2000, made).at(50),
        ]
    };
    let case = Case::new(make(["a!", "b"], "c!"), &make(["a", "b"], "c"), &[(0, 2), (1, 2)]);
    let found = &case.findings()[2].1;
    assert_eq!((found.label, found.race), (Label::Fed, None));
    let reason = found.reason.clone().unwrap();
    assert!(reason.contains("an unattributed change") && reason.contains("Task 0x1"), "{reason}");
}

/// A task with right inputs and a wrong output. Another task wrote half-bytes 3 to 5 meanwhile, so each has
/// half of byte 1.
fn beside_a_writer_of_half_bytes(
    wrong: impl Fn(&str) -> TaskBuilder,
    writes: std::ops::Range<u64>,
) -> Finding {
    let make = |made: &str| {
        let writer = TaskBuilder::new(1, "b").output(0x1000, "b").half_bytes(0x1000, writes.clone());
        vec![wrong(made).at(10).until(30), writer.at(20).until(40)]
    };
    let case = Case::new(make("a!"), &make("a"), &[]);
    case.findings().remove(0).1
}

#[test]
fn reading_half_a_byte_does_not_race_with_writing_the_other_half() {
    let reads = |made: &str| {
        TaskBuilder::new(0, "a").input(0x1000, "in").half_bytes(0x1000, 1..3).output(0x2000, made)
    };
    assert_eq!(beside_a_writer_of_half_bytes(reads, 3..6).label, Label::WrongHere);
    let raced = beside_a_writer_of_half_bytes(reads, 2..6);
    assert_eq!(raced.race, Some(Race { other: 1, kind: RaceKind::Overlapped }));
}

#[test]
fn writing_half_a_byte_races_with_writing_the_other_half() {
    // Storing half a byte also stores the other half as it was before.
    let writes = |made: &str| TaskBuilder::new(0, "a").output(0x1000, made).half_bytes(0x1000, 1..3);
    let raced = beside_a_writer_of_half_bytes(writes, 3..6);
    assert_eq!(raced.race, Some(Race { other: 1, kind: RaceKind::Overlapped }));
    assert_eq!(beside_a_writer_of_half_bytes(writes, 4..6).label, Label::WrongHere);
}

#[test]
fn a_half_byte_without_a_writer_is_external() {
    let make = |given: &str, made: &str| {
        vec![
            TaskBuilder::new(0, "b").output(0x1000, "b").half_bytes(0x1000, 3..6).at(10),
            TaskBuilder::new(1, "a")
                .input(0x1000, given)
                .half_bytes(0x1000, 1..3)
                .output(0x2000, made)
                .at(20),
        ]
    };
    let case = Case::new(make("in!", "a!"), &make("in", "a"), &[]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::Fed)]);
}

#[test]
fn a_wrong_external_input_is_fed_and_named() {
    let make = |input: &str, output: &str| {
        vec![TaskBuilder::new(0, "a").input(0x1000, "in").input(0x1100, input).output(0x2000, output).at(1)]
    };
    let case = Case::new(make("w!", "a!"), &make("w", "a"), &[]);
    let (_, finding) = &case.findings()[0];
    assert_eq!((finding.label, finding.arg_index), (Label::Fed, Some(1)));
}

#[test]
fn a_different_scalar_is_fed() {
    let make = |bits, output: &str| vec![TaskBuilder::new(0, "a").output(0x2000, output).scalar(bits).at(1)];
    let case = Case::new(make(1, "a!"), &make(2, "a"), &[]);
    assert_eq!(case.labels(), [(0, Label::Fed)]);
}

/// A result buffer that every task gets and the last one writes.
fn with_result(garbage: &str, contents: [&str; 3]) -> Vec<TaskBuilder> {
    let [a, b, result] = contents;
    vec![
        TaskBuilder::new(0, "a").input(0x1000, "in").output(0x2000, a).inout(0x9000, garbage, garbage).at(1),
        TaskBuilder::new(1, "b").input(0x2000, a).output(0x3000, b).inout(0x9000, garbage, garbage).at(2),
        TaskBuilder::new(2, "end").input(0x3000, b).inout(0x9000, garbage, result).at(3),
    ]
}

#[test]
fn unchanged_garbage_does_not_hide_the_culprit() {
    let golden = with_result("junk", ["a", "b", "r"]);
    let case = Case::new(with_result("trash", ["a", "b!", "r!"]), &golden, &[]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::WrongHere), (2, Label::Inherited)]);
    let set_aside: Vec<_> = case.findings().into_iter().map(|(_, f)| f.set_aside).collect();
    assert_eq!(set_aside, [vec![2], vec![2], vec![]]);
}

#[test]
fn garbage_that_the_last_task_overwrites_is_masked_or_fed() {
    let golden = with_result("junk", ["a", "b", "r"]);
    let good = Case::new(with_result("trash", ["a", "b", "r"]), &golden, &[]);
    assert_eq!(good.labels()[2], (2, Label::Masked));
    // The garbage may matter, so the evidence allows no stronger label.
    let wrong = Case::new(with_result("trash", ["a", "b", "r!"]), &golden, &[]);
    assert_eq!(wrong.labels()[2], (2, Label::Fed));
}

#[test]
fn a_task_that_forgot_to_update_its_accumulator_is_wrong_here() {
    let make = |steps: [&str; 3]| {
        let [zero, one, two] = steps;
        vec![
            TaskBuilder::new(0, "zero").output(0x1000, zero).at(1),
            TaskBuilder::new(1, "add").inout(0x1000, zero, one).at(2),
            TaskBuilder::new(2, "add").inout(0x1000, one, two).at(3),
        ]
    };
    let case = Case::new(make(["0", "0", "1"]), &make(["0", "1", "2"]), &[]);
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::WrongHere), (2, Label::Inherited)]);
}

#[test]
fn missing_captures_give_unknown_with_the_reason() {
    let mut run = line(["a", "b!", "c"]);
    run[1].args[0].before = None;
    run[2].args[1].after = None;
    let mut extra = TaskBuilder::new(7, "d").input(0x4000, "c").output(0x5000, "d").at(40);
    extra.facts.in_flight = true;
    run.push(extra);
    let case = Case::new(run, &line(["a", "b", "c"]), &[]);
    let labels: Vec<Label> = case.labels().into_iter().map(|(_, l)| l).collect();
    assert_eq!(labels, [Label::Ok, Label::Unknown, Label::Unknown, Label::Unknown]);
    assert!(case.findings().iter().skip(1).all(|(_, f)| f.reason.is_some()));
}

#[test]
fn a_change_that_an_uncaptured_task_may_have_made_is_unknown() {
    let mut run = line(["a", "b!", "c!"]);
    run[1].args[0].before = TaskBuilder::new(1, "b").input(0x2000, "changed").args[0].before;
    let golden = line(["a", "b", "c"]);
    let mut case = Case::new(run, &golden, &[]);
    assert_eq!(case.labels()[1].1, Label::Fed);
    case.graph.gap = Some("filters kept 3 records out".into());
    assert_eq!(case.labels()[1].1, Label::Unknown);
}

#[test]
fn a_change_between_tasks_of_a_recorded_program_is_fed_by_unrecorded_code() {
    let mut run = line(["a", "b!", "c!"]);
    run[1].args[0].before = TaskBuilder::new(1, "b").input(0x2000, "changed").args[0].before;
    let mut case = Case::new(run, &line(["a", "b", "c"]), &[]);
    case.graph.others_write = true;
    assert_eq!(case.labels(), [(0, Label::Ok), (1, Label::Fed), (2, Label::Inherited)]);
    let reason = case.findings()[1].1.reason.clone().unwrap();
    assert!(reason.contains("its content is not what task 0x0 left there"), "{reason}");
    // A change by a task is still a race: an early reader, and an overwritten input.
    let early = vec![
        TaskBuilder::new(0, "a").input(0x1000, "in").output(0x2000, "a").at(50),
        TaskBuilder::new(1, "b").input(0x2000, "stale").output(0x3000, "b!").at(20),
        TaskBuilder::new(2, "c").input(0x3000, "b!").output(0x4000, "c!").at(30),
    ];
    let mut case = Case::new(early, &line(["a", "b", "c"]), &[(0, 1)]);
    case.graph.others_write = true;
    assert_eq!(case.labels()[1].1, Label::Raced);
}
