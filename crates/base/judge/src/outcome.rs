use tensortap_abi::{DType, DTypeKind, TensorStats};

use crate::metrics::{
    CompareError, Comparison, Detail, DetailPass, Metrics, MetricsPass, Pass, Predicate, QuickPass,
    QuickResult, Rule, Stream, TensorType,
};
use crate::side::{InMemory, Payload, Side};

/// Elements read at a time; even, so that a byte with two 4-bit elements is never split.
const CHUNK_ELEMENTS: u64 = 1 << 18;

/// Whether a record is within its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Within its rule.
    Within,
    /// Not known.
    Unknown,
    /// Outside its rule.
    Outside,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether the record is within its rule.
    pub verdict: Verdict,
    /// What the verdict rests on.
    pub evidence: Evidence,
}

/// What a verdict rests on.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// Equal hashes, or equal bits of a scalar.
    Identical,
    /// Different bits of a scalar of this type: the dump's and the golden's.
    Scalar(DType, u64, u64),
    /// The elements, with only what a verdict needs.
    Quick(Box<QuickResult>),
    /// The elements, with every metric.
    Full(Box<Metrics>),
    /// Statistics, described in words, because one side has no payload.
    Statistics(String),
    /// None, with the reason.
    None(String),
    /// None, because the contents differ but one of them is damaged, with the details.
    Damaged(String),
}

/// How much is measured if elements are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only what a verdict needs.
    Quick,
    /// Every metric.
    Full,
}

impl Outcome {
    /// Compares two scalars by their bits.
    #[must_use]
    pub fn of_scalars(dtype: DType, dump: u64, golden: u64) -> Outcome {
        if dump == golden {
            Outcome { verdict: Verdict::Within, evidence: Evidence::Identical }
        } else {
            Outcome { verdict: Verdict::Outside, evidence: Evidence::Scalar(dtype, dump, golden) }
        }
    }

    /// An unknown outcome with its reason.
    #[must_use]
    pub fn unknown(reason: impl Into<String>) -> Outcome {
        Outcome { verdict: Verdict::Unknown, evidence: Evidence::None(reason.into()) }
    }

    fn damaged(reason: String) -> Outcome {
        Outcome { verdict: Verdict::Unknown, evidence: Evidence::Damaged(reason) }
    }

    /// Whether the record is within its rule. True for no elements, so callers must count what was compared.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.verdict == Verdict::Within
    }

    /// Greatest magnitude of a difference, if elements were read; 0 if everything is equal. NaN if there is
    /// an unmatched NaN, else infinite if there is a mismatched infinity.
    #[must_use]
    pub fn max_abs(&self) -> Option<f64> {
        match &self.evidence {
            Evidence::Identical => Some(0.0),
            Evidence::Quick(quick) => Some(quick.max_abs_err()),
            Evidence::Full(metrics) => Some(metrics.max_abs_err()),
            Evidence::Scalar(..) | Evidence::Statistics(_) | Evidence::None(_) | Evidence::Damaged(_) => None,
        }
    }

    /// The same over pairs of finite values; `None` also if there are none.
    #[must_use]
    pub fn max_finite(&self) -> Option<f64> {
        match &self.evidence {
            Evidence::Identical => Some(0.0),
            Evidence::Quick(quick) => (quick.mismatched < quick.elements).then_some(quick.max_abs),
            Evidence::Full(metrics) => metrics.max_finite_err(),
            Evidence::Scalar(..) | Evidence::Statistics(_) | Evidence::None(_) | Evidence::Damaged(_) => None,
        }
    }

    /// Number of positions with an unmatched NaN, if elements were read.
    #[must_use]
    pub fn unmatched_nan(&self) -> Option<u64> {
        match &self.evidence {
            Evidence::Identical => Some(0),
            Evidence::Quick(quick) => Some(quick.unmatched_nan),
            Evidence::Full(metrics) => Some(metrics.unmatched_nan),
            Evidence::Scalar(..) | Evidence::Statistics(_) | Evidence::None(_) | Evidence::Damaged(_) => None,
        }
    }

    /// The reason in words, unless the evidence is elements.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match &self.evidence {
            Evidence::Statistics(reason) | Evidence::None(reason) | Evidence::Damaged(reason) => Some(reason),
            _ => None,
        }
    }
}

/// Compares a tensor with its golden. Equal hashes need no bytes. If one side has no bytes, different hashes
/// decide a rule that demands equal bits or equal integers. Any other rule is decided by statistics if they
/// suffice, and is otherwise unknown. If bytes differ and do not match their captured hash, the payload is
/// damaged and the outcome unknown.
///
/// `across` lets the golden have another float dtype. Other differences of dtype or shape are
/// [`Verdict::Outside`].
///
/// # Errors
/// A payload cannot be read.
pub fn compare<P: Payload, Q: Payload<Error = P::Error>>(
    dump: &Side<'_, P>,
    golden: &Side<'_, Q>,
    rule: &Rule,
    across: bool,
    depth: Depth,
) -> Result<Outcome, P::Error> {
    let comparison = match new_comparison(&dump.tensor, &golden.tensor, *rule, across) {
        Ok(comparison) => comparison,
        Err(error) => {
            return Ok(Outcome { verdict: Verdict::Outside, evidence: Evidence::None(error.to_string()) });
        }
    };
    let same_type = dump.tensor == golden.tensor;
    let decides = hashes_decide(rule);
    if same_type && decides && dump.hash.is_some() && dump.hash == golden.hash {
        return Ok(Outcome { verdict: Verdict::Within, evidence: Evidence::Identical });
    }
    if dump.missing().is_some() || golden.missing().is_some() {
        let same_decides = same_type && decides;
        let other_decides = different_bits_decide(rule, dump.tensor.dtype) && same_type;
        return without_bytes(dump, golden, rule, (same_decides, other_decides));
    }
    let outcome = match depth {
        Depth::Quick => run::<QuickPass, _, _>(&comparison, dump, golden)?
            .map(|quick| (quick.passes(), Evidence::Quick(Box::new(quick)))),
        Depth::Full => run::<MetricsPass, _, _>(&comparison, dump, golden)?
            .map(|full| (full.passes(), Evidence::Full(Box::new(full)))),
    };
    Ok(match outcome {
        Ok((true, evidence)) => Outcome { verdict: Verdict::Within, evidence },
        Ok((false, evidence)) => match damage_of(dump, golden)? {
            Some(reason) => Outcome::damaged(reason),
            None => Outcome { verdict: Verdict::Outside, evidence },
        },
        Err(error) => Outcome::unknown(error.to_string()),
    })
}

/// The outcome that follows from equal hashes of two tensors of one dtype and shape; `None` if the rule needs
/// more. [`compare`] has the same result.
#[must_use]
pub fn compare_hashes(tensor: &TensorType, hash: u128, golden: u128, rule: &Rule) -> Option<Outcome> {
    let is_sound = || new_comparison(tensor, tensor, *rule, false).is_ok();
    let identical = || Outcome { verdict: Verdict::Within, evidence: Evidence::Identical };
    (hash == golden && hashes_decide(rule) && is_sound()).then(identical)
}

/// Whether equal bytes prove that tensors are within a rule.
fn hashes_decide(rule: &Rule) -> bool {
    rule.nan_equal || rule.predicate == Predicate::BitExact
}

/// Whether different bytes prove that tensors are outside a rule: it demands equal bits, or equal values of a
/// dtype with one bit pattern per value.
fn different_bits_decide(rule: &Rule, dtype: DType) -> bool {
    let wants_same_values = match rule.predicate {
        Predicate::BitExact => return true,
        Predicate::Close { rtol, atol } => rtol == 0.0 && atol == 0.0,
        Predicate::Ulps(apart) => apart == 0,
    };
    // A byte may hold only one 4-bit element and an unused half.
    let is_whole = matches!(dtype.kind(), DTypeKind::Signed | DTypeKind::Unsigned) && dtype.bits() >= 8;
    wants_same_values && is_whole
}

/// Compares bytes in memory with the expected ones and computes every metric. Bytes of the wrong size are
/// [`Verdict::Unknown`], with the reason.
#[must_use]
pub fn compare_bytes(dtype: DType, shape: &[u64], actual: &[u8], expected: &[u8], rule: &Rule) -> Outcome {
    let (actual, expected) = (Side::of_bytes(dtype, shape, actual), Side::of_bytes(dtype, shape, expected));
    let Ok(outcome) = compare::<InMemory, InMemory>(&actual, &expected, rule, false, Depth::Full);
    outcome
}

fn damage_of<P: Payload, Q: Payload<Error = P::Error>>(
    dump: &Side<'_, P>,
    golden: &Side<'_, Q>,
) -> Result<Option<String>, P::Error> {
    Ok(match dump.damage()? {
        Some(reason) => Some(reason),
        None => golden.damage()?,
    })
}

/// The distribution of errors in a tensor; `None` without bytes to compare.
///
/// # Errors
/// A payload cannot be read.
pub fn detail<P: Payload, Q: Payload<Error = P::Error>>(
    dump: &Side<'_, P>,
    golden: &Side<'_, Q>,
    rule: &Rule,
    across: bool,
) -> Result<Option<Detail>, P::Error> {
    let Ok(comparison) = new_comparison(&dump.tensor, &golden.tensor, *rule, across) else { return Ok(None) };
    if dump.missing().is_some() || golden.missing().is_some() {
        return Ok(None);
    }
    Ok(run::<DetailPass, _, _>(&comparison, dump, golden)?.ok())
}

fn new_comparison(
    dump: &TensorType,
    golden: &TensorType,
    rule: Rule,
    across: bool,
) -> Result<Comparison, CompareError> {
    if across { Comparison::across_dtypes(dump, golden, rule) } else { Comparison::new(dump, golden, rule) }
}

/// Reads both sides through a pass. The outer error is a read error; the inner one means that the sides
/// cannot be compared.
fn run<M: Pass, P: Payload, Q: Payload<Error = P::Error>>(
    comparison: &Comparison,
    dump: &Side<'_, P>,
    golden: &Side<'_, Q>,
) -> Result<Result<M::Output, CompareError>, P::Error> {
    let numel = comparison.numel();
    let mut stream: Stream<'_, M> = comparison.stream();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut first = 0;
    while first < numel {
        let count = CHUNK_ELEMENTS.min(numel - first);
        let at = |elements: u64, bits: u32| (elements * u64::from(bits)).div_ceil(8);
        let (bits, golden_bits) = (comparison.dump_dtype().bits(), comparison.golden_dtype().bits());
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        ours.resize(size(at(count, bits)), 0);
        theirs.resize(size(at(count, golden_bits)), 0);
        let ours = dump.part(at(first, bits), &mut ours)?;
        let theirs = golden.part(at(first, golden_bits), &mut theirs)?;
        if let Err(error) = stream.update(ours, theirs) {
            return Ok(Err(error));
        }
        first += count;
    }
    Ok(stream.finish())
}

/// Compares by hashes and statistics because one side has no bytes. For the other side they are computed from
/// its bytes.
fn without_bytes<P: Payload, Q: Payload<Error = P::Error>>(
    dump: &Side<'_, P>,
    golden: &Side<'_, Q>,
    rule: &Rule,
    (equal_hashes_decide, different_hashes_decide): (bool, bool),
) -> Result<Outcome, P::Error> {
    let outside =
        |words: String| Outcome { verdict: Verdict::Outside, evidence: Evidence::Statistics(words) };
    let reason = match (dump.missing(), golden.missing()) {
        (Some(reason), _) => format!("in the dump, {reason}"),
        (None, Some(reason)) => format!("in the golden, {reason}"),
        (None, None) => String::new(),
    };
    let (our_hash, our_stats) = dump.summary()?;
    let (their_hash, their_stats) = golden.summary()?;
    if equal_hashes_decide && our_hash.is_some() && our_hash == their_hash {
        return Ok(Outcome { verdict: Verdict::Within, evidence: Evidence::Identical });
    }
    let hashes_differ = our_hash.is_some() && their_hash.is_some() && our_hash != their_hash;
    let decided = match (&our_stats, &their_stats) {
        _ if hashes_differ && different_hashes_decide => outside("the hashes differ".into()),
        (Some(ours), Some(theirs)) => match statistics_differ(ours, theirs, rule) {
            Some(words) => outside(words),
            None => {
                Outcome::unknown(format!("{reason}; the hashes differ, but the statistics do not decide"))
            }
        },
        _ => Outcome::unknown(reason),
    };
    // The difference may be damage of the payload file.
    Ok(match damage_of(dump, golden)?.filter(|_| decided.verdict == Verdict::Outside) {
        Some(damage) => Outcome::damaged(damage),
        None => decided,
    })
}

/// Why some element must be outside the rule according to statistics, if one must be.
fn statistics_differ(dump: &TensorStats, golden: &TensorStats, rule: &Rule) -> Option<String> {
    if (dump.nan, dump.inf) != (golden.nan, golden.inf) {
        return Some(format!(
            "it has {} NaN and {} infinities, the golden has {} and {}",
            dump.nan, dump.inf, golden.nan, golden.inf
        ));
    }
    let Predicate::Close { rtol, atol } = rule.predicate else { return None };
    // The largest difference that the rule allows for any element.
    let most = atol + rtol * golden.min.abs().max(golden.max.abs());
    let far = |ours: f64, theirs: f64| (ours - theirs).abs() > most;
    if far(dump.min, golden.min) {
        Some(format!("its minimum is {}, the golden's is {}", dump.min, golden.min))
    } else if far(dump.max, golden.max) {
        Some(format!("its maximum is {}, the golden's is {}", dump.max, golden.max))
    } else if far(dump.mean, golden.mean) {
        Some(format!("its mean is {}, the golden's is {}", dump.mean, golden.mean))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Content;

    fn floats(values: &[f32]) -> Side<'static> {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        Side::of_bytes(DType::Float32, &[values.len() as u64], bytes)
    }

    fn stats(min: f64, max: f64, mean: f64, nan: u64) -> Side<'static> {
        let stats = TensorStats { min, max, mean, nan, numel: 8, ..TensorStats::default() };
        let content = Content::Missing("its payload is not captured".into());
        let hash = Some(u128::from(min.to_bits() ^ max.to_bits() ^ mean.to_bits()));
        Side { hash, stats: Some(stats), content, ..floats(&[0.0; 8]) }
    }

    fn judge(dump: &Side<'_>, golden: &Side<'_>, rule: &Rule) -> Outcome {
        compare(dump, golden, rule, false, Depth::Full).unwrap()
    }

    #[test]
    fn elements_decide_and_large_tensors_are_read_in_pieces() {
        let rule = Rule::for_dtype(DType::Float32);
        let mut values = vec![1.0; 600_001];
        let golden = floats(&values);
        assert_eq!(judge(&floats(&values), &golden, &rule).verdict, Verdict::Within);
        values[600_000] = 2.0;
        let outcome = judge(&floats(&values), &golden, &rule);
        assert_eq!((outcome.verdict, outcome.max_abs()), (Verdict::Outside, Some(1.0)));
        let detail = detail(&floats(&values), &golden, &rule, false).unwrap().unwrap();
        assert_eq!(detail.worst[0].coordinate, [600_000]);
    }

    #[test]
    fn an_unmeasured_failure_never_has_an_error_of_zero() {
        let rule = Rule::for_dtype(DType::Float32);
        let golden = floats(&[1.0, 2.0, 3.0]);
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        for depth in [Depth::Quick, Depth::Full] {
            let of = |values: &[f32; 3], rule: &Rule| {
                compare(&floats(values), &golden, rule, false, depth).unwrap()
            };
            let all = of(&[nan; 3], &rule);
            assert!(all.max_abs().unwrap().is_nan(), "{all:?}");
            assert_eq!((all.max_finite(), all.unmatched_nan()), (None, Some(3)), "{all:?}");
            let worst = match &all.evidence {
                Evidence::Quick(quick) => quick.worst_element(),
                Evidence::Full(metrics) => metrics.worst_element(),
                other => panic!("{other:?}"),
            };
            assert_eq!(worst.unwrap().coordinate, [0], "{all:?}");
            let both = of(&[1.5, inf, nan], &rule);
            assert!(both.max_abs().unwrap().is_nan() && both.max_finite() == Some(0.5), "{both:?}");
            let infinite = of(&[1.5, -inf, 3.0], &rule);
            assert_eq!((infinite.max_abs(), infinite.unmatched_nan()), (Some(f64::INFINITY), Some(0)));
            let alike = floats(&[nan; 3]);
            let strict = Rule { nan_equal: false, ..rule };
            let judged =
                |rule: &Rule| compare(&alike, &alike, rule, false, depth).unwrap().max_abs().unwrap();
            assert_eq!(judged(&rule), 0.0);
            assert!(judged(&strict).is_nan(), "the rule treats NaN as unequal");
        }
    }

    #[test]
    fn different_shapes_and_dtypes_are_outside_with_the_reason() {
        let rule = Rule::for_dtype(DType::Float32);
        let outcome = judge(&floats(&[1.0]), &floats(&[1.0, 1.0]), &rule);
        assert_eq!(outcome.verdict, Verdict::Outside);
        assert!(outcome.reason().unwrap().contains("shape"), "{outcome:?}");
    }

    #[test]
    fn equal_hashes_need_no_bytes_unless_nan_is_never_equal() {
        let rule = Rule::for_dtype(DType::Float32);
        let side = stats(0.0, 1.0, 0.5, 0);
        assert_eq!(judge(&side, &side, &rule).evidence, Evidence::Identical);
        let strict = Rule { nan_equal: false, ..rule };
        assert_eq!(judge(&side, &side, &strict).verdict, Verdict::Unknown);
    }

    #[test]
    fn without_bytes_statistics_decide_if_they_suffice() {
        let rule = Rule::for_dtype(DType::Float32);
        let golden = stats(0.0, 1.0, 0.5, 0);
        for wrong in [
            stats(-0.1, 1.0, 0.5, 0),
            stats(0.0, 1.1, 0.5, 0),
            stats(0.0, 1.0, 0.6, 0),
            stats(0.0, 1.0, 0.5, 1),
        ] {
            let outcome = judge(&wrong, &golden, &rule);
            assert_eq!(
                outcome.verdict,
                if wrong.hash == golden.hash { Verdict::Within } else { Verdict::Outside }
            );
        }
        let bytes = |values: &[f32; 8]| floats(values);
        let wrong = bytes(&[0.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 9.0]);
        assert_eq!(
            judge(&wrong, &golden, &rule).verdict,
            Verdict::Outside,
            "statistics are computed from \
         bytes"
        );
        assert_eq!(judge(&golden, &wrong, &rule).verdict, Verdict::Outside);
        let right = bytes(&[0.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
        let hash = Some(tensortap_values::content_hash(
            &[0.0_f32, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5].map(f32::to_le_bytes).concat(),
        ));
        let same = Side { hash, ..stats(0.0, 1.0, 0.5, 0) };
        assert_eq!(
            judge(&right, &same, &rule).evidence,
            Evidence::Identical,
            "hashes are computed from bytes"
        );
        let near = stats(0.0, 1.0, 0.500_001, 0);
        assert_eq!(judge(&near, &golden, &rule).verdict, Verdict::Unknown);
        assert_eq!(judge(&near, &golden, &Rule::bitexact(DType::Float32)).verdict, Verdict::Outside);
    }

    #[test]
    fn different_hashes_decide_if_every_value_has_one_bit_pattern() {
        let side = |dtype: DType, hash: u128| Side {
            tensor: TensorType::new(dtype, &[8]),
            hash: Some(hash),
            stats: None,
            content: Content::Missing("its payload is not captured".into()),
        };
        let judged = |dtype: DType, rule: &Rule| judge(&side(dtype, 1), &side(dtype, 2), rule).verdict;
        for dtype in DType::ALL {
            let decides =
                matches!(dtype.kind(), DTypeKind::Signed | DTypeKind::Unsigned) && dtype.bits() >= 8;
            let expected = if decides { Verdict::Outside } else { Verdict::Unknown };
            assert_eq!(judged(dtype, &Rule::for_dtype(dtype)), expected, "{dtype}");
            assert_eq!(judged(dtype, &Rule::bitexact(dtype)), Verdict::Outside, "{dtype}");
        }
        let near =
            Rule { predicate: Predicate::Close { rtol: 0.0, atol: 1.0 }, ..Rule::for_dtype(DType::Int32) };
        assert_eq!(judged(DType::Int32, &near), Verdict::Unknown);
        assert_eq!(judged(DType::Int32, &Rule { predicate: Predicate::Ulps(0), ..near }), Verdict::Outside);
        let other = Side { tensor: TensorType::new(DType::UInt32, &[8]), ..side(DType::Int32, 2) };
        assert_eq!(judge(&side(DType::Int32, 1), &other, &near).verdict, Verdict::Outside, "another dtype");
    }
}
