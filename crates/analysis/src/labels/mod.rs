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

mod chain;
mod race;
mod times;
mod walk;

pub use chain::{chain, first_wrong};
pub use race::{Race, RaceKind};
pub use walk::{label_alone, label_tasks};

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
    /// Its arguments, in the order of [`crate::graph::GraphTask::args`].
    Compared(Vec<ArgStatus>),
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
    /// Arguments that were set aside.
    pub set_aside: Vec<u16>,
}

#[cfg(test)]
mod tests;
