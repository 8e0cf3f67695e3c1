//! Watches a run from outside its threads: finds the one that hangs, and graphs that can never finish.

use std::time::{Duration, Instant};

use tensortap_abi::{FailureKind, SLOTS_PER_TASK, TaskId, TaskState, ThreadState};
use tensortap_sync::mailbox::MailboxWords;

use super::run::{Failure, Run};

/// Longest time between two looks. A limit adds up observed intervals of at most this much, so that a stopped
/// process, a debugger or a suspended machine does not look like a hang.
const TICK: Duration = Duration::from_millis(100);

/// Looks in a row that must find nothing in motion before a graph counts as deadlocked.
const STILL_LOOKS: u32 = 3;

/// Rounds in which every scheduler must have found nothing since the first of those looks. One may have been under way
/// then; the next began later and saw what there was.
const IDLE_ROUNDS: u64 = 2;

/// Returns when the run is complete, has failed, or was found to hang.
pub fn watch(run: &Run<'_>, stall_limit: Option<Duration>) {
    let tick = stall_limit.map_or(TICK, |limit| TICK.min(limit / 4)).max(Duration::from_millis(1));
    let mut clock = StallClock { progress: run.progress(), still: Duration::ZERO };
    let mut stillness = Stillness::default();
    while !run.stopped() && !run.is_complete() {
        let asleep = Instant::now();
        let _ = run.monitor_parker.wait_timeout(tick, || !run.stopped() && !run.is_complete());
        if clock.observe(run, asleep.elapsed().min(TICK)) {
            stillness = Stillness::default();
            continue;
        }
        if stillness.look(run) {
            run.fail(&graph_deadlock(run));
        } else if stall_limit.is_some_and(|limit| clock.still >= limit) {
            run.fail(&stall(run, clock.still));
        }
    }
}

/// How long nothing has moved. That nothing is to be seen proves nothing by itself: a scheduler that the system does not
/// let run has not seen yet what the cores have finished. So each must have looked, too.
#[derive(Default)]
struct Stillness {
    looks: u32,
    /// Idle rounds of each scheduler at the first look.
    rounds: Vec<u64>,
}

impl Stillness {
    /// Whether nothing will ever move again.
    fn look(&mut self, run: &Run<'_>) -> bool {
        if !nothing_moves(run) {
            *self = Stillness::default();
            return false;
        }
        if self.looks == 0 {
            self.rounds = idle_rounds(run).collect();
        }
        self.looks += 1;
        // A scheduler that sleeps makes no rounds.
        run.scheduler_parkers.iter().for_each(tensortap_sync::park::Parker::wake);
        let looked = |(before, now): (&u64, u64)| now.saturating_sub(*before) >= IDLE_ROUNDS;
        self.looks > STILL_LOOKS && self.rounds.iter().zip(idle_rounds(run)).all(looked)
    }
}

fn idle_rounds(run: &Run<'_>) -> impl Iterator<Item = u64> {
    (1..=run.schedulers()).map(|thread| run.control.thread(thread).idle_rounds().see())
}

/// Time without progress. Stands still while any thread is held up by the dump.
struct StallClock {
    progress: u64,
    still: Duration,
}

impl StallClock {
    /// True if there was progress.
    fn observe(&mut self, run: &Run<'_>, interval: Duration) -> bool {
        let progress = run.progress();
        if progress != self.progress {
            *self = StallClock { progress, still: Duration::ZERO };
            return true;
        }
        if !held_up_by_dump(run) {
            self.still += interval;
        }
        false
    }
}

fn held_up_by_dump(run: &Run<'_>) -> bool {
    let threads = u32::try_from(run.scheduler_parkers.len()).expect("at most MAX_SCHEDULERS");
    (0..=threads).any(|t| ThreadState::is_held_up(run.control.thread(t).state().get()))
}

fn busy_cores(run: &Run<'_>) -> impl Iterator<Item = u32> {
    (0..run.control.cores()).filter(|&core| {
        let view = run.control.core(core);
        view.posted().see() != view.done().see()
    })
}

/// Slots of the tasks that cores are working on, each once.
pub fn tasks_in_flight(run: &Run<'_>) -> Vec<u32> {
    let mut slots: Vec<u32> = busy_cores(run).map(|core| run.control.core(core).task_slot()).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// The graph is built, no core works, nothing is ready, and yet tasks remain.
fn nothing_moves(run: &Run<'_>) -> bool {
    run.is_sealed()
        && run.ready_is_empty()
        && busy_cores(run).next().is_none()
        && !held_up_by_dump(run)
        && !run.is_complete()
}

fn stall(run: &Run<'_>, still: Duration) -> Failure {
    let stuck = busy_cores(run).next();
    let view = stuck.map(|core| run.control.core(core));
    Failure {
        address: None,
        kind: FailureKind::Stall,
        task: view.map(|v| TaskId(v.task_id())),
        func_id: view.map(|v| v.func_id()),
        core: stuck,
        message: format!(
            "no progress for {:.1} s; {} of {} cores are busy",
            still.as_secs_f64(),
            busy_cores(run).count(),
            run.control.cores()
        ),
    }
}

fn graph_deadlock(run: &Run<'_>) -> Failure {
    let states =
        |wanted: TaskState| (0..run.slots.len()).filter(move |&s| run.slots.state(s).get() == wanted as u32);
    let waiting = states(TaskState::Published).count();
    let unpublished: Vec<u32> = states(TaskState::Building).take(SLOTS_PER_TASK).collect();
    let first = unpublished.first().copied().or_else(|| states(TaskState::Published).next());
    let message = if unpublished.is_empty() {
        format!("{waiting} tasks wait for one another in a circle; remove the edge that closes it")
    } else {
        let names: Vec<_> = unpublished.iter().map(|&s| TaskId(run.slots.task_id(s)).to_string()).collect();
        format!("{waiting} tasks wait for tasks that were never published, such as {}", names.join(", "))
    };
    Failure {
        task: first.map(|s| TaskId(run.slots.task_id(s))),
        ..Failure::new(FailureKind::GraphDeadlock, message)
    }
}

/// Whether no core works.
pub fn is_quiet(run: &Run<'_>) -> bool {
    busy_cores(run).next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::run::Shape;
    use crate::drive;

    const AIV: u8 = 0b010;

    /// A graph of one task, which a scheduler has taken and whose core has finished, and nobody has noticed yet.
    fn finished_and_not_collected() -> Run<'static> {
        let run = drive::graph(&[(AIV, 1)], &[], 1);
        assert_eq!(run.pop_ready(0, Shape::of(AIV)), Some(0));
        assert!(nothing_moves(&run), "all that is to be seen from outside");
        run
    }

    fn set_rounds(run: &Run<'_>, rounds: u64) {
        run.control.thread(1).idle_rounds().publish(rounds);
    }

    #[test]
    fn a_scheduler_that_gets_no_time_is_no_deadlock_however_long() {
        let run = finished_and_not_collected();
        // What it had done before the first look proves nothing.
        set_rounds(&run, 70);
        let mut stillness = Stillness::default();
        assert!((0..1000).all(|_| !stillness.look(&run)));
        // A round that was under way at the first look may have begun before the core had finished.
        set_rounds(&run, 71);
        assert!((0..1000).all(|_| !stillness.look(&run)));
        set_rounds(&run, 72);
        assert!(stillness.look(&run));
    }

    #[test]
    fn schedulers_that_find_nothing_in_one_look_are_no_deadlock() {
        let run = drive::graph(&[(AIV, 1), (AIV, 1)], &[(0, 1), (1, 0)], 1);
        let mut stillness = Stillness::default();
        for look in 0..STILL_LOOKS {
            assert!(!stillness.look(&run));
            set_rounds(&run, 100 * u64::from(look + 1));
        }
        assert!(stillness.look(&run), "a circle");
    }

    #[test]
    fn whatever_moves_starts_the_looks_and_the_rounds_again() {
        let run = finished_and_not_collected();
        let mut stillness = Stillness::default();
        assert!((0..10).all(|_| !stillness.look(&run)));
        run.requeue(0, None);
        set_rounds(&run, 5);
        assert!(!stillness.look(&run), "a task is ready");
        assert_eq!(run.pop_ready(0, Shape::of(AIV)), Some(0));
        assert!((0..10).all(|_| !stillness.look(&run)), "nobody has looked since");
    }
}
