//! Copies and fills.

use tensortap_queue::Range;
use tensortap_record::{MemorySpace, Operation, Role, UncapturedReason};

use super::modules;
use crate::{
    allocations::Device,
    backend::CudaBackend,
    command::CommandSpec,
    enqueue::{PendingCommand, StreamTarget},
    raw::{self, Call},
    stream_guard::StreamGuard,
    table::{CallKind, CopyEnds, Dims, Function},
};

/// A copy or a fill.
pub fn transfer(
    backend: &CudaBackend,
    function: &Function,
    call: Call<'_>,
    target: &StreamTarget,
    guard: StreamGuard,
) -> Option<PendingCommand> {
    // SAFETY: the function has these words, as the table says.
    let word = |at| unsafe { call.word(at) };
    let memory = Memory { backend, device: guard.stream.device };
    let work = match function.kind {
        CallKind::Memcpy(ends, [to, from, bytes], _) => {
            memory.copy(function.name, ends, &[(word(to), word(from), word(bytes))])
        }
        CallKind::CopyBatch(_) => {
            // SAFETY: the program's call passes that many of each.
            let pieces = unsafe { many([word(0), word(1), word(2)], word(3)) };
            memory.copy(function.name, CopyEnds::Any, &pieces)
        }
        // SAFETY: the program's call passes the structure there.
        CallKind::CopyBox(dims, _) => memory.copy_box(function.name, unsafe { BoxCopy::read(dims, word(0)) }),
        CallKind::CopyArray(ends, _) => opaque_copy(function.name, ends),
        CallKind::Fill(width, _) => {
            let mut work = CommandSpec::transfer(Operation::Fill, function.name);
            work.push(memory.part(word(0), word(2).saturating_mul(width)), Role::Output);
            work
        }
        CallKind::FillRows(width, _) => {
            let mut work = CommandSpec::transfer(Operation::Fill, function.name);
            let size = [word(3).saturating_mul(width), word(4), 1];
            work.push(memory.rows(word(0), size, [word(1), 0]), Role::Output);
            work
        }
        _ => return None,
    };
    PendingCommand::new(backend, target, guard, |_| Ok(work.into()))
}

/// A copy from or to an array, whose bytes cannot be read.
fn opaque_copy(name: &'static str, ends: CopyEnds) -> CommandSpec {
    let mut work = CommandSpec::transfer(operation(ends), name);
    work.push(Err(UncapturedReason::Opaque), Role::InOut);
    work
}

fn operation(ends: CopyEnds) -> Operation {
    match ends {
        CopyEnds::ToDevice => Operation::HostWrite,
        CopyEnds::ToHost => Operation::HostRead,
        CopyEnds::Within | CopyEnds::Any => Operation::Copy,
    }
}

/// At most this many pieces of one copy are captured.
const MAX_PIECES: u64 = 256;

/// The pieces of a copy: destination, source, size.
///
/// # Safety
/// Each array has that many words.
unsafe fn many(at: [u64; 3], count: u64) -> Vec<(u64, u64, u64)> {
    let piece = |number: u64| {
        // SAFETY: the caller's guarantee.
        let [to, from, bytes] = at.map(|start| unsafe { raw::at::<u64>(start + 8 * number) });
        (to, from, bytes)
    };
    (0..count.min(MAX_PIECES)).map(piece).collect()
}

/// One end of a box copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    kind: u32,
    address: u64,
    origin: [u64; 3],
    pitch: u64,
    height: u64,
}

impl End {
    /// The address of a box of this size in it, and the distances of rows and slices in bytes.
    fn place(&self, size: [u64; 3]) -> (u64, [u64; 2]) {
        let pitch = if self.pitch == 0 { size[0] } else { self.pitch };
        let height = if self.height == 0 { size[1] } else { self.height };
        let slice = pitch.saturating_mul(height);
        let [x, y, z] = self.origin;
        let before = z.saturating_mul(slice).saturating_add(y.saturating_mul(pitch)).saturating_add(x);
        (self.address.saturating_add(before), [pitch, slice])
    }
}

/// A box copy: its ends, and its size in bytes, rows and slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BoxCopy {
    from: End,
    to: End,
    size: [u64; 3],
}

const HOST: u32 = 1;
const ARRAY: u32 = 3;

impl BoxCopy {
    /// Reads the structure of the program.
    ///
    /// # Safety
    /// The structure for this many dimensions is there.
    unsafe fn read(dims: Dims, at: u64) -> BoxCopy {
        match dims {
            // SAFETY: the caller's guarantee. The structure has this many words.
            Dims::Two => BoxCopy::two(&unsafe { raw::at::<[u64; 16]>(at) }),
            // SAFETY: the caller's guarantee.
            Dims::Three => BoxCopy::three(&unsafe { raw::at::<[u64; 25]>(at) }),
        }
    }

    fn two(words: &[u64; 16]) -> BoxCopy {
        let end = |at: usize| End {
            kind: low(words[at + 2]),
            address: words[at + 4],
            origin: [words[at], words[at + 1], 0],
            pitch: words[at + 6],
            height: 0,
        };
        BoxCopy { from: end(0), to: end(7), size: [words[14], words[15], 1] }
    }

    fn three(words: &[u64; 25]) -> BoxCopy {
        let end = |at: usize| End {
            kind: low(words[at + 4]),
            address: words[at + 6],
            origin: [words[at], words[at + 1], words[at + 2]],
            pitch: words[at + 9],
            height: words[at + 10],
        };
        BoxCopy { from: end(0), to: end(11), size: [words[22], words[23], words[24]] }
    }
}

/// Address and size of each end of a box copy. None for an array. Ends in host memory are left out.
pub fn ends_of_box(words: &[u64; 25]) -> Vec<Option<(u64, u64)>> {
    let copy = BoxCopy::three(words);
    let ends = [copy.from, copy.to].into_iter().filter(|end| end.kind != HOST);
    ends.filter_map(|end| {
        if end.kind == ARRAY {
            return Some(None);
        }
        let (address, pitch) = end.place(copy.size);
        Some(Some((address, span(copy.size, pitch)?)))
    })
    .collect()
}

/// The lower half of a word.
fn low(word: u64) -> u32 {
    u32::try_from(word & 0xffff_ffff).unwrap_or(0)
}

/// Memory as one device sees it.
#[derive(Clone, Copy)]
struct Memory<'a> {
    backend: &'a CudaBackend,
    device: Device,
}

impl Memory<'_> {
    /// A copy of pieces.
    fn copy(&self, name: &'static str, ends: CopyEnds, pieces: &[(u64, u64, u64)]) -> CommandSpec {
        let is_device = |address| match ends {
            CopyEnds::Any => self.is_device(address),
            _ => true,
        };
        let first = pieces.first().copied().unwrap_or_default();
        let ends = match ends {
            CopyEnds::Any => match (is_device(first.1), is_device(first.0)) {
                (false, true) => CopyEnds::ToDevice,
                (true, false) => CopyEnds::ToHost,
                _ => CopyEnds::Within,
            },
            known => known,
        };
        let mut work = CommandSpec::transfer(operation(ends), name);
        for &(to, from, bytes) in pieces {
            if ends != CopyEnds::ToDevice && is_device(from) {
                work.push(self.part(from, bytes), Role::Input);
            }
            if ends != CopyEnds::ToHost && is_device(to) {
                work.push(self.part(to, bytes), Role::Output);
            }
        }
        work
    }

    /// A box copy.
    fn copy_box(&self, name: &'static str, copy: BoxCopy) -> CommandSpec {
        let is_device = |end: &End| match end.kind {
            HOST => false,
            ARRAY => true,
            _ => self.is_device(end.address),
        };
        let ends = match (is_device(&copy.from), is_device(&copy.to)) {
            (false, true) => CopyEnds::ToDevice,
            (true, false) => CopyEnds::ToHost,
            _ => CopyEnds::Within,
        };
        let mut work = CommandSpec::transfer(operation(ends), name);
        for (end, role) in [(copy.from, Role::Input), (copy.to, Role::Output)] {
            if is_device(&end) {
                work.push(self.end(&end, copy.size), role);
            }
        }
        work
    }

    fn end(&self, end: &End, size: [u64; 3]) -> Result<Range, UncapturedReason> {
        if end.kind == ARRAY {
            return Err(UncapturedReason::Opaque);
        }
        let (address, pitch) = end.place(size);
        self.rows(address, size, pitch)
    }

    /// Whether device memory is at an address. Unknown memory counts as host memory.
    fn is_device(&self, address: u64) -> bool {
        let reach = self.backend.state().allocations.reach(address, self.device, 1);
        reach.is_some_and(|reach| matches!(reach.space, MemorySpace::Device | MemorySpace::Managed))
    }

    /// The memory from an address on. If it is unknown, the driver is asked: programs write variables of
    /// modules before they launch a kernel of the module.
    fn reach(&self, address: u64, most: u64, bytes: u64) -> Option<crate::allocations::AddressableRange> {
        let known = || self.backend.state().allocations.reach(address, self.device, most);
        known().or_else(|| {
            let (start, all) = self.backend.driver.range_of(address)?;
            let is_inside = address >= start && bytes <= all && address - start <= all - bytes;
            if is_inside && bytes > 0 {
                let memory = tensortap_queue::Memory { address, bytes, space: MemorySpace::Device };
                modules::place(self.backend, 0, memory);
            }
            known()
        })
    }

    /// Bytes from an address on, as far as they may be captured.
    fn part(&self, address: u64, bytes: u64) -> Result<Range, UncapturedReason> {
        let most = bytes.min(self.backend.max_range);
        let reach = self.reach(address, most, bytes);
        let reach = reach.filter(|reach| reach.is_readable).ok_or(UncapturedReason::NoAccess)?;
        let range = Range::dense((address, reach.bytes), 0, reach.bytes, None);
        Ok(Range { space: reach.space, is_exact: reach.bytes == bytes, ..range })
    }

    /// A box of bytes. `size` is in bytes, rows and slices. `pitch` is the distance of rows and of slices in
    /// bytes.
    fn rows(&self, address: u64, size: [u64; 3], pitch: [u64; 2]) -> Result<Range, UncapturedReason> {
        let bytes = span(size, pitch).ok_or(UncapturedReason::NoAccess)?;
        if bytes > self.backend.max_range {
            return Err(UncapturedReason::NoRoom);
        }
        let reach = self.reach(address, bytes, bytes);
        let is_whole =
            |reach: &crate::allocations::AddressableRange| reach.is_readable && reach.bytes == bytes;
        let reach = reach.filter(is_whole).ok_or(UncapturedReason::NoAccess)?;
        Ok(Range { space: reach.space, ..Range::boxed((address, bytes), 0, size, pitch) })
    }
}

/// Number of bytes from the first to the last of a box. None if it is empty or too large.
fn span(size: [u64; 3], pitch: [u64; 2]) -> Option<u64> {
    let [width, rows, slices] = size;
    let rows = rows.checked_sub(1)?.checked_mul(pitch[0])?;
    let slices = slices.checked_sub(1)?.checked_mul(pitch[1])?;
    width.checked_add(rows)?.checked_add(slices).filter(|_| width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_covers_its_first_to_its_last_byte() {
        assert_eq!(span([4, 3, 2], [10, 50]), Some(4 + 20 + 50));
        assert_eq!(span([4, 1, 1], [0, 0]), Some(4));
        assert_eq!(span([0, 1, 1], [10, 50]), None);
        assert_eq!(span([4, 0, 1], [10, 50]), None);
        assert_eq!(span([4, u64::MAX, 1], [10, 50]), None);
    }

    #[test]
    fn structures_are_read_with_the_drivers_layout() {
        let words: [u64; 16] = std::array::from_fn(|at| at as u64 + 100);
        let two = BoxCopy::two(&words);
        assert_eq!((two.from.kind, two.from.address, two.from.pitch), (102, 104, 106));
        assert_eq!(
            (two.to.kind, two.to.address, two.to.pitch, two.to.origin),
            (109, 111, 113, [107, 108, 0])
        );
        assert_eq!(two.size, [114, 115, 1]);
        let words: [u64; 25] = std::array::from_fn(|at| at as u64 + 100);
        let three = BoxCopy::three(&words);
        assert_eq!(
            (three.from.kind, three.from.address, three.from.pitch, three.from.height),
            (104, 106, 109, 110)
        );
        assert_eq!((three.to.address, three.to.origin, three.to.height), (117, [111, 112, 113], 121));
        assert_eq!(three.size, [122, 123, 124]);
    }
}
