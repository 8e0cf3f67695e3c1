//! The table for people: the verdict first, then records, the worst first.

use std::cmp::Ordering;
use std::io::Write;

use tensortap::analysis::compare::{Evidence, Verdict};
use tensortap::analysis::diff::{Diff, DiffRow};

use super::Report;
use crate::compare_document::verdict_word;
use crate::compare_text::{detail_lines, evidence, rule_text};
use crate::number::{counted, grouped, significant};
use crate::output;
use crate::record_text::{printable, record_name, shape_text};
use crate::stream_table::StreamTable;

/// Rows shown where not all are asked for.
const LISTED: usize = 40;
const DIGITS: usize = 4;

/// Writes the report.
pub fn write(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let Report { dump, golden, diff, passes, all, .. } = report;
    let word = output::verdict(if *passes { "PASS" } else { "FAIL" }, *passes);
    let failing = diff.rows.iter().filter(|r| r.outcome.verdict == Verdict::Outside).count();
    let identical = diff.rows.iter().filter(|r| r.outcome.evidence == Evidence::Identical).count();
    writeln!(out, "{word}: {}", what(diff, failing))?;
    let (dump, golden) = (dump.dir().display().to_string(), printable(golden));
    let (compared, of) = (grouped(diff.compared() as u64), grouped(diff.rows.len() as u64));
    writeln!(
        out,
        "  compared {compared} of {of} records of {} with {golden}: {} identical, {} within, {} outside",
        printable(&dump),
        grouped(identical as u64),
        grouped((diff.compared() - identical - failing) as u64),
        grouped(failing as u64),
    )?;
    write_rows(out, diff, *all)?;
    write_details(out, report)?;
    write_unmatched(out, diff, *all)?;
    if let Some(next) = &report.next {
        writeln!(out, "\nwhich task is wrong: {next}")?;
    }
    Ok(())
}

fn write_details(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    for row in ranked(report.diff) {
        let Some(detail) = report.details.get(&row.record.index) else { continue };
        writeln!(out, "\n{}", record_name(&row.record))?;
        for line in detail_lines(detail) {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn what(diff: &Diff, failing: usize) -> String {
    let unknown = diff.rows.len() - diff.compared();
    match (failing, diff.unmatched.len(), unknown) {
        _ if diff.compared() == 0 => "nothing could be compared".into(),
        (0, 0, 0) => "every record is within its rule".into(),
        (0, 0, unknown) => format!("{} could not be compared", counted(unknown as u64, "record")),
        (0, lonely, _) => format!("{} without a partner", counted(lonely as u64, "task or record")),
        (1, _, _) => "1 record outside its rule".into(),
        (failing, _, _) => format!("{} outside their rules", counted(failing as u64, "record")),
    }
}

/// Rows in the order in which they matter: outside, then not known, then within; each by error.
pub fn ranked(diff: &Diff) -> Vec<&DiffRow> {
    let mut rows: Vec<&DiffRow> = diff.rows.iter().collect();
    let share = |row: &DiffRow| match &row.outcome.evidence {
        Evidence::Full(m) if m.elements > 0 => rate(m.failing, m.elements),
        _ => 0.0,
    };
    rows.sort_by(|a, b| {
        let by_verdict = b.outcome.verdict.cmp(&a.outcome.verdict);
        let by_share = share(b).total_cmp(&share(a));
        let error = |row: &DiffRow| row.outcome.max_abs().unwrap_or(f64::INFINITY);
        let by_error = error(b).total_cmp(&error(a));
        by_verdict.then(by_share).then(by_error).then(Ordering::Equal)
    });
    rows
}

#[expect(clippy::cast_precision_loss, reason = "a share for people")]
fn rate(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn write_rows(out: &mut dyn Write, diff: &Diff, all: bool) -> anyhow::Result<()> {
    let shown = |row: &&&DiffRow| all || row.outcome.verdict != Verdict::Within;
    let rows = ranked(diff);
    let rows: Vec<&&DiffRow> = rows.iter().filter(shown).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = StreamTable::new([
        ("RECORD", 0, false),
        ("KERNEL", 0, false),
        ("VERDICT", 0, false),
        ("DTYPE", 0, false),
        ("SHAPE", 0, false),
        ("MAX ABS", 0, true),
        ("MAX REL", 0, true),
        ("MAX ULP", 0, true),
        ("EVIDENCE", 0, false),
    ]);
    let most = if all { rows.len() } else { LISTED };
    for row in rows.iter().take(most) {
        table.row(out, cells(row))?;
    }
    table.finish(out)?;
    if rows.len() > most {
        writeln!(
            out,
            "and {} (--all lists every record)",
            counted((rows.len() - most) as u64, "further record")
        )?;
    }
    Ok(())
}

fn cells(row: &DiffRow) -> [String; 9] {
    let kernels: Vec<String> = row.kernels.iter().map(|k| printable(k).into_owned()).collect();
    let number = |value: Option<f64>| value.map_or("-".into(), |v| significant(v, DIGITS));
    let (relative, ulps) = match &row.outcome.evidence {
        Evidence::Full(m) => {
            // Between dtypes there are representable values to count only after rounding.
            let ulps = m.max_ulps.or_else(|| m.rounded.as_ref()?.max_ulps);
            (Some(m.max_relative), ulps.map_or("-".into(), grouped))
        }
        Evidence::Identical => (Some(0.0), "0".into()),
        _ => (None, "-".into()),
    };
    let mut words = evidence(&row.outcome);
    if row.outcome.verdict == Verdict::Outside && row.outcome.reason().is_none() {
        words += &format!(" {}", rule_text(&row.rule));
    }
    [
        record_name(&row.record),
        if kernels.is_empty() { "-".into() } else { kernels.join("+") },
        verdict_word(row.outcome.verdict).into(),
        row.record.dtype.name().into(),
        shape_text(&row.record),
        number(row.outcome.max_abs()),
        number(relative),
        ulps,
        words,
    ]
}

fn write_unmatched(out: &mut dyn Write, diff: &Diff, all: bool) -> anyhow::Result<()> {
    if diff.unmatched.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nwithout a partner:")?;
    let most = if all { diff.unmatched.len() } else { LISTED };
    for lonely in diff.unmatched.iter().take(most) {
        writeln!(out, "  {}: {}", printable(&lonely.what), printable(&lonely.reason))?;
    }
    if diff.unmatched.len() > most {
        writeln!(out, "  and {} more", grouped((diff.unmatched.len() - most) as u64))?;
    }
    Ok(())
}
