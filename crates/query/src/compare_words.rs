//! How a comparison is said in words: the same in `diff` and `blame`.

use tensortap::DType;
use tensortap::analysis::blame::{Share, Unwritten};
use tensortap::format::ScalarValue;
use tensortap::judge::{AxisProfile, Detail, Evidence, Outcome, Predicate, Rule, Worst};
use tensortap::values::Value;

use crate::number::{counted, grouped, significant};
use crate::words::{printable, scalar_text, short_float};

/// Digits of an error.
const DIGITS: usize = 4;

/// What a verdict rests on.
pub fn evidence(outcome: &Outcome) -> String {
    let outside = |failing: u64, elements: u64| {
        format!("{} of {} elements outside", grouped(failing), grouped(elements))
    };
    match &outcome.evidence {
        Evidence::Identical => "identical".into(),
        Evidence::Scalar(dtype, ours, theirs) => scalars(*dtype, *ours, *theirs),
        Evidence::Quick(quick) => outside(quick.failing, quick.elements),
        Evidence::Full(metrics) => outside(metrics.failing, metrics.elements),
        Evidence::Statistics(words) | Evidence::None(words) => printable(words).into_owned(),
    }
}

/// The same of a record some of which no recorded task wrote.
#[must_use]
pub fn evidence_written(outcome: &Outcome, unwritten: &Unwritten) -> String {
    match unwritten.in_both {
        Share::All if unwritten.is_value => {
            "passed by value, and may hold addresses of its run: what else differs in it is told of the orchestration".into()
        }
        Share::All => {
            "memory that no recorded task wrote, in either run: what lay there is no evidence".into()
        }
        Share::None | Share::Some(_) => evidence(outcome),
    }
}

/// What else to know of it, a line each.
#[must_use]
pub fn unwritten_lines(unwritten: &Unwritten) -> Vec<String> {
    let in_both = match unwritten.in_both {
        Share::Some(count) => {
            let elements = counted(count, "element");
            Some(format!("left out: {elements} that no recorded task wrote, in either run"))
        }
        Share::None | Share::All => None,
    };
    let here = "memory that no recorded task wrote: what lay there, and no value that was made";
    let in_golden = "in the golden no recorded task wrote it: what it should be is not known";
    let rest = [(unwritten.here, here), (unwritten.in_golden, in_golden)];
    let rest = rest.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words.to_owned());
    in_both.into_iter().chain(rest).collect()
}

/// `7, should be 8`; bits where the values look the same.
pub fn scalars(dtype: DType, ours: u64, theirs: u64) -> String {
    let text = |bits| scalar_text(ScalarValue::decode(dtype, bits));
    match (text(ours), text(theirs)) {
        (here, there) if here != there => format!("{here}, should be {there}"),
        _ => format!("bits {ours:#x}, should be {theirs:#x}"),
    }
}

/// The same in a column: how many elements are outside, or what else there is to say.
pub fn outside_or_why(outcome: &Outcome) -> String {
    match &outcome.evidence {
        Evidence::Quick(quick) => format!("{} of {}", grouped(quick.failing), grouped(quick.elements)),
        Evidence::Full(metrics) => format!("{} of {}", grouped(metrics.failing), grouped(metrics.elements)),
        _ => evidence(outcome),
    }
}

/// A rule in few words.
pub fn rule_text(rule: &Rule) -> String {
    match rule.predicate {
        Predicate::Close { rtol: 0.0, atol: 0.0 } => "equal".into(),
        Predicate::Close { rtol, atol } => format!("rtol {rtol:e}, atol {atol:e}"),
        Predicate::Ulps(most) => format!("{most} ulp"),
        Predicate::BitExact => "the same bits".into(),
    }
}

/// Worst elements that are listed.
const WORST: usize = 3;

/// Where errors sit, a line each: the worst elements, errors by size, each axis.
pub fn detail_lines(detail: &Detail) -> Vec<String> {
    let worst = detail.worst.iter().filter(|worst| worst.fails).take(WORST).enumerate();
    let worst =
        worst.map(|(n, w)| format!("{} {}", if n == 0 { "worst at" } else { "        " }, worst_text(w)));
    worst.chain(place_lines(detail)).collect()
}

/// Errors by size, and each axis.
pub fn place_lines(detail: &Detail) -> Vec<String> {
    let axes = detail.axes.iter().enumerate().filter_map(|(axis, profile)| axis_text(axis, profile));
    sizes_text(detail).into_iter().chain(axes).collect()
}

/// The worst elements side by side, under a line that says what stands where; `expected` is what the dump was held against.
pub fn worst_table(detail: &Detail, expected: &str) -> Vec<String> {
    let failing = detail.worst.iter().filter(|worst| worst.fails).take(WORST);
    let row = |worst: &Worst| {
        let apart = match (worst.error, worst.ulps) {
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

/// An element: `[3, 7]: -9, should be 3, error 12`.
fn worst_text(worst: &Worst) -> String {
    let mut words =
        format!("{:?}: {}, should be {}", worst.coordinate, value_text(worst.dump), value_text(worst.golden));
    if let Some(error) = worst.error {
        words += &format!(", error {}", significant(error, DIGITS));
    }
    if let Some(ulps) = worst.ulps {
        words += &format!(" ({} ulp)", grouped(ulps));
    }
    words
}

/// Errors by power of ten, where there are several: `errors by size: 3 from 1e-7, 12 from 1e0; 49 elements are equal`.
fn sizes_text(detail: &Detail) -> Option<String> {
    let decades: Vec<String> = detail
        .decades
        .iter()
        .filter(|decade| decade.count > 0)
        .map(|decade| format!("{} from 1e{}", grouped(decade.count), decade.exponent))
        .collect();
    let equal = counted(detail.equal, "element");
    (decades.len() > 1).then(|| format!("errors by size: {}; {equal} equal", decades.join(", ")))
}

fn axis_text(axis: usize, profile: &AxisProfile) -> Option<String> {
    let (first, last) = (profile.first?, profile.last?);
    // Along an axis of one element there is no place to tell.
    let last_one = profile.extent.checked_sub(1).filter(|last| *last > 0)?;
    let place = match (first, last) {
        (0, last) if last == last_one => "all along it".into(),
        (first, last) if first == last && last == last_one => format!("at {first} only, the last"),
        (first, last) if first == last => format!("at {first} only"),
        (first, last) if last == last_one => format!("from {first} to the end"),
        (first, last) => format!("from {first} to {last}"),
    };
    Some(format!("axis {axis} ({}): {place}  {}", profile.extent, sketch(&profile.failing)))
}

/// Failing elements along an axis, a character per bin.
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_end_is_seen_at_once() {
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
        assert_eq!(axis_text(1, &single), None, "an axis of one element says nothing");
    }
}
