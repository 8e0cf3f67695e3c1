//! What `blame --json` prints.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use tensortap::analysis::blame::{
    ArgView, Blame, ComparedArg, FailureReason, StopKind, StoppedTask, WiringChange, WiringDifference,
};
use tensortap::analysis::graph::OutputRef;
use tensortap::analysis::labels::{Label, LikelyRace, RaceKind};
use tensortap::analysis::ranks::RunVerdict;
use tensortap::format::Task;
use tensortap::{DumpStage, GoldenVerdict, TaskId};

use super::compare::{
    DetailDocument, Measures, NeverWrittenDocument, detail_document, measures, never_written, verdict_word,
};
use super::joint::{
    CollectivesDocument, RankTaskDocument, UndecidedDocument, run_verdict_word, undecided_because,
};
use super::replay::LibraryKernelDocument;
use super::task::launch_document;
use crate::blame::{BlameReport, Culprit, Listing, NO_CODE, NextStep, OutsideRecord};
use crate::blame_words::{likely_words, stopped_words};
use crate::kind_words::KindDocument;
use crate::wiring_words::wiring_words;
use crate::words::full_names;

/// The document of a blame.
#[derive(Serialize)]
pub struct BlameDocument {
    verdict: &'static str,
    /// The verdict in one sentence, without PASS or FAIL.
    headline: String,
    /// Why the verdict is not `pass`: the name of a
    /// [`FailureReason`](tensortap::analysis::blame::FailureReason).
    failure: Option<&'static str>,
    /// Number of tasks with a label other than `unknown`.
    judged: usize,
    /// Number of tasks.
    judged_of: usize,
    compared: u64,
    of: u64,
    /// Records that left the dump of a running program while they were read.
    gone: u64,
    dump: String,
    /// What tasks were compared with: `golden`, `reference` or `rerun`.
    against: &'static str,
    /// Kernels from libraries with which tasks were rerun.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    given: Vec<LibraryKernelDocument>,
    /// Path of the golden; null with references and reruns.
    golden: Option<String>,
    incomplete: Option<String>,
    /// Remarks about the run, the golden and the labels.
    remarks: Vec<String>,
    /// Verdict of the run's own golden; null if it was not judged.
    run_golden: Option<&'static str>,
    /// The fault that was injected into the run.
    inject_fault: Option<String>,
    /// The run's own golden failed, but every kernel matches its reference.
    orchestration_suspected: bool,
    labels: BTreeMap<&'static str, usize>,
    first_wrong: Vec<String>,
    /// If `first_wrong` is empty: the first task whose known inputs are right but whose output is not.
    suspect: Option<String>,
    /// Tasks that were refused or never ended here but completed in the golden.
    stopped: Vec<StoppedDocument>,
    culprits: Vec<CulpritDocument>,
    tasks: Vec<TaskDocument>,
    /// Tasks omitted from `tasks` because of their label or a limit.
    left_out: usize,
    unmatched: Vec<UnmatchedDocument>,
    /// Differences from the golden in how tasks are connected.
    wiring: Vec<WiringDocument>,
    /// Missing ranks of the run that could decide, if the document is only about this rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undecided_because: Vec<UndecidedDocument>,
    /// The collectives of the run, if the document is only about this rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    collectives: Option<CollectivesDocument>,
}

#[derive(Serialize)]
struct StoppedDocument {
    step: u32,
    task_id: String,
    task_name: Option<String>,
    kernels: Vec<String>,
    /// `refused`, `never_ended`, or after a rerun `failed_again`.
    how: &'static str,
    /// The driver's status, if it refused the task.
    status: Option<i64>,
    /// The same as text.
    words: String,
}

#[derive(Serialize)]
struct WiringDocument {
    task_id: String,
    arg_index: Option<u16>,
    /// `view`, `source`, `buffer`, `waits`, `does_not_wait`, `lost_order`, `launch` or `scalar`.
    what: &'static str,
    dump: Value,
    golden: Value,
    /// The same as lines of text.
    words: Vec<String>,
}

#[derive(Serialize)]
struct TaskDocument {
    step: u32,
    task_id: String,
    scope: Option<String>,
    task_name: Option<String>,
    kernels: Vec<String>,
    /// The names of `kernels` as in their source, if they are symbols of C++ or Rust.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    full_names: Vec<String>,
    /// For a task that is wrong here: the kernels of the wrong slots if known, else all kernels.
    wrong_kernels: Vec<String>,
    label: &'static str,
    arg_index: Option<u16>,
    reason: Option<String>,
    /// What the label is based on in addition to the task's own captured content: `edges`, or `producers` of
    /// inputs that were not captured.
    rests_on: Option<&'static str>,
    raced_with: Option<RaceDocument>,
    /// For a task that cannot be judged: a likely but unproven race.
    likely_race: Option<LikelyRaceDocument>,
    /// The task of another rank that it inherited an error from.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_rank: Option<RankTaskDocument>,
    set_aside: Vec<u16>,
    outside: Vec<RecordDocument>,
}

#[derive(Serialize)]
struct RaceDocument {
    task_id: String,
    how: &'static str,
}

#[derive(Serialize)]
struct LikelyRaceDocument {
    /// The other task, of the dump or of the golden.
    task_id: Option<String>,
    /// Its argument.
    arg_index: u16,
    /// `dump`, or `golden` if the golden is the ambiguous one.
    side: &'static str,
    /// Whether the two are unordered in the golden, too.
    in_both: bool,
    /// The same as text.
    words: String,
}

#[derive(Serialize)]
struct RecordDocument {
    stage: &'static str,
    arg_index: u16,
    arg_name: Option<String>,
    verdict: &'static str,
    /// Whether no task of either run wrote this memory. It is not counted as an error.
    never_written: bool,
    #[serde(flatten)]
    measures: Measures,
}

#[derive(Serialize)]
struct CulpritDocument {
    step: u32,
    task_id: String,
    chain: Vec<String>,
    /// The replay command; null if it cannot be replayed.
    replay: Option<String>,
    /// Why it cannot be replayed.
    no_replay: Option<String>,
    /// How the code of its kernel differs from that in the golden.
    other_program: Option<String>,
    records: Vec<CulpritRecord>,
}

#[derive(Serialize)]
struct CulpritRecord {
    stage: &'static str,
    arg_index: u16,
    detail: Option<DetailDocument>,
    /// The kind of error; null without stored bytes.
    kind: Option<KindDocument>,
    /// How much of the difference is memory that no recorded task wrote; null if none is.
    never_written: Option<NeverWrittenDocument>,
    /// Whether it counts for the verdict.
    counts: bool,
}

#[derive(Serialize)]
struct UnmatchedDocument {
    side: &'static str,
    /// Null for an array.
    task_id: Option<String>,
    /// Name of the golden's array; null for a task.
    array: Option<String>,
    reason: String,
}

impl BlameDocument {
    /// The document of a report, with the listed tasks.
    #[must_use]
    pub fn of(report: &BlameReport<'_>, listing: Listing<'_>) -> BlameDocument {
        let blame = report.blame;
        let listed = listing.tasks(blame);
        let only = report.across.filter(|across| across.is_only);
        let id = |place: usize| id(blame.graph.task(place).task_id);
        let verdict = report.verdict_document(Vec::new());
        BlameDocument {
            verdict: run_verdict_word(report.run_verdict()),
            headline: verdict.sentence,
            failure: verdict.failure,
            judged: verdict.judged,
            judged_of: verdict.judged_of,
            compared: blame.compared,
            of: blame.of,
            gone: blame.gone(),
            dump: report.dump.dir().display().to_string(),
            against: blame.basis.name(),
            given: report.given.iter().map(LibraryKernelDocument::of).collect(),
            golden: report.golden.clone(),
            incomplete: blame.graph.gap.clone(),
            remarks: verdict.remarks,
            run_golden: report.dump.footer().and_then(|footer| footer.golden).map(GoldenVerdict::name),
            inject_fault: report.dump.info().inject_fault.clone(),
            orchestration_suspected: report.verdict.failure == Some(FailureReason::Orchestration),
            labels: Label::ALL.iter().map(|&label| (label.name(), blame.count(label))).collect(),
            first_wrong: blame.first_wrong.iter().map(|&p| id(p)).collect(),
            suspect: blame.suspect().map(id),
            stopped: blame.stopped.iter().map(|stopped| stopped_document(blame, stopped)).collect(),
            culprits: report.culprits.iter().map(|c| culprit(report, c)).collect(),
            left_out: blame.findings.len() - listed.len(),
            tasks: listed.into_iter().map(|place| task(report, place)).collect(),
            unmatched: unmatched(blame),
            wiring: blame.wiring.iter().map(|difference| wiring(blame, difference)).collect(),
            undecided_because: match (only, report.run_verdict()) {
                (Some(across), RunVerdict::Undecided) => undecided_because(across.run),
                _ => Vec::new(),
            },
            collectives: only.map(|across| CollectivesDocument::of(across.run)),
        }
    }
}

fn id(task_id: u64) -> String {
    TaskId(task_id).to_string()
}

fn task(report: &BlameReport<'_>, place: usize) -> TaskDocument {
    let blame = report.blame;
    let (task, finding) = (blame.graph.task(place), &blame.findings[place]);
    TaskDocument {
        step: task.step,
        task_id: id(task.task_id),
        scope: task.scope().map(str::to_owned),
        task_name: task.task_name().map(str::to_owned),
        kernels: task.kernel_names(),
        full_names: full_names(&task.kernel_names()),
        wrong_kernels: blame.wrong_kernels(place),
        label: finding.label.name(),
        arg_index: finding.arg_index,
        reason: finding.reason.clone(),
        rests_on: match (finding.rests_on_edges(), finding.rests_on_producers) {
            (true, _) => Some("edges"),
            (false, true) => Some("producers"),
            (false, false) => None,
        },
        raced_with: finding.race.map(|race| RaceDocument {
            task_id: id(blame.graph.task(race.other).task_id),
            how: match race.kind {
                RaceKind::ReadTooEarly => "read_too_early",
                RaceKind::Overwritten => "overwritten",
                RaceKind::Overlapped => "overlapped",
                RaceKind::Unordered => "unordered",
            },
        }),
        likely_race: finding.likely_race.map(|race| likely_race(blame, place, race)),
        from_rank: report
            .across
            .and_then(|across| across.from_rank(place).map(|from| RankTaskDocument::of(across.run, from))),
        set_aside: finding.set_aside.clone(),
        outside: blame.outside(place).map(|compared| record(blame, task, compared)).collect(),
    }
}

fn likely_race(blame: &Blame, place: usize, race: LikelyRace) -> LikelyRaceDocument {
    let graph = if race.is_of_golden { blame.golden.as_ref() } else { Some(&blame.graph) };
    LikelyRaceDocument {
        task_id: graph.map(|graph| id(graph.task(race.other).task_id)),
        arg_index: race.other_arg,
        side: if race.is_of_golden { "golden" } else { "dump" },
        in_both: race.is_in_both,
        words: likely_words(blame, place),
    }
}

fn stopped_document(blame: &Blame, stopped: &StoppedTask) -> StoppedDocument {
    let task = blame.graph.task(stopped.task);
    StoppedDocument {
        step: task.step,
        task_id: id(task.task_id),
        task_name: task.task_name().map(str::to_owned),
        kernels: task.kernel_names(),
        how: stopped.how.name(),
        status: match stopped.how {
            StopKind::Refused { status, .. } => Some(status),
            StopKind::NeverEnded | StopKind::FailedAgain(_) => None,
        },
        words: stopped_words(blame, stopped),
    }
}

fn record(blame: &Blame, task: Task<'_>, compared: &ComparedArg) -> RecordDocument {
    let is_before = compared.stage == DumpStage::BeforeDispatch;
    RecordDocument {
        never_written: is_before && blame.never_written.contains(&(task.place(), compared.arg_index)),
        stage: compared.stage.name(),
        arg_index: compared.arg_index,
        arg_name: task.arg_name(compared.arg_index).map(str::to_owned),
        verdict: verdict_word(compared.outcome.verdict),
        measures: measures(&compared.outcome, &compared.rule),
    }
}

fn culprit(report: &BlameReport<'_>, culprit: &Culprit) -> CulpritDocument {
    let task_id = |place: usize| id(report.blame.graph.task(place).task_id);
    let records =
        culprit.outside.iter().map(|OutsideRecord { compared, detail, kind, unwritten, counts, .. }| {
            CulpritRecord {
                stage: compared.stage.name(),
                arg_index: compared.arg_index,
                detail: detail.as_ref().map(detail_document),
                kind: kind.as_ref().map(|kind| KindDocument::of(&report.blame.graph, kind)),
                never_written: never_written(&compared.outcome, unwritten),
                counts: *counts,
            }
        });
    let task = task_id(culprit.place);
    let (replay, no_replay) = match report.next_as(culprit.place, &task) {
        NextStep::Replay(command) => (Some(command), None),
        NextStep::Nothing(reason) => (None, Some(reason)),
        NextStep::WithLibrary(_) => (None, Some(NO_CODE.into())),
    };
    CulpritDocument {
        chain: culprit.chain.iter().map(|&p| task_id(p)).collect(),
        replay,
        no_replay,
        other_program: report.other_program(culprit.place).map(str::to_owned),
        records: records.collect(),
        step: report.blame.graph.task(culprit.place).step,
        task_id: task,
    }
}

/// The document of one difference. Task ids refer to the dump on whose side they are.
fn wiring(blame: &Blame, difference: &WiringDifference) -> WiringDocument {
    let ours = |place: usize| id(blame.graph.task(place).task_id);
    let theirs = |place: usize| blame.golden.as_ref().map(|golden| id(golden.task(place).task_id));
    let view = |view: &ArgView| json!({"shape": view.shape, "strides": view.strides, "start_offset": view.start_offset});
    let outputs = |outputs: &[OutputRef], name: &dyn Fn(usize) -> Option<String>| -> Value {
        let of = |o: &OutputRef| json!({"task_id": name(o.task), "arg_index": o.arg_index});
        outputs.iter().map(of).collect()
    };
    let (arg_index, what, dump, golden) = match &difference.what {
        WiringChange::View { arg_index, dump, golden } => {
            (Some(*arg_index), "view", view(dump), view(golden))
        }
        WiringChange::Source { arg_index, dump, golden } => {
            (Some(*arg_index), "source", outputs(dump, &|p| Some(ours(p))), outputs(golden, &theirs))
        }
        WiringChange::Buffer { arg_index, what } => {
            let had = |output: Option<OutputRef>, name: &dyn Fn(usize) -> Option<String>| {
                output.map(|o| json!({"task_id": name(o.task), "arg_index": o.arg_index}))
            };
            let dump = json!({"last": had(what.dump, &|p| Some(ours(p))), "is_arg_in_golden": what.as_arg});
            (Some(*arg_index), "buffer", dump, json!({"last": had(what.golden, &theirs)}))
        }
        WiringChange::Waits(on) => (None, "waits", json!({"task_id": ours(*on)}), Value::Null),
        WiringChange::DoesNotWait(on) => {
            (None, "does_not_wait", Value::Null, json!({"task_id": theirs(*on)}))
        }
        WiringChange::LostOrder(on) => (None, "lost_order", json!({"task_id": ours(*on)}), Value::Null),
        WiringChange::Launch { dump, golden } => {
            (None, "launch", launch_document(dump), launch_document(golden))
        }
        WiringChange::Scalar { arg_index, dump, golden } => {
            (Some(*arg_index), "scalar", json!(format!("{dump:#018x}")), json!(format!("{golden:#018x}")))
        }
        WiringChange::Value { arg_index, first, dump, golden } => {
            let bytes = |bytes: &[u8]| json!({"first": first, "bytes": bytes});
            (Some(*arg_index), "value", bytes(dump), bytes(golden))
        }
    };
    let words = wiring_words(blame, difference);
    WiringDocument { task_id: ours(difference.task), arg_index, what, dump, golden, words }
}

fn unmatched(blame: &Blame) -> Vec<UnmatchedDocument> {
    let ours = blame.matching.only_first.iter().map(|u| UnmatchedDocument {
        side: "dump",
        task_id: Some(id(blame.graph.task(u.task).task_id)),
        array: None,
        reason: u.reason.clone(),
    });
    let theirs = blame.golden.iter().flat_map(|golden| {
        blame.matching.only_second.iter().map(|u| UnmatchedDocument {
            side: "golden",
            task_id: Some(id(golden.task(u.task).task_id)),
            array: None,
            reason: u.reason.clone(),
        })
    });
    let arrays = blame.unused_arrays().iter().map(|unused| UnmatchedDocument {
        side: "golden",
        task_id: None,
        array: Some(unused.name.clone()),
        reason: unused.reason.clone(),
    });
    ours.chain(theirs).chain(arrays).collect()
}
