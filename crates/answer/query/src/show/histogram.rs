//! Histogram of the finite values of a tensor, with text bars.

use std::fmt::Write;

use serde::Serialize;
use tensortap::format::FormatError;
use tensortap::values::Summary;

use super::content::Content;
use crate::Progress;
use crate::number::{grouped, json_float, significant};

/// Characters of the longest bar.
const BAR: usize = 40;
/// Digits of the edges.
const DIGITS: usize = 4;

/// Counts of values in ranges of equal width.
#[derive(Debug, Serialize)]
pub struct Histogram {
    /// Lower end of the first range.
    #[serde(serialize_with = "json_float")]
    pub min: f64,
    /// Upper end of the last range, inclusive.
    #[serde(serialize_with = "json_float")]
    pub max: f64,
    /// Values per range.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Counts the finite values; `None` if there are none.
    pub fn of(
        content: &Content<'_>,
        summary: &Summary,
        bins: usize,
        progress: &Progress<'_>,
    ) -> Result<Option<Histogram>, FormatError> {
        let stats = &summary.stats;
        if stats.numel == stats.nan + stats.inf || stats.min > stats.max {
            return Ok(None);
        }
        let bins = if stats.min == stats.max { 1 } else { bins.max(1) };
        let mut histogram = Histogram { min: stats.min, max: stats.max, counts: vec![0; bins] };
        content.finite_values(progress, |value| {
            let bin = histogram.bin(value);
            histogram.counts[bin] += 1;
        })?;
        Ok(Some(histogram))
    }

    /// The range of a value. It halves all values, because the width of the whole range may overflow.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a float saturates"
    )]
    #[expect(clippy::cast_precision_loss, reason = "ranges are few")]
    pub(crate) fn bin(&self, value: f64) -> usize {
        let last = self.counts.len() - 1;
        let share = (value / 2.0 - self.min / 2.0) / (self.max / 2.0 - self.min / 2.0);
        ((share * self.counts.len() as f64) as usize).min(last)
    }

    #[expect(clippy::cast_precision_loss, reason = "ranges are few")]
    fn edge(&self, bin: usize) -> f64 {
        let share = bin as f64 / self.counts.len() as f64;
        self.min * (1.0 - share) + self.max * share
    }

    /// The histogram as text, one line per range.
    pub fn text(&self) -> String {
        let edges: Vec<String> = (0..=self.counts.len()).map(|bin| edge_text(self.edge(bin))).collect();
        let widest = edges.iter().map(String::len).max().unwrap_or(0);
        let most = self.counts.iter().copied().max().unwrap_or(0);
        let mut text = String::new();
        for (pair, &count) in edges.windows(2).zip(&self.counts) {
            let bar = "#".repeat(bar_length(count, most));
            let [low, high] = pair else { continue };
            let _ = writeln!(text, "  {low:>widest$} .. {high:>widest$}  {bar:<BAR$}  {}", grouped(count));
        }
        text
    }
}

fn edge_text(value: f64) -> String {
    significant(value, DIGITS)
}

/// Length of a bar. A range with any value has at least one character.
fn bar_length(count: u64, most: u64) -> usize {
    if count == 0 {
        return 0;
    }
    let scaled = u128::from(count) * BAR as u128 / u128::from(most.max(1));
    usize::try_from(scaled).unwrap_or(BAR).clamp(1, BAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(min: f64, max: f64, bins: usize) -> Histogram {
        Histogram { min, max, counts: vec![0; bins] }
    }

    #[test]
    fn includes_both_ends_and_does_not_overflow() {
        let ten = histogram(0.0, 10.0, 10);
        assert_eq!([0.0, 0.99, 1.0, 9.99, 10.0].map(|value| ten.bin(value)), [0, 0, 1, 9, 9]);
        let wide = histogram(f64::MIN, f64::MAX, 4);
        assert_eq!([f64::MIN, -1e307, 1e307, f64::MAX].map(|value| wide.bin(value)), [0, 1, 2, 3]);
        assert!(wide.edge(1).is_finite() && wide.edge(4) == f64::MAX);
        assert_eq!(histogram(3.0, 3.0, 1).bin(3.0), 0);
    }

    #[test]
    fn every_nonempty_range_has_a_bar() {
        assert_eq!([0, 1, 500_000, 1_000_000].map(|count| bar_length(count, 1_000_000)), [0, 1, 20, 40]);
    }
}
