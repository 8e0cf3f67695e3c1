//! The verdict: what went wrong first, in one sentence.

use tensortap::DumpStage;
use tensortap::analysis::labels::Label;

use super::Known;
use super::labelled::Labelled;
use crate::blame::{Culprit, Outside};
use crate::blame_words::{self, headline, name, why};
use crate::compare_words::evidence_written;
use crate::document::{MemberReport, VerdictDocument};
use crate::kind_words::kind_words;
use crate::number::{counted, grouped};
use crate::observed::not_decided;
use crate::words::{kernels_text, printable, record_name, step_task, task_title, task_words};

pub fn verdict(labelled: &Labelled<'_>) -> VerdictDocument {
    let passes = labelled.found.passes;
    let (sentence, more) = sentence(labelled);
    let blame = labelled.found.blame;
    let records = if labelled.found.golden.is_some() { "records" } else { "outputs" };
    let compared = format!("{} of {} {records} were compared", grouped(blame.compared), grouped(blame.of));
    let remarks = more.into_iter().chain([compared]).chain(labelled.found.remarks.iter().cloned());
    let remarks = remarks.chain(blame_words::remarks(blame)).collect();
    let word = match passes {
        true => "PASS",
        false if blame.compared == 0 => VerdictDocument::NOTHING_COMPARED,
        false => "FAIL",
    };
    VerdictDocument { word, passes: Some(passes), sentence, remarks }
}

/// What went wrong first, and how many others did.
fn sentence(labelled: &Labelled<'_>) -> (String, Option<String>) {
    let headline = capital(&headline(labelled.found.blame, labelled.suspicions()));
    let is_stopped = !labelled.found.blame.stopped.is_empty();
    match labelled.found.culprits.first().filter(|_| !labelled.found.passes) {
        Some(first) if is_stopped => (headline + ".", Some(of_culprit(labelled, first))),
        Some(first) => (of_culprit(labelled, first), Some(headline)),
        None => (headline + ".", None),
    }
}

/// `Kernel softmax went wrong first, in token 0 / layer 0 (task 0x30000000c): argument 1 (weights) …`.
fn of_culprit(labelled: &Labelled<'_>, culprit: &Culprit) -> String {
    let blame = labelled.found.blame;
    let task = blame.graph.task(culprit.place);
    let id = step_task(task.step, task.task_id);
    let finding = &blame.findings[culprit.place];
    if finding.label != Label::WrongHere {
        return format!("{} {}.", capital(&name(blame, culprit.place)), why(blame, culprit.place));
    }
    let all = task.kernel_names();
    let kernel = blame.told_kernels(culprit.place).unwrap_or(&all);
    let place =
        task_title(task.scope(), task.task_name()).map_or(String::new(), |title| format!(" in {title}"));
    // What the label rests on, rather than what the task was given and left alone.
    let is_it = |outside: &&Outside| {
        outside.compared.stage == DumpStage::AfterCompletion
            && Some(outside.compared.arg_index) == finding.arg_index
    };
    let outside = culprit.outside.iter().find(is_it).or(culprit.outside.first());
    let what = outside.map(|outside| format!(": {}", outside_words(labelled, culprit, outside)));
    format!(
        "Kernel {} went wrong first,{place} (task {id}){}.",
        kernels_text(kernel),
        what.unwrap_or_default()
    )
    .replace("first, (", "first (")
}

fn outside_words(labelled: &Labelled<'_>, culprit: &Culprit, outside: &Outside) -> String {
    let graph = &labelled.found.blame.graph;
    let (task, index) = (graph.task(culprit.place), outside.compared.arg_index);
    let argument = match task.arg_name(index) {
        Some(name) => format!("{} (argument {index})", printable(name)),
        None => format!("argument {index}"),
    };
    // Of memory that a task left as it was nobody knows whether it was meant to be written.
    let is_left = task.argument(index).is_some_and(|arg| !arg.role_known && arg.is_unchanged());
    let what = match outside.compared.stage {
        DumpStage::AfterCompletion if !is_left => "its output",
        _ => "what it was given,",
    };
    match &outside.kind {
        Some(kind) => format!("{what} {argument} shows {}", kind_words(graph, kind)),
        None => format!(
            "{what} {argument} is wrong, {}",
            evidence_written(&outside.compared.outcome, &outside.unwritten)
        ),
    }
}

/// That nothing was held against the dump, and what stands out nonetheless.
pub fn not_judged(known: &Known<'_>) -> VerdictDocument {
    let summary = &known.summary;
    let sentence = match summary.flagged.first() {
        None if !known.options.measures => "Nothing was held against this dump, and its contents were not read.".into(),
        None => "Nothing was held against this dump; no output has NaN, infinities, only zeros, or values beyond float16.".into(),
        Some(first) => {
            let task = summary.graph.task(first.place);
            format!(
                "Nothing was held against this dump; {}, first {} of {}: {}.",
                match summary.flagged_count {
                    1 => "1 output stands out".into(),
                    count => format!("{} outputs stand out", grouped(count)),
                },
                record_name(&first.measured.record),
                task_words(task),
                super::flagged(known, first).what
            )
        }
    };
    let golden = "A golden or the references of its kernels tell which task went wrong.".into();
    let remarks = std::iter::once(golden).chain(not_decided(&summary.graph)).collect();
    VerdictDocument { word: "NOT JUDGED", passes: None, sentence, remarks }
}

/// The verdict over all dumps of a run.
#[must_use]
pub fn over_all(members: &[MemberReport]) -> VerdictDocument {
    let judged = members.iter().filter(|member| member.found.verdict.passes.is_some()).count();
    let failing: Vec<&MemberReport> =
        members.iter().filter(|member| member.found.verdict.passes == Some(false)).collect();
    let dumps = counted(members.len() as u64, "dump");
    let (word, passes, sentence) = match failing.first() {
        _ if judged == 0 => {
            ("NOT JUDGED", None, format!("{dumps} of one run; nothing was held against them."))
        }
        None => ("PASS", Some(true), format!("All of {dumps} are as they should be.")),
        Some(first) => {
            let count = grouped(failing.len() as u64);
            let nothing = members.iter().all(|member| member.found.verdict.compares_nothing());
            (
                if nothing { VerdictDocument::NOTHING_COMPARED } else { "FAIL" },
                Some(false),
                format!("{count} of {dumps} fail, first {}: {}", first.name, first.found.verdict.sentence),
            )
        }
    };
    VerdictDocument { word, passes, sentence, remarks: Vec::new() }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().collect::<String>() + letters.as_str())
}
