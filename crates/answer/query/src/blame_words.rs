//! Texts for labels, of one task and of a whole dump. Shared by terminal, report and pages.

use tensortap::analysis::blame::{BaselineKind, Blame, StopKind, StoppedTask};
use tensortap::analysis::labels::{Label, RaceKind};

use crate::number::{counted, counted_in, grouped};
use crate::observed::not_decided;
use crate::summary::in_flight_words;
use crate::words::{arg_words, counted_names, kernels_text, printable, step_task, task_reference};

/// Maximum number of kernels in a list.
const KERNELS: usize = 8;

/// `task 0x6 (gather) was refused by the driver with status -54, but ran in the golden`.
#[must_use]
pub fn stopped_words(blame: &Blame, stopped: &StoppedTask) -> String {
    let task = blame.graph.task(stopped.task);
    match &stopped.how {
        StopKind::Refused { called, status } => {
            let id = step_task(task.step, task.task_id);
            let golden =
                if stopped.ended_in_golden { "but ran in the golden" } else { "and is not in the golden" };
            format!(
                "task {id} ({}) was refused by the driver with status {status}, {golden}",
                printable(called)
            )
        }
        StopKind::NeverEnded => {
            let golden =
                if stopped.ended_in_golden { "but ended in the golden" } else { "and is not in the golden" };
            format!("{} never ended: it was running when the run ended, {golden}", name(blame, stopped.task))
        }
        StopKind::FailedAgain(reason) => {
            format!("{} failed when it ran again: {}", name(blame, stopped.task), printable(reason))
        }
    }
}

/// Describes a missing order: `task 0x6 (gather) cannot be judged: in both recordings, nothing orders it with task 0x5
/// (scale), which changed the same memory (argument 0 (y))`. That is no proof of a race: the program may have an order
/// that was not recorded.
#[must_use]
pub fn likely_words(blame: &Blame, place: usize) -> String {
    let finding = &blame.findings[place];
    let Some(race) = finding.likely_race else { return String::new() };
    let argument = finding.arg_index.map_or("memory".into(), |at| arg_words(blame.graph.task(place), at));
    let in_golden = |place: usize| {
        blame.golden.as_ref().map_or_else(String::new, |golden| task_reference(golden.task(place)))
    };
    if race.is_of_golden {
        let own = blame.matching.partner[place].map_or_else(String::new, in_golden);
        return format!(
            "{} cannot be judged: in the golden, nothing orders its {own} with its {}, which changed the same memory ({argument})",
            name(blame, place),
            in_golden(race.other)
        );
    }
    let (task, other) = (name(blame, place), name(blame, race.other));
    let where_else =
        if race.is_in_both { "in both recordings, nothing" } else { "unlike in the golden, nothing" };
    format!(
        "{task} cannot be judged: {where_else} orders it with {other}, which changed the same memory ({argument})"
    )
}

/// The kernels of a task and, if known, which of them is wrong: `turn+fold+step in fold`.
pub(crate) fn inside(blame: &Blame, place: usize) -> String {
    match blame.identified_kernels(place) {
        Some(names) => format!("{} in {}", kernels(blame, place), kernels_text(names)),
        None => kernels(blame, place),
    }
}

/// Tasks counted by kernel: `softmax 28, pv 2`.
#[must_use]
pub fn by_kernel(blame: &Blame, places: &[usize]) -> String {
    counted_names(places.iter().map(|&place| inside(blame, place)), KERNELS)
}

/// Lines about further tasks at which an error began, one for each label and each other task of a race: `1 more task is
/// wrong although its inputs are right: pv 1`, `2 more tasks raced with task 0x0 (add), which had not completed: mul 2`.
#[must_use]
pub fn more_lines(blame: &Blame, places: &[usize]) -> Vec<String> {
    let race = |place: usize| blame.findings[place].race.as_ref().map(|race| (race.other, race.kind));
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &place in places {
        let is_like = |group: &&mut Vec<usize>| {
            blame.findings[group[0]].label == blame.findings[place].label && race(group[0]) == race(place)
        };
        match groups.iter_mut().find(is_like) {
            Some(group) => group.push(place),
            None => groups.push(vec![place]),
        }
    }
    let line = |group: &Vec<usize>| {
        let is_one = group.len() == 1;
        let tasks = counted_in(group.len() as u64, "more task", "more tasks");
        let what = match (blame.findings[group[0]].label, race(group[0])) {
            (Label::WrongHere, _) if is_one => "is wrong although its inputs are right".into(),
            (Label::WrongHere, _) => "are wrong although their inputs are right".into(),
            (Label::Fed, None) if is_one => "was fed a wrong input".into(),
            (Label::Fed, None) => "were fed a wrong input".into(),
            (_, Some((other, kind))) => race_words(kind, &name(blame, other)),
            (label, None) => label_phrase(label).into(),
        };
        format!("{tasks} {what}: {}", by_kernel(blame, group))
    };
    groups.iter().map(line).collect()
}

/// The other task of a race, and the missing order: `raced with task 0x0 (add), which had not completed`.
fn race_words(kind: RaceKind, other: &str) -> String {
    match kind {
        RaceKind::ReadTooEarly => format!("raced with {other}, which had not completed"),
        RaceKind::Overwritten => format!("raced with {other}, which ran out of order"),
        RaceKind::Unordered => format!("raced with {other}, because nothing orders them"),
        RaceKind::Overlapped => format!("raced with {other}, which ran at the same time"),
    }
}

/// The verb phrase of a label.
#[must_use]
pub const fn label_phrase(label: Label) -> &'static str {
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

/// `task 0x100000002 (layer 1/attention / k_proj: project_bf16)`.
#[must_use]
pub fn name(blame: &Blame, place: usize) -> String {
    task_reference(blame.graph.task(place))
}

/// The kernels of a task.
#[must_use]
pub fn kernels(blame: &Blame, place: usize) -> String {
    kernels_text(&blame.graph.task(place).kernel_names())
}

/// The label of a task with its reason: `raced: it raced with task 0x2 (mul): …`.
#[must_use]
pub fn label_words(blame: &Blame, place: usize) -> String {
    let finding = &blame.findings[place];
    let label = finding.label.name();
    match (&finding.race, &finding.reason) {
        (None, None) => label.into(),
        (None, Some(reason)) => format!("{label}: {}", printable(reason)),
        (Some(_), _) => format!("{label}: it {}", why(blame, place)),
    }
}

/// What happened at a task, and the reason.
#[must_use]
pub fn why(blame: &Blame, place: usize) -> String {
    let finding = &blame.findings[place];
    let mut words: String = label_phrase(finding.label).into();
    if let Some(race) = &finding.race {
        let other = name(blame, race.other);
        let task = blame.graph.task(place);
        let argument = finding.arg_index.map_or("an argument".into(), |index| arg_words(task, index));
        words += &match race.kind {
            RaceKind::ReadTooEarly => {
                format!(" with {other}: {argument} was read before that task completed")
            }
            RaceKind::Overwritten => {
                format!(" with {other}, which ran out of order and overwrote {argument}")
            }
            RaceKind::Unordered => format!(
                " with {other}: nothing orders the two (the golden orders them), and that task may have written {argument}"
            ),
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

/// Number of tasks per label: `1 wrong_here, 4 ok`.
#[must_use]
pub fn label_counts(blame: &Blame) -> String {
    let counts = Label::ALL.iter().map(|&label| (label, blame.count(label))).filter(|(_, count)| *count > 0);
    let words = counts.map(|(label, count)| format!("{} {}", grouped(count as u64), label.name()));
    words.collect::<Vec<_>>().join(", ")
}

/// Remarks that qualify the labels.
#[must_use]
pub fn remarks(blame: &Blame) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(gap) = &blame.graph.gap {
        remarks.push(format!("the dump is incomplete: {gap}"));
    }
    remarks.extend(in_flight_words(&blame.graph));
    remarks.extend(not_decided(&blame.graph));
    if blame.gone() > 0 {
        let gone = counted(blame.gone(), "record");
        remarks.push(format!("{gone} left the dump while the run continued; their tasks are unknown"));
    }
    if !blame.agreed_live.is_empty() {
        let tasks = counted(blame.agreed_live.len() as u64, "task");
        remarks.push(format!(
            "{tasks} matched the golden during the run, so their content was not kept: they are ok by that golden, not by references"
        ));
    }
    let rest_on_edges = blame.findings.iter().filter(|f| f.rests_on_edges()).count();
    if rest_on_edges > 0 {
        let labels = counted_in(rest_on_edges as u64, "label is based", "labels are based");
        remarks.push(format!("{labels} on the edges of the dump, because only outputs were captured"));
    }
    let derived = blame.findings.iter().filter(|f| f.rests_on_producers).count();
    if derived > 0 {
        let labels = counted_in(derived as u64, "label is based", "labels are based");
        let lacking = if blame.basis == BaselineKind::Golden { "not in the golden" } else { "not captured" };
        remarks.push(format!(
            "{labels} on what the producers of inputs wrote, because those inputs are {lacking}"
        ));
    }
    let set_aside = blame.findings.iter().filter(|f| !f.set_aside.is_empty()).count();
    if set_aside > 0 {
        let tasks = counted(set_aside as u64, "task");
        remarks.push(format!(
            "set aside: in-out arguments of {tasks} that differ, have no producer and were not changed"
        ));
    }
    remarks
}

/// The source of an input that no task wrote.
pub const NO_TASK: &str = "no task";

/// The tensor inputs of a task, each with the ids of the tasks that produced it.
#[must_use]
pub fn input_sources(blame: &Blame, place: usize) -> Vec<(String, String)> {
    let task = blame.graph.task(place);
    let inputs = task.inputs().filter(|a| !a.is_scalar());
    inputs
        .map(|arg| {
            let outputs = blame.graph.producers_of(arg).iter();
            let mut from: Vec<String> = outputs
                .map(|output| blame.graph.task(output.task))
                .map(|t| step_task(t.step, t.task_id))
                .collect();
            from.dedup();
            let from = if from.is_empty() { NO_TASK.into() } else { from.join(", ") };
            (arg_words(task, arg.arg_index), from)
        })
        .collect()
}
