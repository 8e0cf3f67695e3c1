//! What a damaged kernel does to a captured task, found without a device and without the code under test: its
//! arguments are laid out byte by byte, and its kernels are called one after the other.

use std::collections::BTreeMap;

use tensortap::DumpStage;
use tensortap::abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, NO_KERNEL, SUBTASK_CONTEXT_SLOT, SubtaskContext, TensorDesc,
};
use tensortap::format::{ArgumentKind, Dump, Record, TaskFacts};
use tensortap::scene::{FaultKind, KernelDef, Scene, run_kernel};

/// Memory by captured address, in pieces that stay where they are.
struct Memory {
    /// Captured address of the first byte, and whole words.
    pieces: Vec<(u64, Vec<u64>)>,
}

impl Memory {
    /// Pieces over ranges of addresses; ranges within 64 bytes of one another are one piece.
    fn new(mut ranges: Vec<(u64, u64)>) -> Memory {
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in ranges {
            match joined.last_mut() {
                Some(last) if from <= last.1 + 64 => last.1 = last.1.max(to),
                _ => joined.push((from - from % 64, to)),
            }
        }
        let words = |from: u64, to: u64| usize::try_from((to - from).div_ceil(8)).expect("small");
        let piece = |(from, to)| (from, vec![0x5a5a_5a5a_5a5a_5a5a; words(from, to)]);
        Memory { pieces: joined.into_iter().map(piece).collect() }
    }

    fn piece(&mut self, address: u64) -> (usize, &mut Vec<u64>) {
        let place = self.pieces.iter().rposition(|(from, _)| *from <= address).expect("laid out");
        let (from, words) = &mut self.pieces[place];
        (usize::try_from(address - *from).expect("small"), words)
    }

    fn byte(&mut self, address: u64) -> u8 {
        let (at, words) = self.piece(address);
        words[at / 8].to_le_bytes()[at % 8]
    }

    fn set_byte(&mut self, address: u64, byte: u8) {
        let (at, words) = self.piece(address);
        let mut bytes = words[at / 8].to_le_bytes();
        bytes[at % 8] = byte;
        words[at / 8] = u64::from_le_bytes(bytes);
    }

    /// Where a captured address is now.
    fn here(&mut self, address: u64) -> u64 {
        let (at, words) = self.piece(address);
        words.as_mut_ptr().expose_provenance() as u64 + at as u64
    }
}

/// Where a view lies, in the order of its packed content: bytes, or halves of them where elements have 4 bits.
struct View {
    halves: bool,
    /// Captured addresses, of halves counted in halves.
    units: Vec<u64>,
}

impl View {
    fn of(record: &Record) -> View {
        let halves = record.dtype.bits() == 4;
        let (scale, width) = if halves { (2, 1) } else { (1, u64::from(record.dtype.bits() / 8)) };
        let mut units = Vec::new();
        for linear in 0..record.numel {
            let (mut rest, mut element) = (linear, i128::from(record.start_offset));
            for (&size, &stride) in record.shape().iter().zip(record.strides()).rev() {
                element += i128::from(rest % size) * i128::from(stride);
                rest /= size;
            }
            let element = u64::try_from(element).expect("inside its buffer");
            units.extend((0..width).map(|unit| record.address * scale + element * width + unit));
        }
        View { halves, units }
    }

    /// Addresses of the first byte it touches and of the one behind the last.
    fn range(&self) -> Option<(u64, u64)> {
        let scale = if self.halves { 2 } else { 1 };
        Some((self.units.iter().min()? / scale, self.units.iter().max()? / scale + 1))
    }

    /// Packed content in units: as it is, or one half of a byte each, the low one first.
    fn split(&self, content: Vec<u8>) -> Vec<u8> {
        if !self.halves {
            return content;
        }
        let halves = content.into_iter().flat_map(|byte| [byte % 16, byte / 16]);
        halves.take(self.units.len()).collect()
    }

    fn get(&self, memory: &mut Memory, unit: u64) -> u8 {
        match (self.halves, unit % 2) {
            (false, _) => memory.byte(unit),
            (true, 0) => memory.byte(unit / 2) % 16,
            (true, _) => memory.byte(unit / 2) / 16,
        }
    }

    fn set(&self, memory: &mut Memory, unit: u64, value: u8) {
        match (self.halves, unit % 2) {
            (false, _) => memory.set_byte(unit, value),
            (true, 0) => {
                let high = memory.byte(unit / 2) / 16;
                memory.set_byte(unit / 2, high * 16 + value);
            }
            (true, _) => {
                let low = memory.byte(unit / 2) % 16;
                memory.set_byte(unit / 2, value * 16 + low);
            }
        }
    }
}

/// Captured address of every byte of a view, in the order of its packed content. Elements have whole bytes.
#[allow(dead_code, reason = "of one suite")]
pub fn addresses(record: &Record) -> Vec<u64> {
    let view = View::of(record);
    assert!(!view.halves, "{record}: half bytes have no address");
    view.units
}

/// A captured task with its records.
pub struct Captured<'d> {
    dump: &'d Dump,
    task: TaskFacts,
    records: Vec<Record>,
}

/// Every task of a dump.
pub fn tasks(dump: &Dump) -> Vec<Captured<'_>> {
    let mut records: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    for record in dump.records().map(|r| r.expect("readable")) {
        records.entry(record.task_id).or_default().push(record);
    }
    let tasks = dump.tasks().expect("readable");
    let of = |task: &TaskFacts| records.get(&task.task_id).cloned().unwrap_or_default();
    tasks
        .iter()
        .map(|task| Captured { dump, records: of(task.facts()), task: task.facts().clone() })
        .collect()
}

impl Captured<'_> {
    /// Identity.
    pub fn id(&self) -> u64 {
        self.task.task_id
    }

    /// Whether a kernel is one of its own.
    pub fn calls(&self, kernel: &KernelDef) -> bool {
        self.task.func_id.contains(&kernel.func_id)
    }

    /// Whether its outputs are as captured; `None` when a kernel panicked.
    pub fn run(&self, scene: &dyn Scene, fault: Option<(u32, FaultKind)>) -> Option<bool> {
        let tensors: Vec<&Record> = self.records.iter().filter(|r| r.kind == ArgumentKind::Tensor).collect();
        let views: Vec<View> = tensors.iter().map(|r| View::of(r)).collect();
        let mut memory = Memory::new(views.iter().filter_map(View::range).collect());
        for (record, view) in tensors.iter().zip(&views).filter(|(r, _)| r.stage == DumpStage::BeforeDispatch)
        {
            let content = view.split(self.dump.payload(record).expect("stored"));
            assert_eq!(content.len(), view.units.len());
            view.units.iter().zip(content).for_each(|(&unit, value)| view.set(&mut memory, unit, value));
        }
        self.call(scene, &tensors, &views, &mut memory, fault)?;
        let outputs = tensors.iter().zip(&views).filter(|(r, _)| r.stage == DumpStage::AfterCompletion);
        let mut same = true;
        for (record, view) in outputs {
            let expected = view.split(self.dump.payload(record).expect("stored"));
            same &=
                view.units.iter().zip(expected).all(|(&unit, value)| view.get(&mut memory, unit) == value);
        }
        Some(same)
    }

    fn call(
        &self,
        scene: &dyn Scene,
        tensors: &[&Record],
        views: &[View],
        memory: &mut Memory,
        fault: Option<(u32, FaultKind)>,
    ) -> Option<()> {
        let count = usize::try_from(self.task.tensor_count).expect("small");
        let mut descs = vec![TensorDesc::default(); count];
        for (record, view) in tensors.iter().zip(views) {
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
                // SAFETY: descriptors and contexts live in this frame, every byte of every view in `memory`, which
                // nobody else touches.
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
    let Some((lowest, end)) = view.range() else { return desc };
    desc.strides[..record.strides().len()].copy_from_slice(record.strides());
    desc.buffer_addr = memory.here(lowest);
    desc.buffer_bytes = end - lowest;
    desc.start_offset = match record.dtype.bits() {
        4 => view.units[0] - 2 * lowest,
        bits => (view.units[0] - lowest) / u64::from(bits / 8),
    };
    desc
}
