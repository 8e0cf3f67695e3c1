//! The report for people: the verdict, the culprits, how the error spread, the other tasks.

use std::io::Write;

use tensortap::DumpStage;
use tensortap::abi::Role;
use tensortap::analysis::blame::{Basis, Blame, Share};
use tensortap::analysis::labels::Label;

use super::Report;
use super::headline::headline;
use super::tasks::write_tasks;
use super::wiring::write_wiring;
use crate::output;
use crate::program::program;
use tensortap_query::blame::{BlameReport, Culprit, Next, Outside};
use tensortap_query::blame_words::{by_kernel, given, name, why};
use tensortap_query::compare_words::{detail_lines, evidence_written, rule_text, unwritten_lines};
use tensortap_query::kind_words::kind_words;
use tensortap_query::number::{counted, counted_in, grouped};
use tensortap_query::words::{arg_words, kernels_text, printable, step_task};

/// Tasks listed where not all are asked for.
pub(super) const LISTED: usize = 20;
/// Width of a line that is broken, where there is no terminal.
const WIDTH: usize = 80;
/// Members of a chain that are named.
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

/// A line that is too long goes on below, two columns further in. Commands stay whole, to be copied.
fn write_wrapped(out: &mut dyn Write, line: &str) -> anyhow::Result<()> {
    let is_command = line.contains(&format!("{} replay ", program()));
    if is_command || columns(line) <= width() {
        return Ok(writeln!(out, "{line}")?);
    }
    let indent = line.len() - line.trim_start().len();
    let mut row = String::new();
    // Words keep the spaces before them: columns of a list stay where they are.
    for word in line.split_inclusive(' ') {
        let has_text = !row.trim().is_empty() && !word.trim().is_empty();
        if has_text && columns(&row) + columns(word.trim_end()) > width() {
            writeln!(out, "{}", row.trim_end())?;
            row = format!("{:indent$}  ", "");
        }
        row += word;
    }
    Ok(writeln!(out, "{}", row.trim_end())?)
}

/// Columns that a text takes: colours take none.
fn columns(text: &str) -> usize {
    let mut in_colour = false;
    let is_seen = |c: char| {
        let seen = !in_colour && c != '\u{1b}';
        in_colour = c == '\u{1b}' || in_colour && c != 'm';
        seen
    };
    text.chars().map(is_seen).filter(|seen| *seen).count()
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
        let tasks = counted(more.len() as u64, "further task");
        writeln!(out, "\nnothing wrong is before {tasks} either: {}", by_kernel(blame, &more))?;
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
        (None, Basis::Rerun) => {
            "with what its tasks make of their captured inputs when they run again".into()
        }
        (None, Basis::Golden | Basis::References) => "with the references of its kernels".into(),
    };
    let what = if report.found.golden.is_some() { "records" } else { "outputs" };
    format!("compared {} of {} {what} of {dump} {with}", grouped(*compared), grouped(*of))
}

fn labels(blame: &Blame) -> String {
    let counts = Label::ALL.iter().map(|&label| (label, blame.count(label))).filter(|(_, n)| *n > 0);
    let words: Vec<String> =
        counts.map(|(label, n)| format!("{} {}", grouped(n as u64), label.name())).collect();
    format!("{}: {}", counted(blame.findings.len() as u64, "task"), words.join(", "))
}

fn write_culprit(out: &mut dyn Write, report: &Report<'_>, culprit: &Culprit) -> anyhow::Result<()> {
    let blame = report.found.blame;
    let Culprit { place, outside, chain } = culprit;
    writeln!(out, "{} {}", name(blame, *place), why(blame, *place))?;
    if let Some(other) = report.found.other_program(*place) {
        writeln!(out, "  its code is another: {other}")?;
    }
    if let Some(told) = blame.told_kernels(*place) {
        writeln!(out, "  the wrong kernel inside: {}", kernels_text(told))?;
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

/// How the task is run again, or why it cannot be.
fn write_next(out: &mut dyn Write, report: &Report<'_>, place: usize) -> anyhow::Result<()> {
    let blame = report.found.blame;
    let task = blame.graph.task(place);
    let fault = report.found.fault_option(task);
    let command = match report.found.next(place) {
        Next::Replay(command) => command,
        Next::Nothing(reason) => {
            return Ok(writeln!(out, "  it cannot be run again from this dump: {reason}")?);
        }
    };
    let line = format!("  run it again: {command}");
    match columns(&line) <= width() {
        true => writeln!(out, "{line}")?,
        false => writeln!(out, "  run it again:\n    {command}")?,
    }
    if blame.basis == Basis::Rerun {
        return Ok(writeln!(
            out,
            "    (fails until the kernel makes the captured output of the captured inputs)"
        )?);
    }
    if report.found.dump.info().is_of_program() {
        // What it was given was wrong already.
        let is_fed = matches!(blame.findings[place].label, Label::Raced | Label::Fed);
        let meaning = match is_fed {
            true => "then it is right, and what it was given, or when, is not",
            false => "then its code, size or values are wrong",
        };
        return Ok(writeln!(
            out,
            "    (passes when it makes the same wrong output again: {meaning}; --device NAME runs it on another device)"
        )?);
    }
    // What a stale output holds is what lay there before, which is captured of in-outs only.
    let is_lost = fault.ends_with("=stale") && task.outputs().any(|arg| arg.role == Role::Output);
    Ok(match is_lost {
        true => writeln!(
            out,
            "    (what was not written cannot be made again; with --reference it passes when it is right)"
        ),
        false => writeln!(
            out,
            "    (passes when it makes the same wrong output again; with --reference, when it is right)"
        ),
    }?)
}

fn write_record(
    out: &mut dyn Write,
    blame: &Blame,
    place: usize,
    Outside { compared, detail, kind, unwritten }: &Outside,
) -> anyhow::Result<()> {
    let arg = blame.graph.task(place).argument(compared.arg_index);
    let shape = arg.map_or(String::new(), |a| {
        let sizes: Vec<String> = a.shape().iter().map(u64::to_string).collect();
        format!(", {} {}", a.dtype, sizes.join("x"))
    });
    let when = match compared.stage {
        DumpStage::BeforeDispatch => "before the task",
        DumpStage::AfterCompletion => "after the task",
    };
    let argument = arg_words(blame.graph.task(place), compared.arg_index);
    let (evidence, rule) = (evidence_written(&compared.outcome, unwritten), rule_text(&compared.rule));
    let rule = match unwritten.in_both {
        Share::All => String::new(),
        Share::None | Share::Some(_) => format!(" (rule: {rule})"),
    };
    writeln!(out, "  {argument} {when}{shape}: {evidence}{rule}")?;
    for line in unwritten_lines(unwritten) {
        writeln!(out, "    {line}")?;
    }
    if let Some(kind) = kind {
        writeln!(out, "    kind: {}", kind_words(&blame.graph, kind))?;
    }
    if let Some(detail) = detail {
        for line in detail_lines(detail) {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

/// Where its inputs came from.
fn given_line(blame: &Blame, place: usize) -> String {
    let given = given(blame, place);
    let inputs: Vec<String> =
        given.iter().map(|(argument, from)| format!("{argument} from {from}")).collect();
    if inputs.is_empty() { "given: no tensors".into() } else { format!("given: {}", inputs.join("; ")) }
}

/// The way of an error: on one line, or one task per line when that is too wide.
fn write_chain(out: &mut dyn Write, blame: &Blame, chain: &[usize]) -> anyhow::Result<()> {
    let mut links: Vec<String> = chain.iter().map(|&place| name(blame, place)).collect();
    if links.len() > LINKS {
        let between = counted((links.len() - LINKS) as u64, "task");
        links.splice(LINKS / 2..links.len() - LINKS / 2, [between]);
    }
    let line = format!("  reached the end: {}", links.join(" -> "));
    if line.len() <= width() {
        return Ok(writeln!(out, "{line}")?);
    }
    writeln!(out, "  reached the end:")?;
    for (at, link) in links.iter().enumerate() {
        writeln!(out, "    {}{link}", if at == 0 { "" } else { "-> " })?;
    }
    Ok(())
}

/// Width that lines of tasks are kept to; in a pipe or file, too.
pub(super) fn width() -> usize {
    output::terminal_width().unwrap_or(WIDTH)
}

fn write_unmatched(out: &mut dyn Write, blame: &Blame) -> anyhow::Result<()> {
    let Some(golden) = &blame.golden else { return Ok(()) };
    let all = &blame.matching.only_second;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ntasks of the golden without a partner:")?;
    for unmatched in all.iter().take(LISTED) {
        let task = golden.task(unmatched.task);
        writeln!(out, "  task {}: {}", step_task(task.step, task.task_id), printable(&unmatched.reason))?;
    }
    if all.len() > LISTED {
        writeln!(out, "  and {}", counted((all.len() - LISTED) as u64, "further task"))?;
    }
    Ok(())
}

/// What a golden of files and the dump have not in common: a count, or each when all is asked for.
fn write_unmatched_arrays(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let blame = report.found.blame;
    let (arrays, tasks) = (blame.unused_arrays(), blame.matching.only_first.len());
    let is_files = blame.golden.is_none() && blame.basis == Basis::Golden;
    if !is_files || arrays.is_empty() && tasks == 0 {
        return Ok(());
    }
    let arrays_words =
        counted_in(arrays.len() as u64, "array of the golden stands", "arrays of the golden stand");
    let tasks_words = counted_in(tasks as u64, "task has", "tasks have");
    let options = match (report.allow_unmatched, report.all) {
        (true, true) => ", which is allowed",
        (true, false) => ", which is allowed; --all names each",
        (false, true) => "; --allow-unmatched goes on without them",
        (false, false) => "; --allow-unmatched goes on without them, --all names each",
    };
    let words = match (arrays.len(), tasks) {
        (0, _) => format!("{tasks_words} no array"),
        (_, 0) => format!("{arrays_words} for no record"),
        _ => format!("{arrays_words} for no record, {tasks_words} no array"),
    };
    writeln!(out, "\n{words}{options}")?;
    let named = arrays.iter().filter(|_| report.all);
    named.into_iter().try_for_each(|unused| {
        Ok(writeln!(out, "  array {}: {}", printable(&unused.name), printable(&unused.reason))?)
    })
}
