//! Graph built by a device thread in rings of task slots and memory, with dependencies derived from reads and writes.
//!
//! Scopes nest; the scope depth chooses the ring. A slot, and the memory its submission allocated, is held by the
//! task's execution, by its scope, and by every task that uses that memory; when the last hold goes, the slot retires
//! and the ring's tail moves over it in order. A full ring makes the orchestrator wait.

mod advice;
mod builder;
mod ring;
mod span;
mod tensor_map;

use std::num::NonZeroU32;

use tensortap_abi::{EdgeNode, KernelArgs, PayloadLayout, RING_COUNT, TaskSlot};
use tensortap_scene::GraphError;

use super::{DeviceBuilder, DeviceSetup, GraphObserver, Runtime};
use crate::device::reclaim::Rings;
use crate::device::run::Run;
use crate::host::{Plan, RunError};

/// Edges a ring has room for, per task slot.
const EDGES_PER_SLOT: u64 = 32;

/// Bytes of a ring's payloads: the largest one for every slot, and once more what is passed over at the ring's end. So a task
/// that has a slot never waits for room.
const fn payload_ring_bytes(slots: u64) -> u64 {
    (slots + 1) * PayloadLayout::MAX_BYTES as u64
}

/// The runtime; see the module.
pub struct TensormapAndRingbuffer;

impl Runtime for TensormapAndRingbuffer {
    fn name(&self) -> &'static str {
        "tensormap_and_ringbuffer"
    }

    fn about(&self) -> &'static str {
        "built by a device thread in rings of slots and memory; dependencies derived from reads and writes"
    }

    fn builds_on_device(&self) -> bool {
        true
    }

    fn prepare(&self, plan: &mut Plan<'_>) -> Result<(), RunError> {
        let (slots, heap_bytes) = (plan.ring_slots(), plan.ring_heap_bytes());
        let (rings, all) = (RING_COUNT as u64, RING_COUNT as u64 * u64::from(slots));
        plan.args.ring_slots = slots;
        plan.args.tasks = plan.reserve(all * size_of::<TaskSlot>() as u64, "the task rings")?;
        plan.args.payloads = plan.reserve(rings * payload_ring_bytes(slots.into()), "task payloads")?;
        plan.args.edges =
            plan.reserve(all * EDGES_PER_SLOT * size_of::<EdgeNode>() as u64, "the edge rings")?;
        plan.args.heap =
            plan.reserve_heap(rings * heap_bytes, "the heap rings (--ring-heap, four of them)")?;
        Ok(())
    }

    fn rings(&self, args: &KernelArgs) -> Option<Rings> {
        NonZeroU32::new(args.ring_slots).map(Rings::new)
    }

    fn builder<'r, 'm: 'r>(
        &self,
        setup: &DeviceSetup<'m>,
        run: &'r Run<'m>,
        observer: Option<Box<dyn GraphObserver + 'r>>,
    ) -> Result<Box<dyn DeviceBuilder + 'r>, GraphError> {
        Ok(Box::new(builder::RingBuilder::new(*setup, run, observer)?))
    }
}
