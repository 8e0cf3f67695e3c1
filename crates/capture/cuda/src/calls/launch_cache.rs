//! Repeated launches. A program that runs in a loop launches its kernels with the same parameters each time.
//! The backend finds out once what these parameters point to. That stays valid while the program's memory
//! does not change.

use std::sync::Arc;

use tensortap_queue::NumberMap;

use crate::{
    allocations::{Allocations, BlockEnd, Device},
    command::CommandArgs,
};

/// Limits for the number of cached launches and for the bytes of their parameters. If one is exceeded, the
/// cache is cleared.
const MAX: usize = 4096;
const MAX_BYTES: usize = 16 << 20;

/// If this many launches of a kernel are cached and none was repeated, no more launches of the kernel are
/// cached.
const MAX_UNREPEATED: usize = 1024;

/// Cached launches by kernel and parameters.
#[derive(Default)]
pub struct LaunchCache {
    by_kernel: NumberMap<usize, KernelLaunches>,
    count: usize,
    bytes: usize,
}

/// The launches of one kernel.
#[derive(Default)]
struct KernelLaunches {
    known: NumberMap<Box<[u8]>, CachedLaunch>,
    /// Whether one of them was repeated.
    has_repeated: bool,
}

/// A cached launch.
pub struct CachedLaunch {
    /// Its device.
    pub device: Device,
    /// [`Allocations::changes`] when the arguments were found out.
    pub changes: u64,
    /// Every address among the parameters, and the end of its block.
    pub pointers: Vec<(u64, BlockEnd)>,
    /// The arguments.
    pub args: Arc<CommandArgs>,
}

impl CachedLaunch {
    /// Whether a launch on this device has the same arguments now.
    fn holds(&self, allocations: &Allocations, device: Device) -> bool {
        self.device == device
            && self.changes == allocations.changes()
            && self.pointers.iter().all(|&(address, end)| allocations.block_end(address) == end)
    }
}

impl LaunchCache {
    /// The arguments of a launch, if it is cached and nothing has changed since.
    pub fn find(
        &mut self,
        (kernel, parameters): (usize, &[u8]),
        allocations: &Allocations,
        device: Device,
    ) -> Option<Arc<CommandArgs>> {
        let kernel = self.by_kernel.get_mut(&kernel)?;
        let known = kernel.known.get(parameters)?;
        kernel.has_repeated = true;
        known.holds(allocations, device).then(|| Arc::clone(&known.args))
    }

    /// Adds a launch.
    pub fn keep(&mut self, kernel: usize, parameters: Box<[u8]>, repeat: CachedLaunch) {
        if self.count >= MAX || self.bytes.saturating_add(parameters.len()) > MAX_BYTES {
            self.clear();
        }
        let (bytes, kernel) = (parameters.len(), self.by_kernel.entry(kernel).or_default());
        if kernel.known.len() >= MAX_UNREPEATED && !kernel.has_repeated {
            return;
        }
        if kernel.known.insert(parameters, repeat).is_none() {
            self.count += 1;
            self.bytes = self.bytes.saturating_add(bytes);
        }
    }

    /// Removes all launches.
    pub fn clear(&mut self) {
        *self = LaunchCache::default();
    }
}

#[cfg(test)]
mod tests {
    use tensortap_queue::Memory;
    use tensortap_record::MemorySpace;

    use super::*;
    use crate::values::SubmittedValues;

    const MEMORY: Memory = Memory { address: 4096, bytes: 4096, space: MemorySpace::Device };

    fn kept(allocations: &Allocations, pointers: &[u64]) -> LaunchCache {
        let pointers = pointers.iter().map(|&at| (at, allocations.block_end(at))).collect();
        let args = CommandArgs::new(Vec::new(), SubmittedValues::default());
        let mut launch_cache = LaunchCache::default();
        let repeat = CachedLaunch { device: 0, changes: allocations.changes(), pointers, args };
        launch_cache.keep(7, Box::new([1, 2, 3]), repeat);
        launch_cache
    }

    #[test]
    fn a_cached_launch_is_found_by_kernel_parameters_and_device() {
        let mut allocations = Allocations::default();
        allocations.add(MEMORY, None);
        let mut launch_cache = kept(&allocations, &[4100]);
        let mut finds = |kernel, parameters: &[u8], device| {
            launch_cache.find((kernel, parameters), &allocations, device).is_some()
        };
        assert!(finds(7, &[1, 2, 3], 0));
        assert!(!finds(8, &[1, 2, 3], 0) && !finds(7, &[1, 2], 0) && !finds(7, &[1, 2, 3], 1));
    }

    #[test]
    fn changed_memory_invalidates_a_cached_launch() {
        let mut allocations = Allocations::default();
        allocations.add(MEMORY, None);
        allocations.add_block(4096, 512);
        let mut launch_cache = kept(&allocations, &[4100]);
        let mut finds =
            |allocations: &Allocations| launch_cache.find((7, &[1, 2, 3]), allocations, 0).is_some();
        allocations.add_block(6000, 512);
        assert!(finds(&allocations), "an unrelated block");
        allocations.free_block(4096);
        assert!(!finds(&allocations), "its block was freed");
        allocations.add_block(4096, 512);
        assert!(finds(&allocations), "its block was allocated again");
        allocations.add_block(4096, 1024);
        assert!(!finds(&allocations), "its block was allocated with another size");
        allocations.add_block(4096, 512);
        allocations.add(Memory { address: 1 << 20, ..MEMORY }, None);
        assert!(!finds(&allocations), "a parameter that was a number may be an address now");
    }

    #[test]
    fn the_cache_is_bounded() {
        let allocations = Allocations::default();
        let mut launch_cache = LaunchCache::default();
        let keep = |launch_cache: &mut LaunchCache, parameters: Vec<u8>| {
            let args = CommandArgs::new(Vec::new(), SubmittedValues::default());
            let repeat = CachedLaunch { device: 0, changes: 0, pointers: Vec::new(), args };
            launch_cache.keep(1, parameters.into(), repeat);
        };
        for number in 0..2 * MAX_UNREPEATED {
            keep(&mut launch_cache, number.to_le_bytes().into());
        }
        assert_eq!(launch_cache.count, MAX_UNREPEATED, "no launch was repeated");
        assert!(launch_cache.find((1, &0_usize.to_le_bytes()), &allocations, 0).is_some());
        for number in 0..3 * MAX {
            keep(&mut launch_cache, number.to_le_bytes().into());
            assert!(launch_cache.count <= MAX);
        }
        launch_cache.clear();
        keep(&mut launch_cache, 1_u64.to_le_bytes().into());
        keep(&mut launch_cache, vec![0; MAX_BYTES]);
        assert_eq!((launch_cache.count, launch_cache.bytes), (1, MAX_BYTES));
        assert!(launch_cache.find((1, &vec![0; MAX_BYTES]), &allocations, 0).is_some());
    }
}
