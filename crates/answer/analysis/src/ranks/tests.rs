//! Runs of few ranks made by hand: `backward` (task 0) leaves a gradient, `all_reduce` (task 1) leaves the sum, and
//! `optimizer` (task 2) leaves weights.

use std::collections::HashSet;

use tensortap_format::Argument;
use tensortap_judge::{Evidence, Outcome, Rule};

use super::*;
use crate::blame::{BaselineKind, ComparedArg, RunOutcome};
use crate::graph::testing::{TaskBuilder, graph_of, hash_of};
use crate::matching::Matching;

const GRADIENT: u64 = 0x2000;
const SUM: u64 = 0x3000;
const WEIGHTS: u64 = 0x4000;

type Labels = [Label; 3];

/// What a rank's tasks hold, and the labels that the rank gets by itself. Content that differs from the golden's is within
/// its rule if it begins with "near".
#[derive(Clone)]
struct TestRank {
    gradient: &'static str,
    /// What the collective reads instead of the gradient.
    read: Option<&'static str>,
    /// The buffer of the sum before and after the collective.
    sum: [&'static str; 2],
    weights: &'static str,
    labels: Labels,
    /// Whether the golden has the collective.
    is_paired: bool,
    /// Whether the dump lacks tasks. The role of the sum is then not known, and neither is whether something wrote its
    /// buffer before.
    is_incomplete: bool,
}

const RIGHT: TestRank = TestRank {
    gradient: "gradient",
    read: None,
    sum: ["garbage", "sum"],
    weights: "weights",
    labels: [Label::Ok; 3],
    is_paired: true,
    is_incomplete: false,
};

impl TaskBuilder {
    fn of_sum(self, rank: &TestRank) -> TaskBuilder {
        match rank.is_incomplete {
            true => self.unknown_role(SUM, rank.sum[0], rank.sum[1]),
            false => self.inout(SUM, rank.sum[0], rank.sum[1]),
        }
    }
}

fn tasks(rank: &TestRank) -> Vec<TaskBuilder> {
    vec![
        TaskBuilder::new(0, "backward").output(GRADIENT, rank.gradient).at(10),
        TaskBuilder::new(1, "all_reduce")
            .input(GRADIENT, rank.read.unwrap_or(rank.gradient))
            .of_sum(rank)
            .at(20),
        TaskBuilder::new(2, "optimizer").input(SUM, rank.sum[1]).output(WEIGHTS, rank.weights).at(30),
    ]
}

/// A rank compared with [`RIGHT`]. Memory of the sum before the collective was never written.
fn rank(number: usize, test: &TestRank) -> RankBlame {
    let gap = |rank: &TestRank| rank.is_incomplete.then(|| "filters removed records".to_owned());
    let [graph, golden] = [test, &RIGHT].map(|rank| graph_of(tasks(rank), &[], gap(rank)));
    let near: Vec<Option<u128>> = ["near gradient", "near sum"].map(|near| Some(hash_of(near))).to_vec();
    let compared = |ours: Argument<'_>, theirs: Argument<'_>| {
        let stages = [
            (DumpStage::BeforeDispatch, ours.hash_before(), theirs.hash_before()),
            (DumpStage::AfterCompletion, ours.hash_after(), theirs.hash_after()),
        ];
        let (arg_index, rule, near) = (ours.arg_index, Rule::for_dtype(ours.dtype), near.clone());
        stages.into_iter().filter(|(_, ours, _)| ours.is_some()).map(move |(stage, ours, theirs)| {
            let is_within = ours == theirs || near.contains(&ours);
            let verdict = if is_within { Verdict::Within } else { Verdict::Outside };
            let outcome = Outcome { verdict, evidence: Evidence::Identical };
            ComparedArg { arg_index, stage, rule, outcome }
        })
    };
    let is_compared = |place: usize| place != 1 || test.is_paired;
    let compared_args = (0..graph.len()).map(|place| {
        let args = graph.task(place).arguments().zip(golden.task(place).arguments());
        let args = args.filter(|_| is_compared(place));
        args.flat_map(|(ours, theirs)| compared(ours, theirs)).collect()
    });
    let compared_args: Vec<Vec<ComparedArg>> = compared_args.collect();
    let finding = |label: &Label| Finding {
        label: *label,
        reason: None,
        arg_index: None,
        race: None,
        likely_race: None,
        set_aside: Vec::new(),
        is_amplified: false,
        rests_on_producers: false,
        depends_on_ranks: false,
    };
    let blame = Blame {
        findings: test.labels.iter().map(finding).collect(),
        compared_args,
        compared: 1,
        of: 1,
        matching: Matching {
            partner: vec![Some(0), test.is_paired.then_some(1), Some(2)],
            ..Matching::default()
        },
        golden: Some(golden),
        basis: BaselineKind::Golden,
        first_wrong: Vec::new(),
        agreed_live: Vec::new(),
        unjudged: Vec::new(),
        wiring: Vec::new(),
        stopped: Vec::new(),
        run: RunOutcome::default(),
        never_written: if test.is_incomplete { HashSet::new() } else { HashSet::from([(1, 1)]) },
        counting: None,
        wrong_outputs: None,
        slots: HashMap::new(),
        arrays: None,
        graph,
    };
    RankBlame { name: format!("rank {number}"), blame }
}

/// The labels of all ranks and the first wrong tasks, after all ranks were judged together.
fn joined(tests: &[TestRank], missing: &[MissingRank]) -> (Vec<Labels>, Vec<(usize, usize)>) {
    let mut ranks: Vec<RankBlame> =
        tests.iter().enumerate().map(|(number, test)| rank(number, test)).collect();
    let joint = join(&mut ranks, missing, &CollectiveNames::default());
    let labels = ranks.iter().map(|rank| [0, 1, 2].map(|task| rank.blame.findings[task].label)).collect();
    (labels, joint.first_wrong.iter().map(|at| (at.rank, at.task)).collect())
}

const OK: Label = Label::Ok;
const WRONG: Label = Label::WrongHere;
const INHERITED: Label = Label::Inherited;

/// A rank whose collective left something wrong although its gradient is right.
fn wrong_sum(label: Label) -> TestRank {
    TestRank { sum: ["other garbage", "wrong sum"], labels: [OK, label, OK], ..RIGHT }
}

/// A rank whose gradient is wrong.
const WRONG_GRADIENT: TestRank = TestRank {
    gradient: "wrong gradient",
    sum: ["garbage", "wrong sum"],
    labels: [WRONG, INHERITED, OK],
    ..RIGHT
};

/// A rank whose optimizer is wrong, with a sum that is within its rule but not equal to the golden.
const NEAR_SUM: TestRank =
    TestRank { sum: ["garbage", "near sum"], weights: "wrong weights", labels: [OK, OK, WRONG], ..RIGHT };

fn missing() -> MissingRank {
    MissingRank { name: "rank 1".into(), why: "missing".into(), tasks: None }
}

#[test]
fn a_collective_inherits_an_error_of_another_rank_although_uninitialized_memory_differs() {
    for label in [WRONG, Label::Fed] {
        let (labels, first) = joined(&[WRONG_GRADIENT, wrong_sum(label)], &[]);
        assert_eq!(labels, [[WRONG, INHERITED, OK], [OK, INHERITED, OK]], "{label:?}");
        assert_eq!(first, [(0, 0)], "{label:?}");
    }
}

#[test]
fn a_collective_keeps_its_label_if_the_inputs_of_all_ranks_are_right() {
    for label in [WRONG, Label::Fed] {
        let (labels, first) = joined(&[RIGHT, wrong_sum(label)], &[]);
        assert_eq!(labels, [[OK; 3], [OK, label, OK]]);
        assert_eq!(first, [(1, 1)]);
    }
}

#[test]
fn a_missing_rank_may_explain_a_collective_with_uninitialized_memory() {
    for label in [WRONG, Label::Fed] {
        let (labels, first) = joined(&[wrong_sum(label)], &[missing()]);
        assert_eq!((labels, first), (vec![[OK, Label::Unknown, OK]], Vec::new()), "{label:?}");
    }
}

#[test]
fn a_collective_that_read_something_wrong_stays_fed() {
    let fed = TestRank { labels: [OK, Label::Fed, OK], ..WRONG_GRADIENT };
    let (labels, first) = joined(&[fed, wrong_sum(WRONG)], &[]);
    assert_eq!(labels, [[OK, Label::Fed, OK], [OK, INHERITED, OK]]);
    assert_eq!(first, [(0, 1)]);
}

#[test]
fn the_buffer_of_a_result_is_no_wrong_input_if_the_dump_is_incomplete() {
    let incomplete = TestRank {
        sum: ["other garbage", "wrong sum"],
        labels: [OK, Label::Unknown, OK],
        is_incomplete: true,
        ..RIGHT
    };
    let (labels, first) = joined(&[incomplete, wrong_sum(WRONG)], &[]);
    assert_eq!((labels[1], first), ([OK, Label::Unknown, OK], Vec::new()));
}

#[test]
fn a_collective_that_the_golden_lacks_shows_no_group() {
    let culprit = TestRank {
        sum: ["garbage", "near sum"],
        labels: [WRONG, Label::Unknown, OK],
        is_paired: false,
        ..WRONG_GRADIENT
    };
    // The producer shows that its input is wrong, but not whose output that explains.
    let (labels, first) = joined(&[culprit, wrong_sum(WRONG)], &[]);
    assert_eq!((labels[1], first), ([OK, Label::Unknown, OK], vec![(0, 0)]));
}

#[test]
fn an_unknown_error_of_another_rank_may_explain_a_small_difference() {
    // Nothing is known about the collective of rank 0.
    let unknown = || TestRank { labels: [OK, Label::Unknown, OK], is_paired: false, ..RIGHT };
    let (labels, first) = joined(&[unknown(), NEAR_SUM], &[]);
    assert_eq!((labels[1], first), ([OK, OK, Label::Unknown], Vec::new()));
    assert_eq!(joined(&[NEAR_SUM], &[missing()]).0, [[OK, OK, Label::Unknown]]);
    // All inputs of the collective are right.
    assert_eq!(joined(&[RIGHT, NEAR_SUM], &[]).1, [(1, 2)]);
    // An equal sum carries no error.
    let equal = || TestRank { sum: RIGHT.sum, ..NEAR_SUM };
    assert_eq!(joined(&[unknown(), equal()], &[]).1, [(1, 2)]);
    // Noise before the collective explains that its result is not equal.
    let noisy = TestRank { gradient: "near gradient", ..NEAR_SUM };
    assert_eq!(joined(&[unknown(), noisy], &[]).1, [(1, 2)]);
}

#[test]
fn only_a_wrong_output_is_the_source_of_an_inherited_error() {
    // What changed the gradient is not in the dump.
    let unknown = TestRank {
        read: Some("wrong gradient"),
        sum: ["garbage", "wrong sum"],
        labels: [Label::Unknown, Label::Unknown, OK],
        ..RIGHT
    };
    for (other, source) in [(WRONG_GRADIENT, 0), (unknown, 1)] {
        let mut ranks = [rank(0, &other), rank(1, &wrong_sum(WRONG))];
        let joint = join(&mut ranks, &[], &CollectiveNames::default());
        let from = joint.from_rank[&RankTask { rank: 1, task: 1 }];
        assert_eq!(from, RankTask { rank: 0, task: source });
    }
}
