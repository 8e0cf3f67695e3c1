//! What verbs print with `--json` about all dumps of a run: the document of each, with its rank.

use serde::Serialize;

use crate::Member;

/// One of several dumps.
#[derive(Serialize)]
pub struct OfMember<D> {
    rank: Option<u64>,
    pid: Option<u64>,
    #[serde(flatten)]
    about: About<D>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum About<D> {
    Document(D),
    Lonely { verdict: &'static str, reason: &'static str },
}

impl<D: Serialize> OfMember<D> {
    /// What the verb says of it alone.
    pub fn new(member: &Member, document: D) -> OfMember<D> {
        OfMember { rank: member.rank, pid: member.pid, about: About::Document(document) }
    }

    /// That there is nothing to hold it against.
    pub fn lonely(rank: Option<u64>, pid: Option<u64>, passes: bool, reason: &'static str) -> OfMember<D> {
        OfMember { rank, pid, about: About::Lonely { verdict: pass_or_fail(passes), reason } }
    }
}

/// All of them.
#[derive(Serialize)]
pub struct SetDocument<D> {
    /// The folder that holds the dumps.
    pub dump: String,
    /// What holds for all; of a verb that judges nothing, null.
    pub verdict: Option<&'static str>,
    /// In the order of their ranks.
    pub dumps: Vec<OfMember<D>>,
}

/// A verdict in a document.
#[must_use]
pub const fn pass_or_fail(passes: bool) -> &'static str {
    if passes { "pass" } else { "fail" }
}
