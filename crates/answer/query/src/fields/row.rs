//! A row: a record with optional measurements and comparison.

use tensortap::abi::TensorStats;
use tensortap::analysis::diff::DiffRow;
use tensortap::format::{Record, ScalarValue};
use tensortap::judge::{Evidence, Metrics};
use tensortap::values::{Element, Summary, Value};
use tensortap::{Flag, RecordSummary};

use crate::words::flag_words;

/// The data of a row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// The record.
    pub record: &'a Record,
    /// Its measured content.
    pub measured: Option<&'a RecordSummary>,
    /// Its comparison.
    pub compared: Option<&'a DiffRow>,
}

impl<'a> Row<'a> {
    /// A row with only the record.
    #[must_use]
    pub fn of(record: &'a Record) -> Row<'a> {
        Row { record, measured: None, compared: None }
    }

    /// A row with measured statistics.
    #[must_use]
    pub fn measured(measured: &'a RecordSummary) -> Row<'a> {
        Row { record: &measured.record, measured: Some(measured), compared: None }
    }

    /// A row with a comparison.
    #[must_use]
    pub fn compared(compared: &'a DiffRow) -> Row<'a> {
        Row { record: &compared.record, measured: None, compared: Some(compared) }
    }

    /// Measured statistics or, if the record was not measured, those recorded by the device.
    pub(super) fn stats(&self) -> Option<TensorStats> {
        match self.measured {
            Some(measured) => measured.summary.map(|summary| summary.stats),
            None => self.record.stats,
        }
    }

    /// Statistics over at least one finite value.
    pub(super) fn finite_stats(&self) -> Option<TensorStats> {
        self.stats().filter(|stats| stats.numel > stats.nan.saturating_add(stats.inf))
    }

    /// Statistics to show; NaN if there are no finite values.
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

    /// A measure that is zero for identical content, and `None` if nothing was measured.
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

/// Flags of a record: about its values if measured, else about how it was captured.
pub(crate) fn flags(row: &Row<'_>) -> impl Iterator<Item = &'static str> + use<> {
    let values = row.measured.map(|measured| measured.flags().into_iter().map(Flag::name));
    let captured = row.measured.is_none().then(|| flag_words(row.record).into_iter());
    values.into_iter().flatten().chain(captured.into_iter().flatten()).filter(|word| !word.is_empty())
}

/// The magnitude of a complex number.
fn magnitude(value: Element) -> f64 {
    match Value::decode(value.dtype, value.bits) {
        Value::Complex(real, imaginary) => real.hypot(imaginary),
        other => other.to_f64(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place in an order, not a value")]
pub(super) fn as_float(value: ScalarValue) -> f64 {
    match value {
        ScalarValue::Float(value) => value,
        ScalarValue::Int(value) | ScalarValue::Int64(value) => value as f64,
        ScalarValue::UInt(value) | ScalarValue::UInt64(value) => value as f64,
        ScalarValue::Bool(value) => f64::from(u8::from(value)),
        ScalarValue::Complex(value) => magnitude(value),
    }
}
