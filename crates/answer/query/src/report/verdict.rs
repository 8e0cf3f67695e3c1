//! The verdict of a report: what went wrong first, in one sentence.

use tensortap::DumpStage;
use tensortap::analysis::labels::Label;
use tensortap::analysis::ranks::RunVerdict;

use super::ReportContext;
use super::labeled::LabeledTasks;
use crate::blame::{Culprit, OutsideRecord};
use crate::blame_words::{name, why};
use crate::compare_words::evidence_written;
use crate::document::{MemberReport, VerdictDocument};
use crate::kind_words::kind_words;
use crate::number::{counted, grouped};
use crate::observed::not_decided;
use crate::run_blame::RunBlame;
use crate::verdict::UNDECIDED;
use crate::words::{capital, kernels_text, printable, record_name, step_task, task_title, task_words};

/// The verdict of a labeled dump. The first remark describes what is wrong with the first wrong task.
pub fn verdict(labeled: &LabeledTasks<'_>) -> VerdictDocument {
    let found = &labeled.found;
    let culprit = found.culprits.first().filter(|_| !found.passes());
    let records = if found.golden.is_some() { "records" } else { "outputs" };
    let (compared, of) = (grouped(found.blame.compared), grouped(found.blame.of));
    let compared = format!("{compared} of {of} {records} were compared");
    let more = culprit.map(|culprit| of_culprit(labeled, culprit)).into_iter().chain([compared]);
    found.verdict_document(more.collect())
}

/// `Kernel softmax went wrong first, in token 0 / layer 0 (task 0x30000000c): argument 1 (weights) …`.
fn of_culprit(labeled: &LabeledTasks<'_>, culprit: &Culprit) -> String {
    let blame = labeled.found.blame;
    let task = blame.graph.task(culprit.place);
    let id = step_task(task.step, task.task_id);
    let finding = &blame.findings[culprit.place];
    if finding.label != Label::WrongHere {
        return format!("{} {}.", capital(&name(blame, culprit.place)), why(blame, culprit.place));
    }
    let all = task.kernel_names();
    let kernel = blame.identified_kernels(culprit.place).unwrap_or(&all);
    let place =
        task_title(task.scope(), task.task_name()).map_or(String::new(), |title| format!(" in {title}"));
    // Prefer the output that decided the label over an unchanged input.
    let is_it = |outside: &&OutsideRecord| {
        outside.compared.stage == DumpStage::AfterCompletion
            && Some(outside.compared.arg_index) == finding.arg_index
    };
    let outside = culprit.outside.iter().find(is_it).or(culprit.outside.first());
    let what = outside.map(|outside| format!(": {}", outside_words(labeled, culprit, outside)));
    format!(
        "Kernel {} went wrong first,{place} (task {id}){}.",
        kernels_text(kernel),
        what.unwrap_or_default()
    )
    .replace("first, (", "first (")
}

fn outside_words(labeled: &LabeledTasks<'_>, culprit: &Culprit, outside: &OutsideRecord) -> String {
    let graph = &labeled.found.blame.graph;
    let (task, index) = (graph.task(culprit.place), outside.compared.arg_index);
    let argument = match task.arg_name(index) {
        Some(name) => format!("{} (argument {index})", printable(name)),
        None => format!("argument {index}"),
    };
    // If the role is unknown and the content unchanged, it may not be an output.
    let is_left = task.argument(index).is_some_and(|arg| !arg.role_known && arg.is_unchanged());
    let what = match outside.compared.stage {
        DumpStage::AfterCompletion if !is_left => "its output",
        _ => "its input",
    };
    match &outside.kind {
        Some(kind) => format!("{what} {argument} shows {}", kind_words(graph, kind)),
        None => format!(
            "{what} {argument} is wrong, {}",
            evidence_written(&outside.compared.outcome, &outside.unwritten)
        ),
    }
}

/// The verdict of a dump that was not compared, with unusual outputs.
pub fn not_judged(context: &ReportContext<'_>) -> VerdictDocument {
    let summary = &context.summary;
    let sentence = match summary.flagged.first() {
        None if !context.options.measures => "This dump was not compared with anything, and its contents were not read.".into(),
        None => "This dump was not compared with anything. No output has NaN, infinities, only zeros, or values beyond float16.".into(),
        Some(first) => {
            let task = summary.graph.task(first.place);
            format!(
                "This dump was not compared with anything. {}, first {} of {}: {}.",
                match summary.flagged_count {
                    1 => "1 output is unusual".into(),
                    count => format!("{} outputs are unusual", grouped(count)),
                },
                record_name(&first.measured.record),
                task_words(task),
                super::flagged(context, first).what
            )
        }
    };
    let golden =
        "Compare it with a golden or with the references of its kernels to find the task that went wrong."
            .into();
    let remarks = std::iter::once(golden).chain(not_decided(&summary.graph)).collect();
    VerdictDocument { remarks, ..VerdictDocument::without_tasks("NOT JUDGED", None, sentence) }
}

/// The verdict on a run whose ranks were judged together.
pub(super) fn over_run(members: &[MemberReport], run: &RunBlame, verdict: RunVerdict) -> VerdictDocument {
    let all = over_all(members);
    let cause = run.cause().filter(|_| verdict == RunVerdict::Fail);
    let document = match (verdict, cause) {
        (RunVerdict::Undecided, _) => VerdictDocument {
            word: UNDECIDED,
            passes: Some(false),
            sentence: capital(&run.undecided_words()) + ".",
            ..all
        },
        (_, Some(cause)) => {
            let failing = members.iter().filter(|member| member.found.verdict.passes == Some(false)).count();
            let (failing, dumps) = (grouped(failing as u64), counted(members.len() as u64, "dump"));
            let sentence = format!("{}; {failing} of {dumps} fail.", capital(&cause));
            VerdictDocument { sentence, ..all }
        }
        (_, None) => all,
    };
    VerdictDocument { remarks: run.remarks(), ..document }
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
            ("NOT JUDGED", None, format!("{dumps} of one run; none was compared with anything."))
        }
        None => ("PASS", Some(true), format!("All {dumps} pass.")),
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
    VerdictDocument::without_tasks(word, passes, sentence)
}
