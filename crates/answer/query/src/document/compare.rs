//! Documents of comparisons, shared by `diff` and `blame`.

use serde::Serialize;
use serde_json::Value as Json;
use tensortap::analysis::blame::{Blame, ComparedArg, UnwrittenMemory, UnwrittenShare};
use tensortap::judge::{Detail, Evidence, Metrics, Outcome, Predicate, Rule, Verdict, WorstElement};
use tensortap::values::Value;

use crate::compare_words::{evidence_written, scalars, unwritten_lines};
use crate::number::{json_float, json_optional_float};

/// The word for the verdict on a record.
pub const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Within => "pass",
        Verdict::Outside => "fail",
        Verdict::Unknown => "unknown",
    }
}

/// The word for the verdict on a record of a labeled task. Records that differ but do not count for the verdict, such as
/// uninitialized memory, are `ignored`.
#[must_use]
pub fn counted_verdict_word(blame: &Blame, place: usize, compared: &ComparedArg) -> &'static str {
    match compared.outcome.verdict {
        Verdict::Outside if !blame.counts(place, compared) => "ignored",
        verdict => verdict_word(verdict),
    }
}

/// The kind of evidence in one word.
#[must_use]
pub const fn evidence_word(outcome: &Outcome) -> &'static str {
    match outcome.evidence {
        Evidence::Identical => "identical",
        Evidence::Scalar(..) => "scalar",
        Evidence::Quick(_) | Evidence::Full(_) => "elements",
        Evidence::Statistics(_) => "statistics",
        Evidence::None(_) | Evidence::Damaged(_) => "none",
    }
}

/// The reason of an outcome, in addition to its numbers.
#[must_use]
pub fn outcome_reason(outcome: &Outcome) -> Option<String> {
    match &outcome.evidence {
        Evidence::Scalar(dtype, ours, theirs) => Some(scalars(*dtype, *ours, *theirs)),
        _ => outcome.reason().map(String::from),
    }
}

/// How much of a difference is memory that no recorded task wrote.
#[derive(Serialize)]
pub struct NeverWrittenDocument {
    /// Elements that are unwritten in both runs: `none`, `some`, `all`. They are excluded from all measures.
    in_both: &'static str,
    /// Whether all other elements are unwritten in the dump but written in the golden.
    here: bool,
    /// Whether all other elements are unwritten in the golden but written in the dump, so that their expected
    /// values are unknown.
    in_golden: bool,
    /// The same as lines of text.
    words: Vec<String>,
}

/// The document of unwritten memory; `None` if all of the difference was written.
pub fn never_written(outcome: &Outcome, unwritten: &UnwrittenMemory) -> Option<NeverWrittenDocument> {
    let all = (unwritten.in_both == UnwrittenShare::All).then(|| evidence_written(outcome, unwritten));
    let words = all.into_iter().chain(unwritten_lines(unwritten)).collect();
    let UnwrittenMemory { in_both, here, in_golden, is_value } = *unwritten;
    (*unwritten != UnwrittenMemory::default() && !is_value).then_some(NeverWrittenDocument {
        in_both: match in_both {
            UnwrittenShare::None => "none",
            UnwrittenShare::Some(_) => "some",
            UnwrittenShare::All => "all",
        },
        here,
        in_golden,
        words,
    })
}

/// The measures of a comparison, as far as they are known.
#[derive(Serialize)]
pub struct Measures {
    rule: RuleDocument,
    /// `identical`, `scalar`, `elements`, `statistics` or `none`.
    evidence: &'static str,
    reason: Option<String>,
    elements: Option<u64>,
    failing: Option<u64>,
    mismatched: Option<u64>,
    #[serde(serialize_with = "json_optional_float")]
    max_abs_err: Option<f64>,
    /// The same over pairs of finite values.
    #[serde(serialize_with = "json_optional_float")]
    max_finite_err: Option<f64>,
    unmatched_nan: Option<u64>,
    worst: Option<WorstDocument>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    full: Option<FullDocument>,
}

#[derive(Serialize)]
struct RuleDocument {
    predicate: &'static str,
    #[serde(serialize_with = "json_optional_float")]
    rtol: Option<f64>,
    #[serde(serialize_with = "json_optional_float")]
    atol: Option<f64>,
    ulps: Option<u64>,
    nan_equal: bool,
}

#[derive(Serialize)]
struct WorstDocument {
    coordinate: Vec<u64>,
    dump: Json,
    golden: Json,
    #[serde(serialize_with = "json_optional_float")]
    error: Option<f64>,
    ulps: Option<u64>,
}

#[derive(Serialize)]
struct FullDocument {
    measured: u64,
    #[serde(serialize_with = "json_optional_float")]
    mean_abs_err: Option<f64>,
    #[serde(serialize_with = "json_optional_float")]
    rmse: Option<f64>,
    #[serde(serialize_with = "json_float")]
    max_rel_err: f64,
    #[serde(serialize_with = "json_optional_float")]
    mean_rel_err: Option<f64>,
    #[serde(serialize_with = "json_float")]
    dump_norm: f64,
    #[serde(serialize_with = "json_float")]
    golden_norm: f64,
    #[serde(serialize_with = "json_optional_float")]
    cosine: Option<f64>,
    max_ulps: Option<u64>,
    #[serde(serialize_with = "json_optional_float")]
    mean_ulps: Option<f64>,
    bit_exact: Option<bool>,
    /// If the golden has a different dtype: measures after rounding it to the dump's dtype.
    rounded: Option<RoundedDocument>,
    dump_specials: SpecialCounts,
    golden_specials: SpecialCounts,
}

#[derive(Serialize)]
struct RoundedDocument {
    failing: u64,
    mismatched: u64,
    #[serde(serialize_with = "json_float")]
    max_abs_err: f64,
    #[serde(serialize_with = "json_optional_float")]
    max_finite_err: Option<f64>,
    max_ulps: Option<u64>,
    #[serde(serialize_with = "json_optional_float")]
    mean_ulps: Option<f64>,
    bit_exact: Option<bool>,
    worst: Option<WorstDocument>,
}

#[derive(Serialize)]
struct SpecialCounts {
    nan: u64,
    positive_infinity: u64,
    negative_infinity: u64,
    zeros: u64,
}

/// Where errors are.
#[derive(Serialize)]
pub struct DetailDocument {
    worst: Vec<WorstDocument>,
    equal: u64,
    /// Pairs of a power of ten and the number of errors of that size.
    decades: Vec<(i32, u64)>,
    axes: Vec<AxisDocument>,
}

#[derive(Serialize)]
struct AxisDocument {
    extent: u64,
    bin_width: u64,
    failing: Vec<u64>,
    first: Option<u64>,
    last: Option<u64>,
}

/// The measures of an outcome.
pub fn measures(outcome: &Outcome, rule: &Rule) -> Measures {
    let blank = Measures {
        rule: rule_document(rule),
        evidence: evidence_word(outcome),
        reason: outcome_reason(outcome),
        elements: None,
        failing: None,
        mismatched: None,
        max_abs_err: outcome.max_abs(),
        max_finite_err: outcome.max_finite(),
        unmatched_nan: outcome.unmatched_nan(),
        worst: None,
        full: None,
    };
    match &outcome.evidence {
        Evidence::Identical
        | Evidence::Scalar(..)
        | Evidence::Statistics(_)
        | Evidence::None(_)
        | Evidence::Damaged(_) => blank,
        Evidence::Quick(quick) => Measures {
            elements: Some(quick.elements),
            failing: Some(quick.failing),
            mismatched: Some(quick.mismatched),
            worst: quick.worst_element().map(worst),
            ..blank
        },
        Evidence::Full(metrics) => Measures {
            elements: Some(metrics.elements),
            failing: Some(metrics.failing),
            mismatched: Some(metrics.mismatched),
            worst: metrics.worst_element().map(worst),
            full: Some(full(metrics)),
            ..blank
        },
    }
}

fn rule_document(rule: &Rule) -> RuleDocument {
    let blank =
        RuleDocument { predicate: "bitexact", rtol: None, atol: None, ulps: None, nan_equal: rule.nan_equal };
    match rule.predicate {
        Predicate::Close { rtol, atol } => {
            RuleDocument { predicate: "close", rtol: Some(rtol), atol: Some(atol), ..blank }
        }
        Predicate::Ulps(most) => RuleDocument { predicate: "ulps", ulps: Some(most), ..blank },
        Predicate::BitExact => blank,
    }
}

fn worst(worst: &WorstElement) -> WorstDocument {
    WorstDocument {
        coordinate: worst.coordinate.clone(),
        dump: value(worst.dump),
        golden: value(worst.golden),
        error: worst.error,
        ulps: worst.ulps,
    }
}

fn value(of: Value) -> Json {
    match of {
        Value::Float(v) if v.is_nan() => "NaN".into(),
        Value::Float(f64::INFINITY) => "Infinity".into(),
        Value::Float(f64::NEG_INFINITY) => "-Infinity".into(),
        Value::Float(v) => v.into(),
        // Larger 64-bit integers are exact only as text.
        Value::Int(v) if v.unsigned_abs() < 1 << 53 => v.into(),
        Value::Int(v) => v.to_string().into(),
        Value::UInt(v) if v < 1 << 53 => v.into(),
        Value::UInt(v) => v.to_string().into(),
        Value::Bool(v) => v.into(),
        Value::Complex(real, imaginary) => {
            Json::from(vec![value(Value::Float(real)), value(Value::Float(imaginary))])
        }
    }
}

fn full(metrics: &Metrics) -> FullDocument {
    let specials = |s: &tensortap::judge::SpecialCounts| SpecialCounts {
        nan: s.nan,
        positive_infinity: s.positive_infinity,
        negative_infinity: s.negative_infinity,
        zeros: s.zeros,
    };
    FullDocument {
        measured: metrics.measured,
        mean_abs_err: metrics.mean_abs,
        rmse: metrics.rmse,
        max_rel_err: metrics.max_rel_err(),
        mean_rel_err: metrics.mean_relative,
        dump_norm: metrics.dump_norm,
        golden_norm: metrics.golden_norm,
        cosine: metrics.cosine,
        max_ulps: metrics.max_ulps,
        mean_ulps: metrics.mean_ulps,
        bit_exact: metrics.bit_exact(),
        rounded: metrics.rounded.as_deref().map(rounded),
        dump_specials: specials(&metrics.dump),
        golden_specials: specials(&metrics.golden),
    }
}

fn rounded(metrics: &Metrics) -> RoundedDocument {
    RoundedDocument {
        failing: metrics.failing,
        mismatched: metrics.mismatched,
        max_abs_err: metrics.max_abs_err(),
        max_finite_err: metrics.max_finite_err(),
        max_ulps: metrics.max_ulps,
        mean_ulps: metrics.mean_ulps,
        bit_exact: metrics.bit_exact(),
        worst: metrics.worst_element().map(worst),
    }
}

/// Where errors are.
pub fn detail_document(detail: &Detail) -> DetailDocument {
    DetailDocument {
        worst: detail.worst.iter().map(worst).collect(),
        equal: detail.equal,
        decades: detail.decades.iter().map(|d| (d.exponent, d.count)).collect(),
        axes: detail
            .axes
            .iter()
            .map(|a| AxisDocument {
                extent: a.extent,
                bin_width: a.bin_width,
                failing: a.failing.clone(),
                first: a.first,
                last: a.last,
            })
            .collect(),
    }
}
