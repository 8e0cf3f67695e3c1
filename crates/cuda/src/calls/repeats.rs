//! Launches that come again. A program that goes round in a loop gives its kernels the same parameters each time; what those lead to is found out once, and
//! holds as long as memory is as it was.

use std::sync::Arc;

use tensortap_queue::ByNumber;

use crate::{
    allocations::{Allocations, BlockEnd, Device},
    work::Subject,
};

/// Launches that are kept, and bytes of their parameters; with more it begins anew.
const MOST: usize = 4096;
const MOST_BYTES: usize = 16 << 20;

/// A kernel of which so many launches are kept and none has come again is given up: each is another.
const PATIENCE: usize = 1024;

/// Launches by their kernels and parameters.
#[derive(Default)]
pub struct Repeats {
    by_kernel: ByNumber<usize, OfKernel>,
    count: usize,
    bytes: usize,
}

/// Launches of one kernel.
#[derive(Default)]
struct OfKernel {
    known: ByNumber<Box<[u8]>, Repeat>,
    /// Whether one has come again.
    has_repeated: bool,
}

/// A launch.
pub struct Repeat {
    /// The device it went to.
    pub device: Device,
    /// How often memory had come or gone when it was looked into.
    pub changes: u64,
    /// Every address that it was given, and where the block ended that this lay in.
    pub pointers: Vec<(u64, BlockEnd)>,
    /// What it was given.
    pub subject: Arc<Subject>,
}

impl Repeat {
    /// Whether a launch to a device is given the same now.
    fn holds(&self, allocations: &Allocations, device: Device) -> bool {
        self.device == device
            && self.changes == allocations.changes()
            && self.pointers.iter().all(|&(address, end)| allocations.block_end(address) == end)
    }
}

impl Repeats {
    /// What a launch is given, if it came before and nothing has changed since.
    pub fn find(
        &mut self,
        (kernel, parameters): (usize, &[u8]),
        allocations: &Allocations,
        device: Device,
    ) -> Option<Arc<Subject>> {
        let kernel = self.by_kernel.get_mut(&kernel)?;
        let known = kernel.known.get(parameters)?;
        kernel.has_repeated = true;
        known.holds(allocations, device).then(|| Arc::clone(&known.subject))
    }

    /// Keeps a launch.
    pub fn keep(&mut self, kernel: usize, parameters: Box<[u8]>, repeat: Repeat) {
        if self.count >= MOST || self.bytes.saturating_add(parameters.len()) > MOST_BYTES {
            self.clear();
        }
        let (bytes, kernel) = (parameters.len(), self.by_kernel.entry(kernel).or_default());
        if kernel.known.len() >= PATIENCE && !kernel.has_repeated {
            return;
        }
        if kernel.known.insert(parameters, repeat).is_none() {
            self.count += 1;
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Repeats::default();
    }
}

#[cfg(test)]
mod tests {
    use tensortap_queue::Memory;
    use tensortap_record::MemorySpace;

    use super::*;
    use crate::known::Known;

    const MEMORY: Memory = Memory { address: 4096, bytes: 4096, space: MemorySpace::Device };

    fn kept(allocations: &Allocations, pointers: &[u64]) -> Repeats {
        let pointers = pointers.iter().map(|&at| (at, allocations.block_end(at))).collect();
        let subject = Subject::new(Vec::new(), Known::default());
        let mut repeats = Repeats::default();
        let repeat = Repeat { device: 0, changes: allocations.changes(), pointers, subject };
        repeats.keep(7, Box::new([1, 2, 3]), repeat);
        repeats
    }

    #[test]
    fn a_launch_is_known_again_by_kernel_parameters_and_device() {
        let mut allocations = Allocations::default();
        allocations.add(MEMORY, None);
        let mut repeats = kept(&allocations, &[4100]);
        let mut finds = |kernel, parameters: &[u8], device| {
            repeats.find((kernel, parameters), &allocations, device).is_some()
        };
        assert!(finds(7, &[1, 2, 3], 0));
        assert!(!finds(8, &[1, 2, 3], 0) && !finds(7, &[1, 2], 0) && !finds(7, &[1, 2, 3], 1));
    }

    #[test]
    fn memory_that_has_changed_makes_it_another() {
        let mut allocations = Allocations::default();
        allocations.add(MEMORY, None);
        allocations.add_block(4096, 512);
        let mut repeats = kept(&allocations, &[4100]);
        let mut finds = |allocations: &Allocations| repeats.find((7, &[1, 2, 3]), allocations, 0).is_some();
        allocations.add_block(6000, 512);
        assert!(finds(&allocations), "a block of others");
        allocations.free_block(4096);
        assert!(!finds(&allocations), "its block was given back");
        allocations.add_block(4096, 512);
        assert!(finds(&allocations), "and out again");
        allocations.add_block(4096, 1024);
        assert!(!finds(&allocations), "as a longer one");
        allocations.add_block(4096, 512);
        allocations.add(Memory { address: 1 << 20, ..MEMORY }, None);
        assert!(!finds(&allocations), "a number may be an address now");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let allocations = Allocations::default();
        let mut repeats = Repeats::default();
        let keep = |repeats: &mut Repeats, parameters: Vec<u8>| {
            let subject = Subject::new(Vec::new(), Known::default());
            let repeat = Repeat { device: 0, changes: 0, pointers: Vec::new(), subject };
            repeats.keep(1, parameters.into(), repeat);
        };
        for number in 0..2 * PATIENCE {
            keep(&mut repeats, number.to_le_bytes().into());
        }
        assert_eq!(repeats.count, PATIENCE, "none of them came again");
        assert!(repeats.find((1, &0_usize.to_le_bytes()), &allocations, 0).is_some());
        for number in 0..3 * MOST {
            keep(&mut repeats, number.to_le_bytes().into());
            assert!(repeats.count <= MOST);
        }
        repeats.clear();
        keep(&mut repeats, 1_u64.to_le_bytes().into());
        keep(&mut repeats, vec![0; MOST_BYTES]);
        assert_eq!((repeats.count, repeats.bytes), (1, MOST_BYTES));
        assert!(repeats.find((1, &vec![0; MOST_BYTES]), &allocations, 0).is_some());
    }
}
