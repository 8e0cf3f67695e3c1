//! Tensors that lie apart from one another, so that a kernel which leaves one is seen.

use tensortap_abi::{DeviceAddr, DeviceRange, GUARD_CANARY, GUARD_PAGES, GUARD_SHADOW, GuardLayout};
use tensortap_platform::{Device, PlatformError, mappings_allowed, page_bytes};

use super::RunError;

/// Alignment of what is not guarded.
const ALIGN: u64 = 64;
/// Mappings of a device process before its first thread: the executable, its libraries, and those of kernels.
const OWN_MAPPINGS: u64 = 96;
/// Mappings of each of its threads: a stack and a stack for signals, each with a page that guards it.
const THREAD_MAPPINGS: u64 = 4;
/// Each guard page is a mapping, and so is what lies between two of them.
const GUARD_MAPPINGS: u64 = 2;

/// How tensors are kept apart. Each means gives every tensor pages of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Guarding {
    /// A page behind each tensor that nobody may touch.
    pub pages: bool,
    /// A pattern before and behind each tensor that is looked at after each kernel.
    pub canary: bool,
    /// An address sanitizer in the device process is told what lies between tensors.
    pub shadow: bool,
}

impl Guarding {
    /// Guard pages and canaries: what `--guard` means.
    pub const FULL: Guarding = Guarding { pages: true, canary: true, shadow: false };

    /// Whether tensors are kept apart at all.
    pub const fn is_on(self) -> bool {
        self.pages || self.canary || self.shadow
    }

    /// Where guarded tensors lie; `None` when there are none.
    pub fn layout(self) -> Option<GuardLayout> {
        self.is_on().then(|| GuardLayout { page_bytes: page_bytes() })
    }

    pub(super) fn flags(self) -> u32 {
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        flag(self.pages, GUARD_PAGES) | flag(self.canary, GUARD_CANARY) | flag(self.shadow, GUARD_SHADOW)
    }

    /// Room for a tensor: where it lies, and what to free.
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

    /// Tensors that may be guarded at a time in a device of so many threads; refuses when the host alone has more.
    pub(super) fn most(self, threads: u64, guarded: usize) -> Result<u32, RunError> {
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
    fn as_many_tensors_are_guarded_as_the_system_has_mappings_for() {
        assert_eq!(most_guards(65_530, 9), 32_699);
        assert_eq!(most_guards(100, 9), 0);
        let threads = 9;
        let most = usize::try_from(most_guards(mappings_allowed(), threads)).unwrap();
        assert!(Guarding::FULL.most(threads, most).is_ok());
        let refusal = Guarding::FULL.most(threads, most + 1).unwrap_err().to_string();
        for part in [format!("{} tensors", most + 1), "vm.max_map_count".into(), most.to_string()] {
            assert!(refusal.contains(&part), "`{part}` is missing in: {refusal}");
        }
        let shadow = Guarding { shadow: true, ..Guarding::default() };
        assert_eq!(shadow.most(threads, most + 1).unwrap(), u32::MAX, "it needs no pages");
    }
}
