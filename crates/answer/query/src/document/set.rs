//! What verbs print with `--json` for all dumps of a run: the document of each dump with its rank.

use serde::Serialize;

use super::RunVerdictDocument;
use crate::Member;

/// The document of one of several dumps.
#[derive(Serialize)]
pub struct MemberDocument<D> {
    rank: Option<u64>,
    pid: Option<u64>,
    #[serde(flatten)]
    about: MemberContent<D>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum MemberContent<D> {
    Document(D),
    Unpaired { verdict: &'static str, reason: String },
}

impl<D: Serialize> MemberDocument<D> {
    /// The verb's document for this dump.
    pub fn new(member: &Member, document: D) -> MemberDocument<D> {
        MemberDocument { rank: member.rank, pid: member.pid, about: MemberContent::Document(document) }
    }

    /// The document of a dump that has nothing to be compared with.
    pub fn unpaired(rank: Option<u64>, pid: Option<u64>, passes: bool, reason: String) -> MemberDocument<D> {
        MemberDocument { rank, pid, about: MemberContent::Unpaired { verdict: pass_or_fail(passes), reason } }
    }
}

/// The documents of all dumps.
#[derive(Serialize)]
pub struct SetDocument<D> {
    /// The folder that holds the dumps.
    pub dump: String,
    /// The overall verdict; null for verbs that judge nothing.
    pub verdict: Option<&'static str>,
    /// The verdict on all ranks together, if they were judged together.
    #[serde(flatten)]
    pub run: Option<RunVerdictDocument>,
    /// The dumps, sorted by rank.
    pub dumps: Vec<MemberDocument<D>>,
}

/// The word of a verdict in documents.
#[must_use]
pub const fn pass_or_fail(passes: bool) -> &'static str {
    if passes { "pass" } else { "fail" }
}
