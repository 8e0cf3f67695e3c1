//! The report for machines.

use serde::Serialize;
use tensortap::TaskId;
use tensortap::analysis::diff::{DiffRow, Partner};
use tensortap::format::role_name;

use super::compare::{DetailDocument, Measures, detail_document, measures, verdict_word};
use crate::diff::DiffReport;

/// One comparison.
#[derive(Serialize)]
pub struct DiffDocument {
    verdict: &'static str,
    compared: usize,
    of: usize,
    /// How many have nothing to be compared with.
    unmatched: usize,
    dump: String,
    golden: String,
    /// How the two runs differ, where they are not of one scene with one set of parameters.
    unlike: Option<String>,
    hint: Option<String>,
    records: Vec<RowDocument>,
    unmatched_items: Vec<LonelyDocument>,
}

#[derive(Serialize)]
struct RowDocument {
    index: u64,
    task_id: String,
    kernels: Vec<String>,
    stage: &'static str,
    arg_index: u16,
    role: &'static str,
    kind: &'static str,
    dtype: &'static str,
    shape: Vec<u64>,
    verdict: &'static str,
    /// Record of the golden, by task and position, or name of an array.
    partner: Option<PartnerDocument>,
    #[serde(flatten)]
    measures: Measures,
    /// Where errors sit, of the worst records.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<DetailDocument>,
}

#[derive(Serialize)]
struct PartnerDocument {
    task_id: Option<String>,
    index: Option<u64>,
    array: Option<String>,
}

#[derive(Serialize)]
struct LonelyDocument {
    what: String,
    reason: String,
}

impl DiffDocument {
    /// The document of a report, with these of its records.
    #[must_use]
    pub fn of(report: &DiffReport<'_>, listed: &[&DiffRow]) -> DiffDocument {
        let diff = report.diff;
        DiffDocument {
            verdict: if report.passes { "pass" } else { "fail" },
            compared: diff.compared(),
            of: diff.rows.len(),
            unmatched: diff.unmatched.len(),
            dump: report.dump.dir().display().to_string(),
            golden: report.golden.clone(),
            unlike: report.unlike.clone(),
            hint: report.hint.clone(),
            records: listed.iter().map(|r| row(report, r)).collect(),
            unmatched_items: diff
                .unmatched
                .iter()
                .map(|l| LonelyDocument { what: l.what.clone(), reason: l.reason.clone() })
                .collect(),
        }
    }
}

fn row(report: &DiffReport<'_>, row: &DiffRow) -> RowDocument {
    let record = &row.record;
    RowDocument {
        index: record.index,
        task_id: TaskId(record.task_id).to_string(),
        kernels: row.kernels.clone(),
        stage: record.stage.name(),
        arg_index: record.arg_index,
        role: role_name(record.role),
        kind: record.kind.name(),
        dtype: record.dtype.name(),
        shape: record.shape().to_vec(),
        verdict: verdict_word(row.outcome.verdict),
        partner: row.partner.as_ref().map(|partner| match partner {
            Partner::Record(other) => PartnerDocument {
                task_id: Some(TaskId(other.task_id).to_string()),
                index: Some(other.index),
                array: None,
            },
            Partner::Array(name) => PartnerDocument { task_id: None, index: None, array: Some(name.clone()) },
        }),
        measures: measures(&row.outcome, &row.rule),
        detail: report.details.get(&record.index).map(detail_document),
    }
}
