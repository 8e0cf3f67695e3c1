//! Comparing records with what they should be: what is reported, and which record stands first.

use std::cmp::Ordering;
use std::collections::HashMap;

use tensortap::DumpStage;
use tensortap::analysis::blame::Unwritten;
use tensortap::analysis::diff::{Diff, DiffOptions, DiffRow};
use tensortap::format::Dump;
use tensortap::judge::{Detail, Evidence, Verdict};

use crate::QueryError;
use crate::golden::Golden;

/// Failing records of which it is said where their errors sit.
const DETAILED: usize = 3;

/// What came of a comparison.
pub struct DiffReport<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// What it was compared with, as it was named.
    pub golden: String,
    /// The comparison.
    pub diff: &'a Diff,
    /// Where the errors of the worst records sit, by position in the dump; `None` of those of which nothing but that no task wrote them is to
    /// be said.
    pub details: HashMap<u64, Option<Detail>>,
    /// Whether everything is as it should be.
    pub passes: bool,
    /// How the two runs differ before any record does.
    pub unlike: Option<String>,
    /// What would help.
    pub hint: Option<String>,
}

/// Where the errors of the first failing records sit, by position in the dump.
pub fn details(
    dump: &Dump,
    golden: &Golden,
    diff: &Diff,
    sort: Sort,
    options: &DiffOptions<'_>,
) -> Result<HashMap<u64, Option<Detail>>, QueryError> {
    let mut details = HashMap::new();
    let failing = ranked(diff, sort).into_iter().filter(|row| row.outcome.verdict == Verdict::Outside);
    for row in failing.take(DETAILED) {
        let found = golden.detail(dump, diff, row, options)?;
        if found.is_some() || row.unwritten != Unwritten::default() {
            details.insert(row.record.index, found);
        }
    }
    Ok(details)
}

/// By what records are sorted. Those outside their rule always come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// What tasks produced before what they were given, in dependency order.
    #[default]
    Order,
    /// The greatest absolute error.
    Error,
    /// The greatest share of elements outside.
    Share,
    /// The greatest distance in units in the last place.
    Ulps,
}

impl Sort {
    /// All of them.
    pub const ALL: [Sort; 4] = [Sort::Order, Sort::Error, Sort::Share, Sort::Ulps];

    /// As it is chosen.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Sort::Order => "order",
            Sort::Error => "error",
            Sort::Share => "share",
            Sort::Ulps => "ulps",
        }
    }

    /// In words, for the foot of a table.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Sort::Order => {
                "what tasks produced before what they were given, in dependency order (--sort order)"
            }
            Sort::Error => "the greatest absolute error first (--sort error)",
            Sort::Share => "the greatest share of elements outside first (--sort share)",
            Sort::Ulps => "the greatest distance in ulps first (--sort ulps)",
        }
    }

    fn compare(self, a: &DiffRow, b: &DiffRow) -> Ordering {
        match self {
            // The first task in dependency order whose output is outside has nobody to inherit that from.
            Sort::Order => Ordering::Equal,
            Sort::Error => error(b).total_cmp(&error(a)),
            Sort::Share => share(b).total_cmp(&share(a)).then(error(b).total_cmp(&error(a))),
            Sort::Ulps => {
                has_nan(b).cmp(&has_nan(a)).then(ulps(b).cmp(&ulps(a))).then(error(b).total_cmp(&error(a)))
            }
        }
    }
}

/// Rows outside their rule, then those not known, then those within; each as `sort` says, ties in dependency order.
#[must_use]
pub fn ranked(diff: &Diff, sort: Sort) -> Vec<&DiffRow> {
    let is_input = |row: &DiffRow| row.record.stage == DumpStage::BeforeDispatch;
    let place = |row: &DiffRow| (is_input(row), row.order, row.record.arg_index);
    let mut rows: Vec<&DiffRow> = diff.rows.iter().collect();
    rows.sort_by(|a, b| {
        let by_verdict = b.outcome.verdict.cmp(&a.outcome.verdict);
        by_verdict.then_with(|| sort.compare(a, b)).then_with(|| place(a).cmp(&place(b)))
    });
    rows
}

/// A NaN that nothing matches is worse than any error, and so is what cannot be measured. The sign of a NaN is nobody's
/// choice: the positive one comes last in the total order of floats.
fn error(row: &DiffRow) -> f64 {
    row.outcome.max_abs().map_or(f64::INFINITY, f64::abs)
}

fn has_nan(row: &DiffRow) -> bool {
    row.outcome.unmatched_nan().is_some_and(|nan| nan > 0)
}

#[expect(clippy::cast_precision_loss, reason = "a place in an order, not a value")]
fn share(row: &DiffRow) -> f64 {
    match &row.outcome.evidence {
        Evidence::Full(m) if m.elements > 0 => m.failing as f64 / m.elements as f64,
        _ => 0.0,
    }
}

/// Between dtypes there are representable values to count only after rounding.
#[must_use]
pub fn ulps(row: &DiffRow) -> Option<u64> {
    match &row.outcome.evidence {
        Evidence::Full(m) => m.max_ulps.or_else(|| m.rounded.as_ref()?.max_ulps),
        Evidence::Identical => Some(0),
        _ => None,
    }
}
