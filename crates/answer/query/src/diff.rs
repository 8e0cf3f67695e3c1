//! Comparing records with a golden: the report, and the order of records.

use std::cmp::Ordering;
use std::collections::HashMap;

use tensortap::DumpStage;
use tensortap::analysis::blame::UnwrittenMemory;
use tensortap::analysis::diff::{Diff, DiffOptions, DiffRow};
use tensortap::format::Dump;
use tensortap::judge::{Detail, Evidence, Verdict};

use crate::QueryError;
use crate::golden::Golden;

/// Number of failing records whose errors are described in detail.
const DETAILED: usize = 3;

/// The result of a comparison.
pub struct DiffReport<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// The other side of the comparison, as the user named it.
    pub golden: String,
    /// The comparison.
    pub diff: &'a Diff,
    /// Details of the worst records, by index in the dump. `None` if only their unwritten memory is to be
    /// reported.
    pub details: HashMap<u64, Option<Detail>>,
    /// Whether the verdict is PASS.
    pub passes: bool,
    /// How the two runs differ in scene or parameters.
    pub unlike: Option<String>,
    /// A hint for the user.
    pub hint: Option<String>,
}

/// Analyzes the first failing records, by index in the dump.
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
        if found.is_some() || row.unwritten != UnwrittenMemory::default() {
            details.insert(row.record.index, found);
        }
    }
    Ok(details)
}

/// The order of records. Those outside their rule always come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// Outputs before inputs, in dependency order.
    #[default]
    Order,
    /// Largest absolute error first.
    Error,
    /// Largest share of elements outside first.
    Share,
    /// Largest distance in units in the last place first.
    Ulps,
}

impl Sort {
    /// All orders.
    pub const ALL: [Sort; 4] = [Sort::Order, Sort::Error, Sort::Share, Sort::Ulps];

    /// The name of the option's value.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Sort::Order => "order",
            Sort::Error => "error",
            Sort::Share => "share",
            Sort::Ulps => "ulps",
        }
    }

    /// A description for the foot of a table.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Sort::Order => "outputs before inputs, in dependency order (--sort order)",
            Sort::Error => "the largest absolute error first (--sort error)",
            Sort::Share => "the largest share of elements outside first (--sort share)",
            Sort::Ulps => "the largest distance in ulps first (--sort ulps)",
        }
    }

    fn compare(self, a: &DiffRow, b: &DiffRow) -> Ordering {
        match self {
            // Dependency order itself is the tie breaker below. The first task with a wrong output cannot
            // have inherited it.
            Sort::Order => Ordering::Equal,
            Sort::Error => error(b).total_cmp(&error(a)),
            Sort::Share => share(b).total_cmp(&share(a)).then(error(b).total_cmp(&error(a))),
            Sort::Ulps => {
                has_nan(b).cmp(&has_nan(a)).then(ulps(b).cmp(&ulps(a))).then(error(b).total_cmp(&error(a)))
            }
        }
    }
}

/// Rows outside their rule, then unknown ones, then those within. Each group is sorted by `sort`, ties in
/// dependency order.
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

/// An unmatched NaN, or an error that cannot be measured, is worse than any number. NaN is made positive,
/// because positive NaN comes last in the total order of floats.
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

/// The largest distance in ulps. For different dtypes it is measured after rounding the golden to the dump's
/// dtype.
#[must_use]
pub fn ulps(row: &DiffRow) -> Option<u64> {
    match &row.outcome.evidence {
        Evidence::Full(m) => m.max_ulps.or_else(|| m.rounded.as_ref()?.max_ulps),
        Evidence::Identical => Some(0),
        _ => None,
    }
}
