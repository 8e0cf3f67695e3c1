//! Which task is wrong.
//!
//! Every task is labelled in dependency order, from what is known of its arguments ([`ArgStatus`]) and from where its inputs
//! came from. An input that is outside its rule is
//!
//! - *carried* when it is, byte for byte, what its producers' captured outputs hold: the error is theirs;
//! - *changed* when it is not: it was overwritten in between, or read too early. So a race is seen even when the producer
//!   itself is wrong;
//! - *external* when no captured task wrote it.
//!
//! An in-out that differs before the task, came from no task (or only through tasks that left it alone) and leaves the task
//! with the bytes it came with is set aside: scratch that holds garbage must not hide the culprit.

mod labeller;
mod observed;
mod race;

use std::collections::{HashMap, HashSet, VecDeque};

pub use labeller::{label_alone, label_tasks};
pub use race::{LikelyRace, Race, RaceKind};

use crate::graph::TaskGraph;

/// What a task did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// Inputs and outputs within rule.
    Ok,
    /// Every input that can matter is within rule, some output is not.
    WrongHere,
    /// Some output is outside, and some input outside came from a task whose output is outside.
    Inherited,
    /// Some input is not what its producer wrote.
    Raced,
    /// Some output is outside, and the inputs outside came from no captured task.
    Fed,
    /// Some input outside, outputs within.
    Masked,
    /// Not enough was captured to say.
    Unknown,
}

impl Label {
    /// Every label, in the order of reports.
    pub const ALL: [Label; 7] = [
        Label::WrongHere,
        Label::Raced,
        Label::Fed,
        Label::Inherited,
        Label::Unknown,
        Label::Masked,
        Label::Ok,
    ];

    /// Spelled as in JSON.
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

    /// The label of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Label> {
        Label::ALL.into_iter().find(|label| label.name() == name)
    }

    /// Whether a verdict of pass can stand with it.
    #[must_use]
    pub const fn is_good(self) -> bool {
        matches!(self, Label::Ok | Label::Masked)
    }

    /// Whether the error began here.
    #[must_use]
    pub const fn is_root(self) -> bool {
        matches!(self, Label::WrongHere | Label::Raced | Label::Fed)
    }
}

/// What is known of an argument at one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// Within its rule.
    Within,
    /// Not.
    Outside,
    /// Not known, and why.
    Unknown(String),
    /// The role has no such stage.
    NotApplicable,
}

/// What is known of an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgStatus {
    /// Before dispatch.
    pub before: Status,
    /// After completion.
    pub after: Status,
}

/// What is known of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// There is nothing to compare it with, and why.
    Unmatched(String),
    /// Its arguments, in the order of [`tensortap_format::Task::arguments`].
    Compared(Vec<ArgStatus>),
}

/// What is known of inputs beside whether they are within their rules, by task and argument.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Within their rules, but not equal.
    pub near: HashSet<(usize, u16)>,
    /// Other views than in the golden, or from other tasks.
    pub rewired: HashSet<(usize, u16)>,
    /// Other buffers than in the golden: the argument that each is of the task there, if it is one.
    pub other_buffers: HashMap<(usize, u16), Option<u16>>,
    /// What other tasks wrote than in the golden, in words; `None` where the task that should have written it is blamed.
    pub elsewhere: HashMap<(usize, u16), Option<String>>,
    /// Other buffers than in the golden, and a task that misses what is left in them.
    pub misdirected: HashMap<(usize, u16), usize>,
    /// Memory that no task ever wrote, neither here nor in the golden; where roles are not known.
    pub uninitialised: HashSet<(usize, u16)>,
    /// A task that may have written the argument and that nothing orders with its task, though the golden does.
    pub lost_order: HashMap<(usize, u16), usize>,
    /// A task that may have raced for the argument, by what was seen, and that in words.
    pub likely_races: HashMap<(usize, u16), (LikelyRace, String)>,
}

/// The label of a task, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The label.
    pub label: Label,
    /// Why, where the label alone does not say.
    pub reason: Option<String>,
    /// The argument that the label rests on.
    pub arg_index: Option<u16>,
    /// The other task of a race.
    pub race: Option<Race>,
    /// A race that is likely, of a task that cannot be judged for it.
    pub likely_race: Option<LikelyRace>,
    /// Arguments that were set aside.
    pub set_aside: Vec<u16>,
    /// Every input is within its rule, and the error of another task came through one: it grew beyond the rule here, or a second
    /// one began.
    pub is_grown: bool,
    /// Some input was not captured, or the golden lacks it; it counts as what its producers' outputs hold.
    pub rests_on_producers: bool,
}

impl Finding {
    /// Whether nothing was captured before the task, so that the label rests on the dump's edges and on the outputs of the
    /// tasks it waited for.
    #[must_use]
    pub fn rests_on_edges(&self) -> bool {
        self.reason.as_deref().is_some_and(|reason| reason.starts_with(labeller::ONLY_OUTPUTS))
    }
}

/// The tasks at which an error began and that no other error led to, [in the order of reports](TaskGraph::sort).
#[must_use]
pub fn first_wrong(graph: &TaskGraph, findings: &[Finding]) -> Vec<usize> {
    let mut tainted = vec![false; graph.len()];
    let mut first = Vec::new();
    for (task, finding) in graph.tasks().iter().zip(findings) {
        let place = task.place();
        let led_to = task.arguments().flat_map(|a| graph.outputs_behind(a)).any(|o| tainted[o.task]);
        if finding.label.is_root() && !led_to {
            first.push(place);
        }
        tainted[place] = led_to || finding.label.is_root();
    }
    graph.sort(&mut first);
    first
}

/// A shortest way by which the error of a task reached the last task that shows it: that task, those that passed it on, the
/// last. Alone when nobody passed it on.
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
