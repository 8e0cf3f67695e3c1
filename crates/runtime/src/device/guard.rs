//! Tensors that a kernel must not leave: pages behind them that nobody may touch, and a canary around them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tensortap_abi::{
    DeviceRange, GUARD_CANARY, GUARD_PAGES, GUARD_SHADOW, GuardLayout, GuardZones, KernelArgs, MAX_TENSORS,
    PayloadLayout, TaskSlot,
};
use tensortap_platform::{DeviceMemory, PlatformError, Shadow, page_bytes};

use super::memory::{PayloadReader, Table};
use crate::overrun::Overrun;

/// The guarded tensors of a launch. All memory is as it was before once this is dropped.
pub struct Guard<'m> {
    memory: &'m DeviceMemory,
    layout: GuardLayout,
    flags: u32,
    shadow: Option<Shadow>,
    most: usize,
    /// Bytes of each tensor that is guarded, by address.
    tensors: Mutex<BTreeMap<u64, u64>>,
}

/// Buffers of a task's tensor arguments. Plain numbers, so that a signal handler can look at them.
#[derive(Clone, Copy, Debug)]
pub struct TaskTensors {
    buffers: [DeviceRange; MAX_TENSORS],
    count: usize,
}

impl TaskTensors {
    /// Each with its position.
    pub fn iter(&self) -> impl Iterator<Item = (usize, DeviceRange)> + '_ {
        self.buffers.iter().copied().take(self.count).enumerate()
    }
}

/// A canary that is not as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The tensor that it guards.
    pub tensor: DeviceRange,
    /// The overwritten byte that lies closest to it.
    pub addr: u64,
    /// Overwritten bytes on that side of it.
    pub bytes: u64,
}

/// Why a tensor cannot be guarded.
#[derive(Debug, thiserror::Error)]
pub enum GuardError {
    /// The system has no more mappings.
    #[error(
        "{0} tensors are guarded at a time already, and vm.max_map_count has no room for more: raise it, or run a smaller case"
    )]
    Full(usize),
    /// The system refused.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// Nobody is there to be told.
    #[error("the device process has no address sanitizer")]
    NoSanitizer,
}

impl<'m> Guard<'m> {
    /// Guards the tensors that the host has placed; `None` when none are to be guarded.
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

    /// How much a tensor takes, and where it begins in that.
    pub fn layout(&self) -> GuardLayout {
        self.layout
    }

    /// Whether no more can be guarded until others are forgotten.
    pub fn is_full(&self) -> bool {
        self.has(GUARD_PAGES) && self.lock().len() >= self.most
    }

    /// What to say when [`Self::is_full`] stays.
    pub fn full(&self) -> GuardError {
        GuardError::Full(self.lock().len())
    }

    /// Guards a tensor. What lay in its pages before is guarded no longer.
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

    /// Guards a tensor no longer.
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

    /// The first of a task's tensors whose canary is not as it was.
    pub fn broken(&self, tensors: &TaskTensors) -> Option<Broken> {
        if !self.has(GUARD_CANARY) {
            return None;
        }
        tensors.iter().find_map(|(_, tensor)| self.broken_around(self.around(tensor.addr)?))
    }

    /// The guarded tensor that an address lies in.
    fn around(&self, addr: u64) -> Option<DeviceRange> {
        let tensors = self.lock();
        let (&start, &bytes) = tensors.range(..=addr).next_back()?;
        Some(DeviceRange { addr: start, bytes }).filter(|tensor| addr < tensor.addr + tensor.bytes.max(1))
    }

    fn broken_around(&self, tensor: DeviceRange) -> Option<Broken> {
        let GuardZones { front, slack, .. } = self.layout.zones(tensor);
        let overwritten = |zone| canary::overwritten(self.memory, zone);
        let behind = overwritten(slack).map(|found| (found.first, found.bytes));
        let (addr, bytes) = behind.or_else(|| overwritten(front).map(|found| (found.last, found.bytes)))?;
        Some(Broken { tensor, addr, bytes })
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
            // Nobody is left to be told; the next launch would find a page that it cannot touch, and say so.
            let _ = self.forget(addr);
        }
    }
}

impl Broken {
    /// In words, for a task with these arguments.
    pub fn describe(&self, tensors: &TaskTensors, name: impl Fn(Overrun) -> Overrun) -> String {
        let Broken { tensor, addr, bytes } = *self;
        let near = Overrun::nearest(addr, tensors.iter());
        let plural = if bytes == 1 { "" } else { "s" };
        match near.map(name) {
            Some(overrun) => format!("{bytes} byte{plural} overwritten, the nearest {overrun}"),
            None => format!("{bytes} byte{plural} overwritten beside the tensor at {:#x}", tensor.addr),
        }
    }
}

/// A pattern that differs from byte to byte, so that whoever fills memory with one value changes it.
mod canary {
    use super::{DeviceMemory, DeviceRange, PlatformError};

    /// What was overwritten.
    pub struct Found {
        pub first: u64,
        pub last: u64,
        pub bytes: u64,
    }

    /// Differs from that of every neighbour, and is nowhere zero for long.
    const fn pattern(addr: u64) -> u8 {
        (addr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56).to_le_bytes()[0] ^ 0xa5
    }

    pub fn fill(memory: &DeviceMemory, zone: DeviceRange) -> Result<(), PlatformError> {
        let base = memory.ptr(zone.addr, zone.bytes)?;
        for (addr, at) in (zone.addr..zone.end()).zip(0..) {
            // SAFETY: the zone is mapped, and no task knows of the tensor beside it yet.
            unsafe { base.add(at).write_volatile(pattern(addr)) };
        }
        Ok(())
    }

    pub fn overwritten(memory: &DeviceMemory, zone: DeviceRange) -> Option<Found> {
        let base = memory.ptr(zone.addr, zone.bytes).ok()?;
        let mut found: Option<Found> = None;
        for (addr, at) in (zone.addr..zone.end()).zip(0..) {
            // SAFETY: the zone is mapped. A kernel that runs at the same time may write there against the rule: every value of a byte
            // is one. Volatile, for a sanitizer watches the functions that copy, and these bytes are forbidden to kernels only.
            let byte = unsafe { base.add(at).read_volatile() };
            if byte != pattern(addr) {
                let found = found.get_or_insert(Found { first: addr, last: addr, bytes: 0 });
                (found.last, found.bytes) = (addr, found.bytes + 1);
            }
        }
        found
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn one_value_all_over_a_zone_is_seen_whatever_it_is() {
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
