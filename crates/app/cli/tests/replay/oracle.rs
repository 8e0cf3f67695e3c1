//! An oracle for damaged kernels, independent of the code under test: lays out a task's arguments byte by
//! byte and calls its kernels in sequence, without a device.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;

use tensortap::DumpStage;
use tensortap::abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, NO_KERNEL, SUBTASK_CONTEXT_SLOT, SubtaskContext, TensorDesc,
};
use tensortap::format::{ArgumentKind, Dump, Record, TaskFacts};
use tensortap::scene::{FaultKind, KernelDef, Scene, run_kernel};

/// Memory by captured address, in pieces with gaps of 64 bytes.
#[derive(Clone)]
struct Memory {
    /// Captured start address of each piece, and its byte offset in `words`.
    pieces: Vec<(u64, usize)>,
    words: Vec<u64>,
}

impl Memory {
    /// Makes pieces from ranges. Ranges less than 64 bytes apart share a piece.
    fn new(mut ranges: Vec<(u64, u64)>) -> Memory {
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in ranges {
            match joined.last_mut() {
                Some(last) if from <= last.1 + 64 => last.1 = last.1.max(to),
                _ => joined.push((from - from % 64, to)),
            }
        }
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        for (from, to) in joined {
            pieces.push((from, bytes));
            bytes += usize::try_from(to - from).expect("small").next_multiple_of(64) + 64;
        }
        Memory { pieces, words: vec![0x5a5a_5a5a_5a5a_5a5a; bytes / 8] }
    }

    /// Byte offset of a captured address.
    fn place(&self, address: u64) -> usize {
        let (from, at) = self.pieces.iter().rfind(|(from, _)| *from <= address).expect("laid out");
        at + usize::try_from(address - from).expect("small")
    }

    fn byte(&self, place: usize) -> u8 {
        self.words[place / 8].to_le_bytes()[place % 8]
    }

    fn set_byte(&mut self, place: usize, byte: u8) {
        let mut bytes = self.words[place / 8].to_le_bytes();
        bytes[place % 8] = byte;
        self.words[place / 8] = u64::from_le_bytes(bytes);
    }

    /// Actual address of a captured address.
    fn here(&mut self, address: u64) -> u64 {
        let place = self.place(address);
        self.words.as_mut_ptr().expose_provenance() as u64 + place as u64
    }
}

/// The units of a view, in the order of its packed content: bytes, or nibbles for 4-bit elements.
struct View {
    halves: bool,
    /// Captured addresses of contiguous units; nibbles are counted in nibbles.
    runs: Vec<Range<u64>>,
    /// Start and end address of the touched bytes.
    range: Option<(u64, u64)>,
}

impl View {
    fn of(record: &Record) -> View {
        let halves = record.dtype.bits() == 4;
        let (scale, width) = if halves { (2, 1) } else { (1, u64::from(record.dtype.bits() / 8)) };
        // Contiguous elements of a row are processed at once.
        let row = match (record.shape().last(), record.strides().last()) {
            (Some(&size), Some(1)) => size.max(1),
            _ => 1,
        };
        let mut runs: Vec<Range<u64>> = Vec::new();
        for linear in (0..record.numel).step_by(usize::try_from(row).expect("small")) {
            let (mut rest, mut element) = (linear, i128::from(record.start_offset));
            for (&size, &stride) in record.shape().iter().zip(record.strides()).rev() {
                element += i128::from(rest % size) * i128::from(stride);
                rest /= size;
            }
            let element = u64::try_from(element).expect("inside its buffer");
            let from = record.address * scale + element * width;
            let to = from + row * width;
            match runs.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => runs.push(from..to),
            }
        }
        let ends = runs.iter().map(|run| run.start).min().zip(runs.iter().map(|run| run.end - 1).max());
        let range = ends.map(|(first, last)| (first / scale, last / scale + 1));
        View { halves, runs, range }
    }

    /// Splits packed content into units: bytes, or nibbles with the low one first.
    fn split(&self, content: Vec<u8>) -> Vec<u8> {
        if !self.halves {
            return content;
        }
        let halves = content.into_iter().flat_map(|byte| [byte % 16, byte / 16]);
        halves.take(self.runs.iter().map(length).sum()).collect()
    }

    /// Offsets of its units; nibbles are counted in nibbles.
    fn places(&self, memory: &Memory) -> Vec<Range<usize>> {
        let scale = if self.halves { 2 } else { 1 };
        let place = |run: &Range<u64>| {
            let from = memory.place(run.start / scale) * usize::try_from(scale).expect("2")
                + usize::from(self.halves && run.start % 2 == 1);
            from..from + length(run)
        };
        self.runs.iter().map(place).collect()
    }

    fn get(&self, memory: &Memory, place: usize) -> u8 {
        match (self.halves, place % 2) {
            (false, _) => memory.byte(place),
            (true, 0) => memory.byte(place / 2) % 16,
            (true, _) => memory.byte(place / 2) / 16,
        }
    }

    fn set(&self, memory: &mut Memory, place: usize, value: u8) {
        match (self.halves, place % 2) {
            (false, _) => memory.set_byte(place, value),
            (true, 0) => {
                let high = memory.byte(place / 2) / 16;
                memory.set_byte(place / 2, high * 16 + value);
            }
            (true, _) => {
                let low = memory.byte(place / 2) % 16;
                memory.set_byte(place / 2, value * 16 + low);
            }
        }
    }
}

/// Captured addresses of the bytes of a view, in the order of its packed content. Elements must have whole
/// bytes.
#[allow(dead_code, reason = "of one suite")]
pub fn runs(record: &Record) -> Vec<Range<u64>> {
    let view = View::of(record);
    assert!(!view.halves, "{record}: nibbles have no address");
    view.runs
}

fn length(run: &Range<u64>) -> usize {
    usize::try_from(run.end - run.start).expect("small")
}

/// A captured task with its records.
pub struct CapturedTask<'d> {
    dump: &'d Dump,
    task: TaskFacts,
    records: Vec<Record>,
    /// Computed once for all runs.
    laid_out: OnceCell<MemoryLayout>,
}

/// Memory of a task before and after it ran.
struct MemoryLayout {
    tensors: Vec<(Record, View)>,
    /// Before it ran.
    memory: Memory,
    /// Expected outputs: index of the tensor, offsets of its units, and their values.
    outputs: Vec<(usize, Vec<Range<usize>>, Vec<u8>)>,
}

impl MemoryLayout {
    fn of(dump: &Dump, records: &[Record]) -> MemoryLayout {
        let tensors = records.iter().filter(|r| r.kind == ArgumentKind::Tensor);
        let tensors: Vec<(Record, View)> = tensors.map(|r| (*r, View::of(r))).collect();
        let mut memory = Memory::new(tensors.iter().filter_map(|(_, view)| view.range).collect());
        let mut outputs = Vec::new();
        for (number, (record, view)) in tensors.iter().enumerate() {
            let content = view.split(dump.payload(record).expect("stored"));
            let places = view.places(&memory);
            assert_eq!(content.len(), places.iter().map(Range::len).sum::<usize>());
            if record.stage == DumpStage::BeforeDispatch {
                places
                    .into_iter()
                    .flatten()
                    .zip(content)
                    .for_each(|(place, value)| view.set(&mut memory, place, value));
            } else {
                outputs.push((number, places, content));
            }
        }
        MemoryLayout { tensors, memory, outputs }
    }
}

/// Every task of a dump.
pub fn tasks(dump: &Dump) -> Vec<CapturedTask<'_>> {
    let mut records: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    for record in dump.records().map(|r| r.expect("readable")) {
        records.entry(record.task_id).or_default().push(record);
    }
    let tasks = dump.tasks().expect("readable");
    let of = |task: &TaskFacts| records.get(&task.task_id).cloned().unwrap_or_default();
    tasks
        .iter()
        .map(|task| CapturedTask {
            dump,
            records: of(task.facts()),
            task: task.facts().clone(),
            laid_out: OnceCell::new(),
        })
        .collect()
}

impl CapturedTask<'_> {
    /// The task id.
    pub fn id(&self) -> u64 {
        self.task.task_id
    }

    /// Whether it runs a kernel.
    pub fn calls(&self, kernel: &KernelDef) -> bool {
        self.task.func_id.contains(&kernel.func_id)
    }

    /// Whether its outputs equal the captured ones; `None` if a kernel panicked.
    pub fn run(&self, scene: &dyn Scene, fault: Option<(u32, FaultKind)>) -> Option<bool> {
        let laid_out = self.laid_out.get_or_init(|| MemoryLayout::of(self.dump, &self.records));
        let mut memory = laid_out.memory.clone();
        self.call(scene, &laid_out.tensors, &mut memory, fault)?;
        let as_captured = |(number, places, expected): &(usize, Vec<Range<usize>>, Vec<u8>)| {
            let view = &laid_out.tensors[*number].1;
            places
                .iter()
                .cloned()
                .flatten()
                .zip(expected)
                .all(|(place, &value)| view.get(&memory, place) == value)
        };
        Some(laid_out.outputs.iter().all(as_captured))
    }

    fn call(
        &self,
        scene: &dyn Scene,
        tensors: &[(Record, View)],
        memory: &mut Memory,
        fault: Option<(u32, FaultKind)>,
    ) -> Option<()> {
        let count = usize::try_from(self.task.tensor_count).expect("small");
        let mut descs = vec![TensorDesc::default(); count];
        for (record, view) in tensors {
            descs[usize::from(record.arg_index)] = descriptor(record, view, memory);
        }
        let active: Vec<(u32, u32)> =
            (0..).zip(self.task.func_id).filter(|(_, id)| *id != NO_KERNEL).collect();
        let subtask_count = u32::try_from(active.len()).expect("three");
        for block_idx in 0..self.task.block_num {
            for &(subtask_id, func_id) in &active {
                let kernel = scene.kernels().iter().find(|k| k.func_id == func_id).expect("of the scene");
                let block = BlockContext { block_idx, block_num: self.task.block_num };
                let subtask = SubtaskContext { subtask_id, subtask_count };
                let mut args = [0; ARG_SLOTS];
                for (slot, desc) in descs.iter().enumerate() {
                    args[slot] = std::ptr::from_ref(desc).expose_provenance() as u64;
                }
                for record in self.records.iter().filter(|r| r.kind == ArgumentKind::Scalar) {
                    args[usize::from(record.arg_index)] = record.scalar_bits.expect("a scalar");
                }
                args[BLOCK_CONTEXT_SLOT] = std::ptr::from_ref(&block).expose_provenance() as u64;
                args[SUBTASK_CONTEXT_SLOT] = std::ptr::from_ref(&subtask).expose_provenance() as u64;
                let damage = fault.filter(|(damaged, _)| *damaged == func_id).map(|(_, kind)| kind);
                // SAFETY: descriptors and contexts are in this frame, and all views are in `memory`, which
                // only this function uses.
                unsafe { run_kernel(kernel.entry, args.as_mut_ptr(), damage) }.ok()?;
            }
        }
        Some(())
    }
}

fn descriptor(record: &Record, view: &View, memory: &mut Memory) -> TensorDesc {
    let mut desc = TensorDesc {
        dtype: record.dtype.tag(),
        ndims: u8::try_from(record.shape().len()).expect("at most 8"),
        ..TensorDesc::default()
    };
    desc.shape[..record.shape().len()].copy_from_slice(record.shape());
    let Some((lowest, end)) = view.range else { return desc };
    desc.strides[..record.strides().len()].copy_from_slice(record.strides());
    desc.buffer_addr = memory.here(lowest);
    desc.buffer_bytes = end - lowest;
    desc.start_offset = match record.dtype.bits() {
        4 => view.runs[0].start - 2 * lowest,
        bits => (view.runs[0].start - lowest) / u64::from(bits / 8),
    };
    desc
}
