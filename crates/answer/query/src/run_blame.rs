//! The verdict on a run of many ranks, in words that the command, the page and the report share.

use tensortap::analysis::blame::Blame;
use tensortap::analysis::labels::Label;
use tensortap::analysis::ranks::{
    CollectiveNames, GroupOperation, JointBlame, MissingRank, RankBlame, RankTask, RunVerdict, Unaligned,
    WrongCollective, join,
};

use crate::blame_words::{label_phrase, name, stopped_words};
use crate::number::{counted, grouped};
use crate::verdict::more;
use crate::words::printable;

/// Unaligned collectives and missing ranks that are listed.
const LISTED: usize = 3;

/// The ranks of a run, judged together.
pub struct RunBlame {
    /// Ranks with labels that all ranks agree on.
    pub ranks: Vec<RankBlame>,
    /// Their numbers; `None` for a process without a rank.
    pub numbers: Vec<Option<u64>>,
    /// Ranks that could not be compared.
    pub missing: Vec<MissingRank>,
    /// Their numbers.
    pub missing_numbers: Vec<Option<u64>>,
    /// What the ranks show together.
    pub joint: JointBlame,
    /// How collectives were found.
    pub names: CollectiveNames,
}

impl RunBlame {
    /// Judges ranks together.
    #[must_use]
    pub fn new(
        ranks: Vec<(Option<u64>, RankBlame)>,
        missing: Vec<(Option<u64>, MissingRank)>,
        names: CollectiveNames,
    ) -> RunBlame {
        let (numbers, mut ranks): (Vec<_>, Vec<_>) = ranks.into_iter().unzip();
        let (missing_numbers, missing): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
        let joint = join(&mut ranks, &missing, &names);
        RunBlame { ranks, numbers, missing, missing_numbers, joint, names }
    }

    /// The labels of a rank.
    #[must_use]
    pub fn blame(&self, rank: usize) -> &Blame {
        &self.ranks[rank].blame
    }

    /// The earliest cause in one sentence; `None` if no task is known to be the first.
    #[must_use]
    pub fn cause(&self) -> Option<String> {
        if let Some(stopped) = self.stopped() {
            return Some(stopped);
        }
        let first = *self.joint.first_wrong.first()?;
        if let Some(wrong) = self.wrong_collective(first) {
            return Some(self.collective_words(wrong));
        }
        let blame = self.blame(first.rank);
        let label = label_phrase(blame.findings[first.task].label);
        let cause = format!(
            "{}: {} {label}{}",
            self.ranks[first.rank].name,
            name(blame, first.task),
            more(blame, first.task)
        );
        let rest = match self.joint.first_wrong.len() - 1 {
            0 => String::new(),
            1 => "; 1 more task has no wrong task before it".into(),
            rest => format!("; {} more tasks have no wrong task before them", grouped(rest as u64)),
        };
        Some(cause + &rest)
    }

    /// A task that was refused or never ended. Later errors may follow from it. A collective may wait for another
    /// rank, so other tasks come first.
    fn stopped(&self) -> Option<String> {
        let all =
            self.ranks.iter().flat_map(|rank| rank.blame.stopped.iter().map(move |stopped| (rank, stopped)));
        let is_collective = |rank: &RankBlame, task: usize| {
            let task = rank.blame.graph.task(task);
            task.collective().is_some() || self.names.kind_of(task).is_some()
        };
        let (rank, stopped) = all.min_by_key(|(rank, stopped)| is_collective(rank, stopped.task))?;
        Some(format!("{}: {}", rank.name, stopped_words(&rank.blame, stopped)))
    }

    /// Why the verdict is undecided.
    #[must_use]
    pub fn undecided_words(&self) -> String {
        let deciding: Vec<usize> = match self.joint.undecided.is_empty() {
            true => (0..self.missing.len()).collect(),
            false => self.joint.undecided.keys().copied().collect(),
        };
        let mut ranks: Vec<String> = deciding
            .iter()
            .take(LISTED)
            .map(|&rank| format!("{} ({})", self.missing[rank].name, printable(&self.missing[rank].why)))
            .collect();
        if deciding.len() > LISTED {
            ranks.push(format!("{} more", grouped((deciding.len() - LISTED) as u64)));
        }
        let operations = self.joint.undecided.values().flatten().collect::<std::collections::BTreeSet<_>>();
        match operations.first() {
            Some(&&first) => {
                let operation = &self.joint.operations[first];
                format!(
                    "{} could decide: `{}` is wrong, and its inputs on the other ranks are right",
                    ranks.join(", "),
                    printable(&operation.name)
                )
            }
            None => format!("{} could decide: no other rank shows where an error began", ranks.join(", ")),
        }
    }

    /// The collective that is wrong as a whole and that a task belongs to.
    #[must_use]
    pub fn wrong_collective(&self, at: RankTask) -> Option<&WrongCollective> {
        self.joint.wrong_collectives.iter().find(|wrong| {
            wrong.ranks.contains(&at.rank)
                && self.joint.operations[wrong.operation].tasks[at.rank] == Some(at.task)
        })
    }

    /// `` `all_reduce` of step 1 is wrong on all 4 ranks, in the same way, although all its inputs are right ``.
    fn collective_words(&self, wrong: &WrongCollective) -> String {
        let operation = &self.joint.operations[wrong.operation];
        let ranks = match wrong.ranks.len() {
            all if all == operation.members().count() => format!("all {}", counted(all as u64, "rank")),
            _ => {
                let names: Vec<&str> =
                    wrong.ranks.iter().map(|&rank| self.ranks[rank].name.as_str()).collect();
                names.join(", ")
            }
        };
        let same = if wrong.is_same { ", in the same way," } else { "" };
        let is_alike = |other: &&GroupOperation| other.step == operation.step && other.name == operation.name;
        let number = match (self.joint.operations.iter().filter(is_alike).count(), &operation.group) {
            (0 | 1, _) => String::new(),
            (_, None) => format!("number {} ", grouped(operation.number + 1)),
            (_, Some(group)) => {
                format!("number {} of group {} ", grouped(operation.number), printable(group))
            }
        };
        format!(
            "`{}` {number}of step {} is wrong on {ranks}{same} although all its inputs are right",
            printable(&operation.name),
            operation.step
        )
    }

    /// How collectives were found, and which of them do not line up.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for (are_recorded, how) in [(true, "by their recorded groups"), (false, "by name")] {
            let counts = self.joint.counts(are_recorded);
            if !counts.is_empty() {
                let names: Vec<String> =
                    counts.iter().map(|(name, count)| format!("{} ({count})", printable(name))).collect();
                remarks.push(format!("collectives were found {how}: {}", names.join(", ")));
            }
        }
        let unaligned = &self.joint.unaligned;
        remarks.extend(unaligned.iter().take(LISTED).map(unaligned_words));
        if unaligned.len() > LISTED {
            let more = counted((unaligned.len() - LISTED) as u64, "further kind");
            remarks.push(format!("{more} of collectives do not line up"));
        }
        remarks
    }
}

/// `` the `all_reduce` tasks of step 1 do not line up: rank 0 recorded 2 of them, rank 1 recorded 3 ``.
fn unaligned_words(unaligned: &Unaligned) -> String {
    let Unaligned { step, name, reason, .. } = unaligned;
    format!(
        "the `{}` tasks of step {step} do not line up across ranks: {}",
        printable(name),
        printable(reason)
    )
}

/// One rank of a run that was judged together with the others.
#[derive(Clone, Copy)]
pub struct AcrossRanks<'a> {
    /// The run.
    pub run: &'a RunBlame,
    /// The rank.
    pub rank: usize,
    /// Whether the report is only about this rank, so that it must contain what it needs of the others.
    pub is_only: bool,
}

impl AcrossRanks<'_> {
    /// The verdict on the rank in one sentence, if it depends on other ranks.
    #[must_use]
    pub fn sentence(&self) -> Option<String> {
        let AcrossRanks { run, rank, .. } = *self;
        let blame = run.blame(rank);
        if !blame.first_wrong.is_empty() || !blame.stopped.is_empty() {
            return None;
        }
        if let Some(place) = crate::blame::roots(blame).first() {
            let label = label_phrase(blame.findings[*place].label);
            return Some(format!("{} {label}, but another error came before it", name(blame, *place)));
        }
        if let Some(&task) = run.joint.inherited_by(&run.ranks, rank).first() {
            let from = run.joint.from_rank[&RankTask { rank, task }];
            return Some(format!(
                "inherited an error from {}: {}, through {}",
                run.ranks[from.rank].name,
                name(run.blame(from.rank), from.task),
                name(blame, task)
            ));
        }
        let mut open: Vec<usize> = self.open().collect();
        blame.graph.sort(&mut open);
        let first = *open.first()?;
        let reason = blame.findings[first].reason.as_deref().unwrap_or_default();
        Some(format!("{} cannot be judged: {}", name(blame, first), printable(reason)))
    }

    /// Tasks that only other ranks could decide.
    fn open(&self) -> impl Iterator<Item = usize> {
        let findings = self.run.blame(self.rank).findings.iter().enumerate();
        findings
            .filter(|(_, finding)| finding.label == Label::Unknown && finding.depends_on_ranks)
            .map(|(at, _)| at)
    }

    /// The verdict on the rank. It is undecided if a missing rank could decide about one of its tasks and the first
    /// wrong task of the run is not known.
    #[must_use]
    pub fn verdict(&self, passes: bool) -> RunVerdict {
        let JointBlame { undecided, first_wrong, operations, .. } = &self.run.joint;
        let takes_part = |operation: &usize| operations[*operation].tasks[self.rank].is_some();
        let is_open = undecided.values().flatten().any(takes_part);
        let is_stopped = !self.run.blame(self.rank).stopped.is_empty();
        match (passes, is_open && first_wrong.is_empty() && !is_stopped) {
            (true, _) => RunVerdict::Pass,
            (false, true) => RunVerdict::Undecided,
            (false, false) => RunVerdict::Fail,
        }
    }

    /// The task of another rank that a task got its error from.
    #[must_use]
    pub fn from_rank(&self, task: usize) -> Option<RankTask> {
        self.run.joint.from_rank.get(&RankTask { rank: self.rank, task }).copied()
    }
}
