//! Memory of a launch: at its captured addresses if they are free, otherwise relocated.
#![expect(unsafe_code, reason = "calls of a C library; handles and addresses stay inside")]

use crate::Span;
use crate::library::{Address, Driver, MemoryAccess, MemoryKind, MemoryLocation};

const DEVICE_MEMORY: i32 = 1;
const PINNED: i32 = 1;
const READ_AND_WRITE: i32 = 3;
const MINIMUM: u32 = 0;

/// Granularity of address reservations. Once it has a context, the driver ignores the wanted address of
/// smaller reservations.
const RESERVED_UNIT: u64 = 32 << 20;

/// A range of device addresses, with memory mapped into parts of it.
struct Region<'l> {
    library: &'l Driver,
    /// Captured address and size.
    wanted: (Address, usize),
    /// Actual address.
    start: Address,
    /// A reservation of the captured address, to force relocation.
    keeps_off: Option<Address>,
    /// The mappings: address, size, memory handle.
    mapped: Vec<(Address, usize, u64)>,
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        // If the context is dead, the memory ends with the process.
        for &(start, bytes, memory) in &self.mapped {
            // SAFETY: `map` mapped it, and no kernel is running.
            unsafe {
                self.library.memory_unmap(start, bytes);
                self.library.memory_release(memory);
            }
        }
        for address in [Some(self.start), self.keeps_off].into_iter().flatten().filter(|&start| start != 0) {
            // SAFETY: reserved with this size.
            unsafe { self.library.address_free(address, self.wanted.1) };
        }
    }
}

impl<'l> Region<'l> {
    fn new(library: &'l Driver, wanted: (Address, usize), must_move: bool) -> Result<Region<'l>, String> {
        let mut region = Region { library, wanted, start: 0, keeps_off: None, mapped: Vec::new() };
        let (address, bytes) = wanted;
        let reserve = |at: Address| {
            let mut found = 0;
            // SAFETY: writes to a local variable. The address is only a hint.
            let status = unsafe { library.address_reserve(&raw mut found, bytes, 0, at, 0) };
            (status, found)
        };
        let (status, found) = reserve(address);
        if status == 0 && found == address && must_move {
            region.keeps_off = Some(found);
        } else if status == 0 {
            region.start = found;
            return Ok(region);
        }
        // A driver may refuse an address instead of choosing another.
        let (status, found) = reserve(0);
        library.check("cuMemAddressReserve", status)?;
        region.start = found;
        Ok(region)
    }

    fn holds(&self, address: Address) -> bool {
        (self.wanted.0..self.wanted.0 + self.wanted.1 as u64).contains(&address)
    }

    /// The actual address of a captured address.
    fn now(&self, address: Address) -> Address {
        self.start + (address - self.wanted.0)
    }

    /// Maps memory into the range, filled with the filler byte.
    fn map(
        &mut self,
        (address, bytes): (Address, usize),
        kind: &MemoryKind,
        filler: u8,
    ) -> Result<(), String> {
        let (library, start) = (self.library, self.now(address));
        let mut memory = 0;
        // SAFETY: writes to a local variable; the description has the declared layout.
        let status = unsafe { library.memory_create(&raw mut memory, bytes, kind, 0) };
        library
            .check("cuMemCreate", status)
            .map_err(|why| format!("cannot allocate {bytes} bytes: {why}"))?;
        // SAFETY: the range is reserved, and the memory has its size.
        let status = unsafe { library.memory_map(start, bytes, 0, memory, 0) };
        if let Err(why) = library.check("cuMemMap", status) {
            // SAFETY: created above, and not mapped.
            unsafe { library.memory_release(memory) };
            return Err(why);
        }
        self.mapped.push((start, bytes, memory));
        let access = MemoryAccess { location: kind.location, flags: READ_AND_WRITE };
        // SAFETY: one description for the range mapped above.
        let status = unsafe { library.memory_set_access(start, bytes, &raw const access, 1) };
        library.check("cuMemSetAccess", status)?;
        // SAFETY: exactly the range mapped above.
        let status = unsafe { library.fill_bytes(start, filler, bytes) };
        library.check("cuMemsetD8", status)
    }
}

/// The memory of one launch.
pub(crate) struct Memories<'l> {
    library: &'l Driver,
    regions: Vec<Region<'l>>,
    spans: Vec<Span>,
}

impl<'l> Memories<'l> {
    /// Allocates the memory of a launch, filled with the filler byte.
    pub fn new(
        library: &'l Driver,
        device: i32,
        spans: &[Span],
        (may_move, must_move): (bool, bool),
        filler: u8,
    ) -> Result<Memories<'l>, String> {
        let location = MemoryLocation { kind: DEVICE_MEMORY, device };
        let kind = MemoryKind { kind: PINNED, handle_kinds: 0, location, reserved: [0; 2] };
        let mut page = 0;
        // SAFETY: writes to a local variable; the description has the declared layout.
        let status = unsafe { library.memory_get_granularity(&raw mut page, &raw const kind, MINIMUM) };
        library.check("cuMemGetAllocationGranularity", status)?;
        let no_address = "its memory exceeds the address space";
        let mut regions = Vec::new();
        for wanted in whole_pages(spans, RESERVED_UNIT.max(page as u64)).ok_or(no_address)? {
            regions.push(Region::new(library, wanted, must_move)?);
        }
        let mut memories = Memories { library, regions, spans: spans.to_vec() };
        if let Some(taken) = memories.moved().filter(|_| !may_move) {
            return Err(format!(
                "the captured address {:#x} is in use here, and its memory cannot be relocated because it may contain pointers",
                taken.wanted.0
            ));
        }
        for pages in whole_pages(spans, page as u64).ok_or(no_address)? {
            let region = memories.regions.iter_mut().find(|region| region.holds(pages.0));
            region.ok_or("memory without an address range")?.map(pages, &kind, filler)?;
        }
        Ok(memories)
    }

    fn moved(&self) -> Option<&Region<'l>> {
        self.regions.iter().find(|region| region.start != region.wanted.0)
    }

    /// Whether any memory is relocated.
    pub fn is_moved(&self) -> bool {
        self.moved().is_some()
    }

    /// The actual address of a memory.
    pub fn address(&self, memory: usize) -> Result<Address, String> {
        let span = self.spans.get(memory).ok_or("unknown memory")?;
        let region = self.regions.iter().find(|region| region.holds(span.address));
        Ok(region.ok_or("memory without an address range")?.now(span.address))
    }

    /// Writes the content of each memory.
    pub fn write(&self, contents: &[Vec<u8>]) -> Result<(), String> {
        for (at, content) in contents.iter().enumerate() {
            let to = self.address(at)?;
            if content.len() as u64 != self.spans[at].bytes {
                return Err("the content and its memory have different sizes".into());
            }
            copy_to_device(self.library, to, content)?;
        }
        Ok(())
    }

    /// Reads the content of each memory.
    pub fn read(&self, contents: &mut [Vec<u8>]) -> Result<(), String> {
        for (at, content) in contents.iter_mut().enumerate() {
            let from = self.address(at)?;
            copy_to_host(self.library, from, content)?;
        }
        Ok(())
    }
}

/// Copies content to device memory.
pub(crate) fn copy_to_device(library: &Driver, to: Address, content: &[u8]) -> Result<(), String> {
    if content.is_empty() {
        return Ok(());
    }
    // SAFETY: the driver reads the bytes of the slice, and checks the device address.
    let status = unsafe { library.copy_to_device(to, content.as_ptr().cast(), content.len()) };
    library.check("cuMemcpyHtoD", status)
}

/// Copies device memory to the host.
pub(crate) fn copy_to_host(library: &Driver, from: Address, content: &mut [u8]) -> Result<(), String> {
    if content.is_empty() {
        return Ok(());
    }
    // SAFETY: the driver writes the bytes of the slice.
    let status = unsafe { library.copy_to_host(content.as_mut_ptr().cast(), from, content.len()) };
    library.check("cuMemcpyDtoH", status)
}

/// The page ranges that contain the spans, merged if they touch. `None` if a span exceeds the address space.
fn whole_pages(spans: &[Span], page: u64) -> Option<Vec<(Address, usize)>> {
    let page = page.max(1);
    let mut runs: Vec<(Address, Address)> = Vec::new();
    for span in spans {
        let end = span.address.checked_add(span.bytes.max(1))?.checked_next_multiple_of(page)?;
        runs.push((span.address / page * page, end));
    }
    runs.sort_unstable();
    let mut whole: Vec<(Address, Address)> = Vec::new();
    for (start, end) in runs {
        match whole.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => whole.push((start, end)),
        }
    }
    whole.into_iter().map(|(start, end)| Some((start, usize::try_from(end - start).ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_touching_page_ranges() {
        let spans = |spans: &[(u64, u64)]| {
            let spans: Vec<Span> = spans.iter().map(|&(address, bytes)| Span { address, bytes }).collect();
            whole_pages(&spans, 0x1000)
        };
        assert_eq!(spans(&[]), Some(Vec::new()));
        assert_eq!(spans(&[(0x5010, 8)]), Some(vec![(0x5000, 0x1000)]));
        assert_eq!(spans(&[(0x9000, 0), (0x5ff8, 16)]), Some(vec![(0x5000, 0x2000), (0x9000, 0x1000)]));
        let touching = spans(&[(0x7800, 1), (0x5000, 0x2000), (0x5100, 1), (0xa000, 0x1001)]);
        assert_eq!(touching, Some(vec![(0x5000, 0x3000), (0xa000, 0x2000)]));
        assert_eq!(spans(&[(u64::MAX - 4, 8)]), None);
        assert_eq!(spans(&[(u64::MAX - 4, 2)]), None);
    }
}
