//! Counts results and violations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Kind of disturbance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Kind {
    /// Kills host, device or both.
    Kills,
    /// Makes writes fail or write less than requested.
    Writes,
    /// Overwrites words of the dump region during a run.
    Scribbles,
    /// Damages the files of a finished dump and reads them.
    Damage,
}

/// A violated guarantee. None is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Violation {
    /// A record of a dump without reported problems differs from the task's data.
    WrongRecord,
    /// An acknowledged record is not in the dump.
    LostRecord,
    /// Something did not end in time.
    Hang,
    /// A process or shared memory outlived its run.
    Orphan,
    /// A panic, or death by a signal that torture did not send.
    Panic,
    /// A file was written outside the expected places.
    WriteOutside,
    /// The memory limit was reached.
    Memory,
    /// Any other documented guarantee: an exit status, the result of `verify` on a repaired dump, text
    /// without escapes.
    Promise,
}

/// Every kind of violation, in the order of the table, with its name there.
pub const BROKEN: [(Violation, &str); 8] = [
    (Violation::WrongRecord, "wrong record"),
    (Violation::LostRecord, "lost record"),
    (Violation::Hang, "hang"),
    (Violation::Orphan, "orphan"),
    (Violation::Panic, "panic"),
    (Violation::WriteOutside, "write outside"),
    (Violation::Memory, "memory"),
    (Violation::Promise, "promise"),
];

/// Why a round failed.
#[derive(Debug)]
pub struct Failure {
    /// The violated guarantee.
    pub broken: Violation,
    /// Description of what happened.
    pub what: String,
}

impl Failure {
    /// A failure with a description.
    pub fn new(broken: Violation, what: impl Into<String>) -> Failure {
        Failure { broken, what: what.into() }
    }
}

/// The result of a round: number of events by name.
pub type Outcome = Result<Vec<(String, u64)>, Failure>;

/// A failed round, for the report.
pub struct Report {
    /// Seed of the round.
    pub seed: u64,
    /// Its kind.
    pub kind: Kind,
    /// The failure.
    pub failure: Failure,
    /// The folder with all its files.
    pub kept: PathBuf,
}

/// The results of all rounds so far.
#[derive(Default)]
pub struct Tally {
    events: BTreeMap<(Kind, String), u64>,
    broken: BTreeMap<(Kind, Violation), u64>,
    rounds: BTreeMap<Kind, u64>,
    /// Failed rounds.
    pub reports: Vec<Report>,
}

impl Tally {
    /// Counts a round without violations.
    pub fn good(&mut self, kind: Kind, events: Vec<(String, u64)>) {
        *self.rounds.entry(kind).or_default() += 1;
        for (name, count) in events {
            *self.events.entry((kind, name)).or_default() += count;
        }
    }

    /// Counts a failed round.
    pub fn bad(&mut self, report: Report) {
        *self.rounds.entry(report.kind).or_default() += 1;
        *self.broken.entry((report.kind, report.failure.broken)).or_default() += 1;
        self.reports.push(report);
    }

    /// Prints the table: one line per kind of event, one column per guarantee.
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
