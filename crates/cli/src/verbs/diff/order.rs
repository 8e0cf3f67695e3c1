//! Which record stands first.

use std::cmp::Ordering;

use clap::ValueEnum;
use tensortap::DumpStage;
use tensortap::analysis::diff::{Diff, DiffRow};
use tensortap::judge::Evidence;

/// By what records are sorted. Those outside their rule always come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    // What tasks produced before what they were given, in dependency order. Doc comments would make the help long.
    #[default]
    Order,
    Error,
    Share,
    Ulps,
}

impl Sort {
    /// In words, for the foot of a table.
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
            Sort::Ulps => ulps(b).cmp(&ulps(a)).then(error(b).total_cmp(&error(a))),
        }
    }
}

/// Rows outside their rule, then those not known, then those within; each as `sort` says, ties in dependency order.
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

/// What cannot be measured is worse than any error.
fn error(row: &DiffRow) -> f64 {
    row.outcome.max_abs().unwrap_or(f64::INFINITY)
}

#[expect(clippy::cast_precision_loss, reason = "a place in an order, not a value")]
fn share(row: &DiffRow) -> f64 {
    match &row.outcome.evidence {
        Evidence::Full(m) if m.elements > 0 => m.failing as f64 / m.elements as f64,
        _ => 0.0,
    }
}

/// Between dtypes there are representable values to count only after rounding.
pub fn ulps(row: &DiffRow) -> Option<u64> {
    match &row.outcome.evidence {
        Evidence::Full(m) => m.max_ulps.or_else(|| m.rounded.as_ref()?.max_ulps),
        Evidence::Identical => Some(0),
        _ => None,
    }
}
