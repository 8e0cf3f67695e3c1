//! The report as text: the verdict, then the records, first errors first.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::Write;

use tensortap::analysis::diff::{Diff, DiffRow, UnmatchedItem};
use tensortap::judge::{Evidence, Verdict};

use super::Report;
use crate::output;
use crate::table::{Column, Fit, StreamTable};
use tensortap_query::compare_words::{detail_lines, unwritten_lines};
use tensortap_query::diff::{DiffReport, ranked};
use tensortap_query::fields::{Cells, DIFF, Row, fields};
use tensortap_query::number::{counted, counted_in, grouped};
use tensortap_query::words::{printable, record_name};

/// Rows shown without `--limit` and `--all`.
const LISTED: usize = 40;
/// Most frequent reasons that are listed for missing counterparts. A golden of a few tasks has one reason for each kernel.
const REASONS: usize = 2;
/// Columns that a narrow terminal leaves out, in this order.
const DISPENSABLE: [&str; 8] = ["DTYPE", "SHAPE", "RULE", "NAME", "MAX REL", "MAX ULP", "NAN", "VERDICT"];

/// Writes the report.
pub fn write(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let DiffReport { dump, golden, diff, unlike, hint, .. } = &report.diff;
    let failing = failing(diff);
    let identical = diff.rows.iter().filter(|r| r.outcome.evidence == Evidence::Identical).count();
    writeln!(out, "{}", headline(&report.diff))?;
    if let Some(unlike) = unlike {
        writeln!(out, "  {unlike}")?;
    }
    if let Some(words) = &report.golden_end {
        writeln!(out, "  {words}")?;
    }
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
    if diff.gone() > 0 {
        let gone = counted(diff.gone() as u64, "record");
        writeln!(out, "  {gone} left the dump during the run: not compared and not counted")?;
    }
    if diff.never_written() > 0 {
        let (records, hold) = match diff.never_written() {
            1 => ("1 record".to_owned(), "contains"),
            many => (counted(many as u64, "record"), "contain"),
        };
        writeln!(
            out,
            "  {records} {hold} uninitialized memory, which no task of either run wrote: not judged"
        )?;
    }
    if diff.by_value() > 0 {
        let records = counted(diff.by_value() as u64, "record");
        writeln!(out, "  {records} passed by value, which may contain addresses of the run: not judged")?;
    }
    write_rows(out, report)?;
    write_details(out, report)?;
    write_unmatched(out, report)?;
    if let Some(hint) = hint {
        writeln!(out, "\nhint: {hint}")?;
    }
    if let Some(next) = &report.next {
        writeln!(out, "\nto find the wrong task: {next}")?;
    }
    Ok(())
}

/// The verdict in one line.
pub fn headline(report: &DiffReport<'_>) -> String {
    let word = output::pass_or_fail(report.passes);
    format!("{word}: {}", what(report.diff, failing(report.diff)))
}

fn failing(diff: &Diff) -> usize {
    diff.rows.iter().filter(|row| row.outcome.verdict == Verdict::Outside).count()
}

fn write_details(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    for row in ranked(report.diff.diff, report.sort) {
        let Some(detail) = report.diff.details.get(&row.record.index) else { continue };
        writeln!(out, "\n{}", record_name(&row.record))?;
        let lines = unwritten_lines(&row.unwritten).into_iter().chain(detail.iter().flat_map(detail_lines));
        for line in lines {
            writeln!(out, "  {line}")?;
        }
    }
    Ok(())
}

fn what(diff: &Diff, failing: usize) -> String {
    let (lonely, unknown) = (
        diff.unmatched.len(),
        diff.rows.len() - diff.compared() - diff.gone() - diff.never_written() - diff.by_value(),
    );
    let compared = match (failing, lonely, unknown) {
        _ if diff.compared() == 0 => "nothing could be compared".into(),
        (0, 0, 0) if diff.gone() > 0 => "every record that is still in the dump is within its rule".into(),
        (0, 0, 0) => "every record is within its rule".into(),
        (0, 0, unknown) => format!("{} could not be compared", counted(unknown as u64, "record")),
        (0, _, _) => "every record that could be compared is within its rule".into(),
        (1, _, _) => "1 record is outside its rule".into(),
        (failing, _, _) => format!("{} are outside their rules", counted(failing as u64, "record")),
    };
    if lonely == 0 { compared } else { format!("{compared}, {}", without_partner(lonely)) }
}

/// How many tasks and records have no counterpart.
fn without_partner(lonely: usize) -> String {
    counted_in(lonely as u64, "task or record has", "tasks or records have") + " no counterpart"
}

fn write_rows(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let Report { diff: DiffReport { diff, .. }, all, limit, only, sort, .. } = report;
    // Records without a counterpart are listed below the table.
    let tells =
        |row: &DiffRow| row.outcome.verdict != Verdict::Within && row.partner.is_some() && !row.never_written;
    let mut rows = ranked(diff, *sort);
    let is_meant = |row: &DiffRow| only.is_empty() || only.contains(&row.outcome.verdict);
    rows.retain(|row| is_meant(row) && (*all || !only.is_empty() || tells(row)));
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let most = limit.unwrap_or(if *all { usize::MAX } else { LISTED });
    let columns = fields(DIFF);
    let mut cells = Cells::new(report.diff.dump);
    let mut table =
        StreamTable::new(columns.map(Column::of), Fit::terminal(&DISPENSABLE).of(report.diff.dump));
    for row in rows.iter().take(most) {
        table.row(out, columns.map(|field| cells.text(field, &Row::compared(row))))?;
    }
    table.finish(out)?;
    if rows.len() > most {
        let more = counted((rows.len() - most) as u64, "further record");
        writeln!(out, "and {more} (--limit N lists more, --all lists every record)")?;
    }
    Ok(writeln!(out, "Order: records outside their rule first; {}.", sort.words())?)
}

fn write_unmatched(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let Report { diff: DiffReport { diff, .. }, all, allow_unmatched, .. } = report;
    let lonely = diff.unmatched.len();
    if lonely == 0 {
        return Ok(());
    }
    if *allow_unmatched && !all {
        return Ok(writeln!(out, "\n{}, which is allowed; --all lists them", without_partner(lonely))?);
    }
    writeln!(out, "\nwithout a counterpart:")?;
    if *all {
        return diff.unmatched.iter().try_for_each(|lonely| {
            Ok(writeln!(out, "  {}: {}", printable(&lonely.what), printable(&lonely.reason))?)
        });
    }
    let by_reason = by_reason(&diff.unmatched);
    for (first, count) in by_reason.iter().take(REASONS) {
        let more = if *count > 1 { format!(" and {} more", grouped(*count - 1)) } else { String::new() };
        writeln!(out, "  {}{more}: {}", printable(&first.what), printable(&first.reason))?;
    }
    if by_reason.len() > REASONS {
        let others = by_reason[REASONS..].iter().map(|(_, count)| count).sum();
        let reasons = counted((by_reason.len() - REASONS) as u64, "other reason");
        writeln!(
            out,
            "  and {} for {reasons}",
            counted_in(others, "further task or record", "further tasks or records")
        )?;
    }
    Ok(writeln!(out, "--allow-unmatched ignores them, --all lists them")?)
}

/// The first record of each reason and their number, most frequent reasons first.
fn by_reason(unmatched: &[UnmatchedItem]) -> Vec<(&UnmatchedItem, u64)> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut found: Vec<(&UnmatchedItem, u64)> = Vec::new();
    for lonely in unmatched {
        let place = *places.entry(&lonely.reason).or_insert_with(|| {
            found.push((lonely, 0));
            found.len() - 1
        });
        found[place].1 += 1;
    }
    // The sort is stable.
    found.sort_by_key(|(_, count)| Reverse(*count));
    found
}
