//! Tests slots and memory step by step. The test decides when tasks complete.

use std::num::NonZeroU32;

use tensortap_abi::{
    ControlLayout, CoreType, DType, DeviceRange, EdgeNode, KernelArgs, SLOTS_PER_TASK, TaskSlot, TensorDesc,
};
use tensortap_platform::DeviceMemory;
use tensortap_scene::{Args, KernelBody, KernelDef, Orch, kernel_entry};

use super::*;
use crate::device::memory::{Control, Table};
use crate::device::reclaim::Rings;
use crate::device::run::ThreadCounts;

struct EmptyKernel;
impl KernelBody for EmptyKernel {
    fn run(_: &Args) {}
}

static KERNEL: KernelDef = KernelDef {
    func_id: 0,
    name: "nothing",
    core_type: CoreType::Aiv,
    signature: &[],
    entry: kernel_entry::<EmptyKernel>,
    reference: None,
    tolerance: None,
    faults: &[],
};

const SLOTS: u32 = 4;
const HEAP_BYTES: u64 = 1024;

fn rings() -> (&'static Run<'static>, RingBuilder<'static, 'static>) {
    let memory: &'static DeviceMemory = Box::leak(Box::new(DeviceMemory::detached(1 << 20)));
    let all = u64::from(SLOTS) * RING_COUNT as u64;
    let mut next = memory.base();
    let mut range = |bytes: u64| {
        let addr = next;
        next += bytes.next_multiple_of(64);
        DeviceRange { addr, bytes }
    };
    let args = KernelArgs {
        tasks: range(all * size_of::<TaskSlot>() as u64),
        edges: range(all * EDGES_PER_SLOT * size_of::<EdgeNode>() as u64),
        payloads: range(
            RING_COUNT as u64 * crate::runtimes::tensormap_and_ringbuffer::payload_ring_bytes(SLOTS.into()),
        ),
        heap: range(HEAP_BYTES * RING_COUNT as u64),
        control: range(ControlLayout { cores: SLOTS_PER_TASK }.bytes() as u64),
        ring_slots: SLOTS,
        ..KernelArgs::default()
    };
    let run = Box::leak(Box::new(Run::new(
        Table::new(memory, args.tasks).unwrap(),
        Table::new(memory, args.edges).unwrap(),
        Control::new(memory, args.control, SLOTS_PER_TASK).unwrap(),
        NonZeroU32::new(SLOTS).map(Rings::new),
        None,
        ThreadCounts { blocks: 1, schedulers: 1, spins: 0 },
    )));
    (run, RingBuilder::new(DeviceSetup { memory, args }, run, None).unwrap())
}

/// Completes a task like a scheduler, without counting it.
fn complete(run: &Run<'_>, task: TaskHandle) {
    for node in fanout::close(run.slots.fanout(task.slot), &run.edges) {
        run.satisfy(run.edges.consumer(node), None);
    }
    run.release_after_completion(task.slot);
}

fn tail(run: &Run<'_>, ring: usize) -> u64 {
    run.rings.as_ref().unwrap().ring(ring).tail()
}

#[test]
fn a_slot_is_held_while_its_scope_is_open() {
    let (run, mut builder) = rings();
    let mut orch = Orch::new(&mut builder, []).unwrap();
    let task = orch
        .scope("scope", |o| {
            let out = o.tensor(DType::Float32, &[8])?;
            let task = o.task(&KERNEL).output(&out).submit()?;
            complete(run, task);
            assert_eq!(tail(run, 1), 0, "the scope may still use it");
            Ok(task)
        })
        .unwrap();
    assert_eq!((task.id.ring(), tail(run, 1)), (1, 1));
}

#[test]
fn memory_is_held_by_a_later_task_that_uses_it() {
    let (run, mut builder) = rings();
    let mut orch = Orch::new(&mut builder, []).unwrap();
    let (first, second, reader) = orch
        .scope("scope", |o| {
            let both = o.tensor(DType::Float32, &[8])?;
            let (low, high) = (both.slice(0, 0, 4)?, both.slice(0, 4, 4)?);
            let first = o.task(&KERNEL).output(&low).submit()?;
            let second = o.task(&KERNEL).output(&high).submit()?;
            let reader = o.task(&KERNEL).input(&high).output(&low).submit()?;
            Ok((first, second, reader))
        })
        .unwrap();
    complete(run, first);
    complete(run, second);
    assert_eq!(tail(run, 1), 0, "the first task's slot owns the memory that the reader uses");
    complete(run, reader);
    assert_eq!(tail(run, 1), 3);
}

#[test]
fn a_tensor_of_an_outer_scope_outlives_the_inner_scope_that_first_wrote_it() {
    let (run, mut builder) = rings();
    let mut orch = Orch::new(&mut builder, []).unwrap();
    orch.scope("scope", |o| {
        let outer = o.tensor(DType::Float32, &[8])?;
        let writer = o.scope("scope", |o| o.task(&KERNEL).output(&outer).submit())?;
        assert_eq!(writer.id.ring(), 2);
        complete(run, writer);
        assert_eq!(tail(run, 2), 0, "the outer scope may still use it");
        let reader = o.task(&KERNEL).input(&outer).submit()?;
        complete(run, reader);
        Ok(())
    })
    .unwrap();
    assert_eq!((tail(run, 1), tail(run, 2)), (1, 1));
}

#[test]
fn memory_is_reused_once_it_is_free_and_not_before() {
    let (run, mut builder) = rings();
    let mut orch = Orch::new(&mut builder, []).unwrap();
    let (mut slots, mut payloads) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        orch.scope("scope", |o| {
            let out = o.tensor(DType::Float32, &[HEAP_BYTES / 4])?;
            let task = o.task(&KERNEL).output(&out).submit()?;
            complete(run, task);
            slots.push(task.slot);
            payloads.push(run.slots.payload_addr(task.slot));
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(tail(run, 1), 6, "six tasks used four slots and the memory of one tensor");
    assert_eq!(slots[0], slots[4]);
    let payload_bytes = size_of::<TensorDesc>() as u64;
    assert!(
        payloads.windows(2).all(|pair| pair[1] == pair[0] + payload_bytes),
        "the payloads are adjacent: {payloads:x?}"
    );
}

#[test]
fn a_task_larger_than_its_ring_is_refused_with_a_sufficient_size() {
    let (_, mut builder) = rings();
    let mut orch = Orch::new(&mut builder, []).unwrap();
    let out = orch.tensor(DType::Float32, &[HEAP_BYTES]).unwrap();
    let refused = orch.task(&KERNEL).output(&out).submit().unwrap_err();
    assert!(
        matches!(refused, GraphError::TaskLargerThanRing { needed: 4096, capacity: HEAP_BYTES, .. }),
        "{refused}"
    );
}
