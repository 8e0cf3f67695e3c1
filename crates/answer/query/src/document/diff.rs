//! What `diff --json` prints.

use serde::Serialize;
use tensortap::TaskId;
use tensortap::analysis::diff::{DiffRow, Partner};
use tensortap::analysis::outputs::{OutputDiff, OutputRow};
use tensortap::analysis::repeat::RepeatCheck;
use tensortap::format::{Dump, Names};

use super::compare::{
    DetailDocument, Measures, NeverWrittenDocument, detail_document, measures, never_written, verdict_word,
};
use crate::diff::DiffReport;

/// The document of a comparison.
#[derive(Serialize)]
pub struct DiffDocument {
    verdict: &'static str,
    compared: usize,
    of: usize,
    /// Number of tasks and records without a partner.
    unmatched: usize,
    /// Records that left the dump of a running program while they were read.
    gone: usize,
    /// Records that differ only in memory that no task of either run wrote. They are not judged.
    never_written: usize,
    dump: String,
    golden: String,
    /// How the two runs differ in scene or parameters.
    unlike: Option<String>,
    hint: Option<String>,
    records: Vec<RowDocument>,
    /// Records omitted from `records` because of their verdict or a limit.
    left_out: usize,
    unmatched_items: Vec<UnpairedDocument>,
}

#[derive(Serialize)]
struct RowDocument {
    index: u64,
    step: u32,
    task_id: String,
    scope: Option<String>,
    task_name: Option<String>,
    kernels: Vec<String>,
    stage: &'static str,
    arg_index: u16,
    arg_name: Option<String>,
    role: &'static str,
    kind: &'static str,
    dtype: &'static str,
    shape: Vec<u64>,
    verdict: &'static str,
    /// The golden's record, by task and index, or the name of an array.
    partner: Option<PartnerDocument>,
    #[serde(flatten)]
    measures: Measures,
    /// Where errors are, for the worst records.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<DetailDocument>,
    /// How much of the difference is memory that no recorded task wrote, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    never_written: Option<NeverWrittenDocument>,
}

#[derive(Serialize)]
struct PartnerDocument {
    step: Option<u32>,
    task_id: Option<String>,
    index: Option<u64>,
    array: Option<String>,
}

#[derive(Serialize)]
struct UnpairedDocument {
    what: String,
    reason: String,
}

impl DiffDocument {
    /// The document of a report, with the listed records.
    #[must_use]
    pub fn of(report: &DiffReport<'_>, listed: &[&DiffRow]) -> DiffDocument {
        let diff = report.diff;
        DiffDocument {
            verdict: if report.passes { "pass" } else { "fail" },
            compared: diff.compared(),
            of: diff.rows.len(),
            unmatched: diff.unmatched.len(),
            gone: diff.gone(),
            never_written: diff.never_written(),
            dump: report.dump.dir().display().to_string(),
            golden: report.golden.clone(),
            unlike: report.unlike.clone(),
            hint: report.hint.clone(),
            records: listed.iter().map(|r| row(report, r)).collect(),
            left_out: diff.rows.len() - listed.len(),
            unmatched_items: diff
                .unmatched
                .iter()
                .map(|l| UnpairedDocument { what: l.what.clone(), reason: l.reason.clone() })
                .collect(),
        }
    }
}

fn row(report: &DiffReport<'_>, row: &DiffRow) -> RowDocument {
    let record = &row.record;
    let Names { scope, task_name, arg_name, .. } = report.dump.names(record);
    RowDocument {
        index: record.index,
        step: record.step,
        task_id: TaskId(record.task_id).to_string(),
        scope: scope.map(str::to_owned),
        task_name: task_name.map(str::to_owned),
        kernels: row.kernels.clone(),
        stage: record.stage.name(),
        arg_index: record.arg_index,
        arg_name: arg_name.map(str::to_owned),
        role: record.role.name(),
        kind: record.kind.name(),
        dtype: record.dtype.name(),
        shape: record.shape().to_vec(),
        verdict: verdict_word(row.outcome.verdict),
        partner: row.partner.as_ref().map(|partner| match partner {
            Partner::Record(other) => PartnerDocument {
                step: Some(other.step),
                task_id: Some(TaskId(other.task_id).to_string()),
                index: Some(other.index),
                array: None,
            },
            Partner::Array(name) => {
                PartnerDocument { step: None, task_id: None, index: None, array: Some(name.clone()) }
            }
        }),
        measures: measures(&row.outcome, &row.rule),
        detail: report.details.get(&record.index).and_then(Option::as_ref).map(detail_document),
        never_written: never_written(&row.outcome, &row.unwritten),
    }
}

/// The same document for a comparison of outputs: each entry is an output instead of a record.
#[derive(Serialize)]
pub struct OutputsDocument {
    verdict: &'static str,
    compared: usize,
    of: usize,
    unmatched: usize,
    dump: String,
    golden: String,
    records: Vec<OutputDocument>,
}

#[derive(Serialize)]
struct OutputDocument {
    output: String,
    /// The task that wrote the worst element or else wrote the output last; null if no task did.
    task_id: Option<String>,
    scope: Option<String>,
    task_name: Option<String>,
    kernels: Vec<String>,
    stage: &'static str,
    arg_index: Option<u16>,
    arg_name: Option<String>,
    dtype: &'static str,
    shape: Vec<u64>,
    verdict: &'static str,
    writers: usize,
    #[serde(flatten)]
    measures: Measures,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<DetailDocument>,
}

impl OutputsDocument {
    /// The document of a comparison with the scene's golden.
    #[must_use]
    pub fn of(dump: &Dump, diff: &OutputDiff) -> OutputsDocument {
        OutputsDocument {
            verdict: if diff.passes() { "pass" } else { "fail" },
            compared: diff.compared(),
            of: diff.rows.len(),
            unmatched: 0,
            dump: dump.dir().display().to_string(),
            golden: format!("scene {}", dump.info().scene),
            records: diff.rows.iter().map(row_document).collect(),
        }
    }
}

fn row_document(row: &OutputRow) -> OutputDocument {
    let writer = row.worst_writer.as_ref().or(row.writers.first());
    OutputDocument {
        output: row.name.clone(),
        task_id: writer.map(|writer| TaskId(writer.task_id).to_string()),
        scope: writer.and_then(|writer| writer.scope.clone()),
        task_name: writer.and_then(|writer| writer.task_name.clone()),
        kernels: writer.map(|writer| writer.kernels.clone()).unwrap_or_default(),
        stage: tensortap::DumpStage::AfterCompletion.name(),
        arg_index: writer.map(|writer| writer.arg_index),
        arg_name: writer.and_then(|writer| writer.arg_name.clone()),
        dtype: row.dtype.name(),
        shape: row.shape.clone(),
        verdict: verdict_word(row.outcome.verdict),
        writers: row.writers.len(),
        measures: measures(&row.outcome, &row.rule),
        detail: row.detail.as_ref().map(detail_document),
    }
}

/// Tasks with equal inputs and different outputs.
#[derive(Serialize)]
pub struct RepeatDocument {
    verdict: &'static str,
    dumps: Vec<String>,
    tasks: u64,
    repeated: u64,
    groups: u64,
    left_out: u64,
    differing: Vec<DifferingDocument>,
}

#[derive(Serialize)]
struct DifferingDocument {
    kernels: Vec<String>,
    arg_index: u16,
    contents: Vec<ContentDocument>,
}

#[derive(Serialize)]
struct ContentDocument {
    hash: String,
    tasks: Vec<OccurrenceDocument>,
}

#[derive(Serialize)]
struct OccurrenceDocument {
    dump: usize,
    task_id: String,
}

impl RepeatDocument {
    /// The document of a check.
    #[must_use]
    pub fn of(dumps: &[Dump], check: &RepeatCheck) -> RepeatDocument {
        let differing = check.differing.iter().map(|d| DifferingDocument {
            kernels: d.kernels.clone(),
            arg_index: d.arg_index,
            contents: d
                .contents
                .iter()
                .map(|(hash, tasks)| ContentDocument {
                    hash: format!("{hash:#034x}"),
                    tasks: tasks
                        .iter()
                        .map(|t| OccurrenceDocument { dump: t.dump, task_id: TaskId(t.task_id).to_string() })
                        .collect(),
                })
                .collect(),
        });
        RepeatDocument {
            verdict: if check.passes() { "pass" } else { "fail" },
            dumps: dumps.iter().map(|d| d.dir().display().to_string()).collect(),
            tasks: check.tasks,
            repeated: check.repeated,
            groups: check.groups,
            left_out: check.left_out,
            differing: differing.collect(),
        }
    }
}
