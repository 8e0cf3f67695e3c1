//! One ring of the orchestrator: slots, heap, payloads and edges, and how far each task's part reaches.

use std::collections::VecDeque;
use std::sync::Arc;

use tensortap_abi::{DeviceRange, EdgeNode, KernelArgs, RING_COUNT, TaskSlot};
use tensortap_recorder::PageAdvice;
use tensortap_sync::retire::{RetireRing, SlotRing};

use super::advice::RingPosition;
use super::span::SpanRing;
use super::{EDGES_PER_SLOT, payload_ring_bytes};

/// One ring. Slots, heap, payloads and edges are allocated and released in order.
pub struct Ring {
    pub slots: SlotRing<Arc<RetireRing>>,
    pub heap: SpanRing,
    /// Payloads are adjacent, so that a task touches no more pages than its arguments fill.
    pub payloads: SpanRing,
    pub edges: SpanRing,
    /// For the task in each slot: where its parts of heap, payloads and edges end.
    pub ends: Vec<EndPositions>,
    pub reclaimed: u64,
    /// Guarded tensors: the heap position after the tensor, and its address.
    guarded: VecDeque<(u64, u64)>,
    ahead: RingAhead,
}

/// The next memory of a ring that will be used, for prefaulting.
struct RingAhead {
    slots: PageAdvice,
    heap: PageAdvice,
    payloads: PageAdvice,
    edges: PageAdvice,
}

impl RingAhead {
    fn new(args: &KernelArgs, ring: usize) -> RingAhead {
        let part = |all: DeviceRange| {
            let bytes = all.bytes / RING_COUNT as u64;
            PageAdvice::new(DeviceRange { addr: all.addr + ring as u64 * bytes, bytes })
        };
        RingAhead {
            slots: part(args.tasks),
            heap: part(args.heap),
            payloads: part(args.payloads),
            edges: part(args.edges),
        }
    }
}

/// End positions in heap, payloads and edges. An array of integers, so that a zeroed table costs no memory
/// until it is used.
pub type EndPositions = [u64; 3];

impl Ring {
    pub fn new(retire: Arc<RetireRing>, args: &KernelArgs, ring: usize) -> Ring {
        let (slots, heap_bytes) = (retire.slots(), args.heap.bytes / RING_COUNT as u64);
        Ring {
            slots: SlotRing::new(retire),
            heap: SpanRing::new(heap_bytes),
            payloads: SpanRing::new(payload_ring_bytes(slots)),
            edges: SpanRing::new(slots * EDGES_PER_SLOT),
            ends: vec![[0; 3]; usize::try_from(slots).expect("fits in memory")],
            reclaimed: 0,
            guarded: VecDeque::new(),
            ahead: RingAhead::new(args, ring),
        }
    }

    /// Memory that will be written soon for the first time.
    pub fn next_to_prefault(&mut self) -> impl Iterator<Item = DeviceRange> {
        let RingAhead { slots, heap, payloads, edges } = &mut self.ahead;
        [
            slots.used(self.slots.head() * size_of::<TaskSlot>() as u64),
            heap.used(self.heap.head()),
            payloads.used(self.payloads.head()),
            edges.used(self.edges.head() * size_of::<EdgeNode>() as u64),
        ]
        .into_iter()
        .flatten()
    }

    /// Releases the heap, payloads and edges of tasks that have retired since the last call.
    pub fn catch_up(&mut self) {
        let tail = self.slots.ring().tail();
        if tail > self.reclaimed {
            let [heap, payloads, edges] = self.ends[self.place(tail - 1)];
            self.heap.release_to(heap);
            self.payloads.release_to(payloads);
            self.edges.release_to(edges);
            self.reclaimed = tail;
        }
    }

    /// Records that the last heap allocation holds a guarded tensor.
    pub fn add_guarded(&mut self, addr: u64) {
        self.guarded.push_back((self.heap.head(), addr));
    }

    /// Removes and returns the guarded tensors whose memory was released.
    pub fn retired_tensors(&mut self) -> impl Iterator<Item = u64> {
        let tail = self.heap.tail();
        std::iter::from_fn(move || self.guarded.pop_front_if(|(end, _)| *end <= tail)).map(|(_, addr)| addr)
    }

    pub fn place(&self, local: u64) -> usize {
        usize::try_from(local % self.slots.ring().slots()).expect("fits in memory")
    }

    pub fn end_positions(&self) -> EndPositions {
        [self.heap.head(), self.payloads.head(), self.edges.head()]
    }

    pub fn position(&self) -> RingPosition {
        RingPosition { tasks: self.slots.head(), bytes: self.heap.head() }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn the_first_memory_of_each_kind_is_prefaulted_once() {
        let all = |addr, part: u64| DeviceRange { addr, bytes: part * RING_COUNT as u64 };
        let args = KernelArgs {
            tasks: all(1 << 30, 1 << 12),
            heap: all(2 << 30, 1 << 14),
            payloads: all(3 << 30, 1 << 13),
            edges: all(4 << 30, 1 << 11),
            ..KernelArgs::default()
        };
        for number in 0..RING_COUNT {
            let retire = Arc::new(RetireRing::new(NonZeroU32::new(4).unwrap()));
            let mut ring = Ring::new(retire, &args, number);
            let own = |all: DeviceRange| {
                let bytes = all.bytes / RING_COUNT as u64;
                DeviceRange { addr: all.addr + number as u64 * bytes, bytes }
            };
            let named: Vec<DeviceRange> = ring.next_to_prefault().collect();
            assert_eq!(named, [args.tasks, args.heap, args.payloads, args.edges].map(own));
            assert_eq!(ring.next_to_prefault().count(), 0);
        }
    }
}
