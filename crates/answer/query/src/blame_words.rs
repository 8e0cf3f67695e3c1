//! Texts for labels, of one task and of a whole dump. Shared by terminal, report and pages.

use tensortap::analysis::blame::{BaselineKind, Blame, StopKind, StoppedTask, WiringChange};
use tensortap::analysis::labels::{Label, RaceKind};

use crate::blame::{BlameReport, roots};
use crate::number::{counted, counted_in, grouped};
use crate::observed::not_decided;
use crate::summary::in_flight_words;
use crate::words::{arg_words, counted_names, kernels_text, printable, step_task, task_reference};

/// Maximum number of kernels in a list.
const KERNELS: usize = 8;

/// The verdict in one sentence, without PASS or FAIL. Tasks that were refused or never ended come first, because
/// later errors may follow from them.
pub(crate) fn headline(report: &BlameReport<'_>) -> String {
    let blame = report.blame;
    let Some(first) = blame.stopped.first() else { return verdict(report) };
    let more = match blame.stopped.len() - 1 {
        0 => String::new(),
        more => format!(" (and {} more)", grouped(more as u64)),
    };
    let is_known =
        !blame.first_wrong.is_empty() || blame.suspect().or(blame.likely_race()).is_some() || report.passes;
    let rest = is_known.then(|| format!("; {}", verdict(report)));
    format!("{}{more}{}", stopped_words(blame, first), rest.unwrap_or_default())
}

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
    }
}

/// The conclusion from the labels.
fn verdict(report: &BlameReport<'_>) -> String {
    let blame = report.blame;
    let roots = roots(blame);
    match (blame.first_wrong.first(), roots.len()) {
        _ if report.suspects_orchestration => {
            "the run's own golden failed, but every kernel matches its reference: suspect the orchestration"
                .into()
        }
        _ if report.suspects_unjudged => format!(
            "the run's own golden failed, but every kernel with a reference matches it: suspect the kernels without one: {}",
            by_kernel(blame, &blame.unjudged)
        ),
        (None, _) if report.passes => nothing_found(blame),
        (None, _) => nothing_wrong(report),
        (Some(&one), 1) => {
            format!("{} {}{}", name(blame, one), label_phrase(blame.findings[one].label), more(blame, one))
        }
        (Some(&first), all) => format!("{}; {}", groups(blame, &roots), where_first(blame, first, all)),
    }
}

/// The sentence of a PASS.
fn nothing_found(blame: &Blame) -> String {
    let (good, lacks) = match blame.basis {
        BaselineKind::Golden | BaselineKind::References => ("no task is wrong", "no reference"),
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
    text
}

/// Details of a wrong task: the other task of a race, or the wrong kernels of a mix task.
pub(crate) fn more(blame: &Blame, place: usize) -> String {
    match (&blame.findings[place].race, blame.identified_kernels(place)) {
        (Some(race), _) if race.kind == RaceKind::Unattributed => {
            format!(": an unattributed change after {}", name(blame, race.other))
        }
        (Some(race), _) => format!(" with {}", name(blame, race.other)),
        (None, Some(told)) => format!(", in {}", kernels_text(told)),
        (None, None) => missing_or_more(blame, place).unwrap_or_default(),
    }
}

/// For a task that got an input from a different task than in the golden: the launch that is missing or
/// additional. For a task without a kernel, such as a copy from the host: the reason.
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
    let reason = finding.reason.as_deref().filter(|_| task.kernel_names().is_empty())?;
    blame.graph.observations().map(|_| format!(": {}", printable(reason)))
}

/// Why the verdict is FAIL although no task is wrong.
fn nothing_wrong(report: &BlameReport<'_>) -> String {
    let blame = report.blame;
    match report.other_scene.as_deref().filter(|_| blame.compared == 0) {
        Some(other) => format!("nothing could be compared: {other}"),
        None if blame.compared == 0 => "nothing could be compared".into(),
        None => match (blame.likely_race(), blame.suspect()) {
            (Some(place), _) => likely_words(blame, place),
            (None, Some(place)) => format!(
                "{} may be wrong: its known inputs are right, but an output is not",
                name(blame, place)
            ),
            (None, None) => "not every task could be judged".into(),
        },
    }
}

/// Describes a likely race: `task 0x6 (gather) and task 0x5 (scale) likely race for argument 0 (y): nothing
/// orders the two, here or in the golden`.
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
            "{} cannot be judged: the golden is ambiguous, because its {own} and its {} likely race for {argument} (nothing orders the two)",
            name(blame, place),
            in_golden(race.other)
        );
    }
    let both = if race.is_in_both { ", here or in the golden" } else { "" };
    format!(
        "{} and {} likely race for {argument}: nothing orders the two{both}",
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
            _ => label_phrase(label),
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
        1 => format!("only one has nothing wrong before it: {first}"),
        _ if before == all => format!("the first is {first}"),
        _ => {
            format!("{} of them have nothing wrong before them; the first is {first}", grouped(before as u64))
        }
    }
}

/// The kernels of a task and, if known, which of them is wrong: `turn+fold+step in fold`.
fn inside(blame: &Blame, place: usize) -> String {
    match blame.identified_kernels(place) {
        Some(told) => format!("{} in {}", kernels(blame, place), kernels_text(told)),
        None => kernels(blame, place),
    }
}

/// Tasks counted by kernel: `softmax 28, pv 2`.
#[must_use]
pub fn by_kernel(blame: &Blame, places: &[usize]) -> String {
    counted_names(places.iter().map(|&place| inside(blame, place)), KERNELS)
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
                    ": an unattributed change. {argument} differs from what {other} left there, and no task in between had access to it{host}"
                )
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
