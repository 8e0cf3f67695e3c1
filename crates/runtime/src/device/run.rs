//! What the threads of one run share.

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
use super::pages::Pages;
use super::race::Race;
use super::reclaim::Rings;

/// Total of a graph that is still being built.
const BUILDING: u64 = u64::MAX;

/// Which cores of a block a ready task needs: a mask of its subtask slots, the two AIV being one when alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape(u8);

impl Shape {
    const COUNT: usize = 8;
    const AIV0: u8 = 0b010;
    const AIV1: u8 = 0b100;
    /// The mix shapes, largest first, then the single ones: the order in which schedulers look for work, so that
    /// small tasks do not take apart a block that a mix task could have.
    pub const BY_SIZE: [Shape; 6] =
        [Shape(0b111), Shape(0b011), Shape(0b101), Shape(0b110), Shape(0b001), Shape(0b010)];

    /// The shape of a task's active slots.
    pub fn of(active: u8) -> Shape {
        Shape(if active == Shape::AIV1 { Shape::AIV0 } else { active & 0b111 })
    }

    /// The single core type it needs, `None` for a mix task.
    pub fn single(self) -> Option<CoreType> {
        match self.0 {
            0b001 => Some(CoreType::Aic),
            Shape::AIV0 => Some(CoreType::Aiv),
            _ => None,
        }
    }

    /// Its place in a mask of shapes.
    pub fn bit(self) -> u32 {
        1 << self.0
    }

    /// Whether it needs the core behind a place of a block.
    pub fn needs(self, place: usize) -> bool {
        self.0 & 1 << place != 0
    }
}

/// Why a run ended early.
#[derive(Debug, Clone)]
pub struct Failure {
    /// What kind.
    pub kind: FailureKind,
    /// Task at fault, if one is.
    pub task: Option<TaskId>,
    /// Kernel at fault, if one is.
    pub func_id: Option<u32>,
    /// Core at fault, if one is.
    pub core: Option<u32>,
    /// Address at fault, if one is.
    pub address: Option<u64>,
    /// In words.
    pub message: String,
}

impl Failure {
    /// A failure that no task can be blamed for.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, task: None, func_id: None, core: None, address: None, message: message.into() }
    }
}

/// What the threads of one run share.
pub struct Run<'m> {
    /// Task storage.
    pub slots: Table<'m, TaskSlot>,
    /// Dependencies.
    pub edges: Table<'m, EdgeNode>,
    /// What the host can see.
    pub control: Control<'m>,
    /// Slot reuse, where there are rings.
    pub rings: Option<Rings>,
    /// An injected race, for tests and tutorials.
    pub race: Option<Race>,
    /// Where each scheduler sleeps.
    pub scheduler_parkers: Vec<Parker>,
    /// Where each core sleeps.
    pub core_parkers: Vec<Parker>,
    /// Where the orchestrator sleeps.
    pub orchestrator_parker: Parker,
    /// Where the monitor sleeps.
    pub monitor_parker: Parker,
    /// Who makes memory present that is about to be used; there need be nobody.
    pub pages: Option<Pages>,
    /// What keeps kernels in their tensors, when something does.
    pub guard: Option<Guard<'m>>,
    /// By shape, each made with its first task: most graphs have tasks of few shapes. A queue for each scheduler, with a cell for
    /// every slot: threads that take from one queue hand one another its cache lines for every task, which takes as long as all
    /// else they do. A scheduler takes from its own first, and from those of others rather than nothing.
    ready: [OnceLock<Queues>; Shape::COUNT],
    /// The shapes that have a queue, or are about to. Whoever is woken for a task sees the bit of its shape: it is set before the
    /// task is pushed.
    ready_shapes: SharedU32,
    total: SharedU64,
    stop: Flag,
    failure: OnceLock<FailureKind>,
    epoch: Instant,
}

/// The ready queues of a shape, one for each scheduler. The first stands apart: most runs have one scheduler, which should not pay for
/// a list.
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

    /// Takes from the queues of other schedulers, after nothing was found in the own one. Apart, so that who finds a task in its own queue does
    /// not pay for the loop.
    #[inline(never)]
    fn pop_other(&self, scheduler: u32) -> Option<u32> {
        self.own_first(scheduler).skip(1).find_map(ReadyQueue::pop)
    }

    /// A scheduler's own queue, then those of the schedulers behind it, and of those before.
    fn own_first(&self, scheduler: u32) -> impl Iterator<Item = &ReadyQueue> {
        let all = self.others.len() as u64 + 1;
        (0..all).map(move |by| {
            let at = (u64::from(scheduler) + by) % all;
            self.of(u32::try_from(at).expect("at most MAX_SCHEDULERS"))
        })
    }
}

/// Slots that follow one another and go to one scheduler: what lies side by side in memory is then touched by one thread.
const NEIGHBOURS: u32 = 16;

/// How many threads of each kind a run has, and how they wait.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// Blocks.
    pub blocks: u32,
    /// Schedulers.
    pub schedulers: u32,
    /// Spins before yielding; zero when there are more runnable threads than CPUs.
    pub spins: u32,
}

impl<'m> Run<'m> {
    /// A run over task storage, edges and control area in device memory.
    pub fn new(
        slots: Table<'m, TaskSlot>,
        edges: Table<'m, EdgeNode>,
        control: Control<'m>,
        rings: Option<Rings>,
        race: Option<Race>,
        crew: Crew,
    ) -> Run<'m> {
        let parker = || Parker::new(crew.spins, tensortap_sync::park::YIELDS);
        let parkers = |count: u32| (0..count).map(|_| parker()).collect();
        Run {
            slots,
            edges,
            control,
            rings,
            race,
            scheduler_parkers: parkers(crew.schedulers),
            core_parkers: parkers(control.cores()),
            orchestrator_parker: parker(),
            monitor_parker: Parker::new(0, 0),
            pages: None,
            guard: None,
            ready: [const { OnceLock::new() }; Shape::COUNT],
            ready_shapes: SharedU32::new(0),
            total: SharedU64::new(BUILDING),
            stop: Flag::new(),
            failure: OnceLock::new(),
            epoch: Instant::now(),
        }
    }

    /// Says that a range of device memory will be written soon.
    pub fn soon(&self, range: DeviceRange) {
        if let Some(pages) = &self.pages {
            pages.soon(range);
        }
    }

    /// Takes a task of a shape that is ready, if there is one: a scheduler's own first.
    #[inline]
    pub fn pop_ready(&self, scheduler: u32, shape: Shape) -> Option<u32> {
        let queues = self.ready[usize::from(shape.0)].get()?;
        match queues.of(scheduler).pop() {
            None if !queues.others.is_empty() => queues.pop_other(scheduler),
            own => own,
        }
    }

    /// Takes tasks of a shape that are ready, at most as `room` has places for; how many. They are of one queue, a scheduler's
    /// own first, and no more of them than its share if all took from it.
    pub fn take_ready(&self, scheduler: u32, shape: Shape, room: &mut [u32]) -> usize {
        let Some(queues) = self.ready[usize::from(shape.0)].get() else { return 0 };
        let take = |queue: &ReadyQueue| {
            let share = queue.len_hint().div_ceil(self.schedulers().into());
            let wanted = usize::try_from(share).map_or(room.len(), |share| share.clamp(1, room.len()));
            queue.pop_into(&mut room[..wanted])
        };
        queues.own_first(scheduler).map(take).find(|count| *count > 0).unwrap_or(0)
    }

    /// The shapes of which a task was ever up for dispatch, a bit each.
    pub fn ready_shapes(&self) -> u32 {
        self.ready_shapes.get()
    }

    /// Whether no task of any shape waits for a core, as far as can be seen.
    pub fn ready_is_empty(&self) -> bool {
        self.ready
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|queues| queues.own_first(0))
            .all(ReadyQueue::is_empty_hint)
    }

    /// Puts a task whose predecessors are complete up for dispatch and wakes schedulers that sleep, but not the
    /// caller.
    pub fn make_ready(&self, slot: u32, caller: Option<u32>) {
        self.requeue(slot, caller);
        self.wake_schedulers(caller);
    }

    /// Puts a task up for dispatch: in the queue of its caller, and where nobody calls for themselves in those of all, in turns of
    /// [`NEIGHBOURS`].
    pub fn requeue(&self, slot: u32, caller: Option<u32>) {
        let shape = Shape::of(self.slots.active(slot));
        let queues = self.ready[usize::from(shape.0)].get_or_init(|| {
            // Once for each shape, so that a sum is as good as a union.
            self.ready_shapes.add(shape.bit());
            Queues::new(self.schedulers(), self.slots.len().max(1))
        });
        let queue = match caller {
            Some(scheduler) => queues.of(scheduler),
            None => queues.of(slot / NEIGHBOURS % self.schedulers()),
        };
        // A queue has room for every slot, and a slot is in it at most once: a push is refused only while another
        // thread is in the middle of taking what lay in the same cell a lap ago.
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

    /// Takes the publishing guard off a task; whoever takes the last hold makes it ready.
    pub fn publish(&self, slot: u32) {
        self.slots.state(slot).set(TaskState::Published as u32);
        self.satisfy(slot, None);
    }

    /// Takes one hold off a waiting task.
    pub fn satisfy(&self, slot: u32, caller: Option<u32>) {
        if self.takes_last_hold(slot) {
            self.make_ready(slot, caller);
        }
    }

    /// Takes one hold off a waiting task. If it was the last, the task is the caller's: to dispatch, or to
    /// [make ready](Self::make_ready) for others.
    pub fn takes_last_hold(&self, slot: u32) -> bool {
        pending::satisfy(self.slots.pending(slot))
    }

    /// Makes `consumer` wait for `producer` unless that is complete. `node` belongs to the consumer.
    pub fn link(&self, producer: u32, consumer: u32, node: u32, cause: u32) {
        self.edges.write(node, EdgeNode { next: fanout::OPEN_EMPTY, consumer, producer, cause });
        pending::arm(self.slots.pending(consumer));
        if fanout::push(self.slots.fanout(producer), &self.edges, node).is_err() {
            // The guard is still held, so this is never the last hold.
            let _ = pending::satisfy(self.slots.pending(consumer));
        }
    }

    /// Gives up one hold on a slot and the memory it owns; the last one retires it.
    pub fn release(&self, slot: u32) {
        let Some(rings) = &self.rings else { return };
        // The last holder sees what all others did with the memory.
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

    /// Says how many tasks there are in all: the graph is built.
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

    /// Tasks completed so far, over all schedulers.
    pub fn completed(&self) -> u64 {
        // Pairs with the schedulers' stores: what they did before counting is visible.
        (1..=self.schedulers()).map(|t| self.control.thread(t).completed().see()).sum()
    }

    /// Everything that counts as progress, added up.
    pub fn progress(&self) -> u64 {
        let threads = (0..=self.schedulers()).map(|t| self.control.thread(t));
        threads.map(|t| t.submitted().get() + t.dispatches().get()).fold(0, u64::wrapping_add)
    }

    /// Scheduler threads.
    pub fn schedulers(&self) -> u32 {
        u32::try_from(self.scheduler_parkers.len()).expect("at most MAX_SCHEDULERS")
    }

    /// Whether the run is to end now.
    pub fn stopped(&self) -> bool {
        self.stop.is_raised()
    }

    /// Ends the run: every thread leaves at its next look.
    pub fn stop(&self) {
        // Pairs with the load in `stopped`.
        self.stop.raise();
        self.wake_schedulers(None);
        self.core_parkers.iter().for_each(Parker::wake);
        self.orchestrator_parker.wake();
        self.monitor_parker.wake();
    }

    /// Records why the run ends early and stops it. The first failure counts.
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

    /// The first failure, if there was one.
    pub fn failure(&self) -> Option<FailureKind> {
        self.failure.get().copied()
    }

    /// Publishes the beginning of the run.
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

    /// Device time, from one monotonic clock that starts with the run.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
