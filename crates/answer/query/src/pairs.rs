//! Pairs the dumps of two runs by rank.

use std::path::{Path, PathBuf};

use crate::dumps::{DumpSet, Member, RankOfRun, attach_order, is_run_folder, ranks_of_run};

/// A dump of a run, with its counterpart in another run.
pub enum Pair {
    /// A dump with the folder of its golden, if any.
    Paired {
        /// The dump.
        member: Box<Member>,
        /// Folder of the golden.
        golden: Option<PathBuf>,
        /// Why these two are paired, if not by rank.
        why: Option<String>,
    },
    /// A dump without a counterpart.
    Unpaired {
        /// Its name among the dumps.
        name: String,
        /// Its rank, if it has one.
        rank: Option<u64>,
        /// Its process id, if its folder is named by it.
        pid: Option<u64>,
        /// Why it has no counterpart.
        why: &'static str,
        /// Folder of its dump, or of the golden's; `None` without either.
        dir: Option<PathBuf>,
    },
}

impl Pair {
    fn paired_with(member: Member, golden: Option<&Path>) -> Pair {
        Pair::Paired { member: Box::new(member), golden: golden.map(Path::to_owned), why: None }
    }

    /// Pairs two processes by the order in which they attached.
    fn by_order(member: Member, golden: &Member, number: usize) -> Pair {
        let why = format!(
            "compared with {}: both attached as number {number} among the processes without a rank",
            golden.name()
        );
        Pair::Paired { member: Box::new(member), golden: Some(golden.dump.dir().to_owned()), why: Some(why) }
    }

    fn unpaired(member: &Member, why: &'static str) -> Pair {
        let dir = Some(member.dump.dir().to_owned());
        Pair::Unpaired { name: member.name(), rank: member.rank, pid: member.pid, why, dir }
    }
}

impl DumpSet {
    /// Each dump without a golden.
    #[must_use]
    pub fn alone(self) -> Vec<Pair> {
        self.into_members().map(|member| Pair::paired_with(member, None)).collect()
    }

    /// Pairs each dump with the golden's dump of the same rank, sorted by rank, then the unpaired dumps of
    /// either side. Process ids differ between runs. So processes without a rank are paired in the order in
    /// which they attached. Both runs must have the same number of them and must have recorded that order.
    #[must_use]
    pub fn paired(self, golden: &DumpSet) -> Vec<Pair> {
        // Only the first process of a rank is paired by rank; further ones cannot be identified.
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
                (Some(Some(golden)), _) => Pair::paired_with(member, Some(golden.dump.dir())),
                (Some(None), _) => Pair::unpaired(&member, "the golden has no dump of this rank"),
                (None, Some((golden, number))) => Pair::by_order(member, golden, number),
                (None, None) => Pair::unpaired(&member, NOT_PAIRED),
            });
        }
        let only_golden =
            golden.members().iter().filter(|member| member.rank.is_some_and(|rank| !ranks.contains(&rank)));
        pairs.extend(only_golden.map(|member| Pair::unpaired(member, "only the golden has it")));
        pairs
    }

    /// Ranks that the run has according to the names of its folders and its `run.json`, and that are neither among
    /// these dumps nor in `pairs`. For the folder of one rank, the run is the folder that contains it.
    #[must_use]
    pub fn absent(&self, known: &[u64]) -> Vec<Pair> {
        let is_whole = is_run_folder(self.path());
        let run = match is_whole {
            true => Some(self.path()),
            false => self.members().first().and_then(|member| member.dump.dir().parent()),
        };
        let Some(run) = run else { return Vec::new() };
        let absent = |(rank, found): (u64, RankOfRun)| {
            let (why, dir) = match found {
                RankOfRun::Expected => (NEVER_ATTACHED, None),
                RankOfRun::Attached => (if is_whole { NO_DUMP } else { NOT_GIVEN }, None),
                // The folder of another host may not have been named.
                RankOfRun::Folder(dir) => {
                    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
                    let is_inside = is_whole && canonical(&dir).starts_with(canonical(run));
                    (if is_inside { NO_DUMP } else { NOT_GIVEN }, Some(dir))
                }
            };
            Pair::Unpaired { name: format!("rank {rank}"), rank: Some(rank), pid: None, why, dir }
        };
        let ranks = ranks_of_run(run).into_iter().filter(|(rank, _)| !known.contains(rank));
        let (never, others): (Vec<_>, Vec<_>) = ranks.partition(|(_, found)| *found == RankOfRun::Expected);
        let more = never.len().saturating_sub(LISTED);
        let mut absent: Vec<Pair> =
            others.into_iter().chain(never.into_iter().take(LISTED)).map(absent).collect();
        absent.sort_by_key(|pair| match pair {
            Pair::Unpaired { rank, .. } => *rank,
            Pair::Paired { .. } => None,
        });
        if more > 0 {
            let (name, why) = (format!("{more} more ranks"), NEVER_ATTACHED);
            absent.push(Pair::Unpaired { name, rank: None, pid: None, why, dir: None });
        }
        absent
    }

    /// Folders of the dumps without a rank, in the order in which their processes attached. `None` if
    /// `run.json` does not list all of them.
    fn unranked(&self) -> Option<Vec<&Path>> {
        let order = attach_order(self.path());
        let number = |dir: &Path| order.iter().position(|folder| dir == folder);
        let without = self.members().iter().filter(|member| member.pid.is_some());
        let numbered = without.map(|member| Some((number(member.dump.dir())?, member.dump.dir())));
        let mut numbered = numbered.collect::<Option<Vec<_>>>()?;
        numbered.sort_unstable();
        Some(numbered.into_iter().map(|(_, dir)| dir).collect())
    }
}

/// Why a rank of the run is not compared although its folder is there.
const NOT_GIVEN: &str = "only a part of the run was named: name the folder of the whole run";

/// Ranks that never attached and that are listed each.
const LISTED: usize = 256;

/// Why a rank is not compared that the run should have.
const NEVER_ATTACHED: &str = "the program has this rank, but it never attached";

/// Why a rank of the run is not compared.
const NO_DUMP: &str = "the run has this rank, but no dump of it";

/// Why a process without a rank has no counterpart.
const NOT_PAIRED: &str =
    "it has no rank, and the two runs have different numbers of such processes: name two dumps";
