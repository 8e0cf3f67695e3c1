//! Guards around tensors, on the host: placing tensors apart from each other, so that a kernel that leaves
//! its tensor is detected.

use tensortap_abi::{DeviceAddr, DeviceRange, GUARD_CANARY, GUARD_PAGES, GUARD_SHADOW, GuardLayout};
use tensortap_platform::{Device, PlatformError, mappings_allowed, page_bytes};

use super::RunError;

/// Alignment of tensors without guards.
const ALIGN: u64 = 64;
/// Mappings of a device process before its first thread: the executable, its libraries, and those of kernels.
const OWN_MAPPINGS: u64 = 96;
/// Mappings per thread: a stack and a signal stack, each with a guard page.
const THREAD_MAPPINGS: u64 = 4;
/// Mappings per guarded tensor: its guard page, and the memory up to the next one.
const GUARD_MAPPINGS: u64 = 2;

/// How tensors are guarded. With any guard, each tensor has its own pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardOptions {
    /// Put an inaccessible page after each tensor.
    pub pages: bool,
    /// Put a pattern before and after each tensor, and check it after each kernel.
    pub canary: bool,
    /// Mark the memory between tensors as forbidden for the address sanitizer of the device process.
    pub shadow: bool,
}

impl GuardOptions {
    /// Guard pages and canaries: the option `--guard`.
    pub const FULL: GuardOptions = GuardOptions { pages: true, canary: true, shadow: false };

    /// Whether any guard is on.
    pub const fn is_on(self) -> bool {
        self.pages || self.canary || self.shadow
    }

    /// The layout of guarded tensors, or `None` without guards.
    pub fn layout(self) -> Option<GuardLayout> {
        self.is_on().then(|| GuardLayout { page_bytes: page_bytes() })
    }

    pub(super) fn flags(self) -> u32 {
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        flag(self.pages, GUARD_PAGES) | flag(self.canary, GUARD_CANARY) | flag(self.shadow, GUARD_SHADOW)
    }

    /// Allocates memory for a tensor. Returns its range, and the address to free.
    pub fn allocate(
        self,
        device: &mut dyn Device,
        bytes: u64,
        what: &str,
    ) -> Result<(DeviceRange, DeviceAddr), PlatformError> {
        let Some(layout) = self.layout() else {
            let addr = device.allocate(bytes.max(1), ALIGN, what)?;
            return Ok((DeviceRange { addr, bytes }, addr));
        };
        let piece =
            device.allocate(layout.piece_bytes(bytes).unwrap_or(u64::MAX), layout.page_bytes, what)?;
        Ok((DeviceRange { addr: layout.tensor_addr(piece, bytes), bytes }, piece))
    }

    /// The limit on guarded tensors in a device with this number of threads. Fails if the host needs more by
    /// itself.
    pub(super) fn limit(self, threads: u64, guarded: usize) -> Result<u32, RunError> {
        if !self.pages {
            return Ok(u32::MAX);
        }
        let allowed = mappings_allowed();
        let most = most_guards(allowed, threads);
        match guarded as u64 > most {
            true => Err(RunError::TooManyGuards { tensors: guarded as u64, most, allowed }),
            false => Ok(u32::try_from(most).unwrap_or(u32::MAX)),
        }
    }
}

fn most_guards(allowed: u64, threads: u64) -> u64 {
    allowed.saturating_sub(OWN_MAPPINGS + threads * THREAD_MAPPINGS) / GUARD_MAPPINGS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_guarded_tensors_is_limited_by_the_systems_mappings() {
        assert_eq!(most_guards(65_530, 9), 32_699);
        assert_eq!(most_guards(100, 9), 0);
        let threads = 9;
        let most = usize::try_from(most_guards(mappings_allowed(), threads)).unwrap();
        assert!(GuardOptions::FULL.limit(threads, most).is_ok());
        let refusal = GuardOptions::FULL.limit(threads, most + 1).unwrap_err().to_string();
        for part in [format!("{} tensors", most + 1), "vm.max_map_count".into(), most.to_string()] {
            assert!(refusal.contains(&part), "the message lacks `{part}`: {refusal}");
        }
        let shadow = GuardOptions { shadow: true, ..GuardOptions::default() };
        assert_eq!(shadow.limit(threads, most + 1).unwrap(), u32::MAX, "a sanitizer needs no guard pages");
    }
}
