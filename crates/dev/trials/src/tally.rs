//! Counts the results, and prints the tables.
//!
//! A cell is a backend, the levels of both dumps and a fault. The first table has one row for each backend and fault, the
//! second one for each backend and pair of levels. The third shows in which cells the headline misses the culprit.

use std::collections::{BTreeMap, BTreeSet};

use crate::oracle::Judgment;

/// A cell: backend, levels of both dumps, fault.
pub type Cell = (&'static str, &'static str, String);

/// The columns of the first two tables.
const COLUMNS: [&str; 10] = [
    "runs", "first", "named", "decid.", "d.first", "INNOCENT", "R.FAILED", "W.PASSED", "needless", "rightly",
];
const RUNS: usize = 0;
const DECIDABLE: usize = 3;
const DECIDED_FIRST: usize = 4;

/// One number per column.
type Counts = [u64; COLUMNS.len()];

/// What all decidable trials together must reach, in percent, if there are enough of them.
const LEAST_PERCENT: u64 = 99;
const ENOUGH_DECIDABLE: u64 = 100;
/// What each cell with enough trials must reach.
const LEAST_PERCENT_OF_CELL: u64 = 95;
const ENOUGH_OF_CELL: u64 = 50;

/// The results of all trials so far.
#[derive(Default)]
pub struct Tally {
    cells: BTreeMap<Cell, Counts>,
    /// Trials that broke a rule.
    pub violations: u64,
    /// Trials without an answer: `blame` crashed or refused, or a run could not be recorded.
    pub broken: u64,
}

impl Tally {
    pub fn count(&mut self, cell: Cell, is_right: bool, judgment: &Judgment) {
        let is_open = !judgment.named && !is_right;
        let counted = [
            true,
            judgment.named_first,
            judgment.named,
            judgment.is_decidable,
            judgment.is_decidable && judgment.named_first,
            !judgment.innocents.is_empty(),
            judgment.right_run_failed,
            judgment.wrong_run_passed,
            judgment.undecided_needlessly(),
            is_open && !judgment.is_decidable,
        ];
        add(self.cells.entry(cell).or_default(), &counted.map(u64::from));
        self.violations += u64::from(judgment.is_violation());
    }

    /// Why too few culprits were named first among the trials that the facts decide. A short run decides nothing.
    pub fn shortcomings(&self) -> Vec<String> {
        let sum = self.sum(|_| true);
        let mut found = Vec::new();
        if sum[DECIDABLE] >= ENOUGH_DECIDABLE && misses(&sum, LEAST_PERCENT) {
            found.push(format!(
                "the headline is right in less than {LEAST_PERCENT} % of the decidable trials"
            ));
        }
        for ((backend, levels, fault), counts) in &self.cells {
            if counts[RUNS] >= ENOUGH_OF_CELL && misses(counts, LEAST_PERCENT_OF_CELL) {
                let share = format!("{} of {}", counts[DECIDED_FIRST], counts[DECIDABLE]);
                found.push(format!(
                    "{backend}, {levels}, {fault}: the headline is right in {share} decidable trials, which is less than \
                     {LEAST_PERCENT_OF_CELL} %"
                ));
            }
        }
        found
    }

    fn sum(&self, is_wanted: impl Fn(&Cell) -> bool) -> Counts {
        let mut sum = Counts::default();
        self.cells.iter().filter(|(cell, _)| is_wanted(cell)).for_each(|(_, counts)| add(&mut sum, counts));
        sum
    }

    pub fn print(&self) {
        let faults: BTreeSet<_> = self.cells.keys().map(|(backend, _, fault)| (*backend, fault)).collect();
        let levels: BTreeSet<_> = self.cells.keys().map(|(backend, levels, _)| (*backend, *levels)).collect();
        let of_fault = |backend: &str, fault: &str| self.sum(|cell| cell.0 == backend && cell.2 == fault);
        let of_levels = |backend: &str, levels: &str| self.sum(|cell| cell.0 == backend && cell.1 == levels);
        head("fault");
        faults.iter().for_each(|(backend, fault)| row(backend, fault, &of_fault(backend, fault)));
        row("all", "", &self.sum(|_| true));
        head("levels");
        levels.iter().for_each(|(backend, levels)| row(backend, levels, &of_levels(backend, levels)));
        self.print_cells(&faults);
        let sum = self.sum(|_| true);
        let share = if sum[DECIDABLE] == 0 {
            100.0
        } else {
            100.0 * sum[DECIDED_FIRST] as f64 / sum[DECIDABLE] as f64
        };
        println!("\nnamed first in {share:.1} % of {} decidable trials", sum[DECIDABLE]);
        let small = self.cells.values().filter(|counts| counts[RUNS] < ENOUGH_OF_CELL).count();
        println!("{small} of {} cells have fewer than {ENOUGH_OF_CELL} trials", self.cells.len());
    }

    /// One row per backend and fault, and one column per pair of levels.
    fn print_cells(&self, faults: &BTreeSet<(&'static str, &String)>) {
        let levels: BTreeSet<_> = self.cells.keys().map(|(_, levels, _)| *levels).collect();
        println!("\ndecidable trials with a correct headline, and all decidable trials, by levels");
        let names = levels.iter().map(|levels| (*levels).to_owned());
        println!("{:<8} {:<15}{}", "backend", "fault", line(names, 12));
        for (backend, fault) in faults {
            let cell = |levels: &&'static str| match self.cells.get(&(*backend, *levels, (*fault).clone())) {
                Some(counts) if counts[DECIDABLE] > 0 => {
                    format!("{}/{}", counts[DECIDED_FIRST], counts[DECIDABLE])
                }
                Some(_) => "·".to_owned(),
                None => String::new(),
            };
            let cells: Vec<String> = levels.iter().map(cell).collect();
            if cells.iter().any(|cell| cell.contains('/')) {
                println!("{backend:<8} {fault:<15}{}", line(cells, 12));
            }
        }
    }
}

fn misses(counts: &Counts, least_percent: u64) -> bool {
    counts[DECIDED_FIRST] * 100 < counts[DECIDABLE] * least_percent
}

fn add(sum: &mut Counts, counts: &Counts) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn head(what: &str) {
    println!("\n{:<8} {what:<15}{}", "backend", line(COLUMNS.map(str::to_owned), 9));
}

fn row(backend: &str, name: &str, counts: &Counts) {
    let cells = counts.map(|count| if count == 0 { "·".to_owned() } else { count.to_string() });
    println!("{backend:<8} {name:<15}{}", line(cells, 9));
}

fn line(cells: impl IntoIterator<Item = String>, width: usize) -> String {
    cells.into_iter().map(|cell| format!(" {cell:>0$}", width - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tally of one cell with a number of decidable trials, some of which have a wrong headline.
    fn tally(decidable: u64, missed: u64) -> Tally {
        let mut tally = Tally::default();
        for number in 0..decidable {
            let judgment =
                Judgment { is_decidable: true, named_first: number >= missed, ..Judgment::default() };
            tally.count(("api", "full", "value".to_owned()), false, &judgment);
        }
        tally
    }

    #[test]
    fn a_cell_and_all_trials_must_reach_their_shares() {
        assert!(tally(49, 49).shortcomings().is_empty(), "too few trials to judge");
        assert!(tally(60, 3).shortcomings().is_empty(), "95 % of a cell");
        assert_eq!(tally(60, 4).shortcomings().len(), 1, "less than 95 % of a cell");
        assert!(tally(200, 2).shortcomings().is_empty(), "99 % of all");
        assert_eq!(tally(200, 3).shortcomings().len(), 1, "less than 99 % of all");
        assert_eq!(tally(200, 20).shortcomings().len(), 2);
    }

    #[test]
    fn one_trial_of_many_breaks_a_rule() {
        let mut tally = tally(10, 0);
        assert_eq!(tally.violations, 0);
        let judgment = Judgment { wrong_run_passed: true, ..Judgment::default() };
        tally.count(("api", "hash", "value".to_owned()), false, &judgment);
        assert_eq!(tally.violations, 1);
        assert_eq!(tally.sum(|cell| cell.1 == "hash")[RUNS], 1);
        assert_eq!(tally.sum(|_| true)[RUNS], 11);
    }
}
