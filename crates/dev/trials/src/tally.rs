//! Counts the results, and prints the table.

use std::collections::BTreeMap;

use crate::oracle::Judgment;

/// A row of the table: backend, levels of both dumps, fault.
pub type Row = (&'static str, &'static str, String);

/// The columns of the table.
const COLUMNS: [&str; 10] = [
    "runs", "first", "named", "decid.", "d.first", "INNOCENT", "R.FAILED", "W.PASSED", "needless", "rightly",
];
const DECIDABLE: usize = 3;
const DECIDED_FIRST: usize = 4;

/// One number per column.
type Counts = [u64; COLUMNS.len()];

/// The results of all trials so far.
#[derive(Default)]
pub struct Tally {
    rows: BTreeMap<Row, Counts>,
    /// Trials that broke a rule.
    pub violations: u64,
    /// Trials without an answer: `blame` crashed or refused, or a run could not be recorded.
    pub broken: u64,
}

impl Tally {
    pub fn count(&mut self, row: Row, is_right: bool, judgment: &Judgment) {
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
        add(self.rows.entry(row).or_default(), &counted.map(u64::from));
        self.violations += u64::from(judgment.is_violation());
    }

    /// Whether `blame` named the culprit first in too few of the trials that the facts decide. A short run decides nothing.
    pub fn names_too_few(&self) -> bool {
        const ENOUGH: u64 = 100;
        const LEAST_PERCENT: u64 = 97;
        let sum = |column: usize| self.rows.values().map(|counts| counts[column]).sum::<u64>();
        let (first, decidable) = (sum(DECIDED_FIRST), sum(DECIDABLE));
        decidable >= ENOUGH && first * 100 < decidable * LEAST_PERCENT
    }

    pub fn print(&self) {
        println!("\n{:<8} {:<12} {:<19}{}", "backend", "levels", "fault", line(COLUMNS.map(str::to_owned)));
        let mut sum = Counts::default();
        for ((backend, levels, fault), counts) in &self.rows {
            println!("{backend:<8} {levels:<12} {fault:<19}{}", line(cells(counts)));
            add(&mut sum, counts);
        }
        println!("{:<41}{}", "all", line(cells(&sum)));
        let (first, decidable) = (sum[DECIDED_FIRST], sum[DECIDABLE]);
        let share = if decidable == 0 { 100.0 } else { 100.0 * first as f64 / decidable as f64 };
        println!("\nnamed first in {share:.1} % of {decidable} decidable trials");
    }
}

fn add(sum: &mut Counts, counts: &Counts) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn cells(counts: &Counts) -> [String; COLUMNS.len()] {
    counts.map(|count| if count == 0 { "·".to_owned() } else { count.to_string() })
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    cells.into_iter().map(|cell| format!("{cell:>9}")).collect()
}
