//! Counts as a line of small bars.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One bar per count, scaled to the largest. A count of 0 is a gap; any other count has at least the lowest
/// bar.
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
