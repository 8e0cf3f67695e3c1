//! Collectives with a recorded group: group and number identify the operation, and only ranks that recorded something of the
//! group are in it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tensortap_abi::CollectiveKind;
use tensortap_format::Tasks;

use super::groups::split;
use super::names::CollectiveNames;
use super::operations::{Collectives, GroupBasis, GroupOperation, Unaligned, sequences_in};
use super::{MissingRank, RankBlame, partner_of};

/// Name of the group and number in it.
type Key = (String, u64);

/// The recorded collectives of all ranks.
pub(super) struct RecordedKeys {
    /// By rank.
    of_ranks: Vec<RankKeys>,
    /// By rank: those of its golden.
    of_golden: Vec<Option<RankKeys>>,
    /// Names of recorded collectives, as found by name.
    pub names: HashSet<String>,
    /// Names of collectives without a recorded group.
    unrecorded: HashSet<String>,
}

/// The recorded collectives of one rank.
struct RankKeys {
    /// The tasks of each operation. A sound dump has one.
    tasks: BTreeMap<Key, Vec<(usize, CollectiveKind)>>,
    groups: HashSet<String>,
    /// By position of a task.
    of_task: HashMap<usize, Key>,
}

impl RankKeys {
    fn of(tasks: &Tasks) -> RankKeys {
        let mut found = RankKeys { tasks: BTreeMap::new(), groups: HashSet::new(), of_task: HashMap::new() };
        for task in tasks.iter() {
            let Some(collective) = task.collective() else { continue };
            // A damaged dump may lack the name of the group.
            let group = tasks.text(collective.group).unwrap_or("?").to_owned();
            found.groups.insert(group.clone());
            let key = (group, collective.sequence);
            found.tasks.entry(key.clone()).or_default().push((task.place(), collective.kind));
            found.of_task.insert(task.place(), key);
        }
        found
    }
}

impl RecordedKeys {
    pub fn of(ranks: &[RankBlame], names: &CollectiveNames) -> RecordedKeys {
        let of_ranks: Vec<RankKeys> =
            ranks.iter().map(|rank| RankKeys::of(rank.blame.graph.tasks())).collect();
        let golden = |rank: &RankBlame| Some(RankKeys::of(rank.blame.golden.as_ref()?.tasks()));
        let mut found = RecordedKeys {
            of_golden: ranks.iter().map(golden).collect(),
            of_ranks,
            names: HashSet::new(),
            unrecorded: HashSet::new(),
        };
        if found.of_ranks.iter().all(|keys| keys.tasks.is_empty()) {
            return found;
        }
        for (rank, keys) in ranks.iter().zip(&found.of_ranks) {
            let graph = &rank.blame.graph;
            found.names.extend(keys.of_task.keys().filter_map(|&task| names.kind_of(graph.task(task))));
            let unrecorded = sequences_in(graph.tasks(), names).into_keys();
            found.unrecorded.extend(unrecorded.map(|(_, name)| name));
        }
        found.unrecorded.retain(|name| found.names.contains(name));
        found
    }
}

/// Joins the recorded collectives of all ranks.
pub(super) fn recorded(ranks: &[RankBlame], missing: &[MissingRank], keys: &RecordedKeys) -> Collectives {
    let mut found = Collectives::default();
    let all: BTreeSet<&Key> = keys.of_ranks.iter().flat_map(|rank| rank.tasks.keys()).collect();
    if all.is_empty() {
        return found;
    }
    let away: Vec<Option<RankKeys>> =
        missing.iter().map(|rank| rank.tasks.as_ref().map(RankKeys::of)).collect();
    for key in all {
        let joiner = KeyJoiner { ranks, missing, away: &away, keys, key };
        match joiner.join() {
            // Different groups must have different names. Content shows if they do not.
            Ok(operation) => found.operations.extend(split(ranks, operation)),
            Err(reason) => found.unaligned.push(joiner.unaligned(reason)),
        }
    }
    found.operations.sort_by_key(|operation| operation.step);
    found
}

struct KeyJoiner<'a> {
    ranks: &'a [RankBlame],
    missing: &'a [MissingRank],
    away: &'a [Option<RankKeys>],
    keys: &'a RecordedKeys,
    key: &'a Key,
}

impl KeyJoiner<'_> {
    /// By rank: its tasks of this operation.
    fn tasks(&self) -> impl Iterator<Item = (usize, usize, CollectiveKind)> + '_ {
        let ranks = self.keys.of_ranks.iter().enumerate();
        ranks.flat_map(|(rank, keys)| {
            let tasks = keys.tasks.get(self.key).into_iter().flatten();
            tasks.map(move |&(task, kind)| (rank, task, kind))
        })
    }

    fn kind(&self) -> CollectiveKind {
        self.tasks().next().map_or(CollectiveKind::Other, |(_, _, kind)| kind)
    }

    fn step(&self) -> u32 {
        let first = self.tasks().next();
        first.map_or(0, |(rank, task, _)| self.ranks[rank].blame.graph.task(task).step)
    }

    fn unaligned(&self, reason: String) -> Unaligned {
        Unaligned {
            step: self.step(),
            name: self.kind().name().into(),
            reason,
            tasks: self.tasks().map(|(rank, task, _)| (rank, task)).collect(),
        }
    }

    /// The operation, or why its tasks do not line up.
    fn join(&self) -> Result<GroupOperation, String> {
        let (group, number) = self.key;
        let mut tasks = vec![None; self.ranks.len()];
        for (rank, task, kind) in self.tasks() {
            let is_same = |one: CollectiveKind| matches!(one, CollectiveKind::Send | CollectiveKind::Receive);
            if kind != self.kind() && !(is_same(kind) && is_same(self.kind())) {
                let (one, other) = (self.kind().name(), kind.name());
                return Err(format!(
                    "number {number} of group {group} is {one} on one rank, but {other} on another"
                ));
            }
            if tasks[rank].replace(task).is_some() {
                return Err(format!(
                    "{} recorded number {number} of group {group} more than once",
                    self.ranks[rank].name
                ));
            }
        }
        (0..self.ranks.len())
            .filter(|&rank| tasks[rank].is_none())
            .try_for_each(|rank| self.check_absent(rank))?;
        self.check_partners(&tasks)?;
        let is_in_group = |keys: &RankKeys| keys.groups.contains(group);
        let missing = (0..self.missing.len())
            .filter(|&rank| self.away[rank].as_ref().is_none_or(is_in_group))
            .collect();
        Ok(GroupOperation {
            step: self.step(),
            name: self.kind().name().into(),
            group: Some(group.clone()),
            number: *number,
            tasks,
            missing,
            has_equal_results: self.kind().has_equal_results(),
            basis: GroupBasis::Recorded,
        })
    }

    /// A rank without this operation must not be in its group.
    fn check_absent(&self, rank: usize) -> Result<(), String> {
        let (group, number) = self.key;
        let name = &self.ranks[rank].name;
        let golden = self.keys.of_golden[rank].as_ref();
        let is_in_group = |keys: &RankKeys| keys.groups.contains(group);
        if is_in_group(&self.keys.of_ranks[rank]) || golden.is_some_and(is_in_group) {
            return Err(format!("{name} is in group {group}, but did not record number {number}"));
        }
        let has_gap = self.ranks[rank].blame.graph.gap.is_some();
        if has_gap && self.ranks[rank].blame.golden.as_ref().is_none_or(|golden| golden.gap.is_some()) {
            return Err(format!("the dump of {name} is incomplete, so it may be in group {group}"));
        }
        if !self.keys.unrecorded.is_empty() {
            return Err(format!("{name} runs collectives of the same name without a recorded group"));
        }
        Ok(())
    }

    /// The golden's tasks of one operation must be of one operation, too.
    fn check_partners(&self, tasks: &[Option<usize>]) -> Result<(), String> {
        let mut first: Option<(usize, &Key)> = None;
        for (rank, task) in tasks.iter().enumerate() {
            let Some(partner) = task.and_then(|task| partner_of(&self.ranks[rank].blame, task)) else {
                continue;
            };
            let golden = self.keys.of_golden[rank].as_ref();
            let Some(key) = golden.and_then(|golden| golden.of_task.get(&partner)) else { continue };
            let (one, expected) = *first.get_or_insert((rank, key));
            if expected != key {
                let (one, other) = (&self.ranks[one].name, &self.ranks[rank].name);
                return Err(format!(
                    "number {} of group {} is number {} of group {} in the golden on {one}, but number {} of group {} on {other}",
                    self.key.1, self.key.0, expected.1, expected.0, key.1, key.0
                ));
            }
        }
        Ok(())
    }
}
