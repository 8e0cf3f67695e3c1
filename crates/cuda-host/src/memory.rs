//! Memory of a launch: back at its addresses where these are free, otherwise moved.
#![expect(unsafe_code, reason = "calls of a C library; handles and addresses stay inside")]

use crate::Span;
use crate::library::{Address, Library, MemoryAccess, MemoryKind, MemoryLocation};

const DEVICE_MEMORY: i32 = 1;
const PINNED: i32 = 1;
const READ_AND_WRITE: i32 = 3;
const MINIMUM: u32 = 0;

/// Addresses are reserved in units of this size: a driver that has a context takes smaller ones from places of its own, whatever is wished for.
const RESERVED_UNIT: u64 = 32 << 20;

/// Addresses of a device, and memory that is mapped at some of them.
struct Region<'l> {
    library: &'l Library,
    /// Where it is to lie, and its size.
    wanted: (Address, usize),
    /// Where it lies.
    start: Address,
    /// A reservation that only keeps others away from the wanted place.
    keeps_off: Option<Address>,
    /// What is mapped: where, how much, which memory.
    mapped: Vec<(Address, usize, u64)>,
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        // What a dead context refuses goes with its process.
        for &(start, bytes, memory) in &self.mapped {
            // SAFETY: mapped there by `map`, and nothing runs any more.
            unsafe {
                (self.library.unmap)(start, bytes);
                (self.library.release)(memory);
            }
        }
        for address in [Some(self.start), self.keeps_off].into_iter().flatten().filter(|&start| start != 0) {
            // SAFETY: reserved with this size.
            unsafe { (self.library.free_address)(address, self.wanted.1) };
        }
    }
}

impl<'l> Region<'l> {
    fn new(library: &'l Library, wanted: (Address, usize), must_move: bool) -> Result<Region<'l>, String> {
        let mut region = Region { library, wanted, start: 0, keeps_off: None, mapped: Vec::new() };
        let (address, bytes) = wanted;
        let reserve = |at: Address| {
            let mut found = 0;
            // SAFETY: a place of this call's. An address is but a wish.
            let status = unsafe { (library.reserve)(&raw mut found, bytes, 0, at, 0) };
            (status, found)
        };
        let (status, found) = reserve(address);
        if status == 0 && found == address && must_move {
            region.keeps_off = Some(found);
        } else if status == 0 {
            region.start = found;
            return Ok(region);
        }
        // A driver may refuse a place rather than choose another.
        let (status, found) = reserve(0);
        library.good("cuMemAddressReserve", status)?;
        region.start = found;
        Ok(region)
    }

    fn holds(&self, address: Address) -> bool {
        (self.wanted.0..self.wanted.0 + self.wanted.1 as u64).contains(&address)
    }

    /// Where an address in it is now.
    fn now(&self, address: Address) -> Address {
        self.start + (address - self.wanted.0)
    }

    /// Puts memory at addresses of it, all of it holding the filler.
    fn map(
        &mut self,
        (address, bytes): (Address, usize),
        kind: &MemoryKind,
        filler: u8,
    ) -> Result<(), String> {
        let (library, start) = (self.library, self.now(address));
        let mut memory = 0;
        // SAFETY: a place of this call's, and a kind in the layout that is declared.
        let status = unsafe { (library.create)(&raw mut memory, bytes, kind, 0) };
        library.good("cuMemCreate", status).map_err(|why| format!("{bytes} bytes of its memory: {why}"))?;
        // SAFETY: part of a reservation, and a memory of its size.
        let status = unsafe { (library.map)(start, bytes, 0, memory, 0) };
        if let Err(why) = library.good("cuMemMap", status) {
            // SAFETY: made above, and mapped nowhere.
            unsafe { (library.release)(memory) };
            return Err(why);
        }
        self.mapped.push((start, bytes, memory));
        let access = MemoryAccess { location: kind.location, may: READ_AND_WRITE };
        // SAFETY: one description, for what was mapped above.
        let status = unsafe { (library.set_access)(start, bytes, &raw const access, 1) };
        library.good("cuMemSetAccess", status)?;
        // SAFETY: all of what was mapped just now.
        let status = unsafe { (library.fill)(start, filler, bytes) };
        library.good("cuMemsetD8", status)
    }
}

/// The memory of one launch.
pub(crate) struct Memories<'l> {
    library: &'l Library,
    regions: Vec<Region<'l>>,
    spans: Vec<Span>,
}

impl<'l> Memories<'l> {
    /// Makes memory of a device, all of it holding the filler.
    pub fn new(
        library: &'l Library,
        device: i32,
        spans: &[Span],
        (may_move, must_move): (bool, bool),
        filler: u8,
    ) -> Result<Memories<'l>, String> {
        let location = MemoryLocation { kind: DEVICE_MEMORY, device };
        let kind = MemoryKind { kind: PINNED, handle_kinds: 0, location, reserved: [0; 2] };
        let mut page = 0;
        // SAFETY: a place of this call's, and a kind in the layout that is declared.
        let status = unsafe { (library.granularity)(&raw mut page, &raw const kind, MINIMUM) };
        library.good("cuMemGetAllocationGranularity", status)?;
        let no_address = "its memory leaves all addresses";
        let mut regions = Vec::new();
        for wanted in whole_pages(spans, RESERVED_UNIT.max(page as u64)).ok_or(no_address)? {
            regions.push(Region::new(library, wanted, must_move)?);
        }
        let mut memories = Memories { library, regions, spans: spans.to_vec() };
        if let Some(taken) = memories.moved().filter(|_| !may_move) {
            return Err(format!(
                "the address {:#x} of its memory is taken here, and its memory may hold pointers, which would lead astray elsewhere",
                taken.wanted.0
            ));
        }
        for pages in whole_pages(spans, page as u64).ok_or(no_address)? {
            let region = memories.regions.iter_mut().find(|region| region.holds(pages.0));
            region.ok_or("memory that is nowhere")?.map(pages, &kind, filler)?;
        }
        Ok(memories)
    }

    fn moved(&self) -> Option<&Region<'l>> {
        self.regions.iter().find(|region| region.start != region.wanted.0)
    }

    /// Whether any lies elsewhere than it did.
    pub fn is_moved(&self) -> bool {
        self.moved().is_some()
    }

    /// Where a memory lies now.
    pub fn address(&self, memory: usize) -> Result<Address, String> {
        let span = self.spans.get(memory).ok_or("there is no such memory")?;
        let region = self.regions.iter().find(|region| region.holds(span.address));
        Ok(region.ok_or("memory that is nowhere")?.now(span.address))
    }

    /// Gives each its content.
    pub fn write(&self, contents: &[Vec<u8>]) -> Result<(), String> {
        for (at, content) in contents.iter().enumerate() {
            let to = self.address(at)?;
            if content.len() as u64 != self.spans[at].bytes {
                return Err("content of another size than its memory".into());
            }
            copy_to_device(self.library, to, content)?;
        }
        Ok(())
    }

    /// Takes what each holds.
    pub fn read(&self, contents: &mut [Vec<u8>]) -> Result<(), String> {
        for (at, content) in contents.iter_mut().enumerate() {
            let from = self.address(at)?;
            copy_to_host(self.library, from, content)?;
        }
        Ok(())
    }
}

/// Fills device memory of the content's size.
pub(crate) fn copy_to_device(library: &Library, to: Address, content: &[u8]) -> Result<(), String> {
    if content.is_empty() {
        return Ok(());
    }
    // SAFETY: the driver reads as many bytes as the slice has, and checks that the device's are there.
    let status = unsafe { (library.copy_to_device)(to, content.as_ptr().cast(), content.len()) };
    library.good("cuMemcpyHtoD", status)
}

/// Takes device memory of the content's size.
pub(crate) fn copy_to_host(library: &Library, from: Address, content: &mut [u8]) -> Result<(), String> {
    if content.is_empty() {
        return Ok(());
    }
    // SAFETY: the driver writes as many bytes as the slice has.
    let status = unsafe { (library.copy_to_host)(content.as_mut_ptr().cast(), from, content.len()) };
    library.good("cuMemcpyDtoH", status)
}

/// The pages that spans lie on, in runs of which none touches another; none where a span leaves all addresses.
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
    fn memory_lies_on_whole_pages_and_what_touches_is_one() {
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
