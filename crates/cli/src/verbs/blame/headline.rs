//! The first line: the verdict and what it rests on.

use tensortap::analysis::blame::{Basis, Blame};
use tensortap::analysis::labels::Label;

use super::Report;
use super::text::{kernels, name, said};
use crate::output;
use tensortap_query::blame::roots;
use tensortap_query::number::{counted, counted_in, grouped};
use tensortap_query::words::{counted_names, kernels_text};

/// Kernels that a list names.
const KERNELS: usize = 8;

pub(super) fn headline(report: &Report<'_>) -> String {
    let word = output::verdict(if report.found.passes { "PASS" } else { "FAIL" }, report.found.passes);
    let blame = report.found.blame;
    let roots = roots(blame);
    let what = match (blame.first_wrong.first(), roots.len()) {
        _ if report.suspects_orchestration => {
            "the run's own golden failed and every kernel is right by its reference: the orchestration is suspected"
                .into()
        }
        _ if report.suspects_unjudged => format!(
            "the run's own golden failed and every kernel that has a reference is right: suspect those that have none: {}",
            by_kernel(blame, &blame.unjudged)
        ),
        (None, _) if report.found.passes => nothing_found(blame),
        (None, _) => nothing_wrong(report),
        (Some(&one), 1) => {
            format!("{} {}{}", name(blame, one), said(blame.findings[one].label), more(blame, one))
        }
        (Some(&first), all) => format!("{}; {}", groups(blame, &roots), where_first(blame, first, all)),
    };
    format!("{word}: {what}")
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
        (Some(race), _) => format!(" with {}", name(blame, race.other)),
        (None, Some(told)) => format!(", in {}", kernels_text(told)),
        (None, None) => String::new(),
    }
}

/// Why it fails although nothing was found wrong.
fn nothing_wrong(report: &Report<'_>) -> String {
    let blame = report.found.blame;
    if let Some(other) = report.other_scene.as_ref().filter(|_| blame.compared == 0) {
        return format!("nothing could be compared: {other}");
    }
    if blame.compared == 0 {
        return "nothing could be compared".into();
    }
    "not every task could be judged".into()
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
pub(super) fn by_kernel(blame: &Blame, places: &[usize]) -> String {
    counted_names(places.iter().map(|&place| inside(blame, place)), KERNELS)
}
