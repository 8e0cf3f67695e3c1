//! Payloads, part by part and by several threads, in bounded memory.

use tensortap::format::{Dump, FormatError, PayloadState, Record};
use tensortap::values::{Statistics, Summary};

use super::measured::Measured;
use crate::parallel;
use crate::progress::ByteProgress;

/// What one thread takes at a time: a large tensor is measured by all of them. A multiple of every element's size.
const PART_BYTES: u64 = 32 << 20;
/// What is read at a time: it stays in the second-level cache while it is measured.
const CHUNK_BYTES: usize = 256 << 10;

/// A part of one record's content.
struct Part {
    record: Record,
    offset: u64,
    bytes: u64,
    /// Elements in it.
    elements: u64,
    last: bool,
}

/// Measures every record and gives them to `each`, in order.
pub fn each(
    dump: &Dump,
    records: impl Iterator<Item = Result<Record, FormatError>>,
    jobs: usize,
    progress: &ByteProgress,
    mut each: impl FnMut(Measured) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // One after the other: a record may claim more parts than there is memory for.
    let parts = records.flat_map(|record| {
        let (parts, error) = match record {
            Ok(record) => (Some(Parts::new(record)), None),
            Err(error) => (None, Some(Err(anyhow::Error::from(error)))),
        };
        parts.into_iter().flatten().map(Ok).chain(error)
    });
    let mut so_far: Option<Statistics> = None;
    parallel::in_order(
        jobs,
        parts,
        Vec::new,
        |buffer, part| measure(dump, part, buffer, progress),
        |part, statistics| {
            let statistics = match so_far.take() {
                Some(mut before) => {
                    before.merge(&statistics);
                    before
                }
                None => statistics,
            };
            if !part.last {
                so_far = Some(statistics);
                return Ok(());
            }
            each(finish(part.record, statistics))
        },
    )
}

fn finish(record: Record, statistics: Statistics) -> Measured {
    if !is_readable(&record) {
        return Measured::recorded(record);
    }
    let summary: Summary = statistics.summary();
    Measured { record, summary: Some(summary), from_payload: true }
}

fn is_readable(record: &Record) -> bool {
    record.scalar_bits.is_some() || matches!(record.payload, PayloadState::Stored | PayloadState::Truncated)
}

fn measure(
    dump: &Dump,
    part: &Part,
    buffer: &mut Vec<u8>,
    progress: &ByteProgress,
) -> anyhow::Result<Statistics> {
    let Part { record, offset, bytes, elements, .. } = part;
    let mut statistics = Statistics::new(record.dtype, *elements);
    if let Some(bits) = record.scalar_bits {
        let width = record.dtype.bits().div_ceil(8) as usize;
        statistics.update(&bits.to_le_bytes()[..width]);
        return Ok(statistics);
    }
    buffer.resize(CHUNK_BYTES, 0);
    let mut done = 0;
    while done < *bytes {
        let chunk = usize::try_from(bytes - done).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let chunk = &mut buffer[..chunk];
        dump.payload_part(record, offset + done, chunk)?;
        statistics.update(chunk);
        done += chunk.len() as u64;
        progress.advance(chunk.len() as u64);
    }
    Ok(statistics)
}

/// The parts of a record; one, of no bytes, when there is nothing to read.
struct Parts {
    record: Record,
    /// Bytes and elements that are there.
    bytes: u64,
    elements: u64,
    next: Option<u64>,
}

impl Parts {
    fn new(record: Record) -> Parts {
        let bits = u64::from(record.dtype.bits());
        let stored = if is_readable(&record) && record.scalar_bits.is_none() { record.bin_size } else { 0 };
        // Whole elements; of a truncated payload those that are there.
        let held = if bits == 4 { stored.saturating_mul(2) } else { stored / (bits / 8) };
        let elements = if record.scalar_bits.is_some() { 1 } else { held.min(record.numel) };
        let bytes = record.dtype.packed_bytes(elements).map_or(stored, |bytes| bytes.min(stored));
        Parts { record, bytes, elements, next: Some(0) }
    }
}

impl Iterator for Parts {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let Parts { record, bytes: total, elements, .. } = *self;
        let offset = self.next?;
        let bytes = (total - offset).min(PART_BYTES);
        let last = offset + bytes == total;
        self.next = (!last).then_some(offset + bytes);
        let per_part = PART_BYTES * 8 / u64::from(record.dtype.bits());
        let before = offset / PART_BYTES * per_part;
        let elements = if last { elements - before } else { per_part };
        Some(Part { record, offset, bytes, elements, last })
    }
}
