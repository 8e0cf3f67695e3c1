//! One verdict for a run of many ranks: a data-parallel program whose ranks sum their gradients in every step.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tensortap::abi::{CollectiveKind, DumpFilter, DumpLevel, Role};
use tensortap::record::{
    FolderOptions, KernelId, Session, StepId, StringId, TaskInfo, Tensor, ThreadRecorder,
};
use tensortap::{DType, DumpStage};

use crate::Outcome;
use crate::dumps::Folder;
use crate::json::document;

const ELEMENTS: usize = 8;
const STEPS: u32 = 2;
/// The step in which faults happen.
const FAULT_STEP: u32 = 1;
/// The same step in the dump, which counts from 1.
const WRONG_STEP: u64 = 2;

/// One bit is flipped: in the output of a task of a rank, or in the output of the collective on all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Forward(usize),
    Backward(usize),
    /// In the first step: an error so small that the sum of all ranks is within its rule.
    SlightBackward(usize),
    Optimizer(usize),
    Collective(usize),
    WholeCollective,
}

/// A run to record.
#[derive(Clone, Copy)]
struct Plan<'a> {
    ranks: usize,
    faults: &'a [Fault],
    /// Name of the collective.
    collective: &'a str,
    level: DumpLevel,
    /// A rank that records no inputs.
    without_inputs: Option<usize>,
    /// A rank that records only its first task.
    only_first: Option<usize>,
    /// A rank that runs the collective once more at the end.
    one_more: Option<usize>,
    /// A rank that takes no part in the collective.
    outside: Option<usize>,
    /// The optimizer amplifies small differences.
    amplifies: bool,
    /// Ranks of a group. Groups are consecutive ranks, and each runs its own collectives.
    group: usize,
    /// Whether the dumps have the groups of collectives.
    are_recorded: bool,
    /// Whether every group has the same samples.
    are_groups_equal: bool,
    /// Whether each rank gets only its part of the sum.
    is_scattered: bool,
    /// Whether a collective of the same name sums the forward output of all ranks in every step.
    has_world: bool,
}

const PLAN: Plan<'_> = Plan {
    ranks: 4,
    faults: &[],
    collective: "all_reduce",
    level: DumpLevel::Full,
    without_inputs: None,
    only_first: None,
    one_more: None,
    outside: None,
    amplifies: false,
    group: usize::MAX,
    are_recorded: false,
    are_groups_equal: false,
    is_scattered: false,
    has_world: false,
};

/// Records a run into `folder/name`, one dump for each rank.
fn record(folder: &Folder, name: &str, plan: &Plan<'_>) {
    let run = folder.path(name);
    let mut ranks: Vec<Rank> = (0..plan.ranks).map(|number| Rank::new(&run, number, plan)).collect();
    for step in 0..STEPS {
        let has = |fault: Fault| step == FAULT_STEP && plan.faults.contains(&fault);
        for (number, rank) in ranks.iter_mut().enumerate() {
            let is_wrong = has(Fault::Forward(number));
            rank.task("forward", step, (&[0, 1], 2), |given| add(given[0], given[1]), is_wrong);
            let is_wrong = has(Fault::Backward(number));
            let is_slight = step == 0 && plan.faults.contains(&Fault::SlightBackward(number));
            let backward = |given: &[&Buffer]| {
                let mut made = add(given[0], given[0]);
                made[0] += if is_slight { 6e-5 } else { 0.0 };
                made
            };
            rank.task("backward", step, (&[2], 3), backward, is_wrong);
        }
        if plan.has_world {
            let world =
                ranks.iter().map(|rank| rank.memory[2]).reduce(|one, other| add(&one, &other)).unwrap();
            ranks.iter_mut().for_each(|rank| rank.task(plan.collective, step, (&[2], 6), |_| world, false));
        }
        let group_of = |number: usize| number / plan.group;
        let sums: Vec<Buffer> = (0..=group_of(plan.ranks - 1))
            .map(|group| {
                let members = ranks.iter().enumerate().filter(|(number, _)| group_of(*number) == group);
                members.map(|(_, rank)| rank.memory[3]).reduce(|one, other| add(&one, &other)).unwrap()
            })
            .collect();
        for (number, rank) in ranks.iter_mut().enumerate() {
            let is_wrong = has(Fault::Collective(number)) || has(Fault::WholeCollective);
            let collective = if plan.outside == Some(number) { "keep" } else { plan.collective };
            if plan.are_recorded {
                let group = format!("data {}", group_of(number));
                rank.collective = Some((group, step.into(), CollectiveKind::AllReduce));
            }
            if plan.is_scattered {
                rank.written = ELEMENTS / plan.group.min(plan.ranks);
            }
            rank.task(collective, step, (&[3], 4), |_| sums[group_of(number)], is_wrong);
            rank.written = ELEMENTS;
            let is_wrong = has(Fault::Optimizer(number));
            let optimizer = |given: &[&Buffer]| match plan.amplifies {
                true => given[1].map(|sum| (sum - 100.0) * 1000.0),
                false => add(given[0], given[1]),
            };
            rank.task("optimizer", step, (&[0, 4], 5), optimizer, is_wrong);
        }
        // The weights of the next step.
        ranks.iter_mut().for_each(|rank| {
            rank.task("publish", step, (&[5], 0), |given| *given[0], false);
        });
    }
    if let Some(number) = plan.one_more {
        if plan.are_recorded {
            ranks[number].collective = Some(("alone".into(), 0, CollectiveKind::AllReduce));
        }
        ranks[number].task(plan.collective, STEPS - 1, (&[3], 4), |given| *given[0], false);
    }
    ranks.into_iter().for_each(Rank::end);
}

type Buffer = [f32; ELEMENTS];

fn add(one: &Buffer, other: &Buffer) -> Buffer {
    std::array::from_fn(|at| one[at] + other[at])
}

struct Rank {
    session: Session,
    recorder: ThreadRecorder,
    memory: Vec<Buffer>,
    /// What the next task is in a collective: group, number and kind.
    collective: Option<(String, u64, CollectiveKind)>,
    /// Elements that the next task writes.
    written: usize,
}

impl Rank {
    fn new(run: &Path, number: usize, plan: &Plan<'_>) -> Rank {
        let filter = match plan.without_inputs == Some(number) {
            true => DumpFilter { stages: 1 << DumpStage::AfterCompletion as u64, ..DumpFilter::ALL },
            false if plan.only_first == Some(number) => DumpFilter { first_tasks: 1, ..DumpFilter::ALL },
            false => DumpFilter::ALL,
        };
        let options = FolderOptions { level: plan.level, filter, ..FolderOptions::default() };
        let session = Session::in_folder(&run.join(format!("rank-{number}")), &options).unwrap();
        let recorder = session.named_thread("main").unwrap();
        let value = |buffer: usize, at: usize| match buffer {
            // The weights are the same on all ranks, the samples are not.
            0 => 1.0 + at as f32,
            1 if plan.are_groups_equal => 0.5 + (number % plan.group * ELEMENTS + at) as f32,
            1 => 0.5 + (number * ELEMENTS + at) as f32,
            _ => 0.0,
        };
        let memory = (0..7).map(|buffer| std::array::from_fn(|at| value(buffer, at))).collect();
        Rank { session, recorder, memory, collective: None, written: ELEMENTS }
    }

    /// Runs and records a task that reads and writes these buffers. A wrong task flips one bit of its output.
    fn task(
        &mut self,
        kernel: &str,
        step: u32,
        (reads, writes): (&[usize], usize),
        compute: impl FnOnce(&[&Buffer]) -> Buffer,
        is_wrong: bool,
    ) {
        let kernel: KernelId = self.recorder.kernel(kernel).unwrap();
        let step: StepId = self.recorder.step(&step.to_string()).unwrap();
        let mut task = self.recorder.begin(&TaskInfo { step, ..TaskInfo::of(kernel) }).unwrap();
        if let Some((group, number, kind)) = self.collective.take() {
            let group = self.recorder.string(&group).unwrap();
            self.recorder.collective(&task, group, number, kind).unwrap();
        }
        for (arg, &buffer) in (0..).zip(reads) {
            let tensor = Tensor::of(&self.memory[buffer][..], DType::Float32).unwrap();
            let tensor = tensor.arg(arg).role(Role::Input).name(StringId::NONE);
            self.recorder.tensor(&mut task, DumpStage::BeforeDispatch, &tensor).unwrap();
        }
        let given: Vec<&Buffer> = reads.iter().map(|&buffer| &self.memory[buffer]).collect();
        let mut made = compute(&given);
        if is_wrong {
            let at = 5 % self.written;
            made[at] = f32::from_bits(made[at].to_bits() ^ 1 << 22);
        }
        self.memory[writes][..self.written].copy_from_slice(&made[..self.written]);
        let tensor = Tensor::of(&self.memory[writes][..self.written], DType::Float32).unwrap();
        let tensor = tensor.arg(u16::try_from(reads.len()).unwrap()).role(Role::Output);
        self.recorder.tensor(&mut task, DumpStage::AfterCompletion, &tensor).unwrap();
        self.recorder.end(&mut task).unwrap();
    }

    fn end(self) {
        drop(self.recorder);
        self.session.close().unwrap();
    }
}

/// Two runs: `right`, and `wrong` with these faults.
fn two_runs(plan: &Plan<'_>) -> Folder {
    let folder = Folder::new();
    record(&folder, "right", &Plan { faults: &[], ..*plan });
    record(&folder, "wrong", plan);
    folder
}

fn blame(folder: &Folder, options: &str) -> (Value, String) {
    let line = format!("blame wrong --golden right {options}");
    let outcome: Outcome = folder.tensortap(&format!("{line} --json"));
    assert!(outcome.stderr.is_empty() && outcome.code <= Some(1), "{outcome:?}");
    let found = document(&outcome);
    let code = if found["verdict"] == "pass" { 0 } else { 1 };
    assert_eq!(outcome.code, Some(code), "{found:#}");
    let text = folder.tensortap(&line);
    assert_eq!((text.code, text.stderr.as_str()), (Some(code), ""), "{text:?}");
    (found, text.stdout)
}

/// Every task with one of these labels: rank, step, kernel.
fn labeled(found: &Value, labels: &[&str]) -> Vec<(u64, u64, String)> {
    let mut all = Vec::new();
    for dump in found["dumps"].as_array().expect("dumps") {
        for task in dump["tasks"].as_array().into_iter().flatten() {
            if labels.iter().any(|label| task["label"] == *label) {
                let kernel = task["kernels"][0].as_str().expect("a kernel").to_owned();
                all.push((dump["rank"].as_u64().expect("a rank"), task["step"].as_u64().unwrap(), kernel));
            }
        }
    }
    all
}

const NAMED: &[&str] = &["wrong_here", "raced", "fed"];

/// Checks that exactly this task is named, in the labels, in the document and in the first line.
fn names_only(folder: &Folder, rank: u64, kernel: &str) -> Value {
    let (found, text) = blame(folder, "");
    assert_eq!(labeled(&found, NAMED), [(rank, WRONG_STEP, kernel.to_owned())], "{text}");
    assert_eq!(labeled(&found, &["unknown"]), [], "{text}");
    assert_eq!(
        (&found["verdict"], &found["rank"], &found["step"]),
        (&json!("fail"), &json!(rank), &json!(WRONG_STEP))
    );
    let first = found["first_wrong"].as_array().expect("first wrong tasks");
    assert_eq!((first.len(), &first[0]["rank"], &first[0]["kernels"]), (1, &json!(rank), &json!([kernel])));
    let head = text.lines().next().expect("a headline");
    assert!(head.starts_with(&format!("FAIL: rank {rank}: task 2@")), "{text}");
    assert!(head.contains(&format!("({kernel}) is wrong here")), "{text}");
    found
}

#[test]
fn a_fault_before_the_collective_names_its_rank_and_the_others_inherit_it() {
    let folder = two_runs(&Plan { faults: &[Fault::Backward(2)], ..PLAN });
    let found = names_only(&folder, 2, "backward");
    // The collective passes the error on to every rank; each names the rank and the task it came from.
    for dump in found["dumps"].as_array().unwrap() {
        let tasks = dump["tasks"].as_array().unwrap();
        let collective = tasks
            .iter()
            .find(|task| task["kernels"][0] == "all_reduce" && task["step"] == WRONG_STEP)
            .unwrap();
        assert_eq!(collective["label"], "inherited", "{dump:#}");
        if dump["rank"] != 2 {
            let from = &collective["from_rank"];
            assert_eq!(
                (&from["rank"], &from["step"], &from["kernels"]),
                (&json!(2), &json!(WRONG_STEP), &json!(["backward"]))
            );
            assert!(collective["reason"].as_str().unwrap().contains("rank 2"), "{collective}");
        }
    }
    assert_eq!(found["collectives"]["found_by"], "name");
    assert_eq!(found["collectives"]["kinds"][0]["name"], "all_reduce");
    assert_eq!(found["collectives"]["kinds"][0]["operations"], 2);
    let text = blame(&folder, "").1;
    assert!(text.contains("rank 0: FAIL: inherited an error from rank 2: "), "{text}");
    assert!(text.contains("collectives were found by name: all_reduce"), "{text}");
    assert!(text.contains("\nrank 2:\nFAIL: "), "the full report is of the culprit's rank: {text}");
}

#[test]
fn a_fault_in_the_optimizer_or_inside_the_collective_of_one_rank_names_exactly_that_task() {
    names_only(&two_runs(&Plan { faults: &[Fault::Optimizer(1)], ..PLAN }), 1, "optimizer");
    names_only(&two_runs(&Plan { faults: &[Fault::Collective(3)], ..PLAN }), 3, "all_reduce");
}

#[test]
fn a_fault_on_one_of_sixteen_ranks_names_exactly_its_rank_and_task() {
    for are_recorded in [true, false] {
        let plan = Plan { ranks: 16, are_recorded, ..PLAN };
        names_only(&two_runs(&Plan { faults: &[Fault::Backward(11)], ..plan }), 11, "backward");
        names_only(&two_runs(&Plan { faults: &[Fault::Optimizer(4)], ..plan }), 4, "optimizer");
        names_only(&two_runs(&Plan { faults: &[Fault::Collective(15)], ..plan }), 15, "all_reduce");
    }
}

/// Two groups of two ranks. An error begins on rank 0, and another one inside the collective of rank 3.
const TWO_GROUPS: Plan<'_> = Plan { group: 2, faults: &[Fault::Backward(0), Fault::Collective(3)], ..PLAN };

/// Ranks that got an error from another rank, each with that rank.
fn sources(found: &Value) -> Vec<(u64, u64)> {
    let mut sources = Vec::new();
    for dump in found["dumps"].as_array().unwrap() {
        for task in dump["tasks"].as_array().into_iter().flatten() {
            let from = task["from_rank"]["rank"].as_u64();
            sources.extend(from.map(|from| (dump["rank"].as_u64().unwrap(), from)));
        }
    }
    sources
}

#[test]
fn errors_in_two_recorded_groups_have_nothing_to_do_with_each_other() {
    // The name shows nothing, and both groups have the same content.
    let plan = Plan { are_recorded: true, are_groups_equal: true, collective: "exchange", ..TWO_GROUPS };
    let (found, text) = blame(&two_runs(&plan), "");
    let expected = [(0, WRONG_STEP, "backward".to_owned()), (3, WRONG_STEP, "exchange".to_owned())];
    assert_eq!(labeled(&found, NAMED), expected, "{text}");
    assert_eq!(sources(&found), [(1, 0)], "{text}");
    assert_eq!(labeled(&found, &["unknown"]), [], "{text}");
    assert_eq!(
        (&found["collectives"]["found_by"], &found["collectives"]["kinds"]),
        (&json!("record"), &json!([{"name": "all_reduce", "operations": 4, "found_by": "record"}]))
    );
    assert!(text.contains("collectives were found by their recorded groups: all_reduce (4)"), "{text}");
}

#[test]
fn recorded_groups_line_up_although_ranks_run_different_numbers_of_collectives() {
    let plan = Plan { are_recorded: true, one_more: Some(1), faults: &[Fault::Backward(2)], ..PLAN };
    let (found, text) = blame(&two_runs(&plan), "");
    assert_eq!(labeled(&found, NAMED), [(2, WRONG_STEP, "backward".to_owned())], "{text}");
    assert_eq!(found["collectives"]["unaligned"], json!([]), "{text}");
    let mut others = sources(&found);
    others.dedup();
    assert_eq!(others, [(0, 2), (1, 2), (3, 2)], "{text}");
}

#[test]
fn only_a_missing_rank_of_the_recorded_group_could_decide() {
    let plan = Plan { are_recorded: true, group: 2, faults: &[Fault::WholeCollective], ..PLAN };
    for (missing, others) in [(1, [2, 3]), (2, [0, 1])] {
        let folder = two_runs(&plan);
        fs::remove_dir_all(folder.path(&format!("wrong/rank-{missing}"))).unwrap();
        let (found, text) = blame(&folder, "");
        let expected = others.map(|rank| (rank, WRONG_STEP, "all_reduce".to_owned()));
        assert_eq!(labeled(&found, NAMED), expected, "{text}");
    }
}

#[test]
fn the_content_of_the_golden_shows_groups_that_were_not_recorded() {
    let (found, text) = blame(&two_runs(&TWO_GROUPS), "");
    let expected = [(0, WRONG_STEP, "backward".to_owned()), (3, WRONG_STEP, "all_reduce".to_owned())];
    assert_eq!(labeled(&found, NAMED), expected, "{text}");
    assert_eq!(sources(&found), [(1, 0)], "{text}");
    assert_eq!(found["collectives"]["kinds"][0]["operations"], 4, "{text}");
}

#[test]
fn collectives_of_all_ranks_and_of_groups_may_have_the_same_name() {
    let plan = Plan { has_world: true, faults: &[Fault::Forward(0)], ..TWO_GROUPS };
    let (found, text) = blame(&two_runs(&plan), "");
    assert_eq!(labeled(&found, NAMED), [(0, WRONG_STEP, "forward".to_owned())], "{text}");
    let mut others = sources(&found);
    others.dedup();
    assert_eq!(others, [(1, 0), (2, 0), (3, 0)], "{text}");
    assert_eq!(found["collectives"]["kinds"][0]["operations"], 6, "{text}");
}

#[test]
fn without_recorded_groups_an_error_of_another_group_is_no_explanation() {
    let named = [(0, WRONG_STEP, "backward".to_owned())];
    let cases = [
        // The sizes show that there are groups, but not which.
        (
            Plan { is_scattered: true, collective: "reduce_scatter", ..TWO_GROUPS },
            "their sizes show groups of 2 ranks, but not which ranks",
        ),
        // Nothing shows the groups.
        (
            Plan { collective: "reduce_scatter", ..TWO_GROUPS },
            "nothing shows that both ranks are in one group",
        ),
        // Both groups have the same content, so they look like one.
        (
            Plan { are_groups_equal: true, ..TWO_GROUPS },
            "the outputs of the two ranks differ, so they may be in different groups",
        ),
    ];
    for (plan, reason) in cases {
        let (found, text) = blame(&two_runs(&plan), "");
        assert_eq!(labeled(&found, NAMED), named, "{reason}: {text}");
        let unknown = labeled(&found, &["unknown"]);
        assert!(unknown.contains(&(3, WRONG_STEP, plan.collective.into())), "{reason}: {text}");
        assert!(!sources(&found).iter().any(|(rank, _)| *rank > 1), "{reason}: {text}");
        assert!(text.contains(reason), "{reason}: {text}");
        assert!(text.starts_with("FAIL: rank 0: task 2@"), "{text}");
    }
}

#[test]
fn the_sizes_of_a_collective_confirm_its_group() {
    let plan = Plan { is_scattered: true, collective: "reduce_scatter", ..PLAN };
    let (found, text) = blame(&two_runs(&Plan { faults: &[Fault::Backward(0)], ..plan }), "");
    assert_eq!(labeled(&found, NAMED), [(0, WRONG_STEP, "backward".to_owned())], "{text}");
    assert_eq!(labeled(&found, &["unknown"]), [], "{text}");
}

#[test]
fn right_runs_pass() {
    let folder = two_runs(&PLAN);
    let (found, text) = blame(&folder, "");
    assert_eq!((&found["verdict"], &found["rank"]), (&json!("pass"), &Value::Null));
    assert_eq!(labeled(&found, &["ok"]).len(), 4 * 5 * 2, "{text}");
    assert!(text.starts_with("PASS: all of 4 dumps in wrong"), "{text}");
}

#[test]
fn a_collective_that_is_wrong_on_all_ranks_is_named_as_one() {
    let folder = two_runs(&Plan { faults: &[Fault::WholeCollective], ..PLAN });
    let (found, text) = blame(&folder, "");
    let expected: Vec<_> = (0..4).map(|rank| (rank, WRONG_STEP, "all_reduce".to_owned())).collect();
    assert_eq!(labeled(&found, NAMED), expected);
    assert_eq!((&found["verdict"], &found["collective"]["name"]), (&json!("fail"), &json!("all_reduce")));
    assert_eq!(found["collective"]["ranks"], json!([0, 1, 2, 3]));
    let head = text.lines().next().unwrap();
    assert!(
        head.contains(
            "`all_reduce` of step 2 is wrong on all 4 ranks, in the same way, although all its inputs"
        ),
        "{text}"
    );
}

#[test]
fn a_missing_rank_that_could_decide_makes_the_verdict_undecided() {
    let faults = [
        (Fault::Backward(2), "backward"),
        (Fault::Optimizer(2), "optimizer"),
        (Fault::Collective(2), "all_reduce"),
    ];
    for (fault, kernel) in faults {
        let folder = two_runs(&Plan { faults: &[fault], ..PLAN });
        fs::remove_dir_all(folder.path("wrong/rank-2")).unwrap();
        let (found, text) = blame(&folder, "");
        assert_eq!(found["verdict"], "undecided", "{fault:?}: {text}");
        assert_eq!(found["undecided_because"][0]["rank"], 2, "{found:#}");
        assert_eq!(labeled(&found, NAMED), [], "{fault:?}: {text}");
        let head = text.lines().next().unwrap();
        assert!(head.starts_with("UNDECIDED: ") && head.contains("rank 2"), "{text}");
        let unknown = labeled(&found, &["unknown"]);
        assert_eq!(unknown.len(), if fault == Fault::Backward(2) { 3 } else { 0 }, "{fault:?}: {text}");

        // The same run without a rank that cannot decide.
        let folder = two_runs(&Plan { faults: &[fault], ..PLAN });
        fs::remove_dir_all(folder.path("wrong/rank-0")).unwrap();
        let (found, text) = blame(&folder, "");
        assert_eq!((&found["verdict"], &found["rank"]), (&json!("fail"), &json!(2)), "{fault:?}: {text}");
        assert_eq!(labeled(&found, NAMED), [(2, WRONG_STEP, kernel.to_owned())], "{fault:?}: {text}");
    }
}

#[test]
fn only_equal_results_on_all_ranks_prove_the_input_of_a_missing_rank() {
    // Each rank gets another part of a reduce_scatter, so a right part elsewhere proves nothing.
    let plan = Plan { faults: &[Fault::Collective(2)], collective: "reduce_scatter", ..PLAN };
    let folder = two_runs(&plan);
    names_only(&folder, 2, "reduce_scatter");
    fs::remove_dir_all(folder.path("wrong/rank-0")).unwrap();
    let (found, text) = blame(&folder, "");
    assert_eq!((&found["verdict"], &found["undecided_because"][0]["rank"]), (&json!("undecided"), &json!(0)));
    assert_eq!(labeled(&found, NAMED), [], "{text}");
}

#[test]
fn a_rank_that_only_run_json_lists_is_missing() {
    let folder = two_runs(&Plan { faults: &[Fault::Backward(2)], ..PLAN });
    for run in ["right", "wrong"] {
        fs::remove_dir_all(folder.path(&format!("{run}/rank-2"))).unwrap();
        let process = |rank: u64| json!({"folder": format!("rank-{rank}"), "pid": 10 + rank, "rank": rank});
        let list = json!({"schema_version": 1, "processes": (0..4).map(process).collect::<Vec<_>>()});
        fs::write(folder.path(&format!("{run}/run.json")), list.to_string()).unwrap();
    }
    let (found, text) = blame(&folder, "");
    assert_eq!((&found["verdict"], &found["undecided_because"][0]["rank"]), (&json!("undecided"), &json!(2)));
    assert_eq!(labeled(&found, NAMED), [], "{text}");
}

#[test]
fn a_golden_that_lacks_tasks_of_a_missing_rank_excludes_it_from_no_collective() {
    let folder = Folder::new();
    record(&folder, "wrong", &Plan { faults: &[Fault::Backward(2)], ..PLAN });
    record(&folder, "right", &Plan { only_first: Some(2), ..PLAN });
    fs::remove_dir_all(folder.path("wrong/rank-2")).unwrap();
    let (found, text) = blame(&folder, "");
    assert_eq!((&found["verdict"], &found["undecided_because"][0]["rank"]), (&json!("undecided"), &json!(2)));
    assert_eq!(labeled(&found, NAMED), [], "{text}");
}

#[test]
fn a_missing_rank_passes_only_if_it_is_allowed() {
    let folder = two_runs(&PLAN);
    fs::remove_dir_all(folder.path("wrong/rank-3")).unwrap();
    assert_eq!(blame(&folder, "").0["verdict"], "undecided");
    assert_eq!(blame(&folder, "--allow-unmatched").0["verdict"], "pass");
}

#[test]
fn one_rank_is_judged_with_the_evidence_of_all() {
    let folder = two_runs(&Plan { faults: &[Fault::Backward(2)], ..PLAN });
    let (found, text) = blame(&folder, "--rank 0");
    assert_eq!((&found["dump"], &found["verdict"]), (&json!("wrong/rank-0"), &json!("fail")));
    assert_eq!(found["labels"]["wrong_here"], 0, "{text}");
    assert!(text.starts_with("FAIL: inherited an error from rank 2: task 2@"), "{text}");
    let (found, text) = blame(&folder, "--rank 2");
    assert_eq!(found["labels"]["wrong_here"], 1, "{text}");
    // A folder of one rank has no evidence about the other ranks.
    let alone = folder.finds("blame wrong/rank-0 --golden right/rank-0 --json");
    let alone = document(&alone);
    assert_eq!((&alone["verdict"], &alone["labels"]["wrong_here"]), (&json!("undecided"), &json!(0)));
    assert_eq!(alone["undecided_because"][0]["rank"], 1, "{alone:#}");
}

#[test]
fn the_user_names_collectives() {
    let plan = Plan { faults: &[Fault::Backward(2)], collective: "exchange_gradients", ..PLAN };
    let folder = two_runs(&plan);
    // Without the option, nothing shows that the task reads from other ranks.
    let (found, _) = blame(&folder, "");
    assert_eq!(found["collectives"]["kinds"], json!([]));
    let (found, text) = blame(&folder, "--collective all_gather|exchange*");
    assert_eq!(labeled(&found, NAMED), [(2, WRONG_STEP, "backward".to_owned())], "{text}");
    let usage = folder.tensortap("blame wrong/rank-0 --reference --collective x");
    assert_eq!(usage.code, Some(2), "{usage:?}");
}

#[test]
fn collectives_that_do_not_line_up_are_unknown() {
    let folder = two_runs(&Plan { faults: &[Fault::Backward(2)], one_more: Some(1), ..PLAN });
    let (found, text) = blame(&folder, "");
    assert_eq!(labeled(&found, NAMED), [(2, WRONG_STEP, "backward".to_owned())], "{text}");
    let unaligned = &found["collectives"]["unaligned"][0];
    assert_eq!(
        (&unaligned["name"], &unaligned["step"]),
        (&json!("all_reduce"), &json!(WRONG_STEP)),
        "{found:#}"
    );
    assert!(text.contains("do not line up"), "{text}");
    // The collective of step 1 on the other ranks.
    assert!(labeled(&found, &["unknown"]).len() >= 3, "{text}");
}

#[test]
fn an_input_that_was_not_captured_on_another_rank_decides_nothing() {
    let plan = Plan { faults: &[Fault::Backward(2)], level: DumpLevel::Hash, ..PLAN };
    names_only(&two_runs(&plan), 2, "backward");
    // Each rank gets another part, so only the inputs can show where the error came from.
    let plan = Plan {
        faults: &[Fault::Collective(1)],
        collective: "reduce_scatter",
        without_inputs: Some(0),
        ..PLAN
    };
    let (found, text) = blame(&two_runs(&plan), "");
    assert_eq!(labeled(&found, NAMED), [], "{text}");
    let unknown = labeled(&found, &["unknown"]);
    assert!(unknown.contains(&(1, WRONG_STEP, "reduce_scatter".to_owned())), "{text}");
    assert!(text.contains("the input of `reduce_scatter` on rank 0 is not known"), "{text}");
}

#[test]
fn an_error_within_its_rule_that_another_rank_amplifies_names_the_rank_where_it_began() {
    let folder = two_runs(&Plan { faults: &[Fault::SlightBackward(0)], amplifies: true, ..PLAN });
    let (found, text) = blame(&folder, "");
    assert_eq!(labeled(&found, NAMED), [(0, 1, "backward".to_owned())], "{text}");
    // The sum itself is right.
    assert!(!labeled(&found, &["inherited"]).contains(&(1, 1, "all_reduce".into())), "{text}");
    assert!(labeled(&found, &["inherited"]).contains(&(1, 1, "optimizer".into())), "{text}");
}

#[test]
fn a_rank_outside_the_group_decides_nothing() {
    let plan =
        Plan { faults: &[Fault::Collective(1)], collective: "reduce_scatter", outside: Some(3), ..PLAN };
    let folder = two_runs(&plan);
    names_only(&folder, 1, "reduce_scatter");
    fs::remove_dir_all(folder.path("wrong/rank-3")).unwrap();
    names_only(&folder, 1, "reduce_scatter");
}

#[test]
fn two_faults_are_both_named() {
    let folder = two_runs(&Plan { faults: &[Fault::Collective(1), Fault::Optimizer(3)], ..PLAN });
    let (found, text) = blame(&folder, "");
    let expected = [(1, WRONG_STEP, "all_reduce".to_owned()), (3, WRONG_STEP, "optimizer".to_owned())];
    assert_eq!(labeled(&found, NAMED), expected, "{text}");
    assert!(
        text.starts_with("FAIL: rank 1: ") && text.contains("; 1 more task has no wrong task before it; "),
        "{text}"
    );
}

#[test]
fn the_report_has_the_same_verdict_as_blame() {
    let folder = two_runs(&Plan { faults: &[Fault::Backward(2)], ..PLAN });
    let cause = "Rank 2: task 2@0x7 (backward) is wrong here";
    let report = folder.finds("report wrong --golden right -o report.html").stdout;
    assert!(report.starts_with(&format!("FAIL: {cause}; 4 of 4 dumps fail.\n")), "{report}");
    let page = fs::read_to_string(folder.path("report.html")).unwrap();
    assert!(
        page.contains("nherited an error from rank 2: task 2@0x7 (backward)"),
        "the other ranks inherit it"
    );
    assert!(page.contains("collectives were found by name: all_reduce (2)"));
    fs::remove_dir_all(folder.path("wrong/rank-2")).unwrap();
    let report = folder.finds("report wrong --golden right -o report.html").stdout;
    assert!(report.starts_with("UNDECIDED: Rank 2 (only the golden has it) could decide: "), "{report}");
}
