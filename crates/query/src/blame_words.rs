//! What labels say, in words: of a task, and of a whole dump. The same on a terminal and on a page.

use tensortap::analysis::blame::{Basis, Blame, Rewired, StopKind, Stopped};
use tensortap::analysis::graph::TaskGraph;
use tensortap::analysis::labels::{Label, RaceKind};

use crate::blame::roots;
use crate::number::{counted, counted_in, grouped};
use crate::observed::not_decided;
use crate::summary::in_flight_words;
use crate::words::{arg_words, counted_names, kernels_text, printable, step_task, task_words};

/// Kernels that a list names.
const KERNELS: usize = 8;

/// What a dump's labels come down to, apart from them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Suspicions<'a> {
    /// Whether the verdict is good.
    pub passes: bool,
    /// The run's golden failed, and no kernel is wrong.
    pub orchestration: bool,
    /// The run's golden failed, and what has a reference is right.
    pub unjudged: bool,
    /// That the golden is of another scene.
    pub other_scene: Option<&'a str>,
}

/// The verdict in one sentence, without the word for it. What was refused or never ended comes first: what is wrong behind it may follow from
/// that.
#[must_use]
pub fn headline(blame: &Blame, suspicions: Suspicions<'_>) -> String {
    let Some(first) = blame.stopped.first() else { return verdict(blame, suspicions) };
    let more = match blame.stopped.len() - 1 {
        0 => String::new(),
        more => format!(" ({} like it)", counted_in(more as u64, "further task is", "further tasks are")),
    };
    let is_known = !blame.first_wrong.is_empty()
        || blame.suspect().or(blame.likely_race()).is_some()
        || suspicions.passes;
    let rest = is_known.then(|| format!("; {}", verdict(blame, suspicions)));
    format!("{}{more}{}", stopped_words(blame, first), rest.unwrap_or_default())
}

/// `task 0x6 (gather) was refused by the driver with status -54, and ran in the golden`.
#[must_use]
pub fn stopped_words(blame: &Blame, stopped: &Stopped) -> String {
    let task = blame.graph.task(stopped.task);
    match &stopped.how {
        StopKind::Refused { called, status } => {
            let id = step_task(task.step, task.task_id);
            let golden = if stopped.ended_in_golden { "ran in the golden" } else { "is not in the golden" };
            format!(
                "task {id} ({}) was refused by the driver with status {status}, and {golden}",
                printable(called)
            )
        }
        StopKind::NeverEnded => {
            let golden = if stopped.ended_in_golden { "ended in the golden" } else { "is not in the golden" };
            format!(
                "{} never ended: it was running when the run ended, and {golden}",
                name(blame, stopped.task)
            )
        }
    }
}

/// What labels come down to.
fn verdict(blame: &Blame, suspicions: Suspicions<'_>) -> String {
    let roots = roots(blame);
    match (blame.first_wrong.first(), roots.len()) {
        _ if suspicions.orchestration => {
            "the run's own golden failed and every kernel is right by its reference: the orchestration is suspected"
                .into()
        }
        _ if suspicions.unjudged => format!(
            "the run's own golden failed and every kernel that has a reference is right: suspect those that have none: {}",
            by_kernel(blame, &blame.unjudged)
        ),
        (None, _) if suspicions.passes => nothing_found(blame),
        (None, _) => nothing_wrong(blame, suspicions),
        (Some(&one), 1) => {
            format!("{} {}{}", name(blame, one), said(blame.findings[one].label), more(blame, one))
        }
        (Some(&first), all) => format!("{}; {}", groups(blame, &roots), where_first(blame, first, all)),
    }
}

/// What a verdict that is good rests on.
fn nothing_found(blame: &Blame) -> String {
    let (good, lacks) = match blame.basis {
        Basis::Golden | Basis::References => ("no task is wrong", "no reference"),
        Basis::Rerun => ("every output is made again", "no kernel given"),
    };
    if blame.unjudged.is_empty() {
        return good.into();
    }
    let tasks = counted_in(blame.unjudged.len() as u64, "task has", "tasks have");
    format!("{good}; {tasks} {lacks}: {}", by_kernel(blame, &blame.unjudged))
}

/// The other task of a race; the wrong kernels of a mix task.
fn more(blame: &Blame, place: usize) -> String {
    match (&blame.findings[place].race, blame.told_kernels(place)) {
        (Some(race), _) if race.kind == RaceKind::Unattributed => {
            format!(": an unattributed change since {}", name(blame, race.other))
        }
        (Some(race), _) => format!(" with {}", name(blame, race.other)),
        (None, Some(told)) => format!(", in {}", kernels_text(told)),
        (None, None) => missing_or_more(blame, place).unwrap_or_default(),
    }
}

/// Of a task that was fed something by another task than in the golden: the launch that is missing, or there once more. Of one that runs no
/// code, such as a copy from the host: why.
fn missing_or_more(blame: &Blame, place: usize) -> Option<String> {
    let finding = Some(&blame.findings[place]).filter(|finding| finding.label == Label::Fed)?;
    let (golden, task) = (blame.golden.as_ref()?, blame.graph.task(place));
    let source = blame.wiring.iter().find_map(|difference| match &difference.what {
        Rewired::Source { arg_index, dump, golden }
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
            return Some(format!(": {} of the golden is missing before it", task_of(golden, missing.task)));
        }
    }
    let reason = finding.reason.as_deref().filter(|_| task.kernel_names().is_empty())?;
    blame.graph.observations().map(|_| format!(": {}", printable(reason)))
}

/// `task 0x9 (accum)`, of a graph.
fn task_of(graph: &TaskGraph, place: usize) -> String {
    let task = graph.task(place);
    format!("task {} ({})", step_task(task.step, task.task_id), task_words(task))
}

/// Why it fails although nothing was found wrong.
fn nothing_wrong(blame: &Blame, suspicions: Suspicions<'_>) -> String {
    match suspicions.other_scene.filter(|_| blame.compared == 0) {
        Some(other) => format!("nothing could be compared: {other}"),
        None if blame.compared == 0 => "nothing could be compared".into(),
        None => match (blame.likely_race(), blame.suspect()) {
            (Some(place), _) => likely_words(blame, place),
            (None, Some(place)) => format!(
                "{} may be wrong: what is known of what it was given is right, and what it left is not",
                name(blame, place)
            ),
            (None, None) => "not every task could be judged".into(),
        },
    }
}

/// `task 0x6 (gather) and task 0x5 (scale) likely race for argument 0 (y): nothing orders the two, in the golden neither`.
#[must_use]
pub fn likely_words(blame: &Blame, place: usize) -> String {
    let finding = &blame.findings[place];
    let Some(race) = finding.likely_race else { return String::new() };
    let argument = finding.arg_index.map_or("memory".into(), |at| arg_words(blame.graph.task(place), at));
    let in_golden =
        |place: usize| blame.golden.as_ref().map_or_else(String::new, |golden| task_of(golden, place));
    if race.is_of_golden {
        let own = blame.matching.partner[place].map_or_else(String::new, in_golden);
        return format!(
            "{} cannot be judged: the golden is ambiguous there, as its {own} and its {} likely race for {argument}: nothing orders the two",
            name(blame, place),
            in_golden(race.other)
        );
    }
    let neither = if race.is_in_both { ", in the golden neither" } else { "" };
    format!(
        "{} and {} likely race for {argument}: nothing orders the two{neither}",
        name(blame, place),
        name(blame, race.other)
    )
}

/// `108 tasks are wrong here, all softmax; 2 tasks raced: add 1, mul 1`.
fn groups(blame: &Blame, roots: &[usize]) -> String {
    let groups = [Label::WrongHere, Label::Raced, Label::Fed].into_iter().filter_map(|label| {
        let places: Vec<usize> =
            roots.iter().copied().filter(|&place| blame.findings[place].label == label).collect();
        let (first, tasks) = (*places.first()?, counted(places.len() as u64, "task"));
        let verb = match (label, places.len()) {
            (Label::WrongHere, 2..) => "are wrong here",
            (Label::Fed, 2..) => "were fed a wrong input",
            _ => said(label),
        };
        let same = places.iter().all(|&place| inside(blame, place) == inside(blame, first));
        Some(match (same, places.len()) {
            (true, 1) => format!("{tasks} {verb}: {}", inside(blame, first)),
            (true, _) => format!("{tasks} {verb}, all {}", inside(blame, first)),
            (false, _) => format!("{tasks} {verb}: {}", by_kernel(blame, &places)),
        })
    });
    groups.collect::<Vec<_>>().join("; ")
}

fn where_first(blame: &Blame, first: usize, all: usize) -> String {
    let other = blame.findings[first].race.map(|race| format!(", with {}", name(blame, race.other)));
    let first = format!("{}{}", name(blame, first), other.unwrap_or_default());
    let before = blame.first_wrong.len();
    match before {
        1 => format!("nothing wrong is before one only: {first}"),
        _ if before == all => format!("the first is {first}"),
        _ => {
            format!("{} of them have nothing wrong before them, the first is {first}", grouped(before as u64))
        }
    }
}

/// The kernels of a task, and which of them is wrong where that can be told: `turn+fold+step in fold`.
fn inside(blame: &Blame, place: usize) -> String {
    match blame.told_kernels(place) {
        Some(told) => format!("{} in {}", kernels(blame, place), kernels_text(told)),
        None => kernels(blame, place),
    }
}

/// Tasks counted by kernel: `softmax 28, pv 2`.
#[must_use]
pub fn by_kernel(blame: &Blame, places: &[usize]) -> String {
    counted_names(places.iter().map(|&place| inside(blame, place)), KERNELS)
}

/// What a task of a label did.
#[must_use]
pub const fn said(label: Label) -> &'static str {
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
    let task = blame.graph.task(place);
    format!("task {} ({})", step_task(task.step, task.task_id), task_words(task))
}

/// The kernels of a task.
#[must_use]
pub fn kernels(blame: &Blame, place: usize) -> String {
    kernels_text(&blame.graph.task(place).kernel_names())
}

/// The label of a task, and why it has it: `raced: it raced with task 0x2 (mul): …`.
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

/// What a task did, and why it is thought so.
#[must_use]
pub fn why(blame: &Blame, place: usize) -> String {
    let finding = &blame.findings[place];
    let mut words: String = said(finding.label).into();
    if let Some(race) = &finding.race {
        let other = name(blame, race.other);
        let task = blame.graph.task(place);
        let argument = finding.arg_index.map_or("an argument".into(), |index| arg_words(task, index));
        words += &match race.kind {
            RaceKind::ReadTooEarly => {
                format!(" with {other}: {argument} was read before that task had completed")
            }
            RaceKind::Overwritten => {
                format!(" with {other}, which ran out of its order and overwrote {argument}")
            }
            RaceKind::Changed => format!(" with {other}: {argument} is not what that task wrote"),
            RaceKind::Unattributed => {
                let host = match blame
                    .graph
                    .observations()
                    .zip(finding.arg_index.and_then(|at| task.argument(at)))
                {
                    Some((seen, arg)) if seen.is_host_writable(task, arg) => {
                        "; the host may change that memory at any time"
                    }
                    _ => "",
                };
                format!(
                    ": an unattributed change. {argument} is not what {other} left there, and no task that was given it is between{host}"
                )
            }
            RaceKind::Unordered => format!(
                " with {other}: nothing orders the two, as the golden does, and that task may have written {argument}"
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

/// What is to be known beside the labels.
#[must_use]
pub fn remarks(blame: &Blame) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(gap) = &blame.graph.gap {
        remarks.push(format!("the dump is not complete: {gap}"));
    }
    remarks.extend(in_flight_words(&blame.graph));
    remarks.extend(not_decided(&blame.graph));
    if blame.gone() > 0 {
        let gone = counted(blame.gone(), "record");
        remarks.push(format!("{gone} left the dump while the run went on: their tasks are unknown"));
    }
    if !blame.agreed_live.is_empty() {
        let tasks = counted(blame.agreed_live.len() as u64, "task");
        remarks.push(format!(
            "{tasks} agreed with the golden while running and kept no content: ok by that golden, not by references"
        ));
    }
    let rest_on_edges = blame.findings.iter().filter(|f| f.rests_on_edges()).count();
    if rest_on_edges > 0 {
        let labels = counted_in(rest_on_edges as u64, "label rests", "labels rest");
        remarks.push(format!("{labels} on the edges of the dump: only outputs were captured"));
    }
    let derived = blame.findings.iter().filter(|f| f.rests_on_producers).count();
    if derived > 0 {
        let labels = counted_in(derived as u64, "label rests", "labels rest");
        let lacking = if blame.basis == Basis::Golden { "not in the golden" } else { "not captured" };
        remarks.push(format!("{labels} on what the producers of inputs wrote: those inputs are {lacking}"));
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

/// Where the tensors that a task was given came from: each input, and the ids of the tasks behind it.
#[must_use]
pub fn given(blame: &Blame, place: usize) -> Vec<(String, String)> {
    let task = blame.graph.task(place);
    let inputs = task.inputs().filter(|a| !a.is_scalar());
    inputs
        .map(|arg| {
            let outputs = blame.graph.outputs_behind(arg).iter();
            let mut from: Vec<String> = outputs
                .map(|output| blame.graph.task(output.task))
                .map(|t| step_task(t.step, t.task_id))
                .collect();
            from.dedup();
            let from = if from.is_empty() { "no task".into() } else { from.join(", ") };
            (arg_words(task, arg.arg_index), from)
        })
        .collect()
}
