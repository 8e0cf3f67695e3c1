//! Measures payloads part by part on several threads, in bounded memory.

mod record_summary;

use tensortap_format::{Dump, FormatError, PayloadState, Record};
use tensortap_values::{Statistics, Summary};

use crate::parallel;

pub use record_summary::{Flag, RecordSummary};

/// Size of one thread's part; a large tensor is measured by several threads. A multiple of every element's
/// size.
const PART_BYTES: u64 = 32 << 20;
/// Size of one read. It stays in the second-level cache while it is measured.
const CHUNK_BYTES: usize = 256 << 10;

/// A part of one record's content.
struct Part {
    record: Record,
    offset: u64,
    bytes: u64,
    /// Number of elements in it.
    elements: u64,
    last: bool,
}

/// Minimum, maximum, mean, deviation and counts of every record of a dump, in order.
///
/// ```
/// use tensortap::{DeviceMode, DumpConfig, DumpLevel, RunConfig, format::Dump};
///
/// let folder = tempfile::tempdir()?;
/// let mut config = RunConfig::new("dump_tensor_example");
/// // A documentation test cannot become a device process; your `main` can.
/// config.device_mode = DeviceMode::Thread;
/// config.dump = Some(DumpConfig::new(DumpLevel::Full));
/// config.out = Some(folder.path().join("dump"));
/// tensortap::run(&config)?;
///
/// let measured = tensortap::stats(&Dump::open(&folder.path().join("dump"))?)?;
/// let last = measured.last().and_then(|m| m.summary).ok_or("nothing was measured")?;
/// // f = a + b + 1 from constant 2 and 3.
/// assert_eq!((last.stats.min, last.stats.max, last.stats.nan), (6.0, 6.0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn stats(dump: &Dump) -> Result<Vec<RecordSummary>, FormatError> {
    let mut all = Vec::new();
    stats_each(dump, dump.records(), None, &|_| {}, |measured| {
        all.push(measured);
        Ok(())
    })?;
    Ok(all)
}

/// As [`stats`], for some records of a dump and in bounded memory: `each` is called with every result, in
/// order. `jobs` is the number of threads; `None` means one per CPU. `advance` is called with the number of
/// bytes read, on any thread.
pub fn stats_each<E: From<FormatError> + Send>(
    dump: &Dump,
    records: impl Iterator<Item = Result<Record, FormatError>>,
    jobs: Option<usize>,
    advance: &(dyn Fn(u64) + Sync),
    mut each: impl FnMut(RecordSummary) -> Result<(), E>,
) -> Result<(), E> {
    // One record after another: a record may claim more parts than fit into memory.
    let parts = records.flat_map(|record| {
        let (parts, error) = match record {
            Ok(record) => (Some(Parts::new(record)), None),
            Err(error) => (None, Some(Err(E::from(error)))),
        };
        parts.into_iter().flatten().map(Ok).chain(error)
    });
    let mut so_far: Option<Statistics> = None;
    // Whether a part of the record had left the dump when it was read.
    let mut is_gone = false;
    parallel::in_order(
        parallel::threads(jobs),
        parts,
        Vec::new,
        |buffer, part| match measure(dump, part, buffer, advance) {
            Err(FormatError::RecordGone { .. }) => Ok(None),
            measured => Ok(Some(measured?)),
        },
        |part, statistics| {
            is_gone |= statistics.is_none();
            if is_gone {
                if part.last {
                    is_gone = false;
                    so_far = None;
                    return each(gone(part.record));
                }
                return Ok(());
            }
            let Some(statistics) = statistics else { return Ok(()) };
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

fn finish(record: Record, statistics: Statistics) -> RecordSummary {
    if !is_readable(&record) {
        return RecordSummary::recorded(record);
    }
    let summary: Summary = statistics.summary();
    RecordSummary { record, summary: Some(summary), from_payload: true }
}

/// A record that left the window of a run while it was measured. Only its recorded statistics are known.
fn gone(mut record: Record) -> RecordSummary {
    record.payload = PayloadState::Gone;
    RecordSummary::recorded(record)
}

fn is_readable(record: &Record) -> bool {
    record.scalar_bits.is_some() || matches!(record.payload, PayloadState::Stored | PayloadState::Truncated)
}

fn measure(
    dump: &Dump,
    part: &Part,
    buffer: &mut Vec<u8>,
    advance: &(dyn Fn(u64) + Sync),
) -> Result<Statistics, FormatError> {
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
        advance(chunk.len() as u64);
    }
    Ok(statistics)
}

/// The parts of a record. If there is nothing to read, one empty part.
struct Parts {
    record: Record,
    /// Available bytes and elements.
    bytes: u64,
    elements: u64,
    next: Option<u64>,
}

impl Parts {
    fn new(record: Record) -> Parts {
        let bits = u64::from(record.dtype.bits());
        let stored = if is_readable(&record) && record.scalar_bits.is_none() { record.bin_size } else { 0 };
        // Whole elements only; for a truncated payload, the stored ones.
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
