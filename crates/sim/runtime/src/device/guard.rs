//! Guards around tensors: an inaccessible page after each tensor, and a canary on both sides of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tensortap_abi::{
    DeviceRange, GUARD_CANARY, GUARD_PAGES, GUARD_SHADOW, GuardLayout, GuardZones, KernelArgs, MAX_TENSORS,
    PayloadLayout, TaskSlot,
};
use tensortap_platform::{DeviceMemory, PlatformError, Shadow, page_bytes};

use super::memory::{PayloadReader, Table};
use crate::overrun::Overrun;

/// The guarded tensors of a launch. Dropping it removes all guards.
pub struct Guard<'m> {
    memory: &'m DeviceMemory,
    layout: GuardLayout,
    flags: u32,
    shadow: Option<Shadow>,
    most: usize,
    /// Size of each guarded tensor in bytes, by address.
    tensors: Mutex<BTreeMap<u64, u64>>,
}

/// The buffers of a task's tensor arguments. Plain integers, so that a signal handler can read them.
#[derive(Clone, Copy, Debug)]
pub struct TaskTensors {
    buffers: [DeviceRange; MAX_TENSORS],
    count: usize,
}

impl TaskTensors {
    /// The buffers with their argument index.
    pub fn iter(&self) -> impl Iterator<Item = (usize, DeviceRange)> + '_ {
        self.buffers.iter().copied().take(self.count).enumerate()
    }
}

/// A canary that a kernel has overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenCanary {
    /// The tensor next to the canary.
    pub tensor: DeviceRange,
    /// The overwritten byte that is nearest to the tensor.
    pub addr: u64,
    /// Number of overwritten bytes on that side.
    pub bytes: u64,
}

/// Why a tensor cannot be guarded.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The process has used up its mappings.
    #[error(
        "cannot guard more than {0} tensors at a time, because vm.max_map_count allows no more mappings; raise that limit, or \
         run a smaller case"
    )]
    Full(usize),
    /// A system call failed.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// Address sanitizer guards need an address sanitizer.
    #[error("the device process has no address sanitizer")]
    NoSanitizer,
}

impl<'m> Guard<'m> {
    /// Guards the tensors that the host has placed. Returns `None` if the launch has no guards.
    pub fn of(memory: &'m DeviceMemory, args: &KernelArgs) -> Result<Option<Guard<'m>>, GuardError> {
        if args.guard_flags == 0 {
            return Ok(None);
        }
        let wants_shadow = args.guard_flags & GUARD_SHADOW != 0;
        let guard = Guard {
            memory,
            layout: GuardLayout { page_bytes: page_bytes() },
            flags: args.guard_flags,
            shadow: wants_shadow.then(|| Shadow::find().ok_or(GuardError::NoSanitizer)).transpose()?,
            most: args.guard_most as usize,
            tensors: Mutex::default(),
        };
        let placed = Table::<DeviceRange>::new(memory, args.guards)?;
        (0..placed.len()).try_for_each(|index| guard.place(placed.read(index)))?;
        Ok(Some(guard))
    }

    /// The sizes of the areas around a tensor.
    pub fn layout(&self) -> GuardLayout {
        self.layout
    }

    /// Whether no tensor can be guarded until another one is forgotten.
    pub fn is_full(&self) -> bool {
        self.has(GUARD_PAGES) && self.lock().len() >= self.most
    }

    /// The error if [`Self::is_full`] stays true.
    pub fn full(&self) -> GuardError {
        GuardError::Full(self.lock().len())
    }

    /// Guards a tensor. Tensors that were guarded in the same pages before are forgotten.
    pub fn place(&self, tensor: DeviceRange) -> Result<(), GuardError> {
        let piece = self.layout.piece(tensor);
        self.memory.ptr(piece.addr, piece.bytes)?;
        let before: Vec<u64> = self.lock().range(piece.addr..piece.end()).map(|(&addr, _)| addr).collect();
        before.into_iter().try_for_each(|addr| self.forget(addr))?;
        if self.is_full() {
            return Err(self.full());
        }
        let GuardZones { front, slack, page } = self.layout.zones(tensor);
        if self.has(GUARD_CANARY) {
            [front, slack].into_iter().try_for_each(|zone| canary::fill(self.memory, zone))?;
        }
        if let Some(shadow) = self.shadow {
            [front, DeviceRange { addr: slack.addr, bytes: slack.bytes + page.bytes }]
                .into_iter()
                .for_each(|zone| shadow.poison(zone));
        }
        if self.has(GUARD_PAGES) {
            self.memory.set_touchable(page, false)?;
        }
        self.lock().insert(tensor.addr, tensor.bytes);
        Ok(())
    }

    /// Removes the guards of a tensor.
    pub fn forget(&self, addr: u64) -> Result<(), GuardError> {
        let Some(bytes) = self.lock().remove(&addr) else { return Ok(()) };
        let tensor = DeviceRange { addr, bytes };
        if let Some(shadow) = self.shadow {
            shadow.unpoison(self.layout.piece(tensor));
        }
        if self.has(GUARD_PAGES) {
            self.memory.set_touchable(self.layout.zones(tensor).page, true)?;
        }
        Ok(())
    }

    /// The tensors of the task in a slot.
    pub fn tensors_of(&self, slots: &Table<'_, TaskSlot>, slot: u32) -> TaskTensors {
        let layout = PayloadLayout { tensor_count: slots.tensor_count(slot).into(), scalar_count: 0 };
        let mut found = TaskTensors { buffers: [DeviceRange::default(); MAX_TENSORS], count: 0 };
        let Ok(payload) = PayloadReader::new(self.memory, slots.payload_addr(slot), layout) else {
            return found;
        };
        for (index, buffer) in found.buffers.iter_mut().enumerate().take(layout.tensor_count) {
            let desc = payload.tensor(index);
            *buffer = DeviceRange { addr: desc.buffer_addr, bytes: desc.buffer_bytes };
            found.count += 1;
        }
        found
    }

    /// The first overwritten canary next to one of the tensors.
    pub fn broken(&self, tensors: &TaskTensors) -> Option<BrokenCanary> {
        if !self.has(GUARD_CANARY) {
            return None;
        }
        tensors.iter().find_map(|(_, tensor)| self.broken_around(self.around(tensor.addr)?))
    }

    /// The guarded tensor that contains an address.
    fn around(&self, addr: u64) -> Option<DeviceRange> {
        let tensors = self.lock();
        let (&start, &bytes) = tensors.range(..=addr).next_back()?;
        Some(DeviceRange { addr: start, bytes }).filter(|tensor| addr < tensor.addr + tensor.bytes.max(1))
    }

    fn broken_around(&self, tensor: DeviceRange) -> Option<BrokenCanary> {
        let GuardZones { front, slack, .. } = self.layout.zones(tensor);
        let overwritten = |zone| canary::overwritten(self.memory, zone);
        let after = overwritten(slack).map(|found| (found.first, found.bytes));
        let (addr, bytes) = after.or_else(|| overwritten(front).map(|found| (found.last, found.bytes)))?;
        Some(BrokenCanary { tensor, addr, bytes })
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.tensors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let tensors: Vec<u64> = self.lock().keys().copied().collect();
        for addr in tensors {
            // The error cannot be reported here. The next launch would fail on the protected page and report
            // it.
            let _ = self.forget(addr);
        }
    }
}

impl BrokenCanary {
    /// A message for a task with these tensors.
    pub fn describe(&self, tensors: &TaskTensors, name: impl Fn(Overrun) -> Overrun) -> String {
        let BrokenCanary { tensor, addr, bytes } = *self;
        let near = Overrun::nearest(addr, tensors.iter());
        let plural = if bytes == 1 { "" } else { "s" };
        match near.map(name) {
            Some(overrun) => format!("{bytes} byte{plural} overwritten, the nearest {overrun}"),
            None => format!("{bytes} byte{plural} overwritten next to the tensor at {:#x}", tensor.addr),
        }
    }
}

/// A pattern whose bytes vary, so that filling memory with any single value changes it.
mod canary {
    use super::{DeviceMemory, DeviceRange, PlatformError};

    /// An overwritten part of a canary.
    pub struct Overwrite {
        pub first: u64,
        pub last: u64,
        pub bytes: u64,
    }

    /// Differs between neighboring addresses, and has no long runs of zero.
    const fn pattern(addr: u64) -> u8 {
        (addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0] ^ 0xa5
    }

    pub fn fill(memory: &DeviceMemory, zone: DeviceRange) -> Result<(), PlatformError> {
        let base = memory.ptr(zone.addr, zone.bytes)?;
        for (addr, at) in (zone.addr..zone.end()).zip(0..) {
            // SAFETY: the zone is mapped, and no task knows the tensor next to it yet.
            unsafe { base.add(at).write_volatile(pattern(addr)) };
        }
        Ok(())
    }

    pub fn overwritten(memory: &DeviceMemory, zone: DeviceRange) -> Option<Overwrite> {
        let base = memory.ptr(zone.addr, zone.bytes).ok()?;
        let mut found: Option<Overwrite> = None;
        for (addr, at) in (zone.addr..zone.end()).zip(0..) {
            // SAFETY: the zone is mapped. A faulty kernel may write there at the same time, and every byte
            // value is valid. The read is volatile because a sanitizer intercepts the copy functions, and
            // these bytes are forbidden only to kernels.
            let byte = unsafe { base.add(at).read_volatile() };
            if byte != pattern(addr) {
                let found = found.get_or_insert(Overwrite { first: addr, last: addr, bytes: 0 });
                (found.last, found.bytes) = (addr, found.bytes + 1);
            }
        }
        found
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn filling_a_zone_with_any_single_value_is_detected() {
            let memory = DeviceMemory::detached(4096);
            let zone = DeviceRange { addr: memory.base() + 100, bytes: 28 };
            for value in 0..=u8::MAX {
                fill(&memory, zone).unwrap();
                assert!(overwritten(&memory, zone).is_none());
                super::super::super::memory::poison(&memory, zone.addr, zone.bytes, value).unwrap();
                assert!(overwritten(&memory, zone).is_some_and(|found| found.bytes >= 24), "{value:#x}");
            }
        }
    }
}
