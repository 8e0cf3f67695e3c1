//! Describes which elements of a tensor are wrong.

use tensortap_judge::coordinate;

/// Which elements are wrong. Positions count from 0; ranges include both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorRegion {
    /// All elements.
    Everywhere,
    /// One element.
    One {
        /// Its position along each axis.
        coordinate: Vec<u64>,
        /// Whether it is the last element of the tensor.
        is_last: bool,
    },
    /// All elements at some positions of one axis: every `step`-th from `first` to `last`.
    Axis {
        /// The axis.
        axis: usize,
        /// Number of axes.
        axes: usize,
        /// Size of the axis.
        extent: u64,
        /// First position.
        first: u64,
        /// Last position.
        last: u64,
        /// Distance between positions; 1 for a single position.
        step: u64,
    },
    /// Consecutive elements.
    Range {
        /// First element.
        first: u64,
        /// Last element.
        last: u64,
        /// Whether the range reaches the end of the tensor.
        to_end: bool,
    },
    /// Elements at equal distances up to the end of the tensor.
    Every {
        /// Distance between elements.
        step: u64,
        /// First element.
        first: u64,
    },
    /// All elements of a box: first and last position along each axis.
    Block(Vec<(u64, u64)>),
    /// Irregular elements within this box.
    Scattered(Vec<(u64, u64)>),
}

impl ErrorRegion {
    /// Describes sorted positions among the first `count` elements of a tensor. `failing` is not empty.
    pub(super) fn of(failing: &[usize], count: usize, shape: &[u64]) -> ErrorRegion {
        let at = |position: usize| coordinate(shape, position as u64);
        if failing.len() == count && count > 1 {
            return ErrorRegion::Everywhere;
        }
        if let [one] = *failing {
            return ErrorRegion::One { coordinate: at(one), is_last: one + 1 == count };
        }
        let whole = shape.iter().product::<u64>() == count as u64;
        if let Some(spot) = whole.then(|| along_axis(failing, shape)).flatten() {
            return spot;
        }
        let (first, last) = (failing[0] as u64, failing[failing.len() - 1] as u64);
        match steps(failing) {
            Some(1) => return ErrorRegion::Range { first, last, to_end: last + 1 == count as u64 },
            Some(step) if failing.len() > 2 && last + step >= count as u64 => {
                return ErrorRegion::Every { step, first };
            }
            _ => {}
        }
        let bounds = bounds(failing, shape);
        let inside: u64 = bounds.iter().map(|(low, high)| high - low + 1).product();
        if inside == failing.len() as u64 {
            ErrorRegion::Block(bounds)
        } else {
            ErrorRegion::Scattered(bounds)
        }
    }
}

/// All elements at evenly spaced positions of one axis.
fn along_axis(failing: &[usize], shape: &[u64]) -> Option<ErrorRegion> {
    let numel: u64 = shape.iter().product();
    (0..shape.len()).find_map(|axis| {
        let extent = shape[axis];
        let inner: u64 = shape[axis + 1..].iter().product();
        let mut counts = vec![0_u64; usize::try_from(extent).ok()?];
        for &position in failing {
            counts[usize::try_from(position as u64 / inner % extent).ok()?] += 1;
        }
        let each = numel / extent;
        // With one element per position, a range or a stride of the tensor says the same.
        let is_whole = each > 1 && counts.iter().all(|&count| count == 0 || count == each);
        let positions: Vec<usize> = (0..counts.len()).filter(|&place| counts[place] > 0).collect();
        let step = if positions.len() == 1 { 1 } else { steps(&positions)? };
        let (first, last) = (*positions.first()? as u64, *positions.last()? as u64);
        is_whole.then_some(ErrorRegion::Axis { axis, axes: shape.len(), extent, first, last, step })
    })
}

/// The distance between neighbors if it is constant. There must be at least two positions.
fn steps(positions: &[usize]) -> Option<u64> {
    let step = positions.get(1)?.checked_sub(positions[0])?;
    positions.windows(2).all(|pair| pair[1] - pair[0] == step).then_some(step as u64)
}

/// The smallest box that contains all positions.
fn bounds(positions: &[usize], shape: &[u64]) -> Vec<(u64, u64)> {
    let mut bounds = vec![(u64::MAX, 0); shape.len()];
    for &position in positions {
        for ((low, high), at) in bounds.iter_mut().zip(coordinate(shape, position as u64)) {
            (*low, *high) = ((*low).min(at), (*high).max(at));
        }
    }
    bounds
}
