//! Group operations: the tasks of one collective on all ranks.
//!
//! Collectives that the program [recorded](super::recorded) have a group and a number. The others are found by name: the
//! n-th collective of a kind in a step of one rank belongs to the n-th of that kind on the other ranks. This holds only if
//! the order on each rank is certain and if all ranks run equally many. Otherwise the kind does not line up in that step,
//! and nothing is concluded from it. A name does not show which ranks form a group; see [`super::groups`].

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use tensortap_format::Tasks;

use super::groups::refined;
use super::names::{CollectiveNames, has_equal_results};
use super::recorded::{RecordedKeys, recorded};
use super::{MissingRank, RankBlame, partner_of};
use crate::graph::{TaskGraph, lane};
use crate::observation::Order;

/// Step and name.
pub(super) type Kind = (u32, String);

/// Why the ranks of an operation form a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBasis {
    /// The program recorded the group.
    Recorded,
    /// The golden has the same output on all of these ranks.
    Content,
    /// The sizes of input and output fit the number of ranks.
    Sizes,
    /// Only the name: other ranks run a collective of the same name at the same position, perhaps in another group.
    Name,
}

/// One collective on all ranks of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOperation {
    /// Step of the run.
    pub step: u32,
    /// Name of the collective.
    pub name: String,
    /// Name of its group, if the program recorded it.
    pub group: Option<String>,
    /// Its number in its group. Without a recorded group: the position among those of this name in the step, from 0.
    pub number: u64,
    /// By rank: the position of its task; `None` if the rank is not in the group.
    pub tasks: Vec<Option<usize>>,
    /// Missing ranks that are in the group.
    pub missing: Vec<usize>,
    /// Whether it leaves the same content on all ranks.
    pub has_equal_results: bool,
    /// Why these ranks form a group.
    pub basis: GroupBasis,
}

impl GroupOperation {
    /// The tasks: the position of the rank, and that of the task in its graph.
    pub fn members(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.tasks.iter().enumerate().filter_map(|(rank, task)| Some((rank, (*task)?)))
    }

    /// Whether some of these ranks may be in another group.
    #[must_use]
    pub fn is_group_uncertain(&self) -> bool {
        self.basis == GroupBasis::Name && self.members().nth(1).is_some()
    }
}

/// Collectives of a name that do not line up across ranks in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unaligned {
    /// Step of the run.
    pub step: u32,
    /// Name of the collectives.
    pub name: String,
    /// Why.
    pub reason: String,
    /// The tasks: the position of the rank, and that of the task in its graph.
    pub tasks: Vec<(usize, usize)>,
}

/// The collectives of a run.
#[derive(Default)]
pub(super) struct Collectives {
    pub operations: Vec<GroupOperation>,
    pub unaligned: Vec<Unaligned>,
}

/// Joins the collectives of all ranks.
pub(super) fn collectives(
    ranks: &[RankBlame],
    missing: &[MissingRank],
    names: &CollectiveNames,
) -> Collectives {
    let keys = RecordedKeys::of(ranks, names);
    let mut found = recorded(ranks, missing, &keys);
    let sequences: Vec<_> = ranks.iter().map(|rank| sequences_in(rank.blame.graph.tasks(), names)).collect();
    let golden: Vec<_> = ranks
        .iter()
        .map(|rank| rank.blame.golden.as_ref().map(|graph| GoldenSequences::of(graph, names)))
        .collect();
    let orders: Vec<OnceCell<Order>> = ranks.iter().map(|_| OnceCell::new()).collect();
    let away: Vec<_> =
        missing.iter().map(|rank| rank.tasks.as_ref().map(|tasks| sequences_in(tasks, names))).collect();
    let mut tasks_by_kind: BTreeMap<&Kind, Vec<(usize, usize)>> = BTreeMap::new();
    for (rank, kinds) in sequences.iter().enumerate() {
        for (kind, places) in kinds {
            tasks_by_kind.entry(kind).or_default().extend(places.iter().map(|&place| (rank, place)));
        }
    }
    for (kind, tasks) in tasks_by_kind {
        let joiner = KindJoiner {
            ranks,
            missing,
            kind,
            sequences: &sequences,
            golden: &golden,
            away: &away,
            orders: &orders,
        };
        let joined = match keys.names.contains(&kind.1) {
            true => Err("only some of these tasks have a recorded group".into()),
            false => joiner.join().and_then(|operations| refined(ranks, operations)),
        };
        match joined {
            Ok(operations) => found.operations.extend(operations),
            Err(reason) => {
                let (step, name) = kind.clone();
                found.unaligned.push(Unaligned { step, name, reason, tasks });
            }
        }
    }
    found
}

type Sequences = HashMap<Kind, Vec<usize>>;

/// The collectives of each kind without a recorded group, in dependency order.
pub(super) fn sequences_in(tasks: &Tasks, names: &CollectiveNames) -> Sequences {
    let mut kinds = Sequences::new();
    // Programs run few kernels often, so names are matched once for each kernel.
    let mut known: HashMap<u32, Option<String>> = HashMap::new();
    for task in tasks.iter().filter(|task| task.collective().is_none()) {
        let mut func_ids = task.func_ids();
        let name = match (func_ids.next(), func_ids.next()) {
            (Some(only), None) => known.entry(only).or_insert_with(|| names.kind_of(task)).clone(),
            _ => names.kind_of(task),
        };
        if let Some(name) = name {
            kinds.entry((task.step, name)).or_default().push(task.place());
        }
    }
    kinds
}

/// The collectives of a golden.
struct GoldenSequences {
    kinds: HashSet<Kind>,
    steps: Vec<u32>,
    /// By position of a task: its number among those of its kind.
    numbers: HashMap<usize, usize>,
}

impl GoldenSequences {
    fn of(graph: &TaskGraph, names: &CollectiveNames) -> GoldenSequences {
        let sequences = sequences_in(graph.tasks(), names);
        let kinds = sequences.keys().cloned().collect();
        let numbered = sequences.into_values().flat_map(|places| places.into_iter().enumerate());
        let numbers = numbered.map(|(number, place)| (place, number)).collect();
        GoldenSequences { kinds, steps: graph.tasks().steps().to_vec(), numbers }
    }

    /// Whether the golden runs this kind. The steps of both runs may have different numbers.
    fn has(&self, kind: &Kind) -> bool {
        let has_step = self.steps.binary_search(&kind.0).is_ok();
        self.kinds.contains(kind) || !has_step && self.kinds.iter().any(|(_, name)| *name == kind.1)
    }
}

/// Joins the collectives of one kind.
struct KindJoiner<'a> {
    ranks: &'a [RankBlame],
    missing: &'a [MissingRank],
    kind: &'a Kind,
    sequences: &'a [Sequences],
    golden: &'a [Option<GoldenSequences>],
    away: &'a [Option<Sequences>],
    /// The order of the tasks of each rank, if it was needed.
    orders: &'a [OnceCell<Order>],
}

impl KindJoiner<'_> {
    /// The operations, or why the ranks do not line up.
    fn join(&self) -> Result<Vec<GroupOperation>, String> {
        let counts: Vec<usize> =
            self.sequences.iter().map(|kinds| kinds.get(self.kind).map_or(0, Vec::len)).collect();
        self.check_counts(&counts)?;
        (0..self.ranks.len()).try_for_each(|rank| self.check_order(rank))?;
        let count = counts.iter().copied().max().unwrap_or(0);
        let missing: Vec<usize> = (0..self.missing.len()).filter(|&rank| self.may_take_part(rank)).collect();
        let operations = (0..count).map(|number| {
            let task = |kinds: &Sequences| Some(kinds.get(self.kind)?[number]);
            let operation = GroupOperation {
                step: self.kind.0,
                name: self.kind.1.clone(),
                group: None,
                number: number as u64,
                tasks: self.sequences.iter().map(task).collect(),
                missing: missing.clone(),
                has_equal_results: has_equal_results(&self.kind.1),
                basis: GroupBasis::Name,
            };
            self.check_partners(&operation)?;
            Ok(operation)
        });
        operations.collect()
    }

    /// Every rank of the group runs equally many. A rank without any is not in the group, unless it may have lost
    /// them or has them in the golden.
    fn check_counts(&self, counts: &[usize]) -> Result<(), String> {
        let most = counts.iter().copied().max().unwrap_or(0);
        let full = counts.iter().position(|&count| count == most).unwrap_or(0);
        let lacking = self.ranks.iter().zip(self.golden).zip(counts).filter(|(_, count)| **count != most);
        for ((rank, golden), &count) in lacking {
            let is_in_golden = golden.as_ref().is_some_and(|golden| golden.has(self.kind));
            if count > 0 || rank.blame.graph.gap.is_some() || is_in_golden {
                return Err(format!(
                    "{} recorded {count} of them, {} recorded {most}",
                    rank.name, self.ranks[full].name
                ));
            }
        }
        for (rank, kinds) in self.missing.iter().zip(self.away) {
            let count = kinds.as_ref().and_then(|kinds| kinds.get(self.kind)).map(Vec::len);
            if let Some(count) = count.filter(|&count| count != most) {
                return Err(format!(
                    "{}, which is missing, has {count} of them, other ranks have {most}",
                    rank.name
                ));
            }
        }
        Ok(())
    }

    /// The order on a rank is certain: one queue, one thread, or dependencies.
    fn check_order(&self, rank: usize) -> Result<(), String> {
        let graph = &self.ranks[rank].blame.graph;
        let Some(places) = self.sequences[rank].get(self.kind) else { return Ok(()) };
        let lane_of = |place: usize| lane(graph.task(place));
        let is_one_lane = places.windows(2).all(|pair| lane_of(pair[0]) == lane_of(pair[1]));
        if is_one_lane {
            return Ok(());
        }
        let order = match graph.observations() {
            Some(seen) => seen.order(),
            None => self.orders[rank].get_or_init(|| Order::of(graph.tasks())),
        };
        match places.windows(2).all(|pair| order.is_before(pair[0], pair[1])) {
            true => Ok(()),
            false => Err(format!(
                "{} runs them in several queues or threads without an order",
                self.ranks[rank].name
            )),
        }
    }

    /// Whether a missing rank may be in the group: not if the golden shows that it never runs this kind.
    fn may_take_part(&self, rank: usize) -> bool {
        self.away[rank].as_ref().is_none_or(|kinds| kinds.contains_key(self.kind))
    }

    /// The golden's tasks of one operation must be of one operation, too.
    fn check_partners(&self, operation: &GroupOperation) -> Result<(), String> {
        let mut first: Option<(usize, usize)> = None;
        for (rank, place) in operation.members() {
            let partner = partner_of(&self.ranks[rank].blame, place);
            let golden = self.golden[rank].as_ref().zip(partner);
            let Some(number) = golden.and_then(|(golden, partner)| golden.numbers.get(&partner)) else {
                continue;
            };
            let (one, expected) = *first.get_or_insert((rank, *number));
            if expected != *number {
                return Err(format!(
                    "number {} is number {} in the golden on {}, but number {} on {}",
                    operation.number + 1,
                    expected + 1,
                    self.ranks[one].name,
                    number + 1,
                    self.ranks[rank].name
                ));
            }
        }
        Ok(())
    }
}
