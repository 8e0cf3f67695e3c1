//! The report of a replay as text.

use tensortap::judge::Verdict;
use tensortap::{Check, Grade, LibraryKernel, Outcome, OutputReport, ReplayReport, TaskId, TaskReport};

use crate::output;
use crate::table::text::wrap;
use tensortap_query::document::{Spread, replay_verdict};
use tensortap_query::number::{counted, grouped, rate, significant, time};
use tensortap_query::printable::printable_lines;
use tensortap_query::words::{kernels_text, printable, printable_path, run_words, step_task, task_title};

/// Digits of an error, as in `blame`.
const DIGITS: usize = 4;
/// Tasks that are listed.
const LISTED: usize = 20;

/// The whole report.
pub fn of(report: &ReplayReport) -> String {
    let as_tests = report.tasks.iter().any(|t| t.case.is_some());
    if as_tests {
        return tests(report);
    }
    let mut text = head(report);
    if let [task] = report.tasks.as_slice() {
        text += &one(task);
    } else {
        text += &many(report);
    }
    text
}

fn head(report: &ReplayReport) -> String {
    let word = match replay_verdict(report) {
        "pass" => output::verdict("PASS", true),
        "none" => output::verdict("NOTHING TO REPLAY", false),
        _ if is_refused(report) => output::verdict("REFUSED", false),
        _ if report.nothing_compared() => output::verdict("FAIL: nothing was compared", false),
        _ => output::verdict("FAIL", false),
    };
    let mut text = format!("replay of {}: {word}\n", report.source);
    match report.tasks.first() {
        Some(_) if is_refused(report) => text += "  check      none: no task was run\n",
        Some(TaskReport { check: Check::Captured, .. }) if report.nothing_compared() => {
            text += "  check      none: the capture has no outputs to compare";
            text += if report.has_references {
                "; --reference compares with the kernels' references\n"
            } else {
                "\n"
            };
        }
        Some(task) => {
            let remedy = if task.check == Check::Captured && report.has_references {
                if report.passed() {
                    "; --reference checks whether that is right"
                } else {
                    "; --reference checks whether it is right"
                }
            } else {
                ""
            };
            text += &format!("  check      {}{remedy}\n", meaning(task.check, report.passed()));
        }
        None => {}
    }
    let (scenes, on) = (report.scenes.join(", "), report.replayed_on.join(", "));
    let captured = report.captured_on.join(", ");
    text += &format!("  scene      {scenes}, captured on {captured}");
    text += &if on.is_empty() || on == captured { "\n".into() } else { format!(", replayed on {on}\n") };
    match &report.inject_fault {
        fault if report.of_dump && report.has_references => {
            text += &wrapped("captured", &run_words(report.golden, fault.as_deref()))
        }
        Some(fault) => {
            text += &wrapped("captured", &format!("with the injected fault {}", printable(fault)));
        }
        None => {}
    }
    for LibraryKernel { name, library, build_id, .. } in &report.library_kernels {
        let library = printable_path(library);
        text += &wrapped("kernel", &format!("{} from {library}, {build_id}", printable(name)));
    }
    text
}

/// Whether all tasks were refused.
fn is_refused(report: &ReplayReport) -> bool {
    !report.tasks.is_empty() && report.tasks.iter().all(|task| matches!(task.outcome, Outcome::Refused(_)))
}

/// The meaning of the verdict.
fn meaning(check: Check, passed: bool) -> &'static str {
    match (check, passed) {
        (Check::Captured, true) => "reproduces the captured outputs",
        (Check::Captured, false) => "does not reproduce the captured outputs",
        (Check::Reference, true) => "agrees with the f64 references of its kernels",
        (Check::Reference, false) => "does not agree with the f64 references of its kernels",
        (Check::CaseReference, true) => "agrees with the reference outputs of the case",
        (Check::CaseReference, false) => "does not agree with the reference outputs of the case",
    }
}

/// What several cases are compared with.
fn compared_with(report: &ReplayReport) -> String {
    let kinds = [
        (Check::Captured, "the captured outputs"),
        (Check::Reference, "the f64 references of their kernels"),
        (Check::CaseReference, "their reference outputs"),
    ];
    let counted =
        kinds.map(|(check, words)| (report.tasks.iter().filter(|t| t.check == check).count(), words));
    let words: Vec<String> = match counted.iter().filter(|(count, _)| *count > 0).collect::<Vec<_>>()[..] {
        [(_, words)] => vec![format!("compared with {words}")],
        ref several => {
            several.iter().map(|(count, words)| format!("{count} compared with {words}")).collect()
        }
    };
    words.join(", ")
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn many(report: &ReplayReport) -> String {
    let count = |is: fn(&Outcome) -> bool| grouped(report.count(is) as u64);
    let tasks = report.tasks.len();
    let per_s = tasks as f64 / report.wall.as_secs_f64().max(1e-9);
    let mut text = format!(
        "  tasks      {}, {} bit-exact, {} within rule, {} failed, {} refused",
        grouped(tasks as u64),
        count(|o| *o == Outcome::BitExact),
        count(|o| *o == Outcome::WithinRule),
        count(|o| matches!(o, Outcome::Failed(_))),
        count(|o| matches!(o, Outcome::Refused(_))),
    );
    let unchecked = report.count(|o| matches!(o, Outcome::Unchecked(_)));
    if unchecked > 0 {
        text += &format!(", {} unchecked", grouped(unchecked as u64));
    }
    text += &format!("\n  time       {}, {} tasks/s\n", time(report.wall), rate(per_s));
    let inexact = report.tasks.iter().filter(|t| t.grade() != Grade::Exact && t.runs > 0).count();
    if inexact > 0 {
        text += &format!(
            "  fidelity   {} with arguments that differ from the capture\n",
            counted(inexact as u64, "task")
        );
    }
    let listed: Vec<&TaskReport> =
        report.tasks.iter().filter(|t| t.outcome.reason().is_some() || t.nondeterministic()).collect();
    for task in listed.iter().take(LISTED) {
        let reason = task.outcome.reason().unwrap_or("its results differ between runs");
        text += &wrapped(task.outcome.name(), &format!("{}: {reason}", short_name(task)));
    }
    if listed.len() > LISTED {
        text += &format!("  and {} more; --json lists all\n", grouped((listed.len() - LISTED) as u64));
    }
    if report.tasks.iter().any(|t| t.timing.is_some()) {
        report.tasks.iter().take(LISTED).for_each(|task| text += &timing(task));
    }
    if tasks == 0 {
        text += "  no task was selected\n";
    }
    text
}

fn one(task: &TaskReport) -> String {
    let mut text = format!("  task       {}, {}\n", TaskId(task.task_id), kernels_text(&task.kernels));
    if let Some(title) = title(task) {
        text += &wrapped("name", &title);
    }
    let reason = task.outcome.reason().map_or_else(String::new, |reason| format!(": {reason}"));
    text += &wrapped("outcome", &format!("{}{reason}", task.outcome.name()));
    if let Some(placement) = task.placement {
        text += &format!("  placement  {} addresses\n", placement.name());
    }
    for output in &task.outputs {
        let (compared, elements) = (grouped(output.compared), grouped(output.elements));
        let state = if task.check != Check::Captured {
            of_reference(output)
        } else if output.bitexact() {
            "bit-exact".into()
        } else {
            let error = significant(output.max_abs_err, DIGITS);
            format!("{} differ, max error {error}", grouped(output.different))
        };
        text += &format!(
            "  {:<10} {compared} of {elements} {} compared, {state}\n",
            format!("argument {}", output.arg_index),
            output.dtype
        );
    }
    for arg in task.args.iter().filter(|a| a.grade != Grade::Exact) {
        let reason = arg.reason.as_deref().unwrap_or("differs from the capture");
        let argument = format!("argument {}", arg.arg_index);
        text += &wrapped(&argument, &format!("{}: {reason}", arg.grade.name()));
    }
    if task.runs > 1 {
        let results = match task.distinct_results {
            1 => "all with the same result".into(),
            n => format!("{n} different results: the kernel is not deterministic"),
        };
        text += &format!("  runs       {}, {results}\n", task.runs);
    }
    text + &timing(task)
}

/// `task 0x100000002, mul (layer 1 / gate)`.
fn short_name(task: &TaskReport) -> String {
    let title = title(task).map_or_else(String::new, |title| format!(" ({title})"));
    format!("task {}, {}{title}", step_task(task.step, task.task_id), kernels_text(&task.kernels))
}

/// Scope and name of the task.
fn title(task: &TaskReport) -> Option<String> {
    task_title(task.scope.as_deref(), task.task_name.as_deref())
}

/// A line with a label, wrapped if it is too long.
fn wrapped(name: &str, text: &str) -> String {
    lines(&format!("  {name:<10} "), text)
}

/// Width in a pipe or file, as in help texts.
const COLUMNS: usize = 100;
/// Narrowest width.
const LEAST_COLUMNS: usize = 40;

/// A text after a label, wrapped so that every line starts under the first word.
fn lines(label: &str, text: &str) -> String {
    let columns = output::terminal_width().unwrap_or(COLUMNS).max(LEAST_COLUMNS);
    let indent = label.chars().count();
    let rows = wrap(&printable_lines(text), columns.saturating_sub(indent), 0);
    label.to_owned() + &rows.join(&format!("\n{:indent$}", "")) + "\n"
}

fn of_reference(output: &OutputReport) -> String {
    let state = match output.verdict() {
        Verdict::Within => "within rule".into(),
        Verdict::Unknown => "nothing compared".into(),
        Verdict::Outside => format!("{} outside the rule", grouped(output.outside)),
    };
    format!("{state}, max error {}", significant(output.max_abs_err, DIGITS))
}

fn timing(task: &TaskReport) -> String {
    let Some(timing) = &task.timing else { return String::new() };
    let mut text = String::new();
    for (what, times) in [("kernel", &timing.kernel), ("launch", &timing.launch)] {
        let Spread { median, least, most, middle_half } = Spread::of(times);
        text += &format!(
            "  {what:<10} median {median:.1?} of {} runs, half of them within {middle_half:.1?}, range {least:.1?} to {most:.1?}\n",
            times.len()
        );
    }
    text
}

/// One line for each case, like `cargo test`.
fn tests(report: &ReplayReport) -> String {
    let cases = counted(report.tasks.len() as u64, "case");
    let mut text = format!("replaying {cases}: {}\n", compared_with(report));
    for task in &report.tasks {
        let case = task.case.as_deref().unwrap_or("?");
        let good = task.outcome.passed() && !task.nondeterministic();
        let word = match &task.outcome {
            Outcome::Refused(_) => output::verdict("refused", false),
            Outcome::Unchecked(_) => "not checked".into(),
            _ if good => output::verdict("ok", true),
            _ => output::verdict("FAILED", false),
        };
        text += &format!("test {} ... {word}\n", printable(case));
    }
    for task in report.tasks.iter().filter(|t| t.outcome.reason().is_some()) {
        text += &format!("\n---- {} ----\n", printable(&task.name()));
        text += &lines("", task.outcome.reason().unwrap_or_default());
    }
    let word = output::verdict(if report.passed() { "ok" } else { "FAILED" }, report.passed());
    let failed = report.count(|o| matches!(o, Outcome::Failed(_)));
    let refused = report.count(|o| matches!(o, Outcome::Refused(_)));
    text += &format!(
        "\ntest result: {word}. {} passed; {failed} failed; {refused} refused; {} not checked; finished in {}\n",
        report.count(Outcome::passed),
        report.count(|o| matches!(o, Outcome::Unchecked(_))),
        time(report.wall),
    );
    text
}
