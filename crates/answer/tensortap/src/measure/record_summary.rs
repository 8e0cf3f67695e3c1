use tensortap_format::{ArgumentKind, PayloadState, Record};
use tensortap_values::{F16_OVERFLOW, Summary};

/// A record and statistics of its values.
#[derive(Clone, Debug)]
pub struct RecordSummary {
    /// The record.
    pub record: Record,
    /// `None` if there was nothing to measure.
    pub summary: Option<Summary>,
    /// Whether it was measured here and not by the device.
    pub from_payload: bool,
}

/// A notable property of a record's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Some element is NaN.
    Nan,
    /// Some element is infinite.
    Inf,
    /// Every element is zero.
    Zero,
    /// All elements have the same value, which is not zero.
    Constant,
    /// Some finite element is at or beyond the range of `float16`.
    F16Overflow,
    /// Only a part of the payload is stored.
    Truncated,
    /// No payload is stored.
    NoPayload,
}

impl Flag {
    /// The name in tables and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Flag::Nan => "nan",
            Flag::Inf => "inf",
            Flag::Zero => "zero",
            Flag::Constant => "constant",
            Flag::F16Overflow => "f16_overflow",
            Flag::Truncated => "truncated",
            Flag::NoPayload => "no_payload",
        }
    }
}

impl RecordSummary {
    /// The statistics that the device recorded, at level `hash`.
    pub(super) fn recorded(record: Record) -> RecordSummary {
        let summary = record.stats.map(|stats| {
            let finite = stats.nan == 0 && stats.inf == 0;
            let beyond = stats.max >= F16_OVERFLOW || stats.min <= -F16_OVERFLOW;
            Summary {
                stats,
                negative_inf: 0,
                f16_overflow: u64::from(beyond),
                constant: stats.numel > 1 && finite && stats.min == stats.max,
                exact_range: None,
            }
        });
        RecordSummary { record, summary, from_payload: false }
    }

    /// The flags, with those about values first.
    pub fn flags(&self) -> Vec<Flag> {
        let mut flags = Vec::new();
        if let Some(summary) = &self.summary {
            let several = self.record.numel > 1;
            let is_float = self.record.dtype.part().is_float();
            for (raised, flag) in [
                (summary.stats.nan > 0, Flag::Nan),
                (summary.stats.inf > 0, Flag::Inf),
                (several && summary.all_zero(), Flag::Zero),
                (several && summary.constant && !summary.all_zero(), Flag::Constant),
                (is_float && summary.f16_overflow > 0, Flag::F16Overflow),
            ] {
                if raised {
                    flags.push(flag);
                }
            }
        }
        let tensor = self.record.kind == ArgumentKind::Tensor;
        if tensor && self.record.payload == PayloadState::Truncated {
            flags.push(Flag::Truncated);
        }
        if self.summary.is_none() {
            flags.push(Flag::NoPayload);
        }
        flags
    }

    /// Whether any flag concerns the values.
    pub fn is_flagged(&self) -> bool {
        self.flags().iter().any(|flag| !matches!(flag, Flag::Truncated | Flag::NoPayload))
    }

    /// Whether there is a finite element. Without one there is no range and no mean.
    pub fn has_finite(&self) -> bool {
        self.summary.is_some_and(|Summary { stats, .. }| stats.numel > stats.nan + stats.inf)
    }
}
