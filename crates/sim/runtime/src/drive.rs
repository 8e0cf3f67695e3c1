//! Runs one scheduler in the calling thread over a graph in plain memory, without a device. For benchmarks
//! that count instructions, and for the scheduler's tests.

use tensortap_abi::{
    ControlLayout, DeviceRange, EdgeCause, EdgeNode, NO_KERNEL, NO_SLOT, PayloadLayout, SLOTS_PER_TASK,
    TaskSlot,
};
use tensortap_platform::DeviceMemory;
use tensortap_sync::fanout;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::device::memory::{Control, CoreView, Dispatch, Table};
use crate::device::program::schedule;
use crate::device::run::{Run, ThreadCounts};
use crate::device::scheduler::HOOKS_COMPILED_IN;
use crate::{Cores, FinishedDispatch, Scheduler, TaskHooks};

const BLOCKS: u32 = 2;
/// Number of chains. Tasks are assigned to them round-robin.
const CHAINS: u32 = 8;
/// Active slots of the tasks in turn: AIC, AIV, and a mix of all.
const ACTIVE: [u8; 8] = [0b001, 0b010, 0b010, 0b001, 0b010, 0b111, 0b001, 0b010];

/// A built graph that no scheduler has run yet.
pub struct DrivenGraph {
    run: Run<'static>,
}

impl DrivenGraph {
    /// Creates chains of small tasks. The same number of tasks always gives the same graph.
    pub fn new(tasks: u32) -> DrivenGraph {
        let shapes: Vec<_> = (0..tasks).map(|task| (ACTIVE[task as usize % ACTIVE.len()], 1)).collect();
        let edges: Vec<_> = (CHAINS..tasks).map(|task| (task - CHAINS, task)).collect();
        DrivenGraph { run: graph(&shapes, &edges, BLOCKS) }
    }

    /// Runs the graph like a launch without a dump, and returns the number of completed tasks.
    #[inline(never)]
    pub fn run_without_dump(&self) -> u64 {
        schedule(&self.run, 0, BLOCKS, PromptCores::new(), None);
        self.run.completed()
    }

    /// Runs the graph with counting hooks, and returns their counts. Not generic over the hooks: a scheduler
    /// that is compiled in another crate is inlined differently, and then the instruction counts cannot be
    /// compared.
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
    fn after_dispatch(&mut self, _slot: u32, _finished: impl FnOnce() -> FinishedDispatch) {}
    fn after_completion(&mut self, _slot: u32) {
        self.after += 1;
    }
}

/// Whether this build calls hooks.
pub fn hooks_compiled_in() -> bool {
    HOOKS_COMPILED_IN
}

/// Cores whose dispatches have finished at the first poll, so that nothing spins or sleeps.
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

    fn finished(&self, core: u32) -> FinishedDispatch {
        FinishedDispatch { core_id: core, ..FinishedDispatch::default() }
    }
}

/// Creates a sealed graph from tasks, given as (active slots, blocks), and edges. Its memory is never freed.
pub(crate) fn graph(tasks: &[(u8, u32)], edges: &[(u32, u32)], blocks: u32) -> Run<'static> {
    graph_for(tasks, edges, ThreadCounts { blocks, schedulers: 1, spins: 0 })
}

/// Like [`graph`], for any number of schedulers.
pub(crate) fn graph_for(tasks: &[(u8, u32)], edges: &[(u32, u32)], threads: ThreadCounts) -> Run<'static> {
    let blocks = threads.blocks;
    let cores = blocks as usize * SLOTS_PER_TASK;
    let slots = table::<TaskSlot>(tasks.len());
    let edge_nodes = table::<EdgeNode>(edges.len());
    let (memory, range) = detached(ControlLayout { cores }.bytes());
    let control = Control::new(memory, range, cores).expect("the range is large enough and aligned");
    let run = Run::new(slots, edge_nodes, control, None, None, threads);
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
    Table::new(memory, range).expect("the range is large enough and aligned")
}

fn detached(bytes: usize) -> (&'static DeviceMemory, DeviceRange) {
    let memory: &'static DeviceMemory = Box::leak(Box::new(DeviceMemory::detached(bytes)));
    (memory, memory.range())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tasks_complete_with_and_without_hooks() {
        assert_eq!(DrivenGraph::new(1000).run_without_dump(), 1000);
        assert_eq!(DrivenGraph::new(1000).run_counting_hooks(), HookCounts { before: 1000, after: 1000 });
    }
}
