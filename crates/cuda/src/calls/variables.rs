//! Variables of a module, as they are given to launches of its kernels.

use std::sync::OnceLock;

use tensortap_queue::Memory;
use tensortap_record::{MemorySpace, RecordError, StringId, ThreadRecorder};

/// More arguments than these are not made of the variables of one module, and the driver is not asked where more lie.
const MOST_PLACED: usize = 64;
const MOST_ASKED: usize = 1024;
/// Libraries have code with many constants of a few bytes each, one behind the other. A module with more variables than this has small ones taken together, which makes one
/// argument of them.
const FEW: usize = 16;
const SMALL_BYTES: u64 = 64;
/// What lies between two that are taken together, for their alignment, is less. Both ends of it can be read, so it can.
const GAP_BYTES: u64 = 16;

/// A variable of a module, or several that lie side by side.
#[derive(Debug)]
pub struct Placed {
    /// What it is called; of several the first and the last, as [`joined`] has them.
    name: String,
    id: OnceLock<StringId>,
    /// Where it lies; none where the driver does not say.
    pub at: Option<Memory>,
}

impl Placed {
    fn new(name: String, at: Option<Memory>) -> Placed {
        Placed { name, id: OnceLock::new(), at }
    }

    /// What it is called, in the dump.
    pub fn name(&self, recorder: &mut ThreadRecorder) -> Result<StringId, RecordError> {
        if let Some(&known) = self.id.get() {
            return Ok(known);
        }
        let id = recorder.string(&self.name)?;
        Ok(*self.id.get_or_init(|| id))
    }
}

/// What several variables are called that are one argument. Whoever runs a launch again finds both ends by it.
fn joined(first: &str, last: &str) -> String {
    format!("{first} .. {last}")
}

/// The variables of a module as arguments, and whether it has more than these. `at` says where one lies.
pub fn placed<V>(
    variables: &[V],
    name: impl Fn(&V) -> &str,
    at: impl Fn(&V) -> Option<Memory>,
) -> (Vec<Placed>, bool) {
    let asked = variables.iter().take(MOST_ASKED).map(|variable| (name(variable), at(variable)));
    let mut placed: Vec<Placed> = if variables.len() <= FEW {
        asked.map(|(name, at)| Placed::new(name.to_owned(), at)).collect()
    } else {
        together(asked.collect())
    };
    let has_more = variables.len() > MOST_ASKED || placed.len() > MOST_PLACED;
    placed.truncate(MOST_PLACED);
    (placed, has_more)
}

/// Takes small variables that lie side by side together. What is the same module is the same here: they lie as its image says.
fn together(mut variables: Vec<(&str, Option<Memory>)>) -> Vec<Placed> {
    variables.sort_by_key(|(_, at)| at.map(|at| at.address));
    let runs = variables.chunk_by(|(_, one), (_, next)| one.zip(*next).is_some_and(are_neighbours));
    let placed = runs.map(|run| match run {
        [(first, Some(begin)), .., (last, Some(end))] => {
            let bytes = end.address + end.bytes - begin.address;
            Placed::new(joined(first, last), Some(Memory { bytes, ..*begin }))
        }
        run => Placed::new(run[0].0.to_owned(), run[0].1),
    });
    placed.collect()
}

fn are_neighbours((one, next): (Memory, Memory)) -> bool {
    let are_small = one.bytes.max(next.bytes) <= SMALL_BYTES;
    let gap = one.address.checked_add(one.bytes).and_then(|end| next.address.checked_sub(end));
    are_small && one.space == next.space && gap.is_some_and(|gap| gap < GAP_BYTES)
}

/// Whose memory a variable is.
pub fn space(is_managed: bool) -> MemorySpace {
    if is_managed { MemorySpace::Managed } else { MemorySpace::Device }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Lying = (String, Option<(u64, u64)>);

    fn lying(name: &str, address: u64, bytes: u64) -> Lying {
        (name.to_owned(), Some((address, bytes)))
    }

    fn seen(variables: &[Lying]) -> (Vec<Lying>, bool) {
        let memory = |(address, bytes)| Memory { address, bytes, space: MemorySpace::Device };
        let (placed, has_more) = placed(variables, |(name, _)| name, |(_, at)| at.map(memory));
        let lies = |one: Placed| (one.name, one.at.map(|at| (at.address, at.bytes)));
        (placed.into_iter().map(lies).collect(), has_more)
    }

    /// So many, of four bytes each, one behind the other.
    fn words(count: u64) -> Vec<Lying> {
        (0..count).map(|at| lying(&format!("v{at}"), 4096 + 4 * at, 4)).collect()
    }

    #[test]
    fn few_variables_stand_for_themselves() {
        let few = words(16);
        assert_eq!(seen(&few), (few, false));
    }

    #[test]
    fn many_small_ones_side_by_side_are_one_argument() {
        let mut many = words(40);
        many.rotate_left(13);
        assert_eq!(seen(&many), (vec![lying("v0 .. v39", 4096, 160)], false));
        // Padding lies between some; what is large, or farther away, or nowhere, stands for itself.
        let aligned = [lying("a", 8192, 1), lying("b", 8200, 8), lying("c", 8224, 8), lying("d", 8232, 65)];
        many.extend(aligned);
        many.push(("e".to_owned(), None));
        let expected = vec![
            ("e".to_owned(), None),
            lying("v0 .. v39", 4096, 160),
            lying("a .. b", 8192, 16),
            lying("c", 8224, 8),
            lying("d", 8232, 65),
        ];
        assert_eq!(seen(&many), (expected, false));
    }

    #[test]
    fn addresses_that_cannot_be_join_nothing() {
        let mut odd = words(17);
        odd.extend([lying("x", 4096, 4), lying("y", u64::MAX - 2, 8), lying("z", u64::MAX, 1)]);
        let (placed, _) = seen(&odd);
        assert_eq!(placed.iter().filter(|(name, _)| name.contains("..")).count(), 1, "{placed:?}");
    }

    #[test]
    fn more_than_are_looked_at_are_told() {
        let apart: Vec<Lying> = (0..65).map(|at| lying(&format!("v{at}"), 4096 * at, 4)).collect();
        let (placed, has_more) = seen(&apart);
        assert_eq!((placed.len(), has_more), (64, true));
        assert!(!seen(&apart[1..]).1);
        assert!(seen(&words(1025)).1 && !seen(&words(1024)).1);
    }
}
