//! The dumps of one run beside those of another: each with that of the same rank.

use std::path::{Path, PathBuf};

use crate::dumps::{DumpSet, Member};

/// One dump of a run, and what there is for it in another.
pub enum Pair {
    /// A dump, and the folder of what it is held against, if it is held against anything.
    Held {
        /// The dump.
        member: Box<Member>,
        /// The golden's.
        golden: Option<PathBuf>,
    },
    /// A dump that the other run has no partner for.
    Lonely {
        /// What it is called among the others.
        name: String,
        /// Its rank, where it has one.
        rank: Option<u64>,
        /// Its process id, where it is named by it.
        pid: Option<u64>,
        /// Why it has none.
        why: &'static str,
    },
}

impl Pair {
    fn held(member: Member, golden: Option<&Path>) -> Pair {
        Pair::Held { member: Box::new(member), golden: golden.map(Path::to_owned) }
    }

    fn lonely(member: &Member, why: &'static str) -> Pair {
        Pair::Lonely { name: member.name(), rank: member.rank, pid: member.pid, why }
    }
}

impl DumpSet {
    /// Each dump on its own, held against nothing.
    #[must_use]
    pub fn alone(self) -> Vec<Pair> {
        self.into_members().map(|member| Pair::held(member, None)).collect()
    }

    /// Each dump with that of the same rank, in the order of ranks, then what either side has alone. Process ids differ from
    /// run to run and pair nothing.
    #[must_use]
    pub fn paired(self, golden: &DumpSet) -> Vec<Pair> {
        // A further process of a rank stands beside its first, and nothing says which further one it is.
        let is_first = |member: &Member| member.pid.is_none();
        let partner =
            |rank: u64| golden.members().iter().find(|member| member.rank == Some(rank) && is_first(member));
        let ranks: Vec<u64> = self.members().iter().filter_map(|member| member.rank).collect();
        let mut pairs: Vec<Pair> = self
            .into_members()
            .map(|member| match member.rank.filter(|_| is_first(&member)).map(partner) {
                Some(Some(golden)) => Pair::held(member, Some(golden.dump.dir())),
                Some(None) => Pair::lonely(&member, "the golden has no dump of this rank"),
                None => Pair::lonely(
                    &member,
                    "it has no rank of its own, so nothing says which dump of the golden is meant",
                ),
            })
            .collect();
        let only_golden =
            golden.members().iter().filter(|member| member.rank.is_some_and(|rank| !ranks.contains(&rank)));
        pairs.extend(
            only_golden.map(|member| Pair::lonely(member, "the golden has it, and this run has not")),
        );
        pairs
    }
}
