//! Aligns two sequences: finds a longest common subsequence, and which of its pairs every longest one has.
//!
//! If an element was inserted into a row of equal ones, nothing shows which one it is. So a pair is certain only if
//! all optimal alignments agree on it. The search is limited to a band around the diagonal, which is wide enough for
//! every optimal alignment. Sequences that differ too much are first split at elements that are unique in both.

use std::collections::HashMap;

use crate::steps::Budget;

/// A pair of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AlignedPair {
    pub first: usize,
    pub second: usize,
    /// Whether every optimal alignment has this pair.
    pub is_certain: bool,
}

/// Limit on the number of table cells of one alignment. A cell takes eight bytes.
pub(super) const MAX_CELLS: u64 = 1 << 22;
/// Extra width of the first band on each side.
const FIRST_WIDTH: usize = 8;

/// The pairs of an optimal alignment, in order. Parts that would exceed the budget have no pairs.
pub(super) fn align(first: &[u64], second: &[u64], budget: &Budget) -> Vec<AlignedPair> {
    if first == second {
        let pair = |at| AlignedPair { first: at, second: at, is_certain: true };
        return (0..first.len()).map(pair).collect();
    }
    align_in_band(first, second, budget).unwrap_or_else(|| align_between_anchors(first, second, budget))
}

/// `None` if the budget does not suffice.
fn align_in_band(first: &[u64], second: &[u64], budget: &Budget) -> Option<Vec<AlignedPair>> {
    if first.is_empty() || second.is_empty() {
        return Some(Vec::new());
    }
    let mut band = Band::of(first, second, FIRST_WIDTH, budget)?;
    // Each insertion beyond the difference in length needs a deletion, and moves the path by one.
    let needed = first.len().min(second.len()) - band.longest();
    if needed > FIRST_WIDTH {
        band = Band::of(first, second, needed, budget)?;
    }
    Some(band.pairs())
}

/// Longest common subsequences of all prefixes and all suffixes, for positions near the diagonal.
struct Band<'s> {
    first: &'s [u64],
    second: &'s [u64],
    /// Positions left of the diagonal that belong to the band.
    left: usize,
    width: usize,
    of_prefixes: Vec<i32>,
    of_suffixes: Vec<i32>,
}

/// The value of a cell outside the band.
const OUTSIDE: i32 = i32::MIN / 4;

impl<'s> Band<'s> {
    fn of(first: &'s [u64], second: &'s [u64], extra: usize, budget: &Budget) -> Option<Band<'s>> {
        let (rows, columns) = (first.len() + 1, second.len() + 1);
        let left = rows.saturating_sub(columns) + extra;
        let width = left + columns.saturating_sub(rows) + extra + 1;
        let cells = rows.checked_mul(width).filter(|&cells| cells as u64 <= MAX_CELLS)?;
        budget.query_steps().take(cells)?;
        let empty = || vec![OUTSIDE; cells];
        let mut band = Band { first, second, left, width, of_prefixes: empty(), of_suffixes: empty() };
        band.fill_prefixes();
        band.fill_suffixes();
        Some(band)
    }

    /// Position of a cell in the tables; `None` outside the band.
    fn at(&self, row: usize, column: usize) -> Option<usize> {
        let offset = (column + self.left).checked_sub(row)?;
        (offset < self.width && row <= self.first.len() && column <= self.second.len())
            .then(|| row * self.width + offset)
    }

    fn prefix(&self, row: usize, column: usize) -> i32 {
        self.at(row, column).map_or(OUTSIDE, |at| self.of_prefixes[at])
    }

    fn suffix(&self, row: usize, column: usize) -> i32 {
        self.at(row, column).map_or(OUTSIDE, |at| self.of_suffixes[at])
    }

    /// Columns of a row that are in the band.
    fn columns(&self, row: usize) -> std::ops::Range<usize> {
        let end = (row + self.width).saturating_sub(self.left).min(self.second.len() + 1);
        row.saturating_sub(self.left)..end
    }

    fn fill_prefixes(&mut self) {
        for row in 0..=self.first.len() {
            for column in self.columns(row) {
                let mut best = if row == 0 && column == 0 { 0 } else { OUTSIDE };
                if let Some(above) = row.checked_sub(1) {
                    best = best.max(self.prefix(above, column));
                    if let Some(before) =
                        column.checked_sub(1).filter(|&c| self.first[above] == self.second[c])
                    {
                        best = best.max(self.prefix(above, before) + 1);
                    }
                }
                if let Some(before) = column.checked_sub(1) {
                    best = best.max(self.prefix(row, before));
                }
                if let Some(at) = self.at(row, column) {
                    self.of_prefixes[at] = best;
                }
            }
        }
    }

    fn fill_suffixes(&mut self) {
        let (rows, columns) = (self.first.len(), self.second.len());
        for row in (0..=rows).rev() {
            for column in self.columns(row).rev() {
                let mut best = if (row, column) == (rows, columns) { 0 } else { OUTSIDE };
                best = best.max(self.suffix(row + 1, column)).max(self.suffix(row, column + 1));
                if self.is_equal(row, column) {
                    best = best.max(self.suffix(row + 1, column + 1) + 1);
                }
                if let Some(at) = self.at(row, column) {
                    self.of_suffixes[at] = best;
                }
            }
        }
    }

    fn is_equal(&self, row: usize, column: usize) -> bool {
        let (first, second) = (self.first.get(row), self.second.get(column));
        first.is_some() && first == second
    }

    fn longest(&self) -> usize {
        usize::try_from(self.suffix(0, 0)).unwrap_or(0)
    }

    /// Follows one optimal alignment from the beginning.
    fn pairs(&self) -> Vec<AlignedPair> {
        let (mut row, mut column) = (0, 0);
        let mut pairs = Vec::new();
        while row < self.first.len() && column < self.second.len() {
            let best = self.suffix(row, column);
            if self.is_equal(row, column) && self.suffix(row + 1, column + 1) + 1 == best {
                pairs.push(AlignedPair { first: row, second: column, is_certain: self.is_certain(row) });
                (row, column) = (row + 1, column + 1);
            } else if self.suffix(row + 1, column) == best {
                row += 1;
            } else {
                column += 1;
            }
        }
        pairs
    }

    /// Whether every optimal alignment pairs an element with the same partner.
    fn is_certain(&self, row: usize) -> bool {
        let longest = self.suffix(0, 0);
        let is_partner = |&column: &usize| {
            self.is_equal(row, column)
                && self.prefix(row, column) + 1 + self.suffix(row + 1, column + 1) == longest
        };
        let is_skipped = |column: usize| self.prefix(row, column) + self.suffix(row + 1, column) == longest;
        self.columns(row).filter(is_partner).count() == 1 && !self.columns(row).any(is_skipped)
    }
}

/// Aligns the parts between elements that are unique in both sequences.
fn align_between_anchors(first: &[u64], second: &[u64], budget: &Budget) -> Vec<AlignedPair> {
    let common = unique_in_both(first, second);
    let anchors = longest_increasing(&common);
    // If unique elements were moved, it is not certain which ones.
    let is_certain = anchors.len() == common.len();
    let mut pairs = Vec::new();
    let mut begin = (0, 0);
    for end in anchors.into_iter().map(Some).chain([None]) {
        let (row, column) = end.unwrap_or((first.len(), second.len()));
        let part = align_in_band(&first[begin.0..row], &second[begin.1..column], budget).unwrap_or_default();
        let moved = |pair: AlignedPair| AlignedPair {
            first: begin.0 + pair.first,
            second: begin.1 + pair.second,
            is_certain: is_certain && pair.is_certain,
        };
        pairs.extend(part.into_iter().map(moved));
        pairs.extend(end.map(|_| AlignedPair { first: row, second: column, is_certain }));
        begin = (row + 1, column + 1);
    }
    pairs
}

/// Positions of elements that occur once in each sequence, in the order of the first.
fn unique_in_both(first: &[u64], second: &[u64]) -> Vec<(usize, usize)> {
    let once = |all: &[u64]| {
        let mut places: HashMap<u64, Option<usize>> = HashMap::new();
        for (at, &element) in all.iter().enumerate() {
            places.entry(element).and_modify(|place| *place = None).or_insert(Some(at));
        }
        places
    };
    let (ours, theirs) = (once(first), once(second));
    let pair = |(at, element): (usize, &u64)| {
        let is_once = ours.get(element).copied().flatten().is_some();
        Some((at, theirs.get(element).copied().flatten().filter(|_| is_once)?))
    };
    first.iter().enumerate().filter_map(pair).collect()
}

/// A longest part of these pairs in which both positions increase.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // By length: the pair with the smallest end, and for each pair the one before it.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (number, &(_, second)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end: &usize| pairs[end].1 < second);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(number);
        } else {
            ends[length] = number;
        }
    }
    let mut longest = Vec::new();
    let mut at = ends.last().copied();
    while let Some(number) = at {
        longest.push(pairs[number]);
        at = before[number];
    }
    longest.reverse();
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn letters(text: &str) -> Vec<u64> {
        text.bytes().map(u64::from).collect()
    }

    fn plenty() -> Budget {
        Budget::new(1 << 26, MAX_CELLS)
    }

    fn aligned(first: &str, second: &str) -> Vec<(usize, usize, bool)> {
        let pairs = align(&letters(first), &letters(second), &plenty());
        pairs.iter().map(|pair| (pair.first, pair.second, pair.is_certain)).collect()
    }

    #[test]
    fn an_inserted_element_shifts_the_rest() {
        assert_eq!(aligned("abc", "axbc"), [(0, 0, true), (1, 2, true), (2, 3, true)]);
        assert_eq!(aligned("abQc", "abRSc"), [(0, 0, true), (1, 1, true), (3, 4, true)]);
    }

    #[test]
    fn pairs_in_a_row_of_equal_elements_are_not_certain() {
        let expected = [(0, 0, true), (1, 1, false), (2, 2, false), (3, 4, true)];
        assert_eq!(aligned("baac", "baaac"), expected);
        // Equal rows have only one alignment.
        assert!(aligned("aaa", "aaa").iter().all(|pair| pair.2));
        // One of two swapped elements moved, but not which one is open.
        assert!(aligned("ab", "ba").iter().all(|pair| !pair.2));
    }

    #[test]
    fn a_budget_that_is_too_small_leaves_anchors() {
        let (mut first, mut second) =
            (letters("abcdefghijklmnopqrstuvwxyz"), letters("abcdefghijklmnopqrstuvwxyz"));
        first.insert(5, 0);
        second.insert(20, 0);
        second.insert(21, 0);
        let pairs = align(&first, &second, &Budget::new(40, 40));
        assert_eq!(pairs.len(), 26);
        assert!(pairs.iter().all(|pair| first[pair.first] == second[pair.second]));
        let none = align(&[7; 100], &[7; 99], &Budget::new(10, 10));
        assert!(none.is_empty());
    }

    /// All longest common subsequences, as lists of pairs.
    fn all_longest(first: &[u64], second: &[u64]) -> Vec<Vec<(usize, usize)>> {
        fn extend(
            (first, second): (&[u64], &[u64]),
            (row, column): (usize, usize),
            taken: &mut Vec<(usize, usize)>,
            all: &mut Vec<Vec<(usize, usize)>>,
        ) {
            all.push(taken.clone());
            for i in row..first.len() {
                for j in (column..second.len()).filter(|&j| first[i] == second[j]) {
                    taken.push((i, j));
                    extend((first, second), (i + 1, j + 1), taken, all);
                    taken.pop();
                }
            }
        }
        let mut all = Vec::new();
        extend((first, second), (0, 0), &mut Vec::new(), &mut all);
        let longest = all.iter().map(Vec::len).max().unwrap_or(0);
        all.retain(|pairs| pairs.len() == longest);
        all
    }

    proptest! {
        #[test]
        fn certain_pairs_are_those_of_every_longest_common_subsequence(
            first in proptest::collection::vec(0_u64..3, 0..7),
            second in proptest::collection::vec(0_u64..3, 0..7),
        ) {
            let found = align(&first, &second, &plenty());
            let pairs: Vec<_> = found.iter().map(|pair| (pair.first, pair.second)).collect();
            let all = all_longest(&first, &second);
            prop_assert!(all.contains(&pairs));
            for pair in found {
                let in_all = all.iter().all(|pairs| pairs.contains(&(pair.first, pair.second)));
                prop_assert_eq!(in_all, pair.is_certain);
            }
        }
    }
}
