//! The report as text: the verdict, the first wrong tasks, how the error spread, and the other tasks.

use std::io::Write;

use tensortap::abi::Role;
use tensortap::analysis::blame::{BaselineKind, Blame};
use tensortap::analysis::labels::Label;

use super::Report;
use super::headline::headline;
use super::tasks::write_tasks;
use super::wiring::write_wiring;
use crate::output;
use crate::program::program;
use crate::table::text::{self, wrap};
use tensortap_query::blame::{BlameReport, Culprit, NextStep, OutsideRecord};
use tensortap_query::blame_words::{NO_TASK, input_sources, label_counts, more_lines, name, why};
use tensortap_query::compare_words::detail_lines;
use tensortap_query::number::{counted, counted_in, grouped};
use tensortap_query::words::{arg_words, kernels_text, printable, stage_phrase, step_task};

/// Tasks listed without `--all`.
pub(super) const LISTED: usize = 20;
/// Width of wrapped lines in a pipe or file.
const WIDTH: usize = 80;
/// Tasks named of a longer chain.
const LINKS: usize = 8;

/// Writes the report.
pub fn write(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let mut text = Vec::new();
    write_lines(&mut text, report)?;
    for line in String::from_utf8_lossy(&text).lines() {
        write_wrapped(out, line)?;
    }
    Ok(())
}

/// Writes a line, and continues it below, two columns further in, if it is too long. Commands stay whole so that
/// users can copy them.
fn write_wrapped(out: &mut dyn Write, line: &str) -> anyhow::Result<()> {
    if line.contains(&format!("{} replay ", program())) {
        return Ok(writeln!(out, "{line}")?);
    }
    let indent = line.len() - line.trim_start().len();
    wrap(line, width(), indent + 2).iter().try_for_each(|row| Ok(writeln!(out, "{row}")?))
}

fn write_lines(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let BlameReport { blame, culprits, .. } = &report.found;
    writeln!(out, "{}", headline(report))?;
    writeln!(out, "  {}", compared(report))?;
    writeln!(out, "  {}", labels(blame))?;
    for line in report.found.all_remarks() {
        writeln!(out, "  {line}")?;
    }
    for culprit in culprits {
        writeln!(out)?;
        write_culprit(out, report, culprit)?;
    }
    let is_shown = |place: &usize| culprits.iter().any(|culprit| culprit.place == *place);
    let more: Vec<usize> = blame.first_wrong.iter().copied().filter(|place| !is_shown(place)).collect();
    if !more.is_empty() {
        writeln!(out)?;
    }
    for line in more_lines(blame, &more) {
        writeln!(out, "{line}")?;
    }
    write_wiring(out, report)?;
    write_tasks(out, report)?;
    write_unmatched(out, blame)?;
    write_unmatched_arrays(out, report)
}

fn compared(report: &Report<'_>) -> String {
    let Blame { compared, of, .. } = report.found.blame;
    let dump = printable(&report.found.dump.dir().display().to_string()).into_owned();
    let with = match (&report.found.golden, report.found.blame.basis) {
        (Some(golden), _) => format!("with {}", printable(golden)),
        (None, BaselineKind::Rerun) => {
            "with the outputs of its tasks when they run again on the captured inputs".into()
        }
        (None, BaselineKind::Golden | BaselineKind::References) => {
            "with the references of its kernels".into()
        }
    };
    let what = if report.found.golden.is_some() { "records" } else { "outputs" };
    format!("compared {} of {} {what} of {dump} {with}", grouped(*compared), grouped(*of))
}

fn labels(blame: &Blame) -> String {
    format!("{}: {}", counted(blame.findings.len() as u64, "task"), label_counts(blame))
}

fn write_culprit(out: &mut dyn Write, report: &Report<'_>, culprit: &Culprit) -> anyhow::Result<()> {
    let blame = report.found.blame;
    let Culprit { place, outside, chain } = culprit;
    writeln!(out, "{} {}", name(blame, *place), why(blame, *place))?;
    if let Some(other) = report.found.other_program(*place) {
        writeln!(out, "  it was built from different code: {other}")?;
    }
    if let Some(kernels) = blame.identified_kernels(*place) {
        writeln!(out, "  wrong kernel of the mix task: {}", kernels_text(kernels))?;
    }
    for record in outside {
        write_record(out, blame, *place, record)?;
    }
    writeln!(out, "  {}", given_line(blame, *place))?;
    if chain.len() > 1 {
        write_chain(out, blame, chain)?;
    }
    write_next(out, report, *place)
}

/// The command that runs the task again, or why that is not possible.
fn write_next(out: &mut dyn Write, report: &Report<'_>, place: usize) -> anyhow::Result<()> {
    let blame = report.found.blame;
    let task = blame.graph.task(place);
    let fault = report.found.fault_option(task);
    let command = match report.found.next(place) {
        NextStep::Replay(command) => command,
        NextStep::Nothing(reason) => {
            return Ok(writeln!(out, "  this dump is not sufficient to run it again: {reason}")?);
        }
        NextStep::WithLibrary(command) => {
            writeln!(out, "  to run it again, put the kernel into a library:")?;
            return Ok(writeln!(out, "    {command}")?);
        }
    };
    let line = format!("  run it again: {command}");
    match text::width(&line) <= width() {
        true => writeln!(out, "{line}")?,
        false => writeln!(out, "  run it again:\n    {command}")?,
    }
    if blame.basis == BaselineKind::Rerun {
        return Ok(writeln!(out, "    (FAIL until the kernel reproduces the captured output)")?);
    }
    if report.found.dump.info().is_of_program() {
        // Its inputs were already wrong.
        let is_fed = matches!(blame.findings[place].label, Label::Raced | Label::Fed);
        let meaning = match is_fed {
            true => "look at its inputs or its timing",
            false => "look at its code, launch size or arguments",
        };
        return Ok(writeln!(
            out,
            "    (PASS means the kernel reproduces this output: {meaning}; --device NAME runs it on another device)"
        )?);
    }
    // A stale output contains what was in memory before, which is captured only for in-out arguments.
    let is_lost = fault.ends_with("=stale") && task.outputs().any(|arg| arg.role == Role::Output);
    Ok(match is_lost {
        true => writeln!(
            out,
            "    (unwritten memory cannot be reproduced; with --reference, PASS means the kernel is right)"
        ),
        false => writeln!(
            out,
            "    (PASS means the kernel reproduces the wrong output; with --reference, PASS means it is right)"
        ),
    }?)
}

fn write_record(
    out: &mut dyn Write,
    blame: &Blame,
    place: usize,
    record: &OutsideRecord,
) -> anyhow::Result<()> {
    let OutsideRecord { compared, detail, .. } = record;
    let arg = blame.graph.task(place).argument(compared.arg_index);
    let shape = arg.map_or(String::new(), |a| {
        let sizes: Vec<String> = a.shape().iter().map(u64::to_string).collect();
        format!(", {} {}", a.dtype, sizes.join("x"))
    });
    let argument = arg_words(blame.graph.task(place), compared.arg_index);
    let when = stage_phrase(compared.stage);
    writeln!(out, "  {argument} {when}{shape}: {}", record.evidence_text())?;
    for line in record.notes(&blame.graph) {
        writeln!(out, "    {line}")?;
    }
    if let Some(detail) = detail {
        for line in detail_lines(detail) {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

/// Where the inputs of a task came from.
fn given_line(blame: &Blame, place: usize) -> String {
    let given = input_sources(blame, place);
    let inputs: Vec<String> = given
        .iter()
        .map(|(argument, from)| match from.as_str() {
            NO_TASK => format!("{argument} not written by a task"),
            _ => format!("{argument} from {from}"),
        })
        .collect();
    if inputs.is_empty() { "inputs: no tensors".into() } else { format!("inputs: {}", inputs.join("; ")) }
}

/// How the error spread: on one line, or one task per line if that is too wide.
fn write_chain(out: &mut dyn Write, blame: &Blame, chain: &[usize]) -> anyhow::Result<()> {
    let mut links: Vec<String> = chain.iter().map(|&place| name(blame, place)).collect();
    if links.len() > LINKS {
        let between = counted((links.len() - LINKS) as u64, "task");
        links.splice(LINKS / 2..links.len() - LINKS / 2, [between]);
    }
    let line = format!("  how the error spread: {}", links.join(" -> "));
    if line.len() <= width() {
        return Ok(writeln!(out, "{line}")?);
    }
    writeln!(out, "  how the error spread:")?;
    for (at, link) in links.iter().enumerate() {
        writeln!(out, "    {}{link}", if at == 0 { "" } else { "-> " })?;
    }
    Ok(())
}

/// Width of the text, also in a pipe or file.
pub(super) fn width() -> usize {
    output::terminal_width().unwrap_or(WIDTH)
}

fn write_unmatched(out: &mut dyn Write, blame: &Blame) -> anyhow::Result<()> {
    let Some(golden) = &blame.golden else { return Ok(()) };
    let all = &blame.matching.only_second;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ntasks of the golden without a counterpart:")?;
    for unmatched in all.iter().take(LISTED) {
        let task = golden.task(unmatched.task);
        writeln!(out, "  task {}: {}", step_task(task.step, task.task_id), printable(&unmatched.reason))?;
    }
    if all.len() > LISTED {
        writeln!(out, "  and {}", counted((all.len() - LISTED) as u64, "further task"))?;
    }
    Ok(())
}

/// Arrays of the golden and tasks of the dump without a counterpart: their number, or each with `--all`.
fn write_unmatched_arrays(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let blame = report.found.blame;
    let (arrays, tasks) = (blame.unused_arrays(), blame.matching.only_first.len());
    let is_files = blame.golden.is_none() && blame.basis == BaselineKind::Golden;
    if !is_files || arrays.is_empty() && tasks == 0 {
        return Ok(());
    }
    let arrays_words =
        counted_in(arrays.len() as u64, "array of the golden matches", "arrays of the golden match");
    let tasks_words = counted_in(tasks as u64, "task has", "tasks have");
    let options = match (report.allow_unmatched, report.all) {
        (true, true) => ", which is allowed",
        (true, false) => ", which is allowed; --all lists them",
        (false, true) => "; --strict makes this fail",
        (false, false) => "; --strict makes this fail, --all lists them",
    };
    let words = match (arrays.len(), tasks) {
        (0, _) => format!("{tasks_words} no array"),
        (_, 0) => format!("{arrays_words} no record"),
        _ => format!("{arrays_words} no record, {tasks_words} no array"),
    };
    writeln!(out, "\n{words}{options}")?;
    let named = arrays.iter().filter(|_| report.all);
    named.into_iter().try_for_each(|unused| {
        Ok(writeln!(out, "  array {}: {}", printable(&unused.name), printable(&unused.reason))?)
    })
}
