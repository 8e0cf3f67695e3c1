//! Texts for comparisons, shared by `diff` and `blame`.

use tensortap::DType;
use tensortap::analysis::blame::{UnwrittenMemory, UnwrittenShare};
use tensortap::format::ScalarValue;
use tensortap::judge::{AxisProfile, Detail, Evidence, Outcome, Predicate, Rule, WorstElement};
use tensortap::values::Value;

use crate::number::{counted, grouped, significant};
use crate::words::{printable, scalar_text, short_float};

/// Digits of an error.
const DIGITS: usize = 4;

/// The evidence of a verdict.
pub fn evidence(outcome: &Outcome) -> String {
    let outside = |failing: u64, elements: u64| {
        format!("{} of {} elements outside", grouped(failing), grouped(elements))
    };
    match &outcome.evidence {
        Evidence::Identical => "identical".into(),
        Evidence::Scalar(dtype, ours, theirs) => scalars(*dtype, *ours, *theirs),
        Evidence::Quick(quick) => outside(quick.failing, quick.elements),
        Evidence::Full(metrics) => outside(metrics.failing, metrics.elements),
        Evidence::Statistics(words) | Evidence::None(words) | Evidence::Damaged(words) => {
            printable(words).into_owned()
        }
    }
}

/// The evidence for a record that no recorded task wrote completely.
#[must_use]
pub fn evidence_written(outcome: &Outcome, unwritten: &UnwrittenMemory) -> String {
    match unwritten.in_both {
        UnwrittenShare::All if unwritten.is_value => {
            "passed by value and may hold addresses of its run; other differences are listed under the orchestration".into()
        }
        UnwrittenShare::All => {
            "memory that no recorded task wrote in either run: ignored".into()
        }
        UnwrittenShare::None | UnwrittenShare::Some(_) => evidence(outcome),
    }
}

/// Remarks about unwritten memory, one per line.
#[must_use]
pub fn unwritten_lines(unwritten: &UnwrittenMemory) -> Vec<String> {
    let in_both = match unwritten.in_both {
        UnwrittenShare::Some(count) => {
            let elements = counted(count, "element");
            Some(format!("ignored: {elements} that no recorded task wrote in either run"))
        }
        UnwrittenShare::None | UnwrittenShare::All => None,
    };
    let here = "no recorded task wrote this memory: it holds whatever was there before";
    let in_golden = "in the golden, no recorded task wrote this memory: the expected value is unknown";
    let rest = [(unwritten.here, here), (unwritten.in_golden, in_golden)];
    let rest = rest.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words.to_owned());
    in_both.into_iter().chain(rest).collect()
}

/// `7, should be 8`; as bits if both values print the same.
pub fn scalars(dtype: DType, ours: u64, theirs: u64) -> String {
    let text = |bits| scalar_text(ScalarValue::decode(dtype, bits));
    match (text(ours), text(theirs)) {
        (here, there) if here != there => format!("{here}, should be {there}"),
        _ => format!("bits {ours:#x}, should be {theirs:#x}"),
    }
}

/// The evidence in a table cell: the number of elements outside, or the reason.
pub fn outside_or_why(outcome: &Outcome) -> String {
    match &outcome.evidence {
        Evidence::Quick(quick) => format!("{} of {}", grouped(quick.failing), grouped(quick.elements)),
        Evidence::Full(metrics) => format!("{} of {}", grouped(metrics.failing), grouped(metrics.elements)),
        _ => evidence(outcome),
    }
}

/// A short description of a rule.
pub fn rule_text(rule: &Rule) -> String {
    match rule.predicate {
        Predicate::Close { rtol: 0.0, atol: 0.0 } => "equal".into(),
        Predicate::Close { rtol, atol } => format!("rtol {rtol:e}, atol {atol:e}"),
        Predicate::Ulps(most) => format!("{most} ulp"),
        Predicate::BitExact => "the same bits".into(),
    }
}

/// Number of worst elements that are listed.
const WORST: usize = 3;

/// A larger distance in ulps says no more than the error, so it is left out.
const MOST_ULPS: u64 = 1_000_000;

/// Lines that describe where errors are: the worst elements, errors by power of ten, each axis.
pub fn detail_lines(detail: &Detail) -> Vec<String> {
    let worst = detail.worst.iter().filter(|worst| worst.fails).take(WORST).enumerate();
    let worst =
        worst.map(|(n, w)| format!("{} {}", if n == 0 { "worst at" } else { "        " }, worst_text(w)));
    worst.chain(place_lines(detail)).collect()
}

/// Lines for errors by power of ten and for each axis.
pub fn place_lines(detail: &Detail) -> Vec<String> {
    let axes = detail.axes.iter().enumerate().filter_map(|(axis, profile)| axis_text(axis, profile));
    sizes_text(detail).into_iter().chain(axes).collect()
}

/// A table of the worst elements with a header line. `expected` names what the dump was compared with.
pub fn worst_table(detail: &Detail, expected: &str) -> Vec<String> {
    let failing = detail.worst.iter().filter(|worst| worst.fails).take(WORST);
    let row = |worst: &WorstElement| {
        let apart = match (worst.error, worst.ulps.filter(|ulps| *ulps <= MOST_ULPS)) {
            (Some(error), Some(ulps)) => format!("{} ({} ulp)", significant(error, DIGITS), grouped(ulps)),
            (Some(error), None) => significant(error, DIGITS),
            (None, _) => String::new(),
        };
        [format!("{:?}", worst.coordinate), value_text(worst.dump), value_text(worst.golden), apart]
    };
    let mut rows: Vec<[String; 4]> = failing.map(row).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    rows.insert(0, ["worst elements".into(), "dump".into(), expected.into(), "difference".into()]);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let [at, ours, theirs] = [0, 1, 2].map(width);
    let line = |[place, dump, golden, apart]: &[String; 4]| {
        format!("{place:<at$}  {dump:>ours$}  {golden:>theirs$}  {apart}").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// One element: `[3, 7]: -9, should be 3, error 12`.
fn worst_text(worst: &WorstElement) -> String {
    let mut words =
        format!("{:?}: {}, should be {}", worst.coordinate, value_text(worst.dump), value_text(worst.golden));
    if let Some(error) = worst.error {
        words += &format!(", error {}", significant(error, DIGITS));
    }
    if let Some(ulps) = worst.ulps.filter(|ulps| *ulps <= MOST_ULPS) {
        words += &format!(" ({} ulp)", grouped(ulps));
    }
    words
}

/// Errors by power of ten, if there are several: `errors by power of ten: 3 of 1e-7, 12 of 1e0; 49 elements
/// equal`.
fn sizes_text(detail: &Detail) -> Option<String> {
    let decades: Vec<String> = detail
        .decades
        .iter()
        .filter(|decade| decade.count > 0)
        .map(|decade| format!("{} of 1e{}", grouped(decade.count), decade.exponent))
        .collect();
    let equal = counted(detail.equal, "element");
    (decades.len() > 1).then(|| format!("errors by power of ten: {}; {equal} equal", decades.join(", ")))
}

fn axis_text(axis: usize, profile: &AxisProfile) -> Option<String> {
    let (first, last) = (profile.first?, profile.last?);
    // An axis of one element has no position to report.
    let last_one = profile.extent.checked_sub(1).filter(|last| *last > 0)?;
    let place = match (first, last) {
        (0, last) if last == last_one => "everywhere".into(),
        (first, last) if first == last && last == last_one => format!("at {first} only, the last"),
        (first, last) if first == last => format!("at {first} only"),
        (first, last) if last == last_one => format!("from {first} to the end"),
        (first, last) => format!("from {first} to {last}"),
    };
    Some(format!("axis {axis} ({}): {place}  {}", profile.extent, sketch(&profile.failing)))
}

/// Failing elements along an axis, one character per bin.
fn sketch(failing: &[u64]) -> String {
    const STEPS: [char; 5] = ['.', '▂', '▄', '▆', '█'];
    let most = failing.iter().copied().max().unwrap_or(0).max(1);
    let step = |&count: &u64| match count {
        0 => STEPS[0],
        count => STEPS[usize::try_from((count * 4).div_ceil(most)).unwrap_or(4).clamp(1, 4)],
    };
    if failing.len() < 2 {
        String::new()
    } else {
        format!("|{}|", failing.iter().map(step).collect::<String>())
    }
}

/// A value in few digits.
pub fn value_text(value: Value) -> String {
    match value {
        Value::Float(value) => short_float(value),
        Value::Int(value) => value.to_string(),
        Value::UInt(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Complex(real, imaginary) => format!("({}, {})", short_float(real), short_float(imaginary)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_where_along_an_axis_errors_are() {
        let profile = AxisProfile {
            extent: 8,
            bin_width: 2,
            failing: vec![0, 0, 1, 4],
            max_error: vec![0.0; 4],
            first: Some(5),
            last: Some(7),
        };
        assert_eq!(axis_text(0, &profile).unwrap(), "axis 0 (8): from 5 to the end  |..▂█|");
        let last = AxisProfile { first: Some(7), ..profile.clone() };
        assert!(axis_text(1, &last).unwrap().starts_with("axis 1 (8): at 7 only, the last"));
        assert_eq!(axis_text(0, &AxisProfile { first: None, last: None, ..profile.clone() }), None);
        let single = AxisProfile { extent: 1, failing: vec![1], first: Some(0), last: Some(0), ..profile };
        assert_eq!(axis_text(1, &single), None, "an axis of one element has no line");
    }
}
