//! Which elements of a tensor are wrong, as one would point at them.

use tensortap_judge::coordinate;

/// Which elements are wrong. Positions count from 0; both ends belong to a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// All of them.
    Everywhere,
    /// One.
    One {
        /// Its position along each axis.
        coordinate: Vec<u64>,
        /// Whether it is the last of the tensor.
        is_last: bool,
    },
    /// All elements at some positions of one axis, and no other: every `step`-th from `first` to `last`.
    Axis {
        /// The axis.
        axis: usize,
        /// How many axes there are.
        axes: usize,
        /// Its extent.
        extent: u64,
        /// First position.
        first: u64,
        /// Last position.
        last: u64,
        /// From one to the next; 1 where there is one.
        step: u64,
    },
    /// Elements that follow one another.
    Range {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
        /// Whether nothing follows.
        to_end: bool,
    },
    /// Every so many elements of the tensor.
    Every {
        /// From one to the next.
        step: u64,
        /// The first.
        first: u64,
    },
    /// All elements of a box: first and last position along each axis.
    Block(Vec<(u64, u64)>),
    /// Some, in no such order, within this box.
    Scattered(Vec<(u64, u64)>),
}

impl Spot {
    /// Of sorted positions among `count` elements, the first of a tensor of this shape. There is at least one.
    pub(super) fn of(failing: &[usize], count: usize, shape: &[u64]) -> Spot {
        let at = |position: usize| coordinate(shape, position as u64);
        if failing.len() == count && count > 1 {
            return Spot::Everywhere;
        }
        if let [one] = *failing {
            return Spot::One { coordinate: at(one), is_last: one + 1 == count };
        }
        let whole = shape.iter().product::<u64>() == count as u64;
        if let Some(spot) = whole.then(|| along_axis(failing, shape)).flatten() {
            return spot;
        }
        let (first, last) = (failing[0] as u64, failing[failing.len() - 1] as u64);
        match steps(failing) {
            Some(1) => return Spot::Range { first, last, to_end: last + 1 == count as u64 },
            Some(step) if failing.len() > 2 && last + step >= count as u64 => {
                return Spot::Every { step, first };
            }
            _ => {}
        }
        let bounds = bounds(failing, shape);
        let inside: u64 = bounds.iter().map(|(low, high)| high - low + 1).product();
        if inside == failing.len() as u64 { Spot::Block(bounds) } else { Spot::Scattered(bounds) }
    }
}

/// All elements at evenly spaced positions of one axis.
fn along_axis(failing: &[usize], shape: &[u64]) -> Option<Spot> {
    let numel: u64 = shape.iter().product();
    (0..shape.len()).find_map(|axis| {
        let extent = shape[axis];
        let inner: u64 = shape[axis + 1..].iter().product();
        let mut counts = vec![0_u64; usize::try_from(extent).ok()?];
        for &position in failing {
            counts[usize::try_from(position as u64 / inner % extent).ok()?] += 1;
        }
        let each = numel / extent;
        // One element at each position is no more than a range or a step of the tensor says.
        let is_whole = each > 1 && counts.iter().all(|&count| count == 0 || count == each);
        let positions: Vec<usize> = (0..counts.len()).filter(|&place| counts[place] > 0).collect();
        let step = if positions.len() == 1 { 1 } else { steps(&positions)? };
        let (first, last) = (*positions.first()? as u64, *positions.last()? as u64);
        is_whole.then_some(Spot::Axis { axis, axes: shape.len(), extent, first, last, step })
    })
}

/// The distance between neighbours, where it is the same for all; there are two or more.
fn steps(positions: &[usize]) -> Option<u64> {
    let step = positions.get(1)?.checked_sub(positions[0])?;
    positions.windows(2).all(|pair| pair[1] - pair[0] == step).then_some(step as u64)
}

/// The least box that holds all positions.
fn bounds(positions: &[usize], shape: &[u64]) -> Vec<(u64, u64)> {
    let mut bounds = vec![(u64::MAX, 0); shape.len()];
    for &position in positions {
        for ((low, high), at) in bounds.iter_mut().zip(coordinate(shape, position as u64)) {
            (*low, *high) = ((*low).min(at), (*high).max(at));
        }
    }
    bounds
}
