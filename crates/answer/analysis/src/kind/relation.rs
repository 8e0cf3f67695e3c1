//! Finds the relation between wrong values and expected values.

use super::{ComparedValues, FEW, Relation};

/// The largest shift that is tried, in elements.
const FURTHEST: i64 = 16;
/// Relative errors up to this are called near.
const NEAR: f64 = 0.05;
/// A relation that could hold by chance needs this many distinct expected values.
const DIFFERENT: usize = 3;

/// The most specific relation that holds.
pub fn of(values: &ComparedValues) -> Relation {
    let ComparedValues { dump, golden, failing, .. } = values;
    let all = |holds: &dyn Fn(usize) -> bool| failing.iter().all(|&at| holds(at));
    let count = |holds: &dyn Fn(usize) -> bool| failing.iter().filter(|&&at| holds(at)).count() as u64;
    if all(&|at| dump[at].is_nan()) {
        return Relation::Nan;
    }
    // An infinity of the wrong sign is a sign error.
    if all(&|at| dump[at].is_infinite()) && !explains(values, |golden| -golden) {
        return Relation::Infinite;
    }
    let became_infinite = |at: usize| dump[at].is_infinite() && golden[at].is_finite();
    let (nan, infinite) = (count(&|at| dump[at].is_nan()), count(&became_infinite));
    if nan + infinite > 0 {
        return Relation::NotFinite { nan, infinite };
    }
    if wraps(values) {
        return Relation::Wrapped;
    }
    if all(&|at| dump[at] == 0.0) {
        return Relation::Zero;
    }
    if explains(values, |golden| -golden) {
        return Relation::Sign;
    }
    constant(values)
        .or_else(|| shifted(values))
        .or_else(|| transposed(values))
        .or_else(|| scaled(values))
        .or_else(|| offset(values))
        .or_else(|| moved(values))
        .or_else(|| near(values))
        .unwrap_or(Relation::Other)
}

/// Whether `change` turns the expected value of every wrong element into the actual one.
fn explains(values: &ComparedValues, change: impl Fn(f64) -> f64) -> bool {
    values.failing.iter().all(|&at| values.agree(values.dump[at], change(values.golden[at])))
}

/// Whether the wrong elements have enough distinct expected values to rule out chance.
pub fn are_different(values: &ComparedValues) -> bool {
    let mut seen: Vec<f64> = Vec::new();
    for &at in &values.failing {
        if !seen.contains(&values.golden[at]) {
            seen.push(values.golden[at]);
        }
        if seen.len() >= DIFFERENT {
            return values.failing.len() >= FEW;
        }
    }
    false
}

fn wraps(values: &ComparedValues) -> bool {
    let is_integer = !values.dtype.is_float() && values.dtype.bits() < 64;
    let half = 2_f64.powi(i32::try_from(values.dtype.bits()).unwrap_or(0) - 1);
    is_integer && values.failing.iter().all(|&at| (values.dump[at] - values.golden[at]).abs() == half)
}

fn constant(values: &ComparedValues) -> Option<Relation> {
    let first = values.dump[*values.failing.first()?];
    let same = values.failing.iter().all(|&at| values.dump[at] == first);
    (same && are_different(values)).then_some(Relation::Constant(first))
}

/// Elements shifted by a constant distance. Elements without a source at the ends are not compared.
fn shifted(values: &ComparedValues) -> Option<Relation> {
    let length = values.dump.len();
    let moves = |by: i64| {
        let source = |at: usize| {
            let from = i64::try_from(at).ok()?.checked_add(by)?;
            usize::try_from(from).ok().filter(|&from| from < length)
        };
        let mut compared = 0;
        let agrees = (0..length).filter_map(|at| Some((at, source(at)?))).all(|(at, from)| {
            compared += 1;
            values.agree(values.dump[at], values.golden[from])
        });
        agrees && compared >= FEW
    };
    if !are_different(values) {
        return None;
    }
    let row = values.shape.last().and_then(|&size| i64::try_from(size).ok()).filter(|&size| size > FURTHEST);
    let steps = (1..=FURTHEST).chain(row).flat_map(|by| [by, -by]);
    steps.into_iter().find(|&by| moves(by)).map(Relation::Shifted)
}

/// The last two axes are exchanged.
fn transposed(values: &ComparedValues) -> Option<Relation> {
    let [.., rows, columns] = *values.shape.as_slice() else { return None };
    let (rows, columns) = (usize::try_from(rows).ok()?, usize::try_from(columns).ok()?);
    let page = rows.checked_mul(columns).filter(|&page| page > 0)?;
    // If not the whole tensor was examined, the last page may be cut.
    let whole = values.dump.len() / page * page;
    if rows < 2 || columns < 2 || whole == 0 || !are_different(values) {
        return None;
    }
    let agrees = |at: usize| {
        let (first, within) = (at / page * page, at % page);
        let from = first + (within % rows) * columns + within / rows;
        values.agree(values.dump[at], values.golden[from])
    };
    (0..whole).all(agrees).then_some(Relation::Transposed)
}

/// The wrong element with the largest expected value, which determines a factor best.
fn greatest(values: &ComparedValues) -> Option<usize> {
    let size = |&at: &usize| values.golden[at].abs();
    values
        .failing
        .iter()
        .copied()
        .filter(|at| size(at).is_finite())
        .max_by(|a, b| size(a).total_cmp(&size(b)))
}

fn scaled(values: &ComparedValues) -> Option<Relation> {
    let at = greatest(values)?;
    let factor = values.dump[at] / values.golden[at];
    let holds = factor.is_finite() && are_different(values) && explains(values, |golden| golden * factor);
    holds.then_some(Relation::Scaled(factor))
}

fn offset(values: &ComparedValues) -> Option<Relation> {
    let at = greatest(values)?;
    let by = values.dump[at] - values.golden[at];
    let holds = by.is_finite() && are_different(values) && explains(values, |golden| golden + by);
    holds.then_some(Relation::Offset(by))
}

/// The sorted values are equal.
fn moved(values: &ComparedValues) -> Option<Relation> {
    if values.dump.len() as u64 != values.numel() || !are_different(values) {
        return None;
    }
    let sorted = |list: &[f64]| {
        let mut list = list.to_vec();
        list.sort_by(f64::total_cmp);
        list
    };
    let (dump, golden) = (sorted(&values.dump), sorted(&values.golden));
    dump.iter().zip(&golden).all(|(&one, &other)| values.agree(one, other)).then_some(Relation::Moved)
}

fn near(values: &ComparedValues) -> Option<Relation> {
    let share = |&at: &usize| (values.dump[at] - values.golden[at]).abs() / values.golden[at].abs();
    let most = values.failing.iter().map(share).fold(0.0, f64::max);
    (most <= NEAR && values.dtype.is_float()).then_some(Relation::Near(most))
}
