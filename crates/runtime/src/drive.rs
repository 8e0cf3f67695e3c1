//! One scheduler driven in the calling thread over a graph in memory without a device: for benchmarks that count
//! instructions, and for the scheduler's own tests.

use tensortap_abi::{
    ControlLayout, DeviceRange, EdgeCause, EdgeNode, NO_KERNEL, NO_SLOT, PayloadLayout, SLOTS_PER_TASK,
    TaskSlot,
};
use tensortap_platform::DeviceMemory;
use tensortap_sync::fanout;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::device::memory::{Control, CoreView, Dispatch, Table};
use crate::device::program::schedule;
use crate::device::run::{Crew, Run};
use crate::device::scheduler::HOOKS_COMPILED_IN;
use crate::{Cores, Finished, Scheduler, TaskHooks};

const BLOCKS: u32 = 2;
/// Chains that tasks are dealt out to in turn.
const CHAINS: u32 = 8;
/// Active slots of the tasks in turn: AIC, AIV and a mix of all.
const ACTIVE: [u8; 8] = [0b001, 0b010, 0b010, 0b001, 0b010, 0b111, 0b001, 0b010];

/// A built graph that waits for its scheduler.
pub struct DrivenGraph {
    run: Run<'static>,
}

impl DrivenGraph {
    /// Chains of small tasks. The same number of tasks always gives the same graph.
    pub fn new(tasks: u32) -> DrivenGraph {
        let shapes: Vec<_> = (0..tasks).map(|task| (ACTIVE[task as usize % ACTIVE.len()], 1)).collect();
        let edges: Vec<_> = (CHAINS..tasks).map(|task| (task - CHAINS, task)).collect();
        DrivenGraph { run: graph(&shapes, &edges, BLOCKS) }
    }

    /// Runs it as a launch without a dump does, and gives the tasks completed.
    #[inline(never)]
    pub fn run_without_dump(&self) -> u64 {
        schedule(&self.run, 0, BLOCKS, PromptCores::new(), None);
        self.run.completed()
    }

    /// Runs it with hooks that count, and gives their counts. Not generic over the hooks: a scheduler compiled in
    /// another crate is inlined differently, and its instructions cannot be compared.
    #[inline(never)]
    pub fn run_counting_hooks(&self) -> HookCounts {
        let mut counts = HookCounts::default();
        Scheduler::new(&self.run, 0, BLOCKS, PromptCores::new(), &mut counts).run();
        counts
    }
}

/// The cheapest hooks that do anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookCounts {
    /// Calls before a dispatch.
    pub before: u64,
    /// Calls after a completion.
    pub after: u64,
}

impl TaskHooks for HookCounts {
    fn before_dispatch(&mut self, _slot: u32) {
        self.before += 1;
    }
    fn before_post(&mut self, _dispatch: &Dispatch, _core_id: u32, _message: &CoreView<'_>) {}
    fn after_dispatch(&mut self, _slot: u32, _finished: impl FnOnce() -> Finished) {}
    fn after_completion(&mut self, _slot: u32) {
        self.after += 1;
    }
}

/// Whether this build calls hooks at all.
pub fn hooks_compiled_in() -> bool {
    HOOKS_COMPILED_IN
}

/// Cores that have finished when they are first asked, so that nothing spins or sleeps.
struct PromptCores {
    busy: [bool; BLOCKS as usize * SLOTS_PER_TASK],
}

impl PromptCores {
    fn new() -> PromptCores {
        PromptCores { busy: [false; BLOCKS as usize * SLOTS_PER_TASK] }
    }
}

impl Cores for PromptCores {
    fn post(
        &mut self,
        core: u32,
        _dispatch: &Dispatch,
        _payload_addr: u64,
        _layout: PayloadLayout,
        _written: impl FnOnce(u32, &CoreView<'_>),
    ) {
        self.busy[core as usize] = true;
    }

    fn poll_done(&mut self, core: u32) -> bool {
        std::mem::take(&mut self.busy[core as usize])
    }

    fn finished(&self, core: u32) -> Finished {
        Finished { core_id: core, ..Finished::default() }
    }
}

/// A sealed graph of tasks given as (active slots, blocks), and edges between them. Its memory is never freed.
pub(crate) fn graph(tasks: &[(u8, u32)], edges: &[(u32, u32)], blocks: u32) -> Run<'static> {
    graph_for(tasks, edges, Crew { blocks, schedulers: 1, spins: 0 })
}

/// The same for any number of schedulers.
pub(crate) fn graph_for(tasks: &[(u8, u32)], edges: &[(u32, u32)], crew: Crew) -> Run<'static> {
    let blocks = crew.blocks;
    let cores = blocks as usize * SLOTS_PER_TASK;
    let slots = table::<TaskSlot>(tasks.len());
    let edge_nodes = table::<EdgeNode>(edges.len());
    let (memory, range) = detached(ControlLayout { cores }.bytes());
    let control = Control::new(memory, range, cores).expect("a range of its own");
    let run = Run::new(slots, edge_nodes, control, None, None, crew);
    for (index, &(active, block_num)) in (0_u32..).zip(tasks) {
        run.slots.write(index, slot(index, active, block_num));
    }
    for (node, &(from, to)) in (0_u32..).zip(edges) {
        run.link(from, to, node, EdgeCause::Explicit.pack(0));
    }
    (0..slots.len()).for_each(|slot| run.publish(slot));
    run.seal(tasks.len() as u64);
    run
}

fn slot(index: u32, active: u8, block_num: u32) -> TaskSlot {
    let mut slot = TaskSlot::new_zeroed();
    (slot.task_id, slot.pending, slot.fanout) = (index.into(), 1, fanout::OPEN_EMPTY);
    (slot.active, slot.block_num, slot.remaining) = (active, block_num, active.count_ones() * block_num);
    slot.func_id = std::array::from_fn(|s| if active & 1 << s != 0 { 0 } else { NO_KERNEL });
    slot.owners = [NO_SLOT; 16];
    slot
}

fn table<T: FromBytes + IntoBytes>(entries: usize) -> Table<'static, T> {
    let (memory, range) = detached(entries * size_of::<T>());
    Table::new(memory, range).expect("a range of its own")
}

fn detached(bytes: usize) -> (&'static DeviceMemory, DeviceRange) {
    let memory: &'static DeviceMemory = Box::leak(Box::new(DeviceMemory::detached(bytes)));
    (memory, memory.range())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_of_a_driven_graph_completes_with_hooks_and_without() {
        assert_eq!(DrivenGraph::new(1000).run_without_dump(), 1000);
        assert_eq!(DrivenGraph::new(1000).run_counting_hooks(), HookCounts { before: 1000, after: 1000 });
    }
}
