//! What happened, and what must not have.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What is done to a run or a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    /// Host, device or both are killed.
    Kills,
    /// Writes fail, or write less than they were asked to.
    Writes,
    /// Words of the dump region are overwritten while the run lasts.
    Scribbles,
    /// Files of a finished dump are damaged and read.
    Damage,
}

/// A promise that was broken. None is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Broken {
    /// A record of a dump that is said to be good has other content than the task had.
    WrongRecord,
    /// A record that the collector acknowledged is not in the dump.
    LostRecord,
    /// Something did not end in its time.
    Hang,
    /// A process or shared memory outlived its run.
    Orphan,
    /// A panic, or an end by a signal that nobody sent.
    Panic,
    /// Something was written where the verb has no business.
    WriteOutside,
    /// The limit on memory was met.
    Memory,
    /// Something else that a page promises: an exit status, what `verify` says of a repaired dump, text without escapes.
    Promise,
}

/// Every kind of broken promise, in the order of the table, with its name there.
pub const BROKEN: [(Broken, &str); 8] = [
    (Broken::WrongRecord, "wrong record"),
    (Broken::LostRecord, "lost record"),
    (Broken::Hang, "hang"),
    (Broken::Orphan, "orphan"),
    (Broken::Panic, "panic"),
    (Broken::WriteOutside, "write outside"),
    (Broken::Memory, "memory"),
    (Broken::Promise, "promise"),
];

/// How a round failed.
#[derive(Debug)]
pub struct Failure {
    /// What was broken.
    pub broken: Broken,
    /// What was seen, in words.
    pub what: String,
}

impl Failure {
    /// A failure, told in words.
    pub fn new(broken: Broken, what: impl Into<String>) -> Failure {
        Failure { broken, what: what.into() }
    }
}

/// How a round ended: how many events of which name it made.
pub type Outcome = Result<Vec<(String, u64)>, Failure>;

/// A failed round, for the report.
pub struct Report {
    /// Seed of the round.
    pub seed: u64,
    /// Its kind.
    pub kind: Kind,
    /// What went wrong.
    pub failure: Failure,
    /// Where everything of it was kept.
    pub kept: PathBuf,
}

/// All rounds so far.
#[derive(Default)]
pub struct Tally {
    events: BTreeMap<(Kind, String), u64>,
    broken: BTreeMap<(Kind, Broken), u64>,
    rounds: BTreeMap<Kind, u64>,
    /// Failed rounds.
    pub reports: Vec<Report>,
}

impl Tally {
    /// Counts a round that kept every promise.
    pub fn good(&mut self, kind: Kind, events: Vec<(String, u64)>) {
        *self.rounds.entry(kind).or_default() += 1;
        for (name, count) in events {
            *self.events.entry((kind, name)).or_default() += count;
        }
    }

    /// Counts a round that did not.
    pub fn bad(&mut self, report: Report) {
        *self.rounds.entry(report.kind).or_default() += 1;
        *self.broken.entry((report.kind, report.failure.broken)).or_default() += 1;
        self.reports.push(report);
    }

    /// Prints the table: a line for each kind of event, a column for each promise.
    pub fn print(&self, took: Duration) {
        println!();
        println!("{:<10} {:>8}  {}", "", "rounds", BROKEN.map(|(_, name)| format!("{name:>15}")).join(""));
        for (&kind, rounds) in &self.rounds {
            let cells = BROKEN.map(|(broken, _)| {
                format!("{:>15}", self.broken.get(&(kind, broken)).copied().unwrap_or_default())
            });
            println!("{:<10} {rounds:>8}  {}", name_of(kind), cells.join(""));
        }
        println!();
        for ((kind, event), count) in &self.events {
            println!("{:<10} {count:>8}  {event}", name_of(*kind));
        }
        let rounds: u64 = self.rounds.values().sum();
        println!("\n{rounds} rounds in {:.0} s, {} failed", took.as_secs_f64(), self.reports.len());
    }
}

/// The name of a kind on the command line and in the table.
pub fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Kills => "kills",
        Kind::Writes => "writes",
        Kind::Scribbles => "scribbles",
        Kind::Damage => "damage",
    }
}
