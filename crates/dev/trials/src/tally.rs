//! Counts the results, and prints the table.

use std::collections::BTreeMap;

use crate::faults::Fault;
use crate::oracle::Judgment;

/// A row of the table: backend, levels of both dumps, fault.
pub type Row = (&'static str, &'static str, String);

#[derive(Clone, Copy, Default)]
struct Counts {
    runs: u64,
    named_first: u64,
    named: u64,
    decidable: u64,
    innocent: u64,
    right_failed: u64,
    wrong_passed: u64,
    needlessly: u64,
    rightly: u64,
}

/// The results of all trials so far.
#[derive(Default)]
pub struct Tally {
    rows: BTreeMap<Row, Counts>,
    /// Trials that broke a rule, with the command that reproduces them.
    pub violations: u64,
    /// Trials without an answer: `blame` crashed or refused.
    pub broken: u64,
}

const HEADS: [&str; 9] =
    ["runs", "first", "named", "decid.", "INNOCENT", "R.FAILED", "W.PASSED", "needless", "rightly"];

impl Tally {
    pub fn count(&mut self, row: Row, is_right: bool, judgment: &Judgment) {
        let is_open = !judgment.named && !is_right;
        let counts = self.rows.entry(row).or_default();
        counts.runs += 1;
        counts.named_first += u64::from(judgment.named_first);
        counts.named += u64::from(judgment.named);
        counts.decidable += u64::from(judgment.is_decidable);
        counts.innocent += u64::from(!judgment.innocents.is_empty());
        counts.right_failed += u64::from(judgment.right_run_failed);
        counts.wrong_passed += u64::from(judgment.wrong_run_passed);
        counts.needlessly += u64::from(judgment.undecided_needlessly());
        counts.rightly += u64::from(is_open && !judgment.is_decidable);
        self.violations += u64::from(judgment.is_violation());
    }

    pub fn print(&self) {
        println!("\n{:<8} {:<12} {:<14}{}", "backend", "levels", "fault", line(&HEADS.map(str::to_owned)));
        let mut sum = Counts::default();
        for ((backend, levels, fault), counts) in &self.rows {
            println!("{backend:<8} {levels:<12} {:<14}{}", fault, line(&counts.cells()));
            sum.add(counts);
        }
        println!("{:<36}{}", "all", line(&sum.cells()));
    }
}

pub fn name_of(fault: Fault) -> String {
    use clap::ValueEnum;
    fault.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn line(cells: &[String; 9]) -> String {
    cells.iter().map(|cell| format!("{cell:>9}")).collect()
}

impl Counts {
    fn numbers(&self) -> [u64; 9] {
        let Counts {
            runs,
            named_first,
            named,
            decidable,
            innocent,
            right_failed,
            wrong_passed,
            needlessly,
            rightly,
        } = *self;
        [runs, named_first, named, decidable, innocent, right_failed, wrong_passed, needlessly, rightly]
    }

    fn cells(&self) -> [String; 9] {
        self.numbers().map(|number| if number == 0 { "·".to_owned() } else { number.to_string() })
    }

    fn add(&mut self, other: &Counts) {
        let [runs, named_first, named, decidable, innocent, right_failed, wrong_passed, needlessly, rightly] =
            std::array::from_fn(|at| self.numbers()[at] + other.numbers()[at]);
        *self = Counts {
            runs,
            named_first,
            named,
            decidable,
            innocent,
            right_failed,
            wrong_passed,
            needlessly,
            rightly,
        };
    }
}
