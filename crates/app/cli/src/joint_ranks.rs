//! The ranks of a run that are judged together, each with its golden.

use std::path::{Path, PathBuf};

use tensortap::analysis::ranks::MissingRank;
use tensortap::format::{Dump, Footer, Tasks};
use tensortap_query::ids::IdRange;
use tensortap_query::{DumpSet, Member, Pair, is_run_folder};

use crate::dump_path::{DumpPathArg, RankArg, golden_for_rank};

/// The ranks of a run.
pub struct JointRanks {
    /// The folder that the user named.
    pub folder: PathBuf,
    /// Ranks that are compared.
    pub members: Vec<RankPair>,
    /// Ranks that cannot be compared.
    pub missing: Vec<Pair>,
    /// The only rank that the user chose.
    pub only: Option<usize>,
}

/// A rank with its golden.
pub struct RankPair {
    pub member: Box<Member>,
    /// Folder of the golden.
    pub golden: PathBuf,
    /// Why these two are paired, if not by rank.
    pub why: Option<String>,
}

impl JointRanks {
    /// The run that the user named, if it has several ranks. `chosen` are the dumps that the options choose.
    pub fn of(chosen: &DumpSet, golden: &Path, ranks: &RankArg) -> anyhow::Result<Option<JointRanks>> {
        let is_whole = is_run_folder(chosen.path());
        if !is_whole {
            return JointRanks::of_one(chosen, golden);
        }
        if !is_run_folder(golden) {
            return Ok(None);
        }
        let set = DumpPathArg::named(Some(chosen.path().to_owned()), &RankArg::default()).open_set()?;
        let golden = DumpSet::open(golden)?;
        let known: Vec<u64> =
            set.members().iter().chain(golden.members()).filter_map(|member| member.rank).collect();
        let absent = set.absent(&known);
        if set.members().len() == 1 && golden.members().len() == 1 && absent.is_empty() {
            return Ok(None);
        }
        let mut run =
            JointRanks { folder: set.path().to_owned(), members: Vec::new(), missing: absent, only: None };
        let is_chosen = |member: &Member| ranks.matches(member.rank, member.process());
        for pair in set.paired(&golden) {
            match pair {
                Pair::Paired { member, golden: Some(golden), why } => {
                    run.members.push(RankPair { member, golden, why })
                }
                Pair::Paired { .. } => {}
                unpaired @ Pair::Unpaired { .. } => run.missing.push(unpaired),
            }
        }
        let chosen: Vec<usize> =
            (0..run.members.len()).filter(|&rank| is_chosen(&run.members[rank].member)).collect();
        if let ([only], false) = (chosen.as_slice(), ranks.is_empty()) {
            run.only = Some(*only);
        }
        Ok((!run.members.is_empty()).then_some(run))
    }

    /// The run of a folder of one rank. The other ranks of its run are missing.
    fn of_one(chosen: &DumpSet, golden: &Path) -> anyhow::Result<Option<JointRanks>> {
        let [member] = chosen.members() else { return Ok(None) };
        let missing = member.rank.map_or_else(Vec::new, |rank| chosen.absent(&[rank]));
        if missing.is_empty() || !golden.is_dir() {
            return Ok(None);
        }
        let golden = golden_for_rank(golden, member.rank)?;
        let Some(member) = DumpSet::open(chosen.path())?.into_members().next() else { return Ok(None) };
        let members = vec![RankPair { member: Box::new(member), golden, why: None }];
        Ok(Some(JointRanks { folder: chosen.path().to_owned(), members, missing, only: Some(0) }))
    }

    /// The missing ranks, with their tasks if there is a dump of them.
    pub fn missing(&self, steps: &[IdRange]) -> Vec<(Option<u64>, MissingRank)> {
        let one = |pair: &Pair| match pair {
            Pair::Unpaired { name, rank, why, dir, .. } => {
                let tasks = dir.as_deref().and_then(|dir| tasks_of(dir, steps));
                Some((*rank, MissingRank { name: name.clone(), why: (*why).to_owned(), tasks }))
            }
            Pair::Paired { .. } => None,
        };
        self.missing.iter().filter_map(one).collect()
    }
}

/// The tasks of the chosen steps of a dump; `None` if it cannot be read. Also `None` if it may lack tasks: then it does not
/// show in which collectives the rank takes part.
fn tasks_of(dir: &Path, steps: &[IdRange]) -> Option<Tasks> {
    let dump = Dump::open(dir).ok()?;
    let has_all = |footer: &Footer| footer.filtered_records == 0 && footer.losses.is_empty();
    if !dump.footer().is_none_or(has_all) || !dump.gaps().is_empty() {
        return None;
    }
    let mut tasks = dump.tasks().ok()?;
    tasks.keep_steps(steps);
    Some(tasks)
}
