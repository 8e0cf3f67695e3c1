//! The state that all threads of a run share.

use std::sync::OnceLock;
use std::time::Instant;

use tensortap_abi::{
    CoreType, DeviceRange, DeviceStatus, EdgeNode, FailureKind, NO_CORE, NO_KERNEL, NO_SLOT, TaskId,
    TaskSlot, TaskState,
};
use tensortap_sync::park::Parker;
use tensortap_sync::ready::ReadyQueue;
use tensortap_sync::{Flag, SharedU32, SharedU64, fanout, pending};

use super::guard::Guard;
use super::memory::{Control, Table};
use super::prefault::Prefaulter;
use super::race::Race;
use super::reclaim::Rings;

/// Value of `total` while the graph is being built.
const BUILDING: u64 = u64::MAX;

/// The cores of a block that a task needs: a mask of its subtask slots. A task on a single AIV may use either
/// of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape(u8);

impl Shape {
    const COUNT: usize = 8;
    const AIV0: u8 = 0b010;
    const AIV1: u8 = 0b100;
    /// All shapes: mixed ones first, largest first, then single cores. Schedulers look for work in this
    /// order, so that small tasks do not occupy part of a block that a mixed task needs.
    pub const BY_SIZE: [Shape; 6] =
        [Shape(0b111), Shape(0b011), Shape(0b101), Shape(0b110), Shape(0b001), Shape(0b010)];

    /// The shape of a task with these active slots.
    pub fn of(active: u8) -> Shape {
        Shape(if active == Shape::AIV1 { Shape::AIV0 } else { active & 0b111 })
    }

    /// The core type of a single-core shape, or `None` for a mixed one.
    pub fn single(self) -> Option<CoreType> {
        match self.0 {
            0b001 => Some(CoreType::Aic),
            Shape::AIV0 => Some(CoreType::Aiv),
            _ => None,
        }
    }

    /// The bit of this shape in a mask of shapes.
    pub fn bit(self) -> u32 {
        1 << self.0
    }

    /// Whether the shape needs the core at `place` of a block.
    pub fn needs(self, place: usize) -> bool {
        self.0 & 1 << place != 0
    }
}

/// Why a run ended early.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The task at fault, if known.
    pub task: Option<TaskId>,
    /// The kernel at fault, if known.
    pub func_id: Option<u32>,
    /// The core at fault, if known.
    pub core: Option<u32>,
    /// The faulting address, if known.
    pub address: Option<u64>,
    /// The message for the user.
    pub message: String,
}

impl Failure {
    /// A failure without a task at fault.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, task: None, func_id: None, core: None, address: None, message: message.into() }
    }
}

/// The state that all threads of a run share.
pub struct Run<'m> {
    /// The task slots.
    pub slots: Table<'m, TaskSlot>,
    /// The dependencies.
    pub edges: Table<'m, EdgeNode>,
    /// The control area, which the host can read.
    pub control: Control<'m>,
    /// Slot reuse, for runtimes with rings.
    pub rings: Option<Rings>,
    /// An injected race.
    pub race: Option<Race>,
    /// Where each scheduler sleeps.
    pub scheduler_parkers: Vec<Parker>,
    /// Where each core sleeps.
    pub core_parkers: Vec<Parker>,
    /// Where the orchestrator sleeps.
    pub orchestrator_parker: Parker,
    /// Where the monitor sleeps.
    pub monitor_parker: Parker,
    /// Prefaults memory that will be used soon. Optional.
    pub prefaulter: Option<Prefaulter>,
    /// Guards around tensors, if the launch has them.
    pub guard: Option<Guard<'m>>,
    /// The ready queues by shape, created with the first task of a shape because most graphs use few shapes.
    /// Each scheduler has its own queue with room for every slot. Threads that share a queue exchange its
    /// cache lines for every task, which would cost as much as all their other work. A scheduler takes from
    /// its own queue first, and from the queues of others if its own is empty.
    ready: [OnceLock<Queues>; Shape::COUNT],
    /// The shapes that have queues. The bit of a shape is set before the task is pushed, so a woken scheduler
    /// sees it.
    ready_shapes: SharedU32,
    total: SharedU64,
    stop: Flag,
    failure: OnceLock<FailureKind>,
    epoch: Instant,
}

/// The ready queues of one shape, one per scheduler. The first one is a separate field: most runs have one
/// scheduler, which should not pay for a list.
#[derive(Debug)]
struct Queues {
    first: ReadyQueue,
    others: Box<[ReadyQueue]>,
}

impl Queues {
    fn new(schedulers: u32, slots: u32) -> Queues {
        Queues {
            first: ReadyQueue::new(slots),
            others: (1..schedulers).map(|_| ReadyQueue::new(slots)).collect(),
        }
    }

    #[inline]
    fn of(&self, scheduler: u32) -> &ReadyQueue {
        match scheduler {
            0 => &self.first,
            other => &self.others[other as usize - 1],
        }
    }

    /// Takes from the queues of other schedulers. A separate function, so that a scheduler with tasks in its
    /// own queue does not pay for the loop.
    #[inline(never)]
    fn pop_other(&self, scheduler: u32) -> Option<u32> {
        self.own_first(scheduler).skip(1).find_map(ReadyQueue::pop)
    }

    /// The queue of a scheduler, then the queues of all others in order, starting after it.
    fn own_first(&self, scheduler: u32) -> impl Iterator<Item = &ReadyQueue> {
        let all = self.others.len() as u64 + 1;
        (0..all).map(move |by| {
            let at = (u64::from(scheduler) + by) % all;
            self.of(u32::try_from(at).expect("at most MAX_SCHEDULERS"))
        })
    }
}

/// Number of consecutive slots that go to the same scheduler, so that one thread touches adjacent memory.
const CONSECUTIVE_SLOTS: u32 = 16;

/// The number of threads of a run, and how they wait.
#[derive(Clone, Copy, Debug)]
pub struct ThreadCounts {
    /// Blocks.
    pub blocks: u32,
    /// Schedulers.
    pub schedulers: u32,
    /// Spins before yielding. Zero if there are more runnable threads than CPUs.
    pub spins: u32,
}

impl<'m> Run<'m> {
    /// Creates a run over task slots, edges and control area in device memory.
    pub fn new(
        slots: Table<'m, TaskSlot>,
        edges: Table<'m, EdgeNode>,
        control: Control<'m>,
        rings: Option<Rings>,
        race: Option<Race>,
        threads: ThreadCounts,
    ) -> Run<'m> {
        let parker = || Parker::new(threads.spins, tensortap_sync::park::YIELDS);
        let parkers = |count: u32| (0..count).map(|_| parker()).collect();
        Run {
            slots,
            edges,
            control,
            rings,
            race,
            scheduler_parkers: parkers(threads.schedulers),
            core_parkers: parkers(control.cores()),
            orchestrator_parker: parker(),
            monitor_parker: Parker::new(0, 0),
            prefaulter: None,
            guard: None,
            ready: [const { OnceLock::new() }; Shape::COUNT],
            ready_shapes: SharedU32::new(0),
            total: SharedU64::new(BUILDING),
            stop: Flag::new(),
            failure: OnceLock::new(),
            epoch: Instant::now(),
        }
    }

    /// Requests prefaulting of a range that will be written soon.
    pub fn prefault_soon(&self, range: DeviceRange) {
        if let Some(prefaulter) = &self.prefaulter {
            prefaulter.request(range);
        }
    }

    /// Takes a ready task of a shape, preferably from the scheduler's own queue.
    #[inline]
    pub fn pop_ready(&self, scheduler: u32, shape: Shape) -> Option<u32> {
        let queues = self.ready[usize::from(shape.0)].get()?;
        match queues.of(scheduler).pop() {
            None if !queues.others.is_empty() => queues.pop_other(scheduler),
            own => own,
        }
    }

    /// Takes several ready tasks of a shape and returns their number, at most the length of `tasks`. They
    /// come from one queue, preferably the scheduler's own. It takes at most its share, so that other
    /// schedulers find work too.
    pub fn take_ready(&self, scheduler: u32, shape: Shape, tasks: &mut [u32]) -> usize {
        let Some(queues) = self.ready[usize::from(shape.0)].get() else { return 0 };
        let take = |queue: &ReadyQueue| {
            let share = queue.len_hint().div_ceil(self.schedulers().into());
            let wanted = usize::try_from(share).map_or(tasks.len(), |share| share.clamp(1, tasks.len()));
            queue.pop_into(&mut tasks[..wanted])
        };
        queues.own_first(scheduler).map(take).find(|count| *count > 0).unwrap_or(0)
    }

    /// A mask of the shapes that have had ready tasks.
    pub fn ready_shapes(&self) -> u32 {
        self.ready_shapes.get()
    }

    /// Whether no ready task waits for a core. A hint: queues may change at the same time.
    pub fn ready_is_empty(&self) -> bool {
        self.ready
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|queues| queues.own_first(0))
            .all(ReadyQueue::is_empty_hint)
    }

    /// Queues a task whose predecessors are complete, and wakes sleeping schedulers except the caller.
    pub fn make_ready(&self, slot: u32, caller: Option<u32>) {
        self.requeue(slot, caller);
        self.wake_schedulers(caller);
    }

    /// Queues a ready task. It goes to the caller's queue. Without a caller, tasks are distributed over all
    /// queues in groups of [`CONSECUTIVE_SLOTS`].
    pub fn requeue(&self, slot: u32, caller: Option<u32>) {
        let shape = Shape::of(self.slots.active(slot));
        let queues = self.ready[usize::from(shape.0)].get_or_init(|| {
            // Runs once per shape, so adding the bit is the same as setting it.
            self.ready_shapes.add(shape.bit());
            Queues::new(self.schedulers(), self.slots.len().max(1))
        });
        let queue = match caller {
            Some(scheduler) => queues.of(scheduler),
            None => queues.of(slot / CONSECUTIVE_SLOTS % self.schedulers()),
        };
        // A queue has a cell for every slot, and a slot is queued at most once. So a push fails only while
        // another thread is still taking the previous task out of the same cell.
        while queue.push(slot).is_err() {
            std::thread::yield_now();
        }
    }

    /// Wakes every thread that may wait for the last task.
    pub fn wake_all_for_end(&self) {
        self.wake_schedulers(None);
        self.monitor_parker.wake();
    }

    fn wake_schedulers(&self, caller: Option<u32>) {
        for (index, parker) in (0_u32..).zip(&self.scheduler_parkers) {
            if Some(index) != caller {
                parker.wake();
            }
        }
    }

    /// Removes the publishing guard of a task. If no other hold remains, the task becomes ready.
    pub fn publish(&self, slot: u32) {
        self.slots.state(slot).set(TaskState::Published as u32);
        self.satisfy(slot, None);
    }

    /// Removes one hold of a waiting task. If it was the last one, the task becomes ready.
    pub fn satisfy(&self, slot: u32, caller: Option<u32>) {
        if self.remove_hold(slot) {
            self.make_ready(slot, caller);
        }
    }

    /// Removes one hold of a waiting task. Returns true if it was the last one. Then the caller must dispatch
    /// the task or [make it ready](Self::make_ready).
    pub fn remove_hold(&self, slot: u32) -> bool {
        pending::satisfy(self.slots.pending(slot))
    }

    /// Makes `consumer` wait for `producer`, unless `producer` is complete. `node` belongs to the consumer.
    pub fn link(&self, producer: u32, consumer: u32, node: u32, cause: u32) {
        self.edges.write(node, EdgeNode { next: fanout::OPEN_EMPTY, consumer, producer, cause });
        pending::arm(self.slots.pending(consumer));
        if fanout::push(self.slots.fanout(producer), &self.edges, node).is_err() {
            // The publishing guard is still held, so this is never the last hold.
            let _ = pending::satisfy(self.slots.pending(consumer));
        }
    }

    /// Releases one hold on a slot and its memory. The last release retires the slot.
    pub fn release(&self, slot: u32) {
        let Some(rings) = &self.rings else { return };
        // The last holder sees everything that others did with the memory.
        if pending::satisfy(self.slots.refs(slot)) && rings.retire(TaskId(self.slots.task_id(slot))) {
            self.orchestrator_parker.wake();
        }
    }

    /// Releases the slot of a completed task and every slot whose memory it used.
    pub fn release_after_completion(&self, slot: u32) {
        if self.rings.is_none() {
            return;
        }
        for owner in self.slots.owners(slot).into_iter().take_while(|&owner| owner != NO_SLOT) {
            self.release(owner);
        }
        self.release(slot);
    }

    /// Marks the graph as built, with this number of tasks.
    pub fn seal(&self, total: u64) {
        // Pairs with the load in `is_sealed`.
        self.total.publish(total);
        self.wake_all_for_end();
    }

    /// Whether the graph is built.
    pub fn is_sealed(&self) -> bool {
        self.total.see() != BUILDING
    }

    /// Whether every task of a built graph is complete.
    pub fn is_complete(&self) -> bool {
        let total = self.total.see();
        total != BUILDING && self.completed() == total
    }

    /// Tasks completed so far, summed over all schedulers.
    pub fn completed(&self) -> u64 {
        // Acquire: everything that a scheduler did before counting is visible.
        (1..=self.schedulers()).map(|t| self.control.thread(t).completed().see()).sum()
    }

    /// A sum that changes with every kind of progress.
    pub fn progress(&self) -> u64 {
        let threads = (0..=self.schedulers()).map(|t| self.control.thread(t));
        threads.map(|t| t.submitted().get() + t.dispatches().get()).fold(0, u64::wrapping_add)
    }

    /// Scheduler threads.
    pub fn schedulers(&self) -> u32 {
        u32::try_from(self.scheduler_parkers.len()).expect("at most MAX_SCHEDULERS")
    }

    /// Whether the run must end now.
    pub fn stopped(&self) -> bool {
        self.stop.is_raised()
    }

    /// Ends the run. Every thread leaves at its next check.
    pub fn stop(&self) {
        // Pairs with the load in `stopped`.
        self.stop.raise();
        self.wake_schedulers(None);
        self.core_parkers.iter().for_each(Parker::wake);
        self.orchestrator_parker.wake();
        self.monitor_parker.wake();
    }

    /// Stores why the run ends early, and stops it. Only the first failure counts.
    pub fn fail(&self, failure: &Failure) {
        let Failure { kind, task, func_id, core, address, message } = failure;
        if self.failure.set(*kind).is_ok() {
            let head = self.control.head();
            head.failure_task(0).set(task.map_or(u64::MAX, |t| t.0));
            head.failure_func_id(0).set(func_id.unwrap_or(NO_KERNEL));
            head.failure_core(0).set(core.unwrap_or(NO_CORE));
            head.failure_addr(0).set(address.unwrap_or(0));
            head.set_message(message);
            head.failure(0).publish(*kind as u32);
        }
        self.stop();
    }

    /// The first failure, if any.
    pub fn failure(&self) -> Option<FailureKind> {
        self.failure.get().copied()
    }

    /// Publishes the start of the run.
    pub fn mark_started(&self) {
        self.control.head().started_ns(0).set(self.now_ns());
        self.control.head().status(0).publish(DeviceStatus::Running as u32);
    }

    /// Publishes the end of the run.
    pub fn mark_ended(&self) {
        let status = if self.failure().is_some() { DeviceStatus::Failed } else { DeviceStatus::Complete };
        self.control.head().ended_ns(0).set(self.now_ns());
        self.control.head().status(0).publish(status as u32);
    }

    /// Device time: nanoseconds of a monotonic clock since the start of the run.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
