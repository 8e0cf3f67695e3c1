//! Observations that replace the role of an argument if it is unknown, as texts for every view.

use std::cell::OnceCell;
use std::collections::HashMap;

use tensortap::abi::Role;
use tensortap::analysis::graph::{TaskGraph, load};
use tensortap::analysis::observation::{
    COUNTED, NAMED, Observation, ObservationCounts, UnattributedChange, UnattributedChanges,
};
use tensortap::format::{Argument, Dump, Record};

use crate::number::{counted, counted_in, grouped};
use crate::words::{arg_words, task_reference};

/// A role or, if the role is unknown, what was observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleChoice {
    /// A known role.
    Known(Role),
    /// An observation of an argument with an unknown role.
    Observed(Observation),
}

impl RoleChoice {
    /// Parses a role (also `in` or `out`) or an observation. Case is ignored.
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
            other => Observation::from_name(other).map(RoleChoice::Observed),
        }
    }

    /// The word of the choice.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RoleChoice::Known(role) => role.name(),
            RoleChoice::Observed(observed) => observed.name(),
        }
    }
}

/// Observations of the records of a dump. They are computed when the first record with an unknown role is
/// queried.
pub struct ObservedRoles<'d> {
    dump: &'d Dump,
    found: OnceCell<ObservationIndex>,
}

/// Observations by record index, and remarks about undetermined ones.
#[derive(Default)]
struct ObservationIndex {
    by_record: HashMap<u64, Observation>,
    not_decided: Vec<String>,
}

impl<'d> ObservedRoles<'d> {
    /// The observations of a dump; nothing is read yet.
    #[must_use]
    pub fn of(dump: &'d Dump) -> ObservedRoles<'d> {
        ObservedRoles { dump, found: OnceCell::new() }
    }

    /// The observation of a record's argument; `None` if its role is known. If the dump cannot be read, it is
    /// `Unobserved`.
    #[must_use]
    pub fn observed(&self, record: &Record) -> Option<Observation> {
        if record.role_known {
            return None;
        }
        let found = self.found.get_or_init(|| {
            let found = |graph: TaskGraph| ObservationIndex {
                by_record: observed_records(&graph),
                not_decided: not_decided(&graph),
            };
            load(self.dump, &[]).map_or_else(|_| ObservationIndex::default(), found)
        });
        Some(found.by_record.get(&record.index).copied().unwrap_or(Observation::Unobserved))
    }

    /// Remarks about undetermined observations, once any observation was queried.
    #[must_use]
    pub fn not_decided(&self) -> &[String] {
        self.found.get().map_or(&[], |found| &found.not_decided)
    }

    /// The role or, if unknown, the observation.
    #[must_use]
    pub fn choice(&self, record: &Record) -> RoleChoice {
        self.observed(record).map_or(RoleChoice::Known(record.role), RoleChoice::Observed)
    }
}

/// Observations of arguments by record index.
#[must_use]
pub fn observed_records(graph: &TaskGraph) -> HashMap<u64, Observation> {
    let mut by_record = HashMap::new();
    for arg in graph.tasks().iter().flat_map(|task| task.arguments()) {
        if let Some(observed) = graph.observed(arg) {
            let captured = [arg.before, arg.after].into_iter().flatten();
            by_record.extend(captured.map(|captured| (captured.record, observed)));
        }
    }
    by_record
}

/// The role of an argument or, if unknown, the observation.
#[must_use]
pub fn role_word(graph: &TaskGraph, arg: Argument<'_>) -> &'static str {
    graph.observed(arg).map_or(arg.role.name(), Observation::name)
}

/// The role of a record's argument or, if unknown, the observation.
#[must_use]
pub fn record_role_word(graph: &TaskGraph, record: &Record) -> &'static str {
    let task = graph.tasks().find(record.task_key());
    let arg = task.and_then(|task| task.argument(record.arg_index));
    arg.map_or(record.role.name(), |arg| role_word(graph, arg))
}

/// Why the writer of a changed argument is ambiguous: `unordered with it and using the same memory: task 0x5
/// (scale), task 0x7 (add) and 3 more`.
#[must_use]
pub fn ambiguity_words(graph: &TaskGraph, arg: Argument<'_>) -> Option<String> {
    let why = graph.observations()?.ambiguity(arg)?;
    let named: Vec<String> = why.others.iter().map(|&place| task_reference(graph.task(place))).collect();
    let more = match why.count.saturating_sub(NAMED) {
        0 => String::new(),
        more if why.count >= COUNTED => format!(" and {} or more others", grouped(more as u64)),
        more => format!(" and {} more", grouped(more as u64)),
    };
    let unordered = (!named.is_empty())
        .then(|| format!("unordered with it and using the same memory: {}{more}", named.join(", ")));
    let host = why.host_writable.then(|| "the host may change this memory at any time".to_owned());
    let cut = why.is_cut.then(|| "other possible writers are not determined".to_owned());
    let all: Vec<String> = [unordered, host, cut].into_iter().flatten().collect();
    Some(all.join("; "))
}

/// Describes an unattributed change: content that differs from what the last task left, with no task in
/// between.
#[must_use]
pub fn unattributed_words(graph: &TaskGraph, change: &UnattributedChange) -> String {
    let left = graph.task(change.left.task);
    let host = if change.host_writable { "; the host may change this memory at any time" } else { "" };
    format!(
        "an unattributed change: it differs from what {} left in its {}, and no task in between had access to it{host}",
        task_reference(left),
        arg_words(left, change.left.arg_index)
    )
}

/// Lines that count the observations and the unattributed changes.
#[must_use]
pub fn observed_lines(graph: &TaskGraph, unattributed: &UnattributedChanges) -> Vec<String> {
    let Some(seen) = graph.observations() else { return Vec::new() };
    let ObservationCounts { same, changed, ambiguous, unobserved } = seen.counts();
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
            task_reference(found),
            arg_words(found, first.found.arg_index),
            unattributed_words(graph, first)
        ));
    }
    if unattributed.undecided > 0 {
        let of = counted(unattributed.undecided, "argument");
        lines.push(format!("{of}: whether something changed between tasks is not determined, because not enough content was compared"));
    }
    lines.extend(not_decided(graph));
    lines
}

/// Remarks if the order of tasks or the writers of arguments could not all be determined.
#[must_use]
pub fn not_decided(graph: &TaskGraph) -> Vec<String> {
    let unknown = graph.observations().map_or(0, |seen| seen.order().unknown_count());
    let tasks = counted_in(unknown as u64, "task is", "tasks are");
    let order = format!(
        "{tasks} treated as unordered with tasks that they may be ordered with, because the graph is too wide; --step limits it to a part"
    );
    let undecided = graph.undecided_count();
    let arguments = counted(undecided as u64, "argument");
    let origin = format!(
        "the writers of {arguments} are not determined, because too many tasks or views share memory; other results are not affected"
    );
    [(unknown, order), (undecided, origin)]
        .into_iter()
        .filter_map(|(count, line)| (count > 0).then_some(line))
        .collect()
}
