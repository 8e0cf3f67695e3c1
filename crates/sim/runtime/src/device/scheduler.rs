//! The scheduler: takes ready tasks, dispatches them to idle cores, collects finished dispatches, and
//! releases successors.
//!
//! It is generic over where dispatches run ([`Cores`]) and over hooks ([`TaskHooks`]), and never touches the
//! bytes of a tensor. Each scheduler owns the cores of some blocks, so every mailbox has one producer. Tasks
//! are shared through ready queues. A task from a ready queue belongs to the scheduler that took it, until
//! that scheduler puts it back.

use std::time::Duration;

use tensortap_abi::{BlockContext, CoreType, PayloadLayout, SLOTS_PER_TASK, TaskState};
use tensortap_sync::{fanout, pending};

use super::memory::{CoreView, Dispatch, ThreadView};
use super::race::{Race, RaceStart};
use super::run::{Run, Shape};

/// The cores that run dispatches. Cores are numbered within the scheduler: `block * 3 + place`.
pub trait Cores {
    /// Hands a dispatch to an idle core. The payload holds its arguments. `written` is called after the
    /// core's message with the final `args[]` is complete, and before the core can see it. Its argument is
    /// the core's number within the device.
    fn post(
        &mut self,
        core: u32,
        dispatch: &Dispatch,
        payload_addr: u64,
        layout: PayloadLayout,
        written: impl FnOnce(u32, &CoreView<'_>),
    );

    /// Returns true exactly once per dispatch, when it has finished and its writes are visible.
    fn poll_done(&mut self, core: u32) -> bool;

    /// The dispatch that the core has just finished. Valid until the core gets the next one.
    fn finished(&self, core: u32) -> FinishedDispatch;
}

/// A finished dispatch, as measured by its core. Times are device times, or 0 if the launch does not measure
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FinishedDispatch {
    /// Number of the core within the device.
    pub core_id: u32,
    /// Subtask slot.
    pub subtask: u32,
    /// The block.
    pub block_idx: u32,
    /// When the kernel was called.
    pub started_ns: u64,
    /// When the kernel returned.
    pub returned_ns: u64,
}

/// Hooks that observe tasks. They run on the critical path.
pub trait TaskHooks {
    /// Called before any slot or block of the task is dispatched by any scheduler.
    fn before_dispatch(&mut self, slot: u32);

    /// Called when a core's message is complete, before the core can see it.
    fn before_post(&mut self, dispatch: &Dispatch, core_id: u32, message: &CoreView<'_>);

    /// Called after one dispatch of the task has finished, before the task can complete. `finished` returns
    /// what its core measured.
    fn after_dispatch(&mut self, slot: u32, finished: impl FnOnce() -> FinishedDispatch);

    /// Called after every dispatch of the task has finished and its writes are visible. Runs before the task
    /// counts as complete: before any successor is released, and before its slot or memory can be reused.
    fn after_completion(&mut self, slot: u32);
}

/// Whether schedulers call their hooks. `scripts/count-instructions` builds with this cfg to measure the cost
/// of a task without hooks. Such a build refuses to dump.
#[expect(unexpected_cfgs, reason = "only set by that script")]
pub(crate) const HOOKS_COMPILED_IN: bool = !cfg!(tensortap_without_hooks);

/// Hooks that do nothing and compile to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl TaskHooks for NoHooks {
    #[inline(always)]
    fn before_dispatch(&mut self, _slot: u32) {}
    #[inline(always)]
    fn before_post(&mut self, _dispatch: &Dispatch, _core_id: u32, _message: &CoreView<'_>) {}
    #[inline(always)]
    fn after_dispatch(&mut self, _slot: u32, _finished: impl FnOnce() -> FinishedDispatch) {}
    #[inline(always)]
    fn after_completion(&mut self, _slot: u32) {}
}

impl<H: TaskHooks> TaskHooks for &mut H {
    fn before_dispatch(&mut self, slot: u32) {
        (**self).before_dispatch(slot);
    }
    fn before_post(&mut self, dispatch: &Dispatch, core_id: u32, message: &CoreView<'_>) {
        (**self).before_post(dispatch, core_id, message);
    }
    fn after_dispatch(&mut self, slot: u32, finished: impl FnOnce() -> FinishedDispatch) {
        (**self).after_dispatch(slot, finished);
    }
    fn after_completion(&mut self, slot: u32) {
        (**self).after_completion(slot);
    }
}

/// Limit on the tasks that a scheduler takes from a queue at once.
const MAX_CLAIM: usize = 8;

/// The state of one scheduler thread.
pub struct Scheduler<'r, 'm, C, H> {
    run: &'r Run<'m>,
    index: u32,
    thread: ThreadView<'m>,
    cores: C,
    hooks: H,
    /// Idle cores by place in the block, with one bit per owned block.
    idle: [u64; SLOTS_PER_TASK],
    owned: u64,
    /// The task on each core.
    current: Vec<u32>,
    /// A task that this scheduler has made ready while it had an idle core for it. The task is dispatched
    /// here, where its data is in the cache, and no other scheduler is woken. `None` between two steps.
    kept: Option<(u32, Shape)>,
    /// Tasks taken from a queue at once, oldest last. Empty between two steps.
    claimed: Vec<u32>,
    /// Whether tasks are taken one at a time: there is only one scheduler, or an injected race must see each
    /// task.
    claims_one: bool,
    /// Number of blocks of the task that was taken last, as an estimate for the next one.
    blocks_each: u32,
    /// The core of each type that finished last. Its thread is awake and its caches are warm.
    warm: [u32; 2],
    completed: u64,
    dispatches: u64,
    idle_rounds: u64,
}

impl<'r, 'm, C: Cores, H: TaskHooks> Scheduler<'r, 'm, C, H> {
    /// Creates a scheduler for `blocks` idle blocks. `index` counts schedulers from 0.
    pub fn new(run: &'r Run<'m>, index: u32, blocks: u32, cores: C, hooks: H) -> Self {
        let owned = if blocks >= 64 { u64::MAX } else { (1 << blocks) - 1 };
        Scheduler {
            run,
            index,
            thread: run.control.thread(1 + index),
            cores,
            hooks,
            idle: [owned; SLOTS_PER_TASK],
            owned,
            current: vec![0; blocks as usize * SLOTS_PER_TASK],
            kept: None,
            claimed: Vec::with_capacity(MAX_CLAIM),
            claims_one: run.schedulers() == 1 || run.race.is_some(),
            blocks_each: 1,
            warm: [0, 1],
            completed: 0,
            dispatches: 0,
            idle_rounds: 0,
        }
    }

    /// Schedules until the run is over.
    pub fn run(&mut self) {
        let run = self.run;
        let parker = &run.scheduler_parkers[self.index as usize];
        while !self.is_over() {
            if run.race.as_ref().is_some_and(Race::is_waiting) {
                // There is no wake when a postponed task gets a successor, so poll.
                let _ =
                    parker.wait_timeout(Duration::from_millis(1), || self.finds_nothing() && !self.is_over());
            } else {
                parker.wait(|| self.finds_nothing() && !self.is_over());
            }
        }
        // The scheduler that completes the last task comes here first. The others may sleep.
        run.wake_all_for_end();
    }

    /// Runs one step and returns whether it found nothing. Counts such rounds for the monitor.
    fn finds_nothing(&mut self) -> bool {
        let nothing = !self.step();
        if nothing {
            self.idle_rounds += 1;
            // Release: if the monitor sees this count, the round started after everything that the monitor
            // had seen before.
            self.thread.idle_rounds().publish(self.idle_rounds);
        }
        nothing
    }

    fn is_over(&self) -> bool {
        self.run.stopped() || (self.all_idle() && self.run.is_complete())
    }

    fn all_idle(&self) -> bool {
        self.idle == [self.owned; SLOTS_PER_TASK]
    }

    /// Collects finished dispatches and dispatches ready tasks. Returns true if there were any.
    pub fn step(&mut self) -> bool {
        let collected = self.collect();
        let dispatched = self.dispatch();
        collected || dispatched
    }

    fn collect(&mut self) -> bool {
        let mut any = false;
        for place in 0..SLOTS_PER_TASK {
            let mut busy = self.owned & !self.idle[place];
            while busy != 0 {
                let block = busy.trailing_zeros();
                busy &= busy - 1;
                let core = core_number(block, place);
                if self.cores.poll_done(core) {
                    any = true;
                    self.idle[place] |= 1 << block;
                    self.warm[usize::from(place != 0)] = core;
                    let slot = self.current[core as usize];
                    if HOOKS_COMPILED_IN {
                        self.hooks.after_dispatch(slot, || self.cores.finished(core));
                    }
                    self.finish_dispatch(slot);
                }
            }
        }
        any
    }

    fn finish_dispatch(&mut self, slot: u32) {
        self.dispatches += 1;
        self.thread.dispatches().set(self.dispatches);
        // The scheduler that collects the last dispatch sees the writes of all dispatches.
        if pending::satisfy(self.run.slots.remaining(slot)) {
            self.complete(slot);
        }
    }

    fn complete(&mut self, slot: u32) {
        if HOOKS_COMPILED_IN {
            self.hooks.after_completion(slot);
        }
        self.run.slots.state(slot).set(TaskState::Complete as u32);
        match &self.run.race {
            Some(race) if race.finish_late(slot) => {}
            _ => self.release_successors(slot),
        }
        if let Some(late) = self.run.race.as_ref().and_then(|race| race.successor_done(slot)) {
            self.run.make_ready(late, None);
        }
        self.run.release_after_completion(slot);
        self.completed += 1;
        // Pairs with `Run::completed`: a thread that sees the count sees that the slot was released.
        self.thread.completed().publish(self.completed);
    }

    fn release_successors(&mut self, slot: u32) {
        let run = self.run;
        for node in fanout::close(run.slots.fanout(slot), &run.edges) {
            let successor = run.edges.consumer(node);
            if run.remove_hold(successor) && !self.try_keep(successor) {
                run.make_ready(successor, Some(self.index));
            }
        }
    }

    /// Keeps a ready task for this scheduler if it has an idle core. Not during an injected race, which must
    /// see every task.
    fn try_keep(&mut self, slot: u32) -> bool {
        let shape = Shape::of(self.run.slots.active(slot));
        let keeps = self.kept.is_none() && self.run.race.is_none() && self.find_block(shape).is_some();
        if keeps {
            self.kept = Some((slot, shape));
        }
        keeps
    }

    /// The next ready task of a shape. A kept task comes first.
    fn next_ready(&mut self, shape: Shape) -> Option<u32> {
        match self.kept {
            Some((slot, kept)) if kept == shape => {
                self.kept = None;
                Some(slot)
            }
            _ if self.claims_one => self.run.pop_ready(self.index, shape),
            _ => self.next_of_several(shape),
        }
    }

    /// Puts back tasks that were taken but not dispatched, because earlier tasks had more blocks than
    /// estimated.
    #[inline(never)]
    fn put_back(&mut self) {
        while let Some(slot) = self.claimed.pop() {
            self.run.make_ready(slot, Some(self.index));
        }
    }

    /// The next of the tasks that were taken at once. If none is left, takes as many as there are free
    /// blocks.
    #[inline(never)]
    fn next_of_several(&mut self, shape: Shape) -> Option<u32> {
        if self.claimed.is_empty() {
            let mut taken = [0; MAX_CLAIM];
            let wanted = (self.free_blocks(shape) / self.blocks_each) as usize;
            let count = self.run.take_ready(self.index, shape, &mut taken[..wanted.clamp(1, MAX_CLAIM)]);
            self.claimed.extend(taken[..count].iter().rev());
        }
        let slot = self.claimed.pop()?;
        self.blocks_each = self.run.slots.block_num(slot).max(1);
        Some(slot)
    }

    fn dispatch(&mut self) -> bool {
        let mut any = false;
        let shapes = self.run.ready_shapes() | self.kept.map_or(0, |(_, shape)| shape.bit());
        for shape in Shape::BY_SIZE {
            if shapes & shape.bit() == 0 {
                continue;
            }
            while let Some(room) = self.find_block(shape) {
                let Some(slot) = self.next_ready(shape) else { break };
                match self.begin(slot) {
                    BeginOutcome::Postponed => break,
                    BeginOutcome::ReleasedEarly => any = true,
                    BeginOutcome::Dispatch => {
                        any = true;
                        self.dispatch_blocks(slot, shape, room);
                    }
                }
            }
            if !self.claimed.is_empty() {
                self.put_back();
            }
        }
        if let Some((slot, _)) = self.kept.take() {
            // A larger task took the core.
            self.run.make_ready(slot, Some(self.index));
        }
        any
    }

    /// Starts a task. Runs once per task, before its first dispatch.
    fn begin(&mut self, slot: u32) -> BeginOutcome {
        let slots = &self.run.slots;
        if slots.next_block(slot).get() != 0 {
            return BeginOutcome::Dispatch;
        }
        if let Some(race) = &self.run.race {
            match race.start(self.run, slot) {
                RaceStart::Normal => {}
                RaceStart::Late => return BeginOutcome::Dispatch,
                RaceStart::NotYet => {
                    self.run.requeue(slot, Some(self.index));
                    return BeginOutcome::Postponed;
                }
                RaceStart::Early(successors) => {
                    self.before_dispatch(slot);
                    successors.into_iter().for_each(|s| self.run.satisfy(s, Some(self.index)));
                    return BeginOutcome::ReleasedEarly;
                }
            }
        }
        slots.state(slot).set(TaskState::Running as u32);
        self.before_dispatch(slot);
        BeginOutcome::Dispatch
    }

    #[inline(always)]
    fn before_dispatch(&mut self, slot: u32) {
        if HOOKS_COMPILED_IN {
            self.hooks.before_dispatch(slot);
        }
    }

    /// Dispatches as many blocks as there are free cores. The rest goes back to the queue, where other
    /// schedulers can take it.
    fn dispatch_blocks(&mut self, slot: u32, shape: Shape, first: FreeBlock) {
        let block_num = self.run.slots.block_num(slot);
        let mut block_idx = self.run.slots.next_block(slot).get();
        let mut room = Some(first);
        while block_idx < block_num {
            let Some(found) = room.take().or_else(|| self.find_block(shape)) else {
                // Only the owner of the task accesses this. The ready queue hands it over.
                self.run.slots.next_block(slot).set(block_idx);
                self.run.make_ready(slot, Some(self.index));
                return;
            };
            self.post(slot, found, BlockContext { block_idx, block_num });
            block_idx += 1;
        }
    }

    fn post(&mut self, slot: u32, room: FreeBlock, block: BlockContext) {
        let slots = &self.run.slots;
        let (active, func_ids) = (slots.active(slot), slots.func_id(slot));
        let layout = PayloadLayout {
            tensor_count: slots.tensor_count(slot).into(),
            scalar_count: slots.scalar_count(slot).into(),
        };
        let (task_id, payload_addr) = (slots.task_id(slot), slots.payload_addr(slot));
        for (subtask, func_id) in (0_u32..).zip(func_ids).filter(|(subtask, _)| active & 1 << subtask != 0) {
            let core = room.core(subtask);
            let place = core as usize % SLOTS_PER_TASK;
            self.idle[place] &= !(1 << room.block);
            self.current[core as usize] = slot;
            let subtask_count = active.count_ones();
            let dispatch = Dispatch { task_id, task_slot: slot, subtask, func_id, block, subtask_count };
            self.cores.post(core, &dispatch, payload_addr, layout, |core_id, message| {
                if HOOKS_COMPILED_IN {
                    self.hooks.before_post(&dispatch, core_id, message);
                }
            });
        }
    }

    /// An owned block whose cores for a shape are all idle.
    fn find_block(&self, shape: Shape) -> Option<FreeBlock> {
        match shape.single() {
            Some(core_type) => self.find_core(core_type),
            None => {
                let fits = self.whole_blocks(shape);
                (fits != 0).then(|| FreeBlock { block: fits.trailing_zeros(), place: None })
            }
        }
    }

    /// A mask of the owned blocks whose cores for a shape are all idle.
    fn whole_blocks(&self, shape: Shape) -> u64 {
        let of = |place: usize| if shape.needs(place) { self.idle[place] } else { u64::MAX };
        self.owned & of(0) & of(1) & of(2)
    }

    /// How many blocks of a task with this shape could be dispatched now.
    fn free_blocks(&self, shape: Shape) -> u32 {
        match shape.single() {
            Some(CoreType::Aic) => self.idle[0].count_ones(),
            Some(CoreType::Aiv) => self.idle[1].count_ones() + self.idle[2].count_ones(),
            None => self.whole_blocks(shape).count_ones(),
        }
    }

    fn find_core(&self, core_type: CoreType) -> Option<FreeBlock> {
        let warm = self.warm[usize::from(core_type == CoreType::Aiv)];
        let (warm_block, warm_place) = (warm / 3, warm as usize % SLOTS_PER_TASK);
        if self.idle[warm_place] & 1 << warm_block != 0 {
            return Some(FreeBlock { block: warm_block, place: Some(warm_place) });
        }
        let places = match core_type {
            CoreType::Aic => 0..1,
            CoreType::Aiv => 1..3,
        };
        places
            .filter(|&place| self.idle[place] != 0)
            .map(|place| FreeBlock { block: self.idle[place].trailing_zeros(), place: Some(place) })
            .next()
    }
}

enum BeginOutcome {
    /// Dispatch the blocks of the task now.
    Dispatch,
    /// The task went back into the queue.
    Postponed,
    /// An injected race released the successors of the task. The task itself runs later.
    ReleasedEarly,
}

/// Where a dispatch goes: a whole block for a mixed task, or one core of it.
#[derive(Clone, Copy)]
struct FreeBlock {
    block: u32,
    place: Option<usize>,
}

impl FreeBlock {
    fn core(self, subtask: u32) -> u32 {
        core_number(self.block, self.place.unwrap_or(subtask as usize))
    }
}

fn core_number(block: u32, place: usize) -> u32 {
    block * 3 + u32::try_from(place).expect("one of three")
}

#[cfg(test)]
mod tests;
