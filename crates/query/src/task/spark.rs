//! Counts as a line of small bars.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar per count, the highest for the greatest; a count of 0 is a gap, and any other has at least the lowest.
///
/// ```
/// use tensortap_query::sparkline;
/// assert_eq!(sparkline(&[1, 0, 500, 1000]), "▁ ▄█");
/// assert_eq!(sparkline(&[]), "");
/// ```
#[must_use]
pub fn sparkline(counts: &[u64]) -> String {
    let most = counts.iter().copied().max().unwrap_or(0);
    counts.iter().map(|&count| bar(count, most)).collect()
}

fn bar(count: u64, most: u64) -> char {
    if count == 0 {
        return ' ';
    }
    let place = (u128::from(count) * BARS.len() as u128).div_ceil(u128::from(most.max(1)));
    BARS[usize::try_from(place).unwrap_or(BARS.len()).clamp(1, BARS.len()) - 1]
}
