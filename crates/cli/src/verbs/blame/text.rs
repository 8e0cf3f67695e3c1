//! The report for people: the verdict, the culprits, how the error spread, the other tasks.

use std::io::Write;

use tensortap::DumpStage;
use tensortap::analysis::blame::{Blame, ComparedArg};
use tensortap::analysis::labels::{Finding, Label, RaceKind};
use tensortap::analysis::metrics::Detail;

use super::{Culprit, Report};
use crate::compare_text::{detail_lines, evidence, rule_text};
use crate::dump_arg::quoted;
use crate::number::{counted, grouped};
use crate::output;
use crate::record_text::{printable, short_task};

/// Tasks listed where not all are asked for.
const LISTED: usize = 20;
/// Members of a chain that are named.
const LINKS: usize = 8;

/// Writes the report.
pub fn write(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let Report { blame, culprits, .. } = report;
    writeln!(out, "{}", headline(report))?;
    writeln!(out, "  {}", compared(report))?;
    writeln!(out, "  {}", labels(blame))?;
    for line in remarks(blame) {
        writeln!(out, "  {line}")?;
    }
    for culprit in culprits {
        writeln!(out)?;
        write_culprit(out, report, culprit)?;
    }
    let more = blame.first_wrong.len() - culprits.len();
    if more > 0 {
        let tasks = counted(more as u64, "further task");
        writeln!(out, "\nan error also began at {tasks}: {}", by_kernel(blame, culprits))?;
    }
    write_tasks(out, report)?;
    write_unmatched(out, blame)
}

fn headline(report: &Report<'_>) -> String {
    let word = output::verdict(if report.passes { "PASS" } else { "FAIL" }, report.passes);
    let blame = report.blame;
    let what = match blame.first_wrong.as_slice() {
        [] if report.passes => "no task is wrong".into(),
        [] if blame.compared == 0 => "nothing could be compared".into(),
        [] => "not every task could be judged".into(),
        [one] => format!("{} {}", name(blame, *one), said(blame.findings[*one].label)),
        [one, ..] => {
            let all = counted(blame.first_wrong.len() as u64, "task");
            format!(
                "{} {}, the first of {all} where an error began",
                name(blame, *one),
                said(blame.findings[*one].label)
            )
        }
    };
    format!("{word}: {what}")
}

/// First wrong tasks that are not shown, counted by kernel: `softmax 28, pv 2`.
fn by_kernel(blame: &Blame, shown: &[Culprit]) -> String {
    let mut counts: Vec<(String, u64)> = Vec::new();
    for &place in blame.first_wrong.iter().filter(|&&p| shown.iter().all(|c| c.place != p)) {
        let kernels = kernels(blame, place);
        match counts.iter_mut().find(|(name, _)| *name == kernels) {
            Some((_, count)) => *count += 1,
            None => counts.push((kernels, 1)),
        }
    }
    let words: Vec<String> =
        counts.iter().take(LINKS).map(|(name, n)| format!("{name} {}", grouped(*n))).collect();
    words.join(", ")
}

fn said(label: Label) -> &'static str {
    match label {
        Label::Ok => "is ok",
        Label::WrongHere => "is wrong here",
        Label::Inherited => "inherited an error",
        Label::Raced => "raced",
        Label::Fed => "was fed a wrong input",
        Label::Masked => "masked an error",
        Label::Unknown => "cannot be judged",
    }
}

fn compared(report: &Report<'_>) -> String {
    let Blame { compared, of, .. } = report.blame;
    let dump = printable(&report.dump.dir().display().to_string()).into_owned();
    let with = match &report.golden {
        Some(golden) => format!("with {}", printable(golden)),
        None => "with the references of its kernels".into(),
    };
    let what = if report.golden.is_some() { "records" } else { "outputs" };
    format!("compared {} of {} {what} of {dump} {with}", grouped(*compared), grouped(*of))
}

fn labels(blame: &Blame) -> String {
    let counts = Label::ALL.iter().map(|&label| (label, blame.count(label))).filter(|(_, n)| *n > 0);
    let words: Vec<String> =
        counts.map(|(label, n)| format!("{} {}", grouped(n as u64), label.name())).collect();
    format!("{}: {}", counted(blame.findings.len() as u64, "task"), words.join(", "))
}

fn remarks(blame: &Blame) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(gap) = &blame.graph.gap {
        remarks.push(format!("the dump is not complete: {gap}"));
    }
    let set_aside = blame.findings.iter().filter(|f| !f.set_aside.is_empty()).count();
    if set_aside > 0 {
        let tasks = counted(set_aside as u64, "task");
        remarks.push(format!(
            "set aside: in-out arguments of {tasks} that hold something else, came from no task and were left alone"
        ));
    }
    remarks
}

/// `task 0x100000002 (mul)`.
fn name(blame: &Blame, place: usize) -> String {
    format!("task {} ({})", short_task(blame.graph.tasks[place].task_id), kernels(blame, place))
}

fn kernels(blame: &Blame, place: usize) -> String {
    let labels = blame.graph.tasks[place].kernel_labels();
    let labels: Vec<String> = labels.iter().map(|k| printable(k).into_owned()).collect();
    if labels.is_empty() { "-".into() } else { labels.join("+") }
}

fn write_culprit(out: &mut dyn Write, report: &Report<'_>, culprit: &Culprit) -> anyhow::Result<()> {
    let blame = report.blame;
    let Culprit { place, outside, chain } = culprit;
    let finding = &blame.findings[*place];
    writeln!(out, "{} {}", name(blame, *place), why(blame, finding))?;
    for (compared, detail) in outside {
        write_record(out, blame, *place, compared, detail.as_ref())?;
    }
    writeln!(out, "  {}", given(blame, *place))?;
    if chain.len() > 1 {
        writeln!(out, "  reached the end: {}", links(blame, chain))?;
    }
    let task_id = short_task(blame.graph.tasks[*place].task_id);
    Ok(writeln!(out, "  run it again: tensortap replay {} --task {task_id}", quoted(report.dump.dir()))?)
}

fn why(blame: &Blame, finding: &Finding) -> String {
    let mut words: String = said(finding.label).into();
    if let Some(race) = &finding.race {
        let other = name(blame, race.other);
        let argument = finding.arg_index.map_or("an argument".into(), |a| format!("argument {a}"));
        words += &match race.kind {
            RaceKind::ReadTooEarly => {
                format!(" with {other}: {argument} was read before that task had completed")
            }
            RaceKind::Overwritten => {
                format!(" with {other}, which ran out of its order and overwrote {argument}")
            }
            RaceKind::Changed => format!(" with {other}: {argument} is not what that task wrote"),
            RaceKind::Overlapped => {
                format!(" with {other}, which ran at the same time and wrote the same bytes")
            }
        };
    }
    if let Some(reason) = &finding.reason {
        words += &format!(": {}", printable(reason));
    }
    words
}

fn write_record(
    out: &mut dyn Write,
    blame: &Blame,
    place: usize,
    compared: &ComparedArg,
    detail: Option<&Detail>,
) -> anyhow::Result<()> {
    let arg = blame.graph.tasks[place].arg(compared.arg_index);
    let shape = arg.map_or(String::new(), |a| {
        let sizes: Vec<String> = a.shape.iter().map(u64::to_string).collect();
        format!(", {} {}", a.dtype, sizes.join("x"))
    });
    let when = match compared.stage {
        DumpStage::BeforeDispatch => "before the task",
        DumpStage::AfterCompletion => "after the task",
    };
    let (index, evidence) = (compared.arg_index, evidence(&compared.outcome));
    writeln!(out, "  argument {index} {when}{shape}: {evidence} (rule: {})", rule_text(&compared.rule))?;
    if let Some(detail) = detail {
        for line in detail_lines(detail) {
            writeln!(out, "    {line}")?;
        }
    }
    Ok(())
}

/// Where its inputs came from.
fn given(blame: &Blame, place: usize) -> String {
    let task = &blame.graph.tasks[place];
    let inputs: Vec<String> = task
        .inputs()
        .filter(|a| !a.is_scalar())
        .map(|arg| {
            let mut from: Vec<String> =
                arg.origin.sources.iter().map(|s| short_task(blame.graph.tasks[s.task].task_id)).collect();
            from.dedup();
            let from = if from.is_empty() { "no task".into() } else { from.join(", ") };
            format!("argument {} from {from}", arg.arg_index)
        })
        .collect();
    if inputs.is_empty() { "given: no tensors".into() } else { format!("given: {}", inputs.join("; ")) }
}

fn links(blame: &Blame, chain: &[usize]) -> String {
    let named = |places: &[usize]| -> Vec<String> { places.iter().map(|&p| name(blame, p)).collect() };
    if chain.len() <= LINKS {
        return named(chain).join(" -> ");
    }
    let (head, tail) = (&chain[..LINKS / 2], &chain[chain.len() - LINKS / 2..]);
    let between = counted((chain.len() - LINKS) as u64, "task");
    format!("{} -> {between} -> {}", named(head).join(" -> "), named(tail).join(" -> "))
}

fn write_tasks(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let blame = report.blame;
    let listed: Vec<usize> =
        (0..blame.findings.len()).filter(|&p| report.all || blame.findings[p].label != Label::Ok).collect();
    if listed.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\ntasks in dependency order{}:",
        if report.all { "" } else { ", without those that are ok" }
    )?;
    let most = if report.all { listed.len() } else { LISTED };
    for &place in listed.iter().take(most) {
        let finding = &blame.findings[place];
        let label = finding.label.name();
        let detail = if finding.race.is_some() || finding.reason.is_some() {
            why(blame, finding)
        } else {
            String::new()
        };
        writeln!(out, "{}", format!("  {label:<10}  {:<36}  {detail}", name(blame, place)).trim_end())?;
    }
    if listed.len() > most {
        writeln!(
            out,
            "  and {} (--all lists every task)",
            counted((listed.len() - most) as u64, "further task")
        )?;
    }
    Ok(())
}

fn write_unmatched(out: &mut dyn Write, blame: &Blame) -> anyhow::Result<()> {
    let Some(golden) = &blame.golden else { return Ok(()) };
    let all = &blame.matching.only_second;
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ntasks of the golden without a partner:")?;
    for unmatched in all.iter().take(LISTED) {
        let task = &golden.tasks[unmatched.task];
        writeln!(out, "  task {}: {}", short_task(task.task_id), printable(&unmatched.reason))?;
    }
    if all.len() > LISTED {
        writeln!(out, "  and {}", counted((all.len() - LISTED) as u64, "further task"))?;
    }
    Ok(())
}
