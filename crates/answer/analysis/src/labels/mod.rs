//! Labels every task of a dump, in dependency order.
//!
//! Evidence: the status of each argument ([`ArgStatus`]) and the producers of each input. An input outside
//! its rule is one of:
//!
//! - *inherited*: it equals, byte for byte, the captured outputs of its producers, which are wrong;
//! - *changed*: it differs from those outputs. It was overwritten in between, or read too early. So a race is
//!   found even if the producer is wrong too;
//! - *external*: no captured task wrote it.
//!
//! An in-out argument is set aside if it differs before the task, has no producer (or only producers that
//! left it unchanged), and the task leaves it unchanged. Such scratch memory holds garbage that must not hide
//! the culprit.

mod by_evidence;
mod labeler;
mod observed;
mod race;
mod regions;

use std::collections::{HashMap, HashSet, VecDeque};

pub use labeler::{label_isolated, label_tasks};
pub(crate) use race::Races;
pub use race::{LikelyRace, Race, RaceKind};
pub(crate) use regions::counting_outputs;

use crate::evidence::Evidence;
use crate::graph::TaskGraph;

/// The verdict on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// Inputs and outputs are within their rules.
    Ok,
    /// Every input that can matter is within its rule, and some output is not.
    WrongHere,
    /// Some output is outside, and some input outside was produced by a task with a wrong output.
    Inherited,
    /// Some input is not what its producer wrote.
    Raced,
    /// Some output is outside, and the inputs outside came from no captured task.
    Fed,
    /// Some input is outside, and the outputs are within.
    Masked,
    /// Not enough was captured to decide.
    Unknown,
}

impl Label {
    /// All labels, in the order of reports.
    pub const ALL: [Label; 7] = [
        Label::WrongHere,
        Label::Raced,
        Label::Fed,
        Label::Inherited,
        Label::Unknown,
        Label::Masked,
        Label::Ok,
    ];

    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Label::Ok => "ok",
            Label::WrongHere => "wrong_here",
            Label::Inherited => "inherited",
            Label::Raced => "raced",
            Label::Fed => "fed",
            Label::Masked => "masked",
            Label::Unknown => "unknown",
        }
    }

    /// The label with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Label> {
        Label::ALL.into_iter().find(|label| label.name() == name)
    }

    /// Whether the label is compatible with a passing verdict.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Label::Ok | Label::Masked)
    }

    /// Whether the error began at this task.
    #[must_use]
    pub const fn is_root(self) -> bool {
        matches!(self, Label::WrongHere | Label::Raced | Label::Fed)
    }
}

/// The status of an argument at one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Within its rule.
    Within,
    /// Outside its rule.
    Outside,
    /// Not known, with the reason.
    Unknown(String),
    /// The role has no content at this stage.
    NotApplicable,
}

/// The status of an argument at both stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgStatus {
    /// Before dispatch.
    pub before: Status,
    /// After completion.
    pub after: Status,
}

/// The status of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// The task has no partner, with the reason.
    Unmatched(String),
    /// One status per argument, in the order of [`tensortap_format::Task::arguments`].
    Compared(Vec<ArgStatus>),
}

impl TaskStatus {
    /// Whether an argument is outside its rule, before or after the task.
    pub(crate) fn has_outside(&self) -> bool {
        let is_outside = |arg: &ArgStatus| arg.before == Status::Outside || arg.after == Status::Outside;
        matches!(self, TaskStatus::Compared(args) if args.iter().any(is_outside))
    }
}

/// Evidence about inputs beyond their statuses, by task position and argument.
#[derive(Clone, Debug, Default)]
pub struct InputFacts {
    /// Inputs within their rules, but not equal.
    pub near: HashSet<(usize, u16)>,
    /// Tasks with equal inputs have unequal outputs within their rules: small differences are noise and need no error.
    pub is_noisy: bool,
    /// Inputs with another view or other producers than in the golden.
    pub wiring_changed: HashSet<(usize, u16)>,
    /// Arguments that are other buffers than in the golden, with the argument index of the buffer there, if
    /// any.
    pub other_buffers: HashMap<(usize, u16), Option<u16>>,
    /// Inputs with another last writer than in the golden, described in words; `None` if the task that should
    /// have written the input is blamed.
    pub other_sources: HashMap<(usize, u16), Option<String>>,
    /// Arguments that are other buffers than in the golden, with a task that misses their content.
    pub misdirected: HashMap<(usize, u16), usize>,
    /// Memory that no task of either run wrote before; only with unknown roles.
    pub uninitialized: HashSet<(usize, u16)>,
    /// A task that may have written the argument and is ordered with its task only in the golden.
    pub lost_order: HashMap<(usize, u16), usize>,
    /// For arguments of declared roles that no earlier task wrote: a task that declares to write there and that nothing
    /// orders with theirs.
    pub unordered_writers: HashMap<(usize, u16), usize>,
    /// A likely race for the argument, with its description. `None` if none was sought, because tasks that a dump lacks may
    /// have ordered the others.
    pub likely_races: Option<HashMap<(usize, u16), (LikelyRace, String)>>,
    /// For arguments that are not what the last task left there: a task whose output they hold although it should not
    /// have written there yet, or no longer.
    pub overwriters: HashMap<(usize, u16), usize>,
    /// When the partners ran in the golden.
    pub golden_times: PartnerTimes,
    /// Arguments passed by value that differ in more than addresses.
    pub other_values: HashSet<(usize, u16)>,
    /// Scalars of launches that differ only in bytes that also differ in right launches of the kernel.
    pub harmless_scalars: HashSet<(usize, u16)>,
    /// Where every differing element came from, if the baseline is a dump.
    pub(crate) evidence: Option<Evidence>,
}

/// When the golden's tasks ran, by the positions of their partners in the dump. Two tasks that run at the same time in a
/// right run may do so: that is no evidence of a race.
#[derive(Clone, Debug, Default)]
pub struct PartnerTimes(Vec<Option<(u64, u64)>>);

impl PartnerTimes {
    /// The times of the partners of all tasks.
    pub(crate) fn of(golden: &TaskGraph, partners: &[Option<usize>]) -> PartnerTimes {
        let times = |place: usize| golden.task(place).start_time().zip(golden.task(place).end_time());
        PartnerTimes(partners.iter().map(|partner| times((*partner)?)).collect())
    }

    /// Whether two tasks ran at the same time in the golden.
    pub(crate) fn overlap(&self, one: usize, other: usize) -> bool {
        self.is_early(one, other) && self.is_early(other, one)
    }

    /// Whether a task ran in the golden after another one had ended.
    pub(crate) fn is_after(&self, task: usize, other: usize) -> bool {
        let times = |place: usize| *self.0.get(place)?;
        times(task).zip(times(other)).is_some_and(|((started, _), (_, ended))| started >= ended)
    }

    /// Whether a task started in the golden before another one had ended.
    fn is_early(&self, task: usize, other: usize) -> bool {
        let times = |place: usize| *self.0.get(place)?;
        times(task).zip(times(other)).is_some_and(|((started, _), (_, ended))| started < ended)
    }
}

/// The label of a task and its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The label.
    pub label: Label,
    /// The reason, if the label does not explain itself.
    pub reason: Option<String>,
    /// The argument that the label rests on.
    pub arg_index: Option<u16>,
    /// The other task of a race.
    pub race: Option<Race>,
    /// A likely race, which is why the task is `unknown`.
    pub likely_race: Option<LikelyRace>,
    /// Arguments that were set aside because they hold garbage that the task does not use.
    pub set_aside: Vec<u16>,
    /// Every input is within its rule, but one carries the error of another task: the error was amplified
    /// here, or a second error began.
    pub is_amplified: bool,
    /// Some input was not captured, or the golden lacks it, so the outputs of its producers count instead.
    pub rests_on_producers: bool,
    /// The task is a collective and `unknown` because only other ranks could decide.
    pub depends_on_ranks: bool,
}

impl Finding {
    /// Whether the label rests on dependencies and on the outputs of producers, because nothing was captured
    /// before the task.
    #[must_use]
    pub fn rests_on_edges(&self) -> bool {
        self.reason.as_deref().is_some_and(|reason| reason.starts_with(labeler::ONLY_OUTPUTS))
    }
}

/// The tasks at which an error began and that no other error led to, [in the order of
/// reports](TaskGraph::sort).
#[must_use]
pub fn first_wrong(graph: &TaskGraph, findings: &[Finding]) -> Vec<usize> {
    let mut tainted = vec![false; graph.len()];
    let mut first = Vec::new();
    for (task, finding) in graph.tasks().iter().zip(findings) {
        let place = task.place();
        let led_to = task.arguments().flat_map(|a| graph.producers_of(a)).any(|o| tainted[o.task]);
        if finding.label.is_root() && !led_to {
            first.push(place);
        }
        tainted[place] = led_to || finding.label.is_root();
    }
    graph.sort(&mut first);
    first
}

/// A shortest path along which the error of a task spread to the last task that shows it. Starts with the
/// task; has only that task if the error did not spread.
#[must_use]
pub fn chain(graph: &TaskGraph, findings: &[Finding], from: usize) -> Vec<usize> {
    let consumers = graph.consumers();
    let passes = |task: usize| matches!(findings[task].label, Label::Inherited | Label::Raced);
    let mut came_from: HashMap<usize, usize> = HashMap::new();
    let mut queue = VecDeque::from([from]);
    let mut last = from;
    while let Some(task) = queue.pop_front() {
        last = last.max(task);
        for &next in consumers[task].iter().filter(|&&next| passes(next)) {
            came_from.entry(next).or_insert_with(|| {
                queue.push_back(next);
                task
            });
        }
    }
    let mut chain = vec![last];
    while let Some(&before) = came_from.get(&chain[chain.len() - 1]) {
        chain.push(before);
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests;
