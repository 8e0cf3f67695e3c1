//! The dumps of one run beside those of another: each with that of the same rank.

use std::path::{Path, PathBuf};

use tensortap::RunFile;

use crate::dumps::{DumpSet, Member};

/// One dump of a run, and what there is for it in another.
pub enum Pair {
    /// A dump, and the folder of what it is held against, if it is held against anything.
    Held {
        /// The dump.
        member: Box<Member>,
        /// The golden's.
        golden: Option<PathBuf>,
        /// Why these two, where no rank says it.
        why: Option<String>,
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
        Pair::Held { member: Box::new(member), golden: golden.map(Path::to_owned), why: None }
    }

    /// Two processes that nothing but the order in which they attached sets beside one another.
    fn by_order(member: Member, golden: &Member, number: usize) -> Pair {
        let why = format!(
            "held against {}: each attached as number {number} of those without a rank of their own",
            golden.name()
        );
        Pair::Held { member: Box::new(member), golden: Some(golden.dump.dir().to_owned()), why: Some(why) }
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
    /// run to run: processes without a rank of their own are set beside one another in the order in which they attached, if both runs have
    /// as many and both say that order.
    #[must_use]
    pub fn paired(self, golden: &DumpSet) -> Vec<Pair> {
        // A further process of a rank stands beside its first, and nothing says which further one it is.
        let is_first = |member: &Member| member.pid.is_none();
        let partner =
            |rank: u64| golden.members().iter().find(|member| member.rank == Some(rank) && is_first(member));
        let ranks: Vec<u64> = self.members().iter().filter_map(|member| member.rank).collect();
        let orders = self.unranked().filter(|places| !places.is_empty()).zip(golden.unranked());
        let order = orders.filter(|(ours, theirs)| ours.len() == theirs.len());
        let in_order = |folder: &Path| {
            let (ours, theirs) = order.as_ref()?;
            let number = ours.iter().position(|ours| *ours == folder)?;
            let partner = golden.members().iter().find(|member| member.dump.dir() == theirs[number])?;
            Some((partner, number + 1))
        };
        let mut pairs: Vec<Pair> = Vec::new();
        let members: Vec<(Member, Option<(&Member, usize)>)> = {
            let found: Vec<_> = self.members().iter().map(|member| in_order(member.dump.dir())).collect();
            self.into_members().zip(found).collect()
        };
        for (member, in_order) in members {
            pairs.push(match (member.rank.filter(|_| is_first(&member)).map(partner), in_order) {
                (Some(Some(golden)), _) => Pair::held(member, Some(golden.dump.dir())),
                (Some(None), _) => Pair::lonely(&member, "the golden has no dump of this rank"),
                (None, Some((golden, number))) => Pair::by_order(member, golden, number),
                (None, None) => Pair::lonely(&member, NOT_PAIRED),
            });
        }
        let only_golden =
            golden.members().iter().filter(|member| member.rank.is_some_and(|rank| !ranks.contains(&rank)));
        pairs.extend(
            only_golden.map(|member| Pair::lonely(member, "the golden has it, and this run has not")),
        );
        pairs
    }

    /// The folders of the dumps without a rank of their own, in the order in which their processes attached; `None` where `run.json` does not
    /// say it of all.
    fn unranked(&self) -> Option<Vec<&Path>> {
        let order = RunFile::read(self.path()).ok()?.processes;
        let number = |dir: &Path| order.iter().position(|entry| dir.ends_with(&entry.folder));
        let without = self.members().iter().filter(|member| member.pid.is_some());
        let numbered = without.map(|member| Some((number(member.dump.dir())?, member.dump.dir())));
        let mut numbered = numbered.collect::<Option<Vec<_>>>()?;
        numbered.sort_unstable();
        Some(numbered.into_iter().map(|(_, dir)| dir).collect())
    }
}

/// Why a process without a rank has no partner.
const NOT_PAIRED: &str =
    "it has no rank of its own, and the two runs do not have as many processes like it: name two dumps";
