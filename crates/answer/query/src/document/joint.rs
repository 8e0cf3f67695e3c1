//! What `blame --json` adds for a run of many ranks.

use serde::Serialize;
use tensortap::TaskId;
use tensortap::analysis::ranks::{GroupOperation, RankTask, RunVerdict};

use crate::run_blame::RunBlame;

/// The word of a verdict: `pass`, `fail` or `undecided`.
#[must_use]
pub const fn run_verdict_word(verdict: RunVerdict) -> &'static str {
    match verdict {
        RunVerdict::Pass => "pass",
        RunVerdict::Fail => "fail",
        RunVerdict::Undecided => "undecided",
    }
}

/// The verdict on a run of many ranks, next to the documents of its ranks.
#[derive(Serialize)]
pub struct RunVerdictDocument {
    /// The earliest cause in one sentence; null if nothing is wrong.
    headline: Option<String>,
    /// Rank of the first wrong task; null if no task is known to be the first.
    rank: Option<u64>,
    step: Option<u32>,
    task_id: Option<String>,
    /// If the first wrong task is a part of a collective that is wrong as a whole.
    collective: Option<WrongCollectiveDocument>,
    /// Tasks at which an error began and that no error of any rank led to, earliest first.
    first_wrong: Vec<RankTaskDocument>,
    undecided_because: Vec<UndecidedDocument>,
    collectives: CollectivesDocument,
}

/// A task of a rank.
#[derive(Serialize)]
pub struct RankTaskDocument {
    /// Its rank; null for a process without one.
    rank: Option<u64>,
    /// The name of the rank among the dumps.
    name: String,
    step: u32,
    task_id: String,
    kernels: Vec<String>,
    label: &'static str,
}

/// A missing rank that could decide.
#[derive(Serialize)]
pub struct UndecidedDocument {
    rank: Option<u64>,
    name: String,
    /// Why the rank could not be compared.
    why: String,
    /// The collectives that its inputs decide. Empty if the whole rank could be wrong.
    collectives: Vec<OperationDocument>,
}

#[derive(Serialize)]
struct OperationDocument {
    name: String,
    step: u32,
    /// Name of its group; null if it was found by name.
    group: Option<String>,
    /// Number in its group. Without a group: the position among the collectives of this name in the step, from 0.
    number: u64,
}

#[derive(Serialize)]
struct WrongCollectiveDocument {
    name: String,
    step: u32,
    /// Name of its group; null if it was found by name.
    group: Option<String>,
    number: u64,
    /// Ranks on which its output is wrong.
    ranks: Vec<Option<u64>>,
    /// Whether these outputs are equal.
    same: bool,
}

/// The collectives of a run.
#[derive(Serialize)]
pub struct CollectivesDocument {
    /// How collectives were recognized: `record`, `name`, or `record_and_name`.
    found_by: &'static str,
    patterns: Vec<String>,
    kinds: Vec<KindDocument>,
    /// Collectives that do not line up across ranks.
    unaligned: Vec<UnalignedDocument>,
}

#[derive(Serialize)]
struct KindDocument {
    name: String,
    operations: usize,
    /// `record` or `name`.
    found_by: &'static str,
}

#[derive(Serialize)]
struct UnalignedDocument {
    name: String,
    step: u32,
    reason: String,
}

/// Collectives with a recorded group.
const RECORD: &str = "record";
/// Collectives that were found by name.
const NAME: &str = "name";

impl RunVerdictDocument {
    /// The document of a run with this verdict.
    #[must_use]
    pub fn of(run: &RunBlame, verdict: RunVerdict) -> RunVerdictDocument {
        let first = run.joint.first_wrong.first().copied();
        let task = first.map(|at| run.blame(at.rank).graph.task(at.task));
        let undecided = verdict == RunVerdict::Undecided;
        RunVerdictDocument {
            headline: run.cause().or_else(|| undecided.then(|| run.undecided_words())),
            rank: first.and_then(|at| run.numbers[at.rank]),
            step: task.map(|task| task.step),
            task_id: task.map(|task| TaskId(task.task_id).to_string()),
            collective: first.and_then(|at| wrong_collective(run, at)),
            first_wrong: run.joint.first_wrong.iter().map(|&at| RankTaskDocument::of(run, at)).collect(),
            undecided_because: if undecided { undecided_because(run) } else { Vec::new() },
            collectives: CollectivesDocument::of(run),
        }
    }
}

impl RankTaskDocument {
    /// The document of a task.
    #[must_use]
    pub fn of(run: &RunBlame, at: RankTask) -> RankTaskDocument {
        let blame = run.blame(at.rank);
        let task = blame.graph.task(at.task);
        RankTaskDocument {
            rank: run.numbers[at.rank],
            name: run.ranks[at.rank].name.clone(),
            step: task.step,
            task_id: TaskId(task.task_id).to_string(),
            kernels: task.kernel_names(),
            label: blame.findings[at.task].label.name(),
        }
    }
}

impl CollectivesDocument {
    /// The collectives of a run.
    #[must_use]
    pub fn of(run: &RunBlame) -> CollectivesDocument {
        let kinds = |found_by| {
            let counts = run.joint.counts(found_by == RECORD);
            counts.into_iter().map(move |(name, operations)| KindDocument {
                name: name.into(),
                operations,
                found_by,
            })
        };
        let kinds: Vec<KindDocument> = kinds(RECORD).chain(kinds(NAME)).collect();
        let has = |found_by| kinds.iter().any(|kind| kind.found_by == found_by);
        let unaligned = run.joint.unaligned.iter().map(|one| UnalignedDocument {
            name: one.name.clone(),
            step: one.step,
            reason: one.reason.clone(),
        });
        CollectivesDocument {
            found_by: match (has(RECORD), has(NAME)) {
                (true, true) => "record_and_name",
                (true, false) => RECORD,
                (false, _) => NAME,
            },
            patterns: run.names.patterns().to_vec(),
            kinds,
            unaligned: unaligned.collect(),
        }
    }
}

/// The missing ranks that could decide. If no collective depends on them, each of them could hold the first error.
pub(super) fn undecided_because(run: &RunBlame) -> Vec<UndecidedDocument> {
    let undecided = &run.joint.undecided;
    let deciding = (0..run.missing.len()).filter(|rank| undecided.is_empty() || undecided.contains_key(rank));
    let document = |rank: usize| UndecidedDocument {
        rank: run.missing_numbers[rank],
        name: run.missing[rank].name.clone(),
        why: run.missing[rank].why.clone(),
        collectives: operations(run, rank),
    };
    deciding.map(document).collect()
}

fn operations(run: &RunBlame, missing: usize) -> Vec<OperationDocument> {
    let mut numbers = run.joint.undecided.get(&missing).cloned().unwrap_or_default();
    // Every rank that takes part adds the operation.
    numbers.sort_unstable();
    numbers.dedup();
    let document = |number: usize| {
        let GroupOperation { name, step, group, number, .. } = &run.joint.operations[number];
        OperationDocument { name: name.clone(), step: *step, group: group.clone(), number: *number }
    };
    numbers.into_iter().map(document).collect()
}

fn wrong_collective(run: &RunBlame, first: RankTask) -> Option<WrongCollectiveDocument> {
    let wrong = run.wrong_collective(first)?;
    let GroupOperation { name, step, group, number, .. } = &run.joint.operations[wrong.operation];
    Some(WrongCollectiveDocument {
        name: name.clone(),
        step: *step,
        group: group.clone(),
        number: *number,
        ranks: wrong.ranks.iter().map(|&rank| run.numbers[rank]).collect(),
        same: wrong.is_same,
    })
}
