//! The verdict on a comparison: PASS or FAIL, and the earliest cause in one sentence. The command, the report,
//! the page and test suites all show this sentence.

use tensortap::analysis::blame::{BaselineKind, Blame, FailureReason, WiringChange};
use tensortap::analysis::labels::Label;
use tensortap::analysis::ranks::RunVerdict;
use tensortap::format::{Dump, Footer, Status};
use tensortap::judge::Evidence;

use crate::blame::{BlameReport, roots};
use crate::blame_words::{by_kernel, inside, label_phrase, likely_words, name, stopped_words};
use crate::document::VerdictDocument;
use crate::number::{counted, counted_in, grouped};
use crate::summary::{early_end, in_flight_words, program_ended};
use crate::words::{arg_words, kernels_text, printable, stage_phrase, task_reference};

/// The word for a verdict that a missing rank could change.
pub(crate) const UNDECIDED: &str = "UNDECIDED";

/// The verdict of a report. `more` are remarks that come first.
pub(crate) fn document(report: &BlameReport<'_>, more: Vec<String>) -> VerdictDocument {
    let verdict = &report.verdict;
    let word = match report.run_verdict() {
        RunVerdict::Pass => "PASS",
        RunVerdict::Undecided => UNDECIDED,
        RunVerdict::Fail if report.blame.compared == 0 => VerdictDocument::NOTHING_COMPARED,
        RunVerdict::Fail => "FAIL",
    };
    VerdictDocument {
        word,
        passes: Some(report.passes()),
        failure: verdict.failure.map(FailureReason::name),
        sentence: report.headline(),
        judged: verdict.judged,
        judged_of: verdict.of,
        remarks: more.into_iter().chain(report.all_remarks()).collect(),
    }
}

/// The verdict in one sentence, without PASS or FAIL. Tasks that were refused or never ended come first, because
/// later errors may follow from them.
pub(crate) fn headline(report: &BlameReport<'_>) -> String {
    let blame = report.blame;
    match report.verdict.failure {
        None => nothing_found(report),
        Some(FailureReason::Stopped) => stopped(blame),
        Some(FailureReason::Outside) => cause(blame).unwrap_or_else(|| first_outside(report)),
        Some(FailureReason::Crashed) => crashed(blame),
        Some(FailureReason::Undecided) => first_open(report),
        Some(FailureReason::NothingJudged) => nothing_judged(report),
        Some(FailureReason::Orchestration) => {
            "the run's own golden failed, but every kernel matches its reference: suspect the orchestration"
                .into()
        }
        Some(FailureReason::KernelsWithoutReference) => format!(
            "the run's own golden failed, but every kernel with a reference matches it: suspect the kernels without one: {}",
            by_kernel(blame, &blame.unjudged)
        ),
        Some(FailureReason::Unmatched) => {
            format!("{}, and --strict requires a counterpart", unmatched_words(blame).unwrap_or_default())
        }
        Some(FailureReason::Unjudged) => {
            let unjudged = counted(unjudged(report) as u64, "task");
            format!("{unjudged} could not be judged, and --strict requires it: {}", first_unknown(blame))
        }
    }
}

fn stopped(blame: &Blame) -> String {
    let Some(first) = blame.stopped.first() else { return String::new() };
    let more = match blame.stopped.len() - 1 {
        0 => String::new(),
        more => format!(" (and {} more)", grouped(more as u64)),
    };
    let rest = cause(blame).map_or_else(String::new, |cause| format!("; {cause}"));
    format!("{}{more}{rest}", stopped_words(blame, first))
}

/// The earliest cause, if a task can be named.
fn cause(blame: &Blame) -> Option<String> {
    let roots = roots(blame);
    let Some(&first) = blame.first_wrong.first() else {
        return blame.likely_race().map(|place| likely_words(blame, place));
    };
    let first =
        format!("{} {}{}", name(blame, first), label_phrase(blame.findings[first].label), more(blame, first));
    Some(if roots.len() == 1 { first } else { format!("{first}; in all, {}", groups(blame, &roots)) })
}

/// The first record outside its rule, if no task can be named as the cause.
fn first_outside(report: &BlameReport<'_>) -> String {
    let blame = report.blame;
    let Some((place, at)) = report.verdict.first_outside else {
        return "not every task could be judged".into();
    };
    let record = &blame.compared_args[place][at];
    let argument = arg_words(blame.graph.task(place), record.arg_index);
    let finding = &blame.findings[place];
    let why = match (finding.label, finding.reason.as_deref()) {
        (Label::Unknown, Some(reason)) => format!(": {}", printable(reason)),
        _ => String::new(),
    };
    format!(
        "{argument} of {} is outside its rule {}, but no task can be named as the cause{why}",
        name(blame, place),
        stage_phrase(record.stage)
    )
}

/// The first record that may count.
fn first_open(report: &BlameReport<'_>) -> String {
    let blame = report.blame;
    let Some((place, at)) = report.verdict.first_outside else { return String::new() };
    let record = &blame.compared_args[place][at];
    let argument =
        format!("{} of {}", arg_words(blame.graph.task(place), record.arg_index), name(blame, place));
    let finding = &blame.findings[place];
    if let Evidence::Damaged(damage) = &record.outcome.evidence {
        return format!("{argument} differs, but its content cannot be compared: {}", printable(damage));
    }
    match finding.reason.as_deref().filter(|_| finding.label == Label::Unknown) {
        Some(why) => format!(
            "{argument} differs after the task, but it is not known whether a task wrote something wrong there: {}",
            printable(why)
        ),
        None => format!(
            "{argument} differs after the task, but content before tasks was not recorded, so it is not known whether the \
             task wrote it; record both runs with content before and after tasks"
        ),
    }
}

fn crashed(blame: &Blame) -> String {
    let how = match blame.run.crash {
        Some(Status::Stalled) => "hung",
        _ => "crashed",
    };
    let unlike = if blame.golden.is_some() { ", unlike the golden" } else { "" };
    let tasks = in_flight_words(&blame.graph).map_or_else(String::new, |tasks| format!(": {tasks}"));
    format!("the run {how}{unlike}{tasks}")
}

fn nothing_judged(report: &BlameReport<'_>) -> String {
    let blame = report.blame;
    match report.other_scene.as_deref() {
        Some(other) if blame.compared == 0 => format!("nothing could be compared: {other}"),
        _ if blame.compared == 0 => "nothing could be compared".into(),
        _ => format!("no task could be judged: {}", first_unknown(blame)),
    }
}

/// The first task that could not be judged, with the reason.
fn first_unknown(blame: &Blame) -> String {
    let mut unknown: Vec<usize> =
        (0..blame.findings.len()).filter(|&place| blame.findings[place].label == Label::Unknown).collect();
    blame.graph.sort(&mut unknown);
    let Some(&first) = unknown.first() else { return "the dump has no tasks".into() };
    let reason = blame.findings[first].reason.as_deref().unwrap_or("the capture is not sufficient");
    format!("{}: {}", name(blame, first), printable(reason))
}

fn unjudged(report: &BlameReport<'_>) -> usize {
    report.verdict.of - report.verdict.judged
}

/// `2 tasks are only in the dump, 1 task is only in the golden`. `None` if everything has a counterpart.
fn unmatched_words(blame: &Blame) -> Option<String> {
    let matching = &blame.matching;
    let is_files = blame.golden.is_none() && blame.basis == BaselineKind::Golden;
    let here = if is_files {
        ["task has no array", "tasks have no array"]
    } else {
        ["task is only in the dump", "tasks are only in the dump"]
    };
    let kinds = [
        (matching.only_first.len(), here),
        (matching.only_second.len(), ["task is only in the golden", "tasks are only in the golden"]),
        (
            blame.unused_arrays().len(),
            ["array of the golden matches no record", "arrays of the golden match no record"],
        ),
    ];
    let words = kinds.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = words.map(|&(count, [one, many])| counted_in(count as u64, one, many)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The remark about tasks of only one run. They do not make the verdict fail, because an error in what they
/// wrote shows in the records that both runs have.
pub(crate) fn unmatched_remark(blame: &Blame) -> Option<String> {
    blame.golden.as_ref()?;
    unmatched_words(blame).map(|words| format!("{words}; they were not compared (--strict makes this fail)"))
}

/// The remark about a run that did not complete, or about the exit status of its program. The verdict depends on
/// captured content and tasks, so an exit status never makes it fail.
pub(crate) fn end_remark(dump: &Dump) -> Option<String> {
    let has_left = dump.footer().is_some_and(Footer::process_left_early);
    let is_exit =
        |words: &str| words.contains("exited with status") && dump.status() != Some(Status::Complete);
    match early_end(dump) {
        Some(words) if has_left && is_exit(&words) => {
            Some(format!("{words}; an exit status is not part of the verdict"))
        }
        Some(words) => Some(words),
        None => program_ended(dump)
            .map(|ended| format!("{ended} after its session was closed; this is not part of the verdict")),
    }
}

/// The sentence of a PASS.
fn nothing_found(report: &BlameReport<'_>) -> String {
    let blame = report.blame;
    let all = unjudged(report) == 0;
    let (good, lacks) = match blame.basis {
        BaselineKind::Golden | BaselineKind::References => {
            (if all { "no task is wrong" } else { "no judged task is wrong" }, "no reference")
        }
        BaselineKind::Rerun => (
            "every output is reproduced (this does not show that they are right)",
            "no kernel from a library",
        ),
    };
    let launches_nothing = |&place: &usize| blame.graph.task(place).kernel_names().is_empty();
    let (idle, lacking): (Vec<usize>, Vec<usize>) =
        blame.unjudged.iter().copied().partition(launches_nothing);
    let mut text = good.to_owned();
    if !lacking.is_empty() {
        let tasks = counted_in(lacking.len() as u64, "task has", "tasks have");
        text += &format!("; {tasks} {lacks}: {}", by_kernel(blame, &lacking));
    }
    if !idle.is_empty() {
        let tasks = counted_in(idle.len() as u64, "task launches", "tasks launch");
        text += &format!("; {tasks} no kernel");
    }
    let judged = format!(
        "judged {} of {}",
        grouped(report.verdict.judged as u64),
        counted(report.verdict.of as u64, "task")
    );
    format!("{text}; {judged}")
}

/// Details of a wrong task: the other task of a race, or the wrong kernels of a mix task.
pub(crate) fn more(blame: &Blame, place: usize) -> String {
    match (&blame.findings[place].race, blame.identified_kernels(place)) {
        (Some(race), _) => format!(" with {}", name(blame, race.other)),
        (None, Some(names)) => format!(", in {}", kernels_text(names)),
        (None, None) => missing_or_more(blame, place).unwrap_or_default(),
    }
}

/// For a task that got an input from a different task than in the golden: the launch that is missing or
/// additional. For a task without a kernel, such as a copy from the host, or with another scalar: the reason.
fn missing_or_more(blame: &Blame, place: usize) -> Option<String> {
    let finding = Some(&blame.findings[place]).filter(|finding| finding.label == Label::Fed)?;
    let (golden, task) = (blame.golden.as_ref()?, blame.graph.task(place));
    let source = blame.wiring.iter().find_map(|difference| match &difference.what {
        WiringChange::Source { arg_index, dump, golden }
            if difference.task == place && Some(*arg_index) == finding.arg_index =>
        {
            Some((dump, golden))
        }
        _ => None,
    });
    let observed = source.filter(|_| blame.graph.observations().is_some());
    if let Some((dump, there)) = observed {
        let partner = &blame.matching.partner;
        if let Some(more) = dump.iter().find(|output| partner[output.task].is_none()) {
            return Some(format!(": {} before it is not in the golden", name(blame, more.task)));
        }
        if let Some(missing) = there.iter().find(|output| !partner.contains(&Some(output.task))) {
            return Some(format!(
                ": {} of the golden is missing before it",
                task_reference(golden.task(missing.task))
            ));
        }
    }
    let is_scalar = || finding.arg_index.and_then(|at| task.argument(at)).is_some_and(|arg| arg.is_scalar());
    let reason = finding.reason.as_deref().filter(|_| task.kernel_names().is_empty() || is_scalar())?;
    blame.graph.observations().map(|_| format!(": {}", printable(reason)))
}

/// `108 tasks are wrong here, all softmax; 2 tasks raced: add 1, mul 1`, and how many of them have no wrong task
/// before them.
fn groups(blame: &Blame, roots: &[usize]) -> String {
    let groups = [Label::WrongHere, Label::Raced, Label::Fed].into_iter().filter_map(|label| {
        let places: Vec<usize> =
            roots.iter().copied().filter(|&place| blame.findings[place].label == label).collect();
        let (first, tasks) = (*places.first()?, counted(places.len() as u64, "task"));
        let verb = match (label, places.len()) {
            (Label::WrongHere, 2..) => "are wrong here",
            (Label::Fed, 2..) => "were fed a wrong input",
            _ => label_phrase(label),
        };
        let same = places.iter().all(|&place| inside(blame, place) == inside(blame, first));
        Some(match (same, places.len()) {
            (true, 1) => format!("{tasks} {verb}: {}", inside(blame, first)),
            (true, _) => format!("{tasks} {verb}, all {}", inside(blame, first)),
            (false, _) => format!("{tasks} {verb}: {}", by_kernel(blame, &places)),
        })
    });
    let groups = groups.collect::<Vec<_>>().join("; ");
    match blame.first_wrong.len() {
        1 => format!("{groups}; only the first has no wrong task before it"),
        first if first == roots.len() => groups,
        first => format!("{groups}; {} of them have no wrong task before them", grouped(first as u64)),
    }
}
