use tensortap_abi::LARGE_PAYLOAD_BYTES;
use tensortap_platform::PlatformError;

use super::Extent;
use crate::{RegionMemory, check::Span, lane_offsets::LaneOffsets};

/// Bytes that one read copies out of the region.
const WINDOW_BYTES: u64 = 256 << 10;
/// Payloads further apart than this are read separately.
const MAX_GAP_BYTES: u64 = 4096;

/// A copy of neighboring payloads of one lane, for regions that are not mapped: one read serves many small
/// payloads. Arena positions never repeat, so the copy cannot be stale.
#[derive(Debug, Default)]
pub(crate) struct Window {
    lane: u32,
    position: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Copies the bytes of `from`.
    pub(crate) fn copy(
        &mut self,
        memory: &dyn RegionMemory,
        from: Extent,
        to: &mut [u8],
    ) -> Result<(), PlatformError> {
        if memory.is_mapped() {
            return memory.read(from.offset, to);
        }
        if let Some(bytes) = self.find(from, to.len()) {
            to.copy_from_slice(bytes);
            return Ok(());
        }
        let len = from.run_bytes.min(WINDOW_BYTES).max(to.len() as u64);
        self.bytes.resize(usize::try_from(len).unwrap_or(to.len()), 0);
        if let Err(error) = memory.read(from.offset, &mut self.bytes) {
            self.bytes.clear();
            return Err(error);
        }
        (self.lane, self.position) = (from.lane, from.position);
        to.copy_from_slice(&self.bytes[..to.len()]);
        Ok(())
    }

    fn find(&self, from: Extent, len: usize) -> Option<&[u8]> {
        if self.lane != from.lane {
            return None;
        }
        let start = usize::try_from(from.position.checked_sub(self.position)?).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }
}

/// Ranges of consecutive records' payloads in the region, in order, each with the small payloads that
/// follow it.
pub(crate) fn extents(
    offsets: LaneOffsets,
    lane: u32,
    arena_bytes: u64,
    spans: &[Option<Span>],
) -> Vec<Option<Extent>> {
    let mut next: Option<(Span, u64)> = None;
    let mut extents: Vec<_> = spans
        .iter()
        .rev()
        .map(|span| {
            let span = (*span)?;
            let run_end = match next {
                Some((neighbour, run_end)) if are_neighbours(span, neighbour, arena_bytes) => run_end,
                _ => span.end(),
            };
            next = Some((span, run_end));
            let run_bytes = run_end - span.position;
            let Span { position, bytes } = span;
            Some(Extent { lane, position, offset: offsets.arena(position), bytes, run_bytes })
        })
        .collect();
    extents.reverse();
    extents
}

fn are_neighbours(span: Span, next: Span, arena_bytes: u64) -> bool {
    let small = span.bytes < LARGE_PAYLOAD_BYTES && next.bytes < LARGE_PAYLOAD_BYTES;
    let near = next.position >= span.end() && next.position - span.end() < MAX_GAP_BYTES;
    small && near && span.position / arena_bytes == next.position / arena_bytes
}
