//! The list of tasks: wrong ones first, then unknown ones grouped by reason.

use std::io::Write;

use tensortap::analysis::blame::Blame;
use tensortap::analysis::labels::Label;

use super::Report;
use super::text::{LISTED, width};
use tensortap_query::blame::{Listing, wrong_first};
use tensortap_query::blame_words::{name, why};
use tensortap_query::number::counted;
use tensortap_query::words::printable;

/// Reasons that are listed without `--all`.
const REASONS: usize = 5;

pub(super) fn write_tasks(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let blame = report.found.blame;
    let Listing { only, limit } = report.listing;
    let mut listed = Listing { only, limit: None }.tasks(blame);
    listed.retain(|&place| report.all || !only.is_empty() || blame.findings[place].label != Label::Ok);
    if listed.is_empty() {
        return Ok(());
    }
    wrong_first(blame, &mut listed);
    let without = match only {
        _ if report.all && only.is_empty() => String::new(),
        [] => ", without tasks that are ok".into(),
        only => format!(", only {}", only.iter().map(|label| label.name()).collect::<Vec<_>>().join(", ")),
    };
    writeln!(out, "\ntasks in dependency order, wrong ones first{without}:")?;
    if report.all {
        return listed.into_iter().try_for_each(|place| write_task(out, blame, place));
    }
    let is_unknown = |place: &usize| blame.findings[*place].label == Label::Unknown;
    let (unknown, known): (Vec<usize>, Vec<usize>) = listed.into_iter().partition(is_unknown);
    let most = limit.unwrap_or(LISTED);
    for &place in known.iter().take(most) {
        write_task(out, blame, place)?;
    }
    if known.len() > most {
        let more = counted((known.len() - most) as u64, "further task");
        writeln!(out, "  and {more} (--all lists every task)")?;
    }
    write_unknown(out, blame, &unknown)
}

/// One task. Its reason goes to the next line if it does not fit.
fn write_task(out: &mut dyn Write, blame: &Blame, place: usize) -> anyhow::Result<()> {
    let finding = &blame.findings[place];
    let row = format!("  {:<10}  {:<36}", finding.label.name(), name(blame, place));
    if finding.race.is_none() && finding.reason.is_none() {
        return Ok(writeln!(out, "{}", row.trim_end())?);
    }
    let why = why(blame, place);
    if row.len() + why.len() + 2 <= width() {
        return Ok(writeln!(out, "{row}  {why}")?);
    }
    writeln!(out, "{}", row.trim_end())?;
    Ok(writeln!(out, "{:14}{why}", "")?)
}

/// Tasks that cannot be judged, grouped by reason.
fn write_unknown(out: &mut dyn Write, blame: &Blame, unknown: &[usize]) -> anyhow::Result<()> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for &place in unknown {
        let reason = blame.findings[place].reason.as_deref().unwrap_or("the capture is not sufficient");
        match groups.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, places)) => places.push(place),
            None => groups.push((reason, vec![place])),
        }
    }
    groups.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    let label = Label::Unknown.name();
    for (reason, places) in groups.iter().take(REASONS) {
        match places.as_slice() {
            [one] => write_task(out, blame, *one)?,
            _ => {
                writeln!(out, "  {label:<10}  {} (--all lists each)", counted(places.len() as u64, "task"))?;
                writeln!(out, "{:14}{}", "", printable(reason))?;
            }
        }
    }
    let rest: usize = groups.iter().skip(REASONS).map(|(_, places)| places.len()).sum();
    if rest > 0 {
        let more = counted(rest as u64, "further task");
        writeln!(out, "  {label:<10}  {more} for other reasons (--all lists each)")?;
    }
    Ok(())
}
