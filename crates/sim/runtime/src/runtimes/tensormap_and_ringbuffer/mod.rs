//! The runtime `tensormap_and_ringbuffer`: a device thread builds the graph in rings of task slots and
//! memory, and derives dependencies from reads and writes.
//!
//! Scopes nest, and the depth of a scope selects the ring. A slot and its memory are held by the execution of
//! the task, by its scope, and by every task that uses the memory. When the last hold is released, the slot
//! retires, and the tail of the ring moves over retired slots in order. If a ring is full, the orchestrator
//! waits.

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

/// Edges of a ring per task slot.
const EDGES_PER_SLOT: u64 = 32;

/// Size of the payload area of a ring. It has room for the largest payload in every slot, plus the part at
/// the end of the ring that may be skipped. So a task that has a slot never waits for payload memory.
const fn payload_ring_bytes(slots: u64) -> u64 {
    (slots + 1) * PayloadLayout::MAX_BYTES as u64
}

/// The runtime of this module.
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
