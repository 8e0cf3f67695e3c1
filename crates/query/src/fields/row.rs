//! A row: a record, and what else is known of it.

use tensortap::abi::TensorStats;
use tensortap::analysis::diff::DiffRow;
use tensortap::format::{Record, ScalarValue};
use tensortap::judge::{Evidence, Metrics};
use tensortap::values::Summary;
use tensortap::{Flag, Measured};

use crate::words::flag_words;

/// What there is to show about a record.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// The record.
    pub record: &'a Record,
    /// What its content is like, where that was measured.
    pub measured: Option<&'a Measured>,
    /// What came of comparing it, where it was compared.
    pub compared: Option<&'a DiffRow>,
}

impl<'a> Row<'a> {
    /// A record as it is.
    #[must_use]
    pub fn of(record: &'a Record) -> Row<'a> {
        Row { record, measured: None, compared: None }
    }

    /// A record with its statistics.
    #[must_use]
    pub fn measured(measured: &'a Measured) -> Row<'a> {
        Row { record: &measured.record, measured: Some(measured), compared: None }
    }

    /// A record beside what it should be.
    #[must_use]
    pub fn compared(compared: &'a DiffRow) -> Row<'a> {
        Row { record: &compared.record, measured: None, compared: Some(compared) }
    }

    /// Statistics: those that were taken, else those that the device recorded.
    pub(super) fn stats(&self) -> Option<TensorStats> {
        match self.measured {
            Some(measured) => measured.summary.map(|summary| summary.stats),
            None => self.record.stats,
        }
    }

    /// Statistics of which it makes sense to speak: those over at least one finite value.
    pub(super) fn finite_stats(&self) -> Option<TensorStats> {
        self.stats().filter(|stats| stats.numel > stats.nan.saturating_add(stats.inf))
    }

    /// Statistics to be shown: NaN where there are no finite values.
    pub(super) fn value_stats(&self) -> Option<TensorStats> {
        self.stats().map(TensorStats::over_values)
    }

    pub(super) fn summary(&self) -> Option<&'a Summary> {
        self.measured.and_then(|measured| measured.summary.as_ref())
    }

    pub(super) fn metrics(&self) -> Option<&'a Metrics> {
        match &self.compared?.outcome.evidence {
            Evidence::Full(metrics) => Some(metrics),
            _ => None,
        }
    }

    /// A number that is zero where nothing differs, and unknown where nothing was measured.
    pub(super) fn error(&self, of: impl Fn(&Metrics) -> Option<f64>) -> Option<f64> {
        match &self.compared?.outcome.evidence {
            Evidence::Full(metrics) => of(metrics),
            Evidence::Identical => Some(0.0),
            _ => None,
        }
    }

    pub(super) fn max_ulps(&self) -> Option<u64> {
        match &self.compared?.outcome.evidence {
            Evidence::Full(metrics) => metrics.max_ulps,
            Evidence::Identical => Some(0),
            _ => None,
        }
    }

    pub(super) fn failing(&self) -> Option<u64> {
        match &self.compared?.outcome.evidence {
            Evidence::Full(metrics) => Some(metrics.failing),
            Evidence::Identical => Some(0),
            _ => None,
        }
    }
}

/// What sets a record apart: by its values where they were measured, else by how it was captured.
pub(crate) fn flags(row: &Row<'_>) -> impl Iterator<Item = &'static str> + use<> {
    let values = row.measured.map(|measured| measured.flags().into_iter().map(Flag::name));
    let captured = row.measured.is_none().then(|| flag_words(row.record).into_iter());
    values.into_iter().flatten().chain(captured.into_iter().flatten()).filter(|word| !word.is_empty())
}

#[expect(clippy::cast_precision_loss, reason = "a place in an order, not a value")]
pub(super) fn as_float(value: ScalarValue) -> f64 {
    match value {
        ScalarValue::Float(value) => value,
        ScalarValue::Int(value) | ScalarValue::Int64(value) => value as f64,
        ScalarValue::UInt(value) | ScalarValue::UInt64(value) => value as f64,
        ScalarValue::Bool(value) => f64::from(u8::from(value)),
    }
}
