//! What stands where a role does, where that is not known: what was observed. In words, for every view.

use std::cell::OnceCell;
use std::collections::HashMap;

use tensortap::abi::Role;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::analysis::observation::{
    COUNTED, NAMED, Observed, ObservedCounts, Unattributed, UnattributedChanges,
};
use tensortap::format::{Argument, Dump, Record, Task, role_name};

use crate::number::{counted, counted_in, grouped};
use crate::words::{arg_words, step_task, task_words};

/// A role that is asked for, or what was observed instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleChoice {
    /// A role that is known.
    Known(Role),
    /// What was observed of an argument whose role is not.
    Observed(Observed),
}

impl RoleChoice {
    /// The choice of a word, whatever its case: a role, also as `in` or `out`, or what was observed.
    ///
    /// ```
    /// use tensortap_query::RoleChoice;
    /// assert_eq!(RoleChoice::parse("in"), RoleChoice::parse("Input"));
    /// assert_eq!(RoleChoice::parse("changed").unwrap().name(), "changed");
    /// assert!(RoleChoice::parse("left").is_none());
    /// ```
    #[must_use]
    pub fn parse(word: &str) -> Option<RoleChoice> {
        let word = word.to_ascii_lowercase();
        match word.as_str() {
            "input" | "in" => Some(RoleChoice::Known(Role::Input)),
            "output" | "out" => Some(RoleChoice::Known(Role::Output)),
            "inout" => Some(RoleChoice::Known(Role::InOut)),
            other => Observed::from_name(other).map(RoleChoice::Observed),
        }
    }

    /// The word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RoleChoice::Known(role) => role_name(role),
            RoleChoice::Observed(observed) => observed.name(),
        }
    }
}

/// What was observed of the records of a dump, found out when a record is asked for whose role is not known.
pub struct ObservedRoles<'d> {
    dump: &'d Dump,
    found: OnceCell<Found>,
}

/// What was observed, by the numbers of records, and what is not decided.
#[derive(Default)]
struct Found {
    by_record: HashMap<u64, Observed>,
    not_decided: Vec<String>,
}

impl<'d> ObservedRoles<'d> {
    /// Of a dump.
    #[must_use]
    pub fn of(dump: &'d Dump) -> ObservedRoles<'d> {
        ObservedRoles { dump, found: OnceCell::new() }
    }

    /// What was observed of a record's argument; `None` where its role is known. Of a dump that cannot be read, nothing was.
    #[must_use]
    pub fn observed(&self, record: &Record) -> Option<Observed> {
        if record.role_known {
            return None;
        }
        let found = self.found.get_or_init(|| {
            let found = |graph: TaskGraph| Found {
                by_record: observed_records(&graph),
                not_decided: not_decided(&graph),
            };
            load(self.dump, &[]).map_or_else(|_| Found::default(), found)
        });
        Some(found.by_record.get(&record.index).copied().unwrap_or(Observed::Unobserved))
    }

    /// Of those that were asked for, what is not decided.
    #[must_use]
    pub fn not_decided(&self) -> &[String] {
        self.found.get().map_or(&[], |found| &found.not_decided)
    }

    /// The role, or what was observed instead.
    #[must_use]
    pub fn choice(&self, record: &Record) -> RoleChoice {
        self.observed(record).map_or(RoleChoice::Known(record.role), RoleChoice::Observed)
    }
}

/// What was observed of arguments, by the numbers of their records.
#[must_use]
pub fn observed_records(graph: &TaskGraph) -> HashMap<u64, Observed> {
    let mut by_record = HashMap::new();
    for arg in graph.tasks().iter().flat_map(|task| task.arguments()) {
        if let Some(observed) = graph.observed(arg) {
            let captured = [arg.before, arg.after].into_iter().flatten();
            by_record.extend(captured.map(|captured| (captured.record, observed)));
        }
    }
    by_record
}

/// The role of an argument, or what was observed instead.
#[must_use]
pub fn role_word(graph: &TaskGraph, arg: Argument<'_>) -> &'static str {
    graph.observed(arg).map_or(role_name(arg.role), Observed::name)
}

/// The same of a record.
#[must_use]
pub fn record_role_word(graph: &TaskGraph, record: &Record) -> &'static str {
    let task = graph.tasks().find(record.task_key());
    let arg = task.and_then(|task| task.argument(record.arg_index));
    arg.map_or(role_name(record.role), |arg| role_word(graph, arg))
}

/// Why an argument that changed is ambiguous: `task 0x5 (scale), task 0x7 (add) and 3 more are unordered with it`.
#[must_use]
pub fn ambiguity_words(graph: &TaskGraph, arg: Argument<'_>) -> Option<String> {
    let why = graph.observations()?.ambiguity(arg)?;
    let named: Vec<String> = why.others.iter().map(|&place| task_name(graph.task(place))).collect();
    let more = match why.count.saturating_sub(NAMED) {
        0 => String::new(),
        more if why.count >= COUNTED => format!(" and {} or more others", grouped(more as u64)),
        more => format!(" and {} more", grouped(more as u64)),
    };
    let unordered = (!named.is_empty())
        .then(|| format!("unordered with it and given the same memory: {}{more}", named.join(", ")));
    let host = why.host_writable.then(|| "the host may change this memory at any time".to_owned());
    let cut = why.is_cut.then(|| "who else may have written it is not decided".to_owned());
    let all: Vec<String> = [unordered, host, cut].into_iter().flatten().collect();
    Some(all.join("; "))
}

/// `an unattributed change: not what task 0x3 (add) left in its argument 1, and no task that was given it is between`.
#[must_use]
pub fn unattributed_words(graph: &TaskGraph, change: &Unattributed) -> String {
    let left = graph.task(change.left.task);
    let host = if change.host_writable { "; the host may change this memory at any time" } else { "" };
    format!(
        "an unattributed change: not what {} left in its {}, and no task that was given it is between{host}",
        task_name(left),
        arg_words(left, change.left.arg_index)
    )
}

/// `task 0x5 (scale)`.
fn task_name(task: Task<'_>) -> String {
    format!("task {} ({})", step_task(task.step, task.task_id), task_words(task))
}

/// How often what was observed, and what nobody did, in lines.
#[must_use]
pub fn observed_lines(graph: &TaskGraph, unattributed: &UnattributedChanges) -> Vec<String> {
    let Some(seen) = graph.observations() else { return Vec::new() };
    let ObservedCounts { same, changed, ambiguous, unobserved } = seen.counts();
    let counts = [(same, "same"), (changed, "changed"), (ambiguous, "ambiguous"), (unobserved, "unobserved")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{} {word}", grouped(*count)))
        .collect();
    let all = same + changed + ambiguous + unobserved;
    let arguments = counted_in(all, "argument has no known role", "arguments have no known role");
    let mut lines = vec![format!("{arguments}: {}", counts.join(", "))];
    if let Some(first) = unattributed.changes.first() {
        let found = graph.task(first.found.task);
        lines.push(format!(
            "{}, the first found by {} in its {}: {}",
            counted(unattributed.changes.len() as u64, "unattributed change"),
            task_name(found),
            arg_words(found, first.found.arg_index),
            unattributed_words(graph, first)
        ));
    }
    if unattributed.undecided > 0 {
        let of = counted(unattributed.undecided, "argument");
        lines.push(format!("of {of} it is not decided whether something changed between tasks: not enough of the content was compared"));
    }
    lines.extend(not_decided(graph));
    lines
}

/// That the graph is too large and too wide to know all of its order, or who wrote what.
#[must_use]
pub fn not_decided(graph: &TaskGraph) -> Vec<String> {
    let unknown = graph.observations().map_or(0, |seen| seen.order().unknown_count());
    let tasks = counted_in(unknown as u64, "task is", "tasks are");
    let order = format!(
        "{tasks} taken for unordered with others that they may be ordered with: the graph is too wide to know; --step takes a part of it"
    );
    let undecided = graph.undecided_count();
    let arguments = counted(undecided as u64, "argument");
    let them = if undecided == 1 { "it" } else { "them" };
    let origin = format!(
        "of {arguments} it is not decided who wrote {them}: that would take too long, as too many tasks or views share memory; what is said of others holds"
    );
    [(unknown, order), (undecided, origin)]
        .into_iter()
        .filter_map(|(count, line)| (count > 0).then_some(line))
        .collect()
}
