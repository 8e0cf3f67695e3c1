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

/// Captured address of every byte of a view, in the order of its packed content.
pub fn addresses(record: &Record) -> Vec<u64> {
    let width = u64::from(record.dtype.bits() / 8);
    assert!(width > 0, "no scene has 4-bit tensors yet");
    let mut all = Vec::new();
    for linear in 0..record.numel {
        let (mut rest, mut element) = (linear, i128::from(record.start_offset));
        for (&size, &stride) in record.shape().iter().zip(record.strides()).rev() {
            element += i128::from(rest % size) * i128::from(stride);
            rest /= size;
        }
        let element = u64::try_from(element).expect("inside its buffer");
        all.extend((0..width).map(|byte| record.address + element * width + byte));
    }
    all
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
        let views: Vec<Vec<u64>> = tensors.iter().map(|r| addresses(r)).collect();
        let range = |view: &Vec<u64>| Some((*view.iter().min()?, *view.iter().max()? + 1));
        let mut memory = Memory::new(views.iter().filter_map(range).collect());
        for (record, view) in tensors.iter().zip(&views).filter(|(r, _)| r.stage == DumpStage::BeforeDispatch)
        {
            let content = self.dump.payload(record).expect("stored");
            assert_eq!(content.len(), view.len());
            view.iter().zip(content).for_each(|(&address, byte)| memory.set_byte(address, byte));
        }
        self.call(scene, &tensors, &views, &mut memory, fault)?;
        let outputs = tensors.iter().zip(&views).filter(|(r, _)| r.stage == DumpStage::AfterCompletion);
        let mut same = true;
        for (record, view) in outputs {
            let expected = self.dump.payload(record).expect("stored");
            same &= view.iter().zip(expected).all(|(&address, byte)| memory.byte(address) == byte);
        }
        Some(same)
    }

    fn call(
        &self,
        scene: &dyn Scene,
        tensors: &[&Record],
        views: &[Vec<u64>],
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

fn descriptor(record: &Record, view: &[u64], memory: &mut Memory) -> TensorDesc {
    let Some(&lowest) = view.iter().min() else {
        let mut desc = TensorDesc { dtype: record.dtype.tag(), ..TensorDesc::default() };
        desc.ndims = u8::try_from(record.shape().len()).expect("at most 8");
        desc.shape[..record.shape().len()].copy_from_slice(record.shape());
        return desc;
    };
    let width = u64::from(record.dtype.bits() / 8);
    let highest = view.iter().max().expect("not empty") + 1;
    let mut desc = TensorDesc {
        buffer_addr: memory.here(lowest),
        buffer_bytes: highest - lowest,
        start_offset: (view[0] - lowest) / width,
        dtype: record.dtype.tag(),
        ndims: u8::try_from(record.shape().len()).expect("at most 8"),
        ..TensorDesc::default()
    };
    desc.shape[..record.shape().len()].copy_from_slice(record.shape());
    desc.strides[..record.strides().len()].copy_from_slice(record.strides());
    desc
}
