//! Decides whether a sum of bounded multiples falls into a window.
//!
//! Given terms (count n, stride s), is there a sum `i_1 * s_1 + i_2 * s_2 + ...` with `0 <= i_k < n_k` and
//! `low <= sum <= high`? This is a bounded linear Diophantine problem. It is NP-hard in general, but fast for
//! the strides of tensors, which nest.
//!
//! The search fixes the terms with the largest strides first, depth first. At every node, the remaining terms
//! decide most windows directly ([`Tail::decide`]): by their reach, by their common divisor, and by the
//! widest gap between their sums. Two terms with unrelated strides (two different steps along one tensor
//! dimension) are fixed together, by value instead of by index, since many index pairs give the same value.

use crate::dims::{Dim, Dims};
use crate::{MAX_DIMS, Overlap};

/// Values tried per check before the answer is [`Overlap::Assumed`].
///
/// Slices, steps, selections and transposes of one tensor need a few values per dimension; 4-bit views need
/// that many per part, with at most 2^8 parts.
pub const STEP_BUDGET: u32 = 1 << 12;

/// The dimensions of two views.
pub(crate) const MAX_TERMS: usize = 2 * MAX_DIMS;

/// The range of sums to find, including both ends.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub low: i64,
    pub high: i64,
}

impl Window {
    fn shifted_down(self, by: i64) -> Self {
        Self { low: self.low - by, high: self.high - by }
    }
}

/// Whether some sum of `terms`, which are fused, is in `window`. Decreases `steps_left` by the steps it uses.
pub(crate) fn sum_in_window(terms: &Dims<MAX_TERMS>, window: Window, steps_left: &mut u32) -> Overlap {
    let terms = terms.as_slice();
    let tails = tails_of(terms);
    if let Some(hit) = tails[terms.len()].decide(window) {
        return if hit { Overlap::Yes } else { Overlap::No };
    }
    let levels = levels_of(terms, &tails, window);
    let mut search = Search { tails, levels, steps_left };
    search.visit(0, window)
}

/// Properties of all sums of the terms with the smallest strides. Zero and `reach` are always among the sums.
#[derive(Clone, Copy)]
struct Tail {
    /// The largest sum.
    reach: i64,
    /// Divides every sum.
    divisor: i64,
    /// Upper bound on the distance between neighboring sums.
    gap: i64,
}

impl Tail {
    const EMPTY: Self = Self { reach: 0, divisor: 0, gap: 0 };

    /// With one more term, of larger stride.
    fn extended(self, term: Dim) -> Self {
        Self {
            reach: self.reach + term.extent(),
            divisor: gcd(term.stride, self.divisor),
            gap: self.gap.max(term.stride - self.reach),
        }
    }

    /// Whether a sum is in the window, if that is obvious. Always obvious without terms.
    fn decide(&self, window: Window) -> Option<bool> {
        let Window { low, high } = window;
        if high < 0 || low > self.reach {
            return Some(false);
        }
        if low <= 0 || high >= self.reach {
            return Some(true);
        }
        let multiples = high / self.divisor - (low - 1) / self.divisor;
        if multiples == 0 {
            return Some(false);
        }
        (multiples * self.divisor >= self.gap).then_some(true)
    }
}

/// `tails[k]` describes the `k` terms with the smallest strides.
fn tails_of(terms: &[Dim]) -> [Tail; MAX_TERMS + 1] {
    let mut tails = [Tail::EMPTY; MAX_TERMS + 1];
    for (index, &term) in terms.iter().enumerate() {
        tails[index + 1] = tails[index].extended(term);
    }
    tails
}

/// One or two terms that are fixed together: the values `unit * (p * i + q * j)`, `0 <= i < p_count`,
/// `0 <= j < q_count`, with `p` and `q` coprime. A single term has `q_count` 1.
#[derive(Clone, Copy)]
struct Level {
    unit: i64,
    p: i64,
    p_count: i64,
    q: i64,
    q_count: i64,
    /// Inverse of `p` modulo `q`.
    p_inverse: i64,
    /// Terms left after this level.
    rest: usize,
}

impl Level {
    const UNUSED: Self = Self { unit: 1, p: 1, p_count: 1, q: 1, q_count: 1, p_inverse: 0, rest: 0 };

    fn single(term: Dim, rest: usize) -> Self {
        Self { unit: term.stride, p_count: term.count, rest, ..Self::UNUSED }
    }

    fn pair(large: Dim, small: Dim, rest: usize) -> Self {
        let unit = gcd(large.stride, small.stride);
        let (p, q) = (large.stride / unit, small.stride / unit);
        let p_inverse = inverse_modulo(p, q);
        Self { unit, p, p_count: large.count, q, q_count: small.count, p_inverse, rest }
    }

    fn reach(&self) -> i64 {
        self.unit * (self.p * (self.p_count - 1) + self.q * (self.q_count - 1))
    }

    /// Range of multiples of the unit that can lead into a window if the terms after this level reach
    /// `rest_reach`.
    fn candidates(&self, window: Window, rest_reach: i64) -> (i64, i64) {
        let low = (window.low - rest_reach).max(0);
        let high = window.high.min(self.reach());
        (low.div_euclid(self.unit) + i64::from(low % self.unit != 0), high.div_euclid(self.unit))
    }

    /// Whether `multiple` is `p * i + q * j` for indices in range.
    fn has(&self, multiple: i64) -> bool {
        let above = (multiple - self.q * (self.q_count - 1)).max(0);
        let least = above / self.p + i64::from(above % self.p != 0);
        let most = (multiple / self.p).min(self.p_count - 1);
        // p * i = multiple (mod q) leaves one i in q.
        let residue = mul_modulo(multiple % self.q, self.p_inverse, self.q);
        least + (residue - least).rem_euclid(self.q) <= most
    }
}

/// Splits the terms into levels, largest strides first. Each level takes one or two terms, whichever has
/// fewer values to try.
fn levels_of(terms: &[Dim], tails: &[Tail; MAX_TERMS + 1], window: Window) -> [Level; MAX_TERMS] {
    let mut levels = [Level::UNUSED; MAX_TERMS];
    let (mut count, mut left) = (0, terms.len());
    while left > 0 {
        let single = Level::single(terms[left - 1], left - 1);
        levels[count] = single;
        if left > 1 {
            let pair = Level::pair(terms[left - 1], terms[left - 2], left - 2);
            if values_to_try(&pair, tails, window) <= values_to_try(&single, tails, window) {
                levels[count] = pair;
            }
        }
        left = levels[count].rest;
        count += 1;
    }
    levels
}

/// Maximum number of values of the level that can lead into a window of this width at any position.
fn values_to_try(level: &Level, tails: &[Tail; MAX_TERMS + 1], window: Window) -> i64 {
    let width = window.high - window.low + 1;
    (tails[level.rest].reach + width).min(level.reach()) / level.unit + 1
}

struct Search<'a> {
    tails: [Tail; MAX_TERMS + 1],
    levels: [Level; MAX_TERMS],
    steps_left: &'a mut u32,
}

impl Search<'_> {
    /// Whether the terms from `depth` on reach a window that [`Tail::decide`] did not decide.
    fn visit(&mut self, depth: usize, window: Window) -> Overlap {
        let level = self.levels[depth];
        let tail = self.tails[level.rest];
        let (first, last) = level.candidates(window, tail.reach);
        for multiple in first..=last {
            let Some(steps_left) = self.steps_left.checked_sub(1) else { return Overlap::Assumed };
            *self.steps_left = steps_left;
            if !level.has(multiple) {
                continue;
            }
            let below = window.shifted_down(multiple * level.unit);
            let outcome = match tail.decide(below) {
                Some(true) => Overlap::Yes,
                Some(false) => Overlap::No,
                None => self.visit(depth + 1, below),
            };
            if outcome != Overlap::No {
                return outcome;
            }
        }
        Overlap::No
    }
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The `x` in `0..modulus` with `a * x = 1 (mod modulus)`, for coprime arguments.
fn inverse_modulo(a: i64, modulus: i64) -> i64 {
    let (mut rest, mut next_rest) = (a % modulus, modulus);
    let (mut x, mut next_x) = (1, 0);
    while next_rest != 0 {
        let quotient = rest / next_rest;
        (rest, next_rest) = (next_rest, rest - quotient * next_rest);
        (x, next_x) = (next_x, x - quotient * next_x);
    }
    x.rem_euclid(modulus)
}

/// `a * b % modulus` for factors in `0..modulus`.
fn mul_modulo(a: i64, b: i64, modulus: i64) -> i64 {
    if let Some(product) = a.checked_mul(b) {
        return product % modulus;
    }
    let wide = i128::from(a) * i128::from(b) % i128::from(modulus);
    i64::try_from(wide).expect("a remainder is smaller than its 64-bit modulus")
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;

    fn all_sums(terms: &[(i64, i64)]) -> Vec<i64> {
        terms.iter().fold(Vec::from([0]), |sums, &(count, stride)| {
            (0..count).flat_map(|index| sums.iter().map(move |sum| sum + index * stride)).collect()
        })
    }

    fn dims_of(terms: &[(i64, i64)]) -> Dims<MAX_TERMS> {
        let mut dims = Dims::EMPTY;
        for &(count, stride) in terms {
            dims.push(Dim { count, stride });
        }
        dims.fused()
    }

    fn terms() -> impl Strategy<Value = Vec<(i64, i64)>> {
        let stride = prop_oneof![1..=30i64, 1..=1i64 << 50, (1..=1i64 << 44).prop_map(|factor| factor * 60)];
        prop::collection::vec((1..=6i64, stride), 0..=4)
    }

    proptest! {
        #![proptest_config(Config { cases: 8_000, failure_persistence: None, ..Config::default() })]

        #[test]
        fn windows_at_sums_and_next_to_sums_are_distinguished_at_any_magnitude(
            terms in terms(),
            pick in any::<prop::sample::Index>(),
            shift in prop_oneof![Just(0), -70..70i64],
            width in 1..12i64,
        ) {
            let sums = all_sums(&terms);
            let low = pick.get(&sums) + shift;
            let window = Window { low, high: low + width - 1 };
            let expected = sums.iter().any(|sum| (window.low..=window.high).contains(sum));
            let mut steps_left = STEP_BUDGET;
            let outcome = sum_in_window(&dims_of(&terms), window, &mut steps_left);
            prop_assert_eq!(outcome, if expected { Overlap::Yes } else { Overlap::No });
        }
    }

    #[test]
    fn a_window_between_multiples_of_the_common_divisor_costs_no_step() {
        let terms = dims_of(&[(50, 6 * 7), (50, 6 * 11), (50, 6 * 13)]);
        let mut steps_left = 0;
        let outcome = sum_in_window(&terms, Window { low: 1201, high: 1205 }, &mut steps_left);
        assert_eq!(outcome, Overlap::No);
    }
}
