//! Compares records with what they should be, and says what the answer rests on.

mod book;
mod outcome;
mod side;

pub use book::RuleBook;
pub use outcome::{Depth, Evidence, Outcome, Verdict, compare, detail};
pub(crate) use side::damage;
pub use side::{Content, Side};
