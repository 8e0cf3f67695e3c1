//! Runs of two ranks made by hand: `backward` (task 0) leaves a gradient, `all_reduce` (task 1) leaves the sum.

use std::collections::HashSet;

use tensortap_format::Argument;
use tensortap_judge::{Evidence, Outcome, Rule};

use super::*;
use crate::blame::{BaselineKind, ComparedArg, RunOutcome};
use crate::graph::testing::{TaskBuilder, graph_of};
use crate::matching::Matching;

const GRADIENT: u64 = 0x1000;
const SUM: u64 = 0x2000;

/// What a rank's tasks hold, and the labels that the rank gets by itself.
struct TestRank {
    gradient: &'static str,
    /// The buffer of the sum before and after the collective.
    sum: [&'static str; 2],
    labels: [Label; 2],
}

const RIGHT: TestRank =
    TestRank { gradient: "gradient", sum: ["garbage", "sum"], labels: [Label::Ok, Label::Ok] };

fn tasks(rank: &TestRank) -> Vec<TaskBuilder> {
    vec![
        TaskBuilder::new(0, "backward").output(GRADIENT, rank.gradient).at(10),
        TaskBuilder::new(1, "all_reduce")
            .input(GRADIENT, rank.gradient)
            .unknown_role(SUM, rank.sum[0], rank.sum[1])
            .at(20),
    ]
}

/// A rank compared with [`RIGHT`]. Memory of the sum before the collective was never written.
fn rank(number: usize, test: &TestRank) -> RankBlame {
    let [graph, golden] = [test, &RIGHT].map(|rank| graph_of(tasks(rank), &[], None));
    let compared = |ours: Argument<'_>, theirs: Argument<'_>| {
        let stages = [
            (DumpStage::BeforeDispatch, ours.hash_before(), theirs.hash_before()),
            (DumpStage::AfterCompletion, ours.hash_after(), theirs.hash_after()),
        ];
        let (arg_index, rule) = (ours.arg_index, Rule::for_dtype(ours.dtype));
        stages.into_iter().filter(|(_, ours, _)| ours.is_some()).map(move |(stage, ours, theirs)| {
            let verdict = if ours == theirs { Verdict::Within } else { Verdict::Outside };
            let outcome = Outcome { verdict, evidence: Evidence::Identical };
            ComparedArg { arg_index, stage, rule, outcome }
        })
    };
    let compared_args = (0..graph.len()).map(|place| {
        let args = graph.task(place).arguments().zip(golden.task(place).arguments());
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
        matching: Matching { partner: vec![Some(0), Some(1)], ..Matching::default() },
        golden: Some(golden),
        basis: BaselineKind::Golden,
        first_wrong: Vec::new(),
        agreed_live: Vec::new(),
        unjudged: Vec::new(),
        wiring: Vec::new(),
        stopped: Vec::new(),
        run: RunOutcome::default(),
        never_written: HashSet::from([(1, 1)]),
        counting: None,
        slots: HashMap::new(),
        arrays: None,
        graph,
    };
    RankBlame { name: format!("rank {number}"), blame }
}

/// The labels of all ranks and the first wrong tasks, after all ranks were judged together.
fn joined(tests: &[TestRank], missing: &[MissingRank]) -> (Vec<[Label; 2]>, Vec<(usize, usize)>) {
    let mut ranks: Vec<RankBlame> =
        tests.iter().enumerate().map(|(number, test)| rank(number, test)).collect();
    let joint = join(&mut ranks, missing, &CollectiveNames::default());
    let labels = ranks.iter().map(|rank| [0, 1].map(|task| rank.blame.findings[task].label)).collect();
    (labels, joint.first_wrong.iter().map(|at| (at.rank, at.task)).collect())
}

/// A rank whose collective left something wrong although its gradient is right.
fn wrong_sum(label: Label) -> TestRank {
    TestRank { sum: ["other garbage", "wrong sum"], labels: [Label::Ok, label], ..RIGHT }
}

#[test]
fn a_collective_inherits_an_error_of_another_rank_although_uninitialized_memory_differs() {
    for label in [Label::WrongHere, Label::Fed] {
        let culprit = TestRank {
            gradient: "wrong gradient",
            sum: ["garbage", "wrong sum"],
            labels: [Label::WrongHere, Label::Inherited],
        };
        let (labels, first) = joined(&[culprit, wrong_sum(label)], &[]);
        assert_eq!(
            labels,
            [[Label::WrongHere, Label::Inherited], [Label::Ok, Label::Inherited]],
            "{label:?}"
        );
        assert_eq!(first, [(0, 0)], "{label:?}");
    }
}

#[test]
fn a_collective_keeps_its_label_if_the_inputs_of_all_ranks_are_right() {
    for label in [Label::WrongHere, Label::Fed] {
        let (labels, first) = joined(&[RIGHT, wrong_sum(label)], &[]);
        assert_eq!(labels, [[Label::Ok; 2], [Label::Ok, label]]);
        assert_eq!(first, [(1, 1)]);
    }
}

#[test]
fn a_missing_rank_may_explain_a_collective_with_uninitialized_memory() {
    for label in [Label::WrongHere, Label::Fed] {
        let missing = MissingRank { name: "rank 1".into(), why: "missing".into(), tasks: None };
        let (labels, first) = joined(&[wrong_sum(label)], &[missing]);
        assert_eq!((labels, first), (vec![[Label::Ok, Label::Unknown]], Vec::new()), "{label:?}");
    }
}

#[test]
fn a_collective_that_read_something_wrong_stays_fed() {
    let fed = TestRank {
        gradient: "wrong gradient",
        sum: ["garbage", "wrong sum"],
        labels: [Label::Ok, Label::Fed],
    };
    let (labels, first) = joined(&[fed, wrong_sum(Label::WrongHere)], &[]);
    assert_eq!(labels, [[Label::Ok, Label::Fed], [Label::Ok, Label::Inherited]]);
    assert_eq!(first, [(0, 1)]);
}
