//! The report as comma-separated values.

use std::io::Write;

use tensortap::TaskId;
use tensortap::analysis::diff::DiffRow;
use tensortap::format::role_name;
use tensortap::judge::{Evidence, Outcome};

use super::Report;
use super::listed;
use crate::compare_document::verdict_word;
use crate::compare_text::evidence;
use crate::verbs::stats::write_csv_line;
use tensortap_query::words::shape_text;

const HEAD: [&str; 15] = [
    "index",
    "task_id",
    "kernels",
    "stage",
    "arg_index",
    "role",
    "dtype",
    "shape",
    "verdict",
    "max_abs_err",
    "max_rel_err",
    "rmse",
    "max_ulps",
    "failing",
    "evidence",
];

/// Writes every record, in the order asked for.
pub fn write(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    write_csv_line(out, &HEAD.map(String::from))?;
    listed(report).into_iter().try_for_each(|row| write_csv_line(out, &cells(row)))
}

fn cells(row: &DiffRow) -> [String; 15] {
    let record = &row.record;
    let [max_abs, relative, rmse, ulps, failing] = measured(&row.outcome);
    [
        record.index.to_string(),
        TaskId(record.task_id).to_string(),
        row.kernels.join("+"),
        record.stage.name().into(),
        record.arg_index.to_string(),
        role_name(record.role).into(),
        record.dtype.name().into(),
        shape_text(record),
        verdict_word(row.outcome.verdict).into(),
        max_abs,
        relative,
        rmse,
        ulps,
        failing,
        evidence(&row.outcome),
    ]
}

/// Greatest error, greatest relative one, RMSE, greatest distance in ULP and elements outside; empty where not measured.
pub(super) fn measured(outcome: &Outcome) -> [String; 5] {
    let text = |value: Option<f64>| value.map_or(String::new(), |v| v.to_string());
    let count = |value: Option<u64>| value.map_or(String::new(), |v| v.to_string());
    let (relative, rmse, ulps, failing) = match &outcome.evidence {
        Evidence::Full(m) => (Some(m.max_relative), m.rmse, m.max_ulps, Some(m.failing)),
        Evidence::Identical => (Some(0.0), Some(0.0), Some(0), Some(0)),
        _ => (None, None, None, None),
    };
    [text(outcome.max_abs()), text(relative), text(rmse), count(ulps), count(failing)]
}
