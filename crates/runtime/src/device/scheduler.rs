//! The scheduler: finds ready tasks, dispatches them to idle cores, observes completion, releases successors.
//!
//! It is generic over where dispatches run ([`Cores`]) and over who watches ([`TaskHooks`]); it never touches the
//! bytes of a tensor. Each scheduler owns the cores of some blocks, so its mailboxes have one producer each; tasks
//! are shared through the ready queues, and a task taken from there belongs to its taker until it is put back.

use std::time::Duration;

use tensortap_abi::{BlockContext, CoreType, PayloadLayout, SLOTS_PER_TASK, TaskState};
use tensortap_sync::{fanout, pending};

use super::memory::{CoreView, Dispatch, ThreadView};
use super::race::{Race, Start};
use super::run::{Run, Shape};

/// Where dispatches run. Cores are numbered within the scheduler: `block * 3 + place`.
pub trait Cores {
    /// Hands a dispatch to an idle core; the payload holds its arguments. `written` is called once the core's message,
    /// with the final `args[]`, is complete and before the core may look at it, with the core's number in the device.
    fn post(
        &mut self,
        core: u32,
        dispatch: &Dispatch,
        payload_addr: u64,
        layout: PayloadLayout,
        written: impl FnOnce(u32, &CoreView<'_>),
    );

    /// True exactly once per dispatch, when it is finished and its writes are visible.
    fn poll_done(&mut self, core: u32) -> bool;

    /// What a core says of the dispatch that it has just finished, until it is handed another.
    fn finished(&self, core: u32) -> Finished;
}

/// One dispatch that has finished, as its core knows it. Times are device times, 0 where the launch asked for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Number of the core in the device.
    pub core_id: u32,
    /// Subtask slot.
    pub subtask: u32,
    /// Block.
    pub block_idx: u32,
    /// When its kernel was called.
    pub started_ns: u64,
    /// When it returned.
    pub returned_ns: u64,
}

/// Who watches tasks come and go. The calls are on the critical path.
pub trait TaskHooks {
    /// Before any slot or block of the task is dispatched by any scheduler.
    fn before_dispatch(&mut self, slot: u32);

    /// Before a core may look at its message, which is complete.
    fn before_post(&mut self, dispatch: &Dispatch, core_id: u32, message: &CoreView<'_>);

    /// After one dispatch of the task has finished, and before the task can complete. `finished` says what its core knows.
    fn after_dispatch(&mut self, slot: u32, finished: impl FnOnce() -> Finished);

    /// After every dispatch of the task has finished and its writes are visible, and before it counts as complete:
    /// before any successor is released and before its slot or memory can be reused.
    fn after_completion(&mut self, slot: u32);
}

/// Whether schedulers call their hooks. `scripts/count-instructions` builds with this cfg to see what a task costs
/// without them; such a build refuses to dump.
#[expect(unexpected_cfgs, reason = "given by that script only")]
pub(crate) const HOOKS_COMPILED_IN: bool = !cfg!(tensortap_without_hooks);

/// Nobody watches; compiles to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl TaskHooks for NoHooks {
    #[inline(always)]
    fn before_dispatch(&mut self, _slot: u32) {}
    #[inline(always)]
    fn before_post(&mut self, _dispatch: &Dispatch, _core_id: u32, _message: &CoreView<'_>) {}
    #[inline(always)]
    fn after_dispatch(&mut self, _slot: u32, _finished: impl FnOnce() -> Finished) {}
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
    fn after_dispatch(&mut self, slot: u32, finished: impl FnOnce() -> Finished) {
        (**self).after_dispatch(slot, finished);
    }
    fn after_completion(&mut self, slot: u32) {
        (**self).after_completion(slot);
    }
}

/// Tasks that a scheduler takes in one claim at most.
const TAKEN_AT_ONCE: usize = 8;

/// One scheduler thread's state.
pub struct Scheduler<'r, 'm, C, H> {
    run: &'r Run<'m>,
    index: u32,
    thread: ThreadView<'m>,
    cores: C,
    hooks: H,
    /// Idle cores by place in the block, a bit per owned block.
    idle: [u64; SLOTS_PER_TASK],
    owned: u64,
    /// Task on each core.
    current: Vec<u32>,
    /// A task that this scheduler has made ready, and for which it had a core then: it is dispatched here, where its data is,
    /// and no other scheduler is woken for it. Empty between two steps.
    kept: Option<(u32, Shape)>,
    /// Tasks that were taken in one claim, the oldest last. Empty between two steps.
    taken: Vec<u32>,
    /// Whether tasks are taken one by one: nobody else takes any, or an injected race wants to see each.
    takes_one: bool,
    /// Blocks of the task that was taken last, as a guess of how many cores the next one wants.
    blocks_each: u32,
    /// The core of each type that finished last: its thread is awake and its caches are warm.
    warm: [u32; 2],
    completed: u64,
    dispatches: u64,
    idle_rounds: u64,
}

impl<'r, 'm, C: Cores, H: TaskHooks> Scheduler<'r, 'm, C, H> {
    /// A scheduler over `blocks` blocks, all idle. `index` counts schedulers from 0.
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
            taken: Vec::with_capacity(TAKEN_AT_ONCE),
            takes_one: run.schedulers() == 1 || run.race.is_some(),
            blocks_each: 1,
            warm: [0, 1],
            completed: 0,
            dispatches: 0,
            idle_rounds: 0,
        }
    }

    /// Works until the run is over.
    pub fn run(&mut self) {
        let run = self.run;
        let parker = &run.scheduler_parkers[self.index as usize];
        while !self.is_over() {
            if run.race.as_ref().is_some_and(Race::is_waiting) {
                // Nobody wakes a scheduler when a postponed task gets its successor.
                let _ =
                    parker.wait_timeout(Duration::from_millis(1), || self.finds_nothing() && !self.is_over());
            } else {
                parker.wait(|| self.finds_nothing() && !self.is_over());
            }
        }
        // Who completes the last task sees that all are complete, and is the first to come here: others may sleep.
        run.wake_all_for_end();
    }

    /// Whether a step found nothing to do; counts those, for a watcher that must know that it looked.
    fn finds_nothing(&mut self) -> bool {
        let nothing = !self.step();
        if nothing {
            self.idle_rounds += 1;
            // Pairs with the watcher: what it saw before it saw this count was there when the round began or later.
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

    /// Collects what has finished and dispatches what is ready; true if there was anything.
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
        // The scheduler that sees the last dispatch finish sees the writes of all of them.
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
        // Pairs with `Run::completed`: whoever sees the count sees that the slot was released.
        self.thread.completed().publish(self.completed);
    }

    fn release_successors(&mut self, slot: u32) {
        let run = self.run;
        for node in fanout::close(run.slots.fanout(slot), &run.edges) {
            let successor = run.edges.consumer(node);
            if run.takes_last_hold(successor) && !self.keeps(successor) {
                run.make_ready(successor, Some(self.index));
            }
        }
    }

    /// Whether a task that is ready is kept to be dispatched by this scheduler. An injected race wants to see every one.
    fn keeps(&mut self, slot: u32) -> bool {
        let shape = Shape::of(self.run.slots.active(slot));
        let keeps = self.kept.is_none() && self.run.race.is_none() && self.find_block(shape).is_some();
        if keeps {
            self.kept = Some((slot, shape));
        }
        keeps
    }

    /// The next ready task of a shape: what was kept goes first.
    fn next_ready(&mut self, shape: Shape) -> Option<u32> {
        match self.kept {
            Some((slot, kept)) if kept == shape => {
                self.kept = None;
                Some(slot)
            }
            _ if self.takes_one => self.run.pop_ready(self.index, shape),
            _ => self.next_of_several(shape),
        }
    }

    /// Puts back what was taken and not dispatched: tasks before it had more blocks than was thought.
    #[inline(never)]
    fn put_back(&mut self) {
        while let Some(slot) = self.taken.pop() {
            self.run.make_ready(slot, Some(self.index));
        }
    }

    /// The next of the tasks that were taken in one claim; after the last, takes as many as there is room for.
    #[inline(never)]
    fn next_of_several(&mut self, shape: Shape) -> Option<u32> {
        if self.taken.is_empty() {
            let mut taken = [0; TAKEN_AT_ONCE];
            let wanted = (self.room(shape) / self.blocks_each) as usize;
            let count = self.run.take_ready(self.index, shape, &mut taken[..wanted.clamp(1, TAKEN_AT_ONCE)]);
            self.taken.extend(taken[..count].iter().rev());
        }
        let slot = self.taken.pop()?;
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
                    Begun::Postponed => break,
                    Begun::Elsewhere => any = true,
                    Begun::Here => {
                        any = true;
                        self.dispatch_blocks(slot, shape, room);
                    }
                }
            }
            if !self.taken.is_empty() {
                self.put_back();
            }
        }
        if let Some((slot, _)) = self.kept.take() {
            // A larger task has taken its core.
            self.run.make_ready(slot, Some(self.index));
        }
        any
    }

    /// What happens once per task, before its first dispatch.
    fn begin(&mut self, slot: u32) -> Begun {
        let slots = &self.run.slots;
        if slots.next_block(slot).get() != 0 {
            return Begun::Here;
        }
        if let Some(race) = &self.run.race {
            match race.start(self.run, slot) {
                Start::Normal => {}
                Start::Late => return Begun::Here,
                Start::NotYet => {
                    self.run.requeue(slot, Some(self.index));
                    return Begun::Postponed;
                }
                Start::Early(successors) => {
                    self.before_dispatch(slot);
                    successors.into_iter().for_each(|s| self.run.satisfy(s, Some(self.index)));
                    return Begun::Elsewhere;
                }
            }
        }
        slots.state(slot).set(TaskState::Running as u32);
        self.before_dispatch(slot);
        Begun::Here
    }

    #[inline(always)]
    fn before_dispatch(&mut self, slot: u32) {
        if HOOKS_COMPILED_IN {
            self.hooks.before_dispatch(slot);
        }
    }

    /// Dispatches as many blocks as there is room for; what is left goes back for others to share.
    fn dispatch_blocks(&mut self, slot: u32, shape: Shape, first: Room) {
        let block_num = self.run.slots.block_num(slot);
        let mut block_idx = self.run.slots.next_block(slot).get();
        let mut room = Some(first);
        while block_idx < block_num {
            let Some(found) = room.take().or_else(|| self.find_block(shape)) else {
                // Only the taker of a task touches this; the ready queue hands it over.
                self.run.slots.next_block(slot).set(block_idx);
                self.run.make_ready(slot, Some(self.index));
                return;
            };
            self.post(slot, found, BlockContext { block_idx, block_num });
            block_idx += 1;
        }
    }

    fn post(&mut self, slot: u32, room: Room, block: BlockContext) {
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

    /// An owned block where all cores that a shape needs are idle.
    fn find_block(&self, shape: Shape) -> Option<Room> {
        match shape.single() {
            Some(core_type) => self.find_core(core_type),
            None => {
                let fits = self.whole_blocks(shape);
                (fits != 0).then(|| Room { block: fits.trailing_zeros(), place: None })
            }
        }
    }

    /// Owned blocks where all cores that a shape needs are idle, a bit each.
    fn whole_blocks(&self, shape: Shape) -> u64 {
        let of = |place: usize| if shape.needs(place) { self.idle[place] } else { u64::MAX };
        self.owned & of(0) & of(1) & of(2)
    }

    /// How many blocks of tasks of a shape could be dispatched now.
    fn room(&self, shape: Shape) -> u32 {
        match shape.single() {
            Some(CoreType::Aic) => self.idle[0].count_ones(),
            Some(CoreType::Aiv) => self.idle[1].count_ones() + self.idle[2].count_ones(),
            None => self.whole_blocks(shape).count_ones(),
        }
    }

    fn find_core(&self, core_type: CoreType) -> Option<Room> {
        let warm = self.warm[usize::from(core_type == CoreType::Aiv)];
        let (warm_block, warm_place) = (warm / 3, warm as usize % SLOTS_PER_TASK);
        if self.idle[warm_place] & 1 << warm_block != 0 {
            return Some(Room { block: warm_block, place: Some(warm_place) });
        }
        let places = match core_type {
            CoreType::Aic => 0..1,
            CoreType::Aiv => 1..3,
        };
        places
            .filter(|&place| self.idle[place] != 0)
            .map(|place| Room { block: self.idle[place].trailing_zeros(), place: Some(place) })
            .next()
    }
}

enum Begun {
    Here,
    Postponed,
    Elsewhere,
}

/// Where a task goes: the whole block for a mix task, one place in it for a single one.
#[derive(Clone, Copy)]
struct Room {
    block: u32,
    place: Option<usize>,
}

impl Room {
    fn core(self, subtask: u32) -> u32 {
        core_number(self.block, self.place.unwrap_or(subtask as usize))
    }
}

fn core_number(block: u32, place: usize) -> u32 {
    block * 3 + u32::try_from(place).expect("one of three")
}

#[cfg(test)]
mod tests;
