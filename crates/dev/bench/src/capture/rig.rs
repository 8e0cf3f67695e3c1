//! A dump region and tensors in the memory of this process, and the timed loops over them.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};
use std::{iter, mem};

use tensortap::DType;
use tensortap::abi::{
    DumpCollect, DumpFilter, DumpGeometry, DumpLevel, DumpPolicy, DumpStage, Role, TensorDesc, TensorRecord,
};
use tensortap::recorder::{
    HostLink, LaneRecorder, Memory, Region, SetupOptions, TensorCapture, TensorDetails, setup_bytes,
};
use tensortap::values::content_hash;

use super::{MOST_RECORDS, RECORDS_PER_STAGE, View};
use crate::BenchError;

const PAGE: usize = 4096;
const RECORD_BYTES: usize = size_of::<TensorRecord>();
const HASH_AT: usize = std::mem::offset_of!(TensorRecord, hash);
const RECORDS_PER_BUFFER: u32 = 512;
/// Space for every record of a round, and for the pieces of a payload at the end of the arena. The arena can hold the
/// largest payload.
const GEOMETRY: DumpGeometry = DumpGeometry {
    lanes: 1,
    buffers: 2 * MOST_RECORDS / RECORDS_PER_BUFFER,
    records: RECORDS_PER_BUFFER,
    arena_bytes: 4 << 20,
};

/// Memory for a region followed by tensors, and for the baselines.
pub(crate) struct Rig {
    memory: Vec<u8>,
    /// Offset of the first page.
    start: usize,
    /// One tensor that is recorded repeatedly, or one for each record.
    descs: Vec<TensorDesc>,
    /// The contiguous content.
    content: Vec<u8>,
    /// As large as the arena.
    copies: Vec<u8>,
    records: Vec<u8>,
}

/// The memory of a rig, lent to another thread.
pub(super) struct LentMemory {
    memory: Vec<u8>,
    tensors: Range<usize>,
}

impl LentMemory {
    /// All tensors.
    pub(super) fn tensors(&mut self) -> &mut [u8] {
        &mut self.memory[self.tensors.clone()]
    }
}

impl Rig {
    pub(crate) fn new(view: View, dtype: DType, bytes: u64) -> Rig {
        Rig::with(&descriptor(view, dtype, bytes), 1, bytes)
    }

    /// A rig with this many contiguous tensors.
    pub(super) fn fresh(bytes: u64, count: u64) -> Rig {
        Rig::with(&descriptor(View::Contiguous, DType::Float32, bytes), count, bytes)
    }

    fn with(desc: &TensorDesc, count: u64, bytes: u64) -> Rig {
        let memory = noise(region_bytes() + len(count * desc.buffer_bytes) + PAGE);
        let start = memory.as_ptr().align_offset(PAGE);
        let first = (memory.as_ptr().addr() + start + region_bytes()) as u64;
        let at = |number| TensorDesc { buffer_addr: first + number * desc.buffer_bytes, ..*desc };
        Rig {
            start,
            descs: (0..count).map(at).collect(),
            content: noise(len(bytes)),
            copies: noise(len(GEOMETRY.arena_bytes)),
            records: noise(len(MOST_RECORDS.into()) * RECORD_BYTES),
            memory,
        }
    }

    /// Lends the memory to another thread, which writes the tensors.
    pub(super) fn lend(&mut self) -> LentMemory {
        let tensors = self.tensors();
        LentMemory { memory: mem::take(&mut self.memory), tensors }
    }

    pub(super) fn take_back(&mut self, spare: LentMemory) {
        self.memory = spare.memory;
    }

    fn tensors(&self) -> Range<usize> {
        let at = self.start + region_bytes();
        at..at + self.descs.len() * self.content.len()
    }

    /// Seconds for recording each tensor.
    pub(super) fn record_each(&mut self) -> Result<f64, BenchError> {
        self.record(self.descs.len() as u64)
    }

    /// Seconds for copying each tensor.
    pub(super) fn copy_each(&mut self) -> f64 {
        let tensors = &self.memory[self.tensors()];
        let start = Instant::now();
        let mut at = 0;
        for content in tensors.chunks_exact(self.content.len()) {
            at = copy_to(&mut self.copies, at, black_box(content)).1;
        }
        black_box(&self.copies);
        start.elapsed().as_secs_f64()
    }

    /// The same with a hash of each copy and a stored record.
    pub(super) fn limit_each(&mut self) -> f64 {
        let tensors = &self.memory[self.tensors()];
        let contents = tensors.chunks_exact(self.content.len());
        limit_of(contents, &mut self.copies, &mut self.records)
    }

    /// Seconds for this many records.
    pub(super) fn record(&mut self, records: u64) -> Result<f64, BenchError> {
        let wrong = |what: &dyn std::fmt::Display| BenchError::Wrong(format!("a region in memory: {what}"));
        let memory = &mut self.memory[self.start..];
        let base = memory.as_ptr().addr() as u64;
        let options = SetupOptions {
            base,
            run_id: 1,
            level: DumpLevel::Full,
            policy: DumpPolicy::Drop,
            collect: DumpCollect::Batch,
            liveness_ms: 0,
            filter: DumpFilter::ALL,
            of_process: false,
        };
        let setup = setup_bytes(GEOMETRY, &options).map_err(|error| wrong(&error))?;
        setup.write(|offset, bytes| memory[len(offset)..][..bytes.len()].copy_from_slice(bytes));
        let region = Region::open(Memory::of_slice(memory), base).map_err(|error| wrong(&error))?;
        let mut recorder =
            region.recorder(0, NoHost { began: Instant::now() }).map_err(|error| wrong(&error))?;
        let start = Instant::now();
        record_all(&mut recorder, &self.descs, records);
        let seconds = start.elapsed().as_secs_f64();
        let counters = recorder.counters();
        let (bytes, expected) = (counters.payload_bytes, records * self.content.len() as u64);
        if bytes != expected || counters.records < records {
            return Err(wrong(&format!("{bytes} bytes were recorded, {expected} were expected")));
        }
        Ok(seconds)
    }

    /// Seconds for copying as many bytes.
    pub(super) fn copy(&mut self, records: u64) -> f64 {
        let start = Instant::now();
        let mut at = 0;
        for _ in 0..records {
            at = copy_to(&mut self.copies, at, black_box(&self.content)).1;
        }
        black_box(&self.copies);
        start.elapsed().as_secs_f64()
    }

    /// The same with a hash of each copy and a stored record.
    pub(crate) fn limit(&mut self, records: u64) -> f64 {
        let contents = iter::repeat_n(self.content.as_slice(), len(records));
        limit_of(contents, &mut self.copies, &mut self.records)
    }
}

fn limit_of<'c>(contents: impl Iterator<Item = &'c [u8]>, copies: &mut [u8], records: &mut [u8]) -> f64 {
    let start = Instant::now();
    let mut at = 0;
    for (content, place) in contents.zip(records.chunks_exact_mut(RECORD_BYTES)) {
        let (copy, next) = copy_to(copies, at, black_box(content));
        let mut record = [0; RECORD_BYTES];
        record[HASH_AT..][..16].copy_from_slice(&content_hash(copy).to_le_bytes());
        place.copy_from_slice(&record);
        at = next;
    }
    black_box(records);
    start.elapsed().as_secs_f64()
}

fn record_all(recorder: &mut LaneRecorder<'_, NoHost>, descs: &[TensorDesc], records: u64) {
    let mut descs = descs.iter().cycle();
    for task_id in 0..records / RECORDS_PER_STAGE {
        recorder.begin();
        for (arg_index, desc) in (0..RECORDS_PER_STAGE).zip(&mut descs) {
            recorder.tensor(&TensorCapture {
                task_id,
                stage: DumpStage::BeforeDispatch,
                role: Role::Input,
                arg_index: u16::try_from(arg_index).unwrap_or(0),
                desc: black_box(desc),
                marked: false,
                in_flight: false,
                details: TensorDetails::default(),
            });
        }
        recorder.end();
    }
}

/// Copies the content to the next position of a ring. Returns the copy and the position after it.
fn copy_to<'r>(ring: &'r mut [u8], at: usize, content: &[u8]) -> (&'r [u8], usize) {
    let next = (at + content.len()).next_multiple_of(64);
    let (at, next) =
        if at + content.len() > ring.len() { (0, content.len().next_multiple_of(64)) } else { (at, next) };
    let copy = &mut ring[at..][..content.len()];
    copy.copy_from_slice(content);
    (copy, next)
}

fn region_bytes() -> usize {
    len(GEOMETRY.bytes()).next_multiple_of(PAGE)
}

/// A view with this many bytes of content. Its buffer address is not set.
fn descriptor(view: View, dtype: DType, bytes: u64) -> TensorDesc {
    let numel = bytes * 8 / u64::from(dtype.bits());
    let side = 1 << (numel.ilog2() / 2);
    let (rows, cols) = (numel / side, side);
    let signed = u64::cast_signed;
    let (strides, buffer_elems) = match view {
        View::Contiguous | View::Fresh => ([signed(cols), 1], numel),
        View::Rows => ([signed(2 * cols), 1], 2 * numel),
        View::Transposed => ([1, signed(rows)], numel),
        View::Strided => ([signed(2 * cols), 2], 2 * numel),
        View::Broadcast => ([0, 1], cols),
    };
    let mut desc = TensorDesc {
        buffer_bytes: (buffer_elems * u64::from(dtype.bits())).div_ceil(8),
        dtype: dtype.tag(),
        ndims: 2,
        ..TensorDesc::default()
    };
    desc.shape[..2].copy_from_slice(&[rows, cols]);
    desc.strides[..2].copy_from_slice(&strides);
    desc
}

/// Initialized bytes, so that page faults are not measured. One block is repeated: the results do not depend on the values,
/// and an unoptimized build would need seconds to generate them all.
fn noise(bytes: usize) -> Vec<u8> {
    const BLOCK_WORDS: usize = 4096;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let block: Vec<u8> = std::iter::repeat_with(&mut step).take(BLOCK_WORDS).flatten().collect();
    let mut noise = block.repeat(bytes.div_ceil(block.len()));
    noise.truncate(bytes);
    noise
}

/// An offset or count inside memory.
fn len(bytes: u64) -> usize {
    usize::try_from(bytes).expect("in memory")
}

/// A host that never drains: the arena overwrites itself.
struct NoHost {
    began: Instant,
}

impl HostLink for NoHost {
    fn wake_host(&self) {}

    fn pause(&self, _limit: Duration) {}

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn waiting(&self, _waiting: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_records_its_bytes() {
        for (view, dtype, bytes) in super::super::cases() {
            // The rig itself checks the number of recorded bytes.
            let mut rig = Rig::new(view, dtype, bytes);
            let seconds = rig.record(2 * RECORDS_PER_STAGE).unwrap();
            assert!(seconds > 0.0, "{view:?} {dtype:?} {bytes}");
            assert_eq!(rig.content.len() as u64, bytes);
        }
    }
}
