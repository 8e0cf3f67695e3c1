//! The monitor thread: ends runs that hang, and graphs that can never finish.

use std::time::{Duration, Instant};

use tensortap_abi::{FailureKind, SLOTS_PER_TASK, TaskId, TaskState, ThreadState};
use tensortap_sync::mailbox::MailboxWords;

use super::run::{Failure, Run};

/// Longest time between two checks. Stall limits add up observed intervals of at most this length. So a
/// stopped process, a debugger or a suspended machine does not look like a hang.
const TICK: Duration = Duration::from_millis(100);

/// Consecutive checks that must find nothing moving before a graph counts as deadlocked.
const IDLE_CHECKS: u32 = 3;

/// Idle rounds that every scheduler must complete after the first of those checks. One round may have been in
/// progress at the first check. The next one started later and saw the current state.
const IDLE_ROUNDS: u64 = 2;

/// Watches the run until it is complete, has failed, or hangs.
pub fn watch(run: &Run<'_>, stall_limit: Option<Duration>) {
    let tick = stall_limit.map_or(TICK, |limit| TICK.min(limit / 4)).max(Duration::from_millis(1));
    let mut clock = StallClock { progress: run.progress(), still: Duration::ZERO };
    let mut detector = DeadlockDetector::default();
    while !run.stopped() && !run.is_complete() {
        let asleep = Instant::now();
        let _ = run.monitor_parker.wait_timeout(tick, || !run.stopped() && !run.is_complete());
        if clock.observe(run, asleep.elapsed().min(TICK)) {
            detector = DeadlockDetector::default();
            continue;
        }
        if detector.check(run) {
            run.fail(&graph_deadlock(run));
        } else if stall_limit.is_some_and(|limit| clock.still >= limit) {
            run.fail(&stall(run, clock.still));
        }
    }
}

/// Detects graphs that can never finish. An idle state by itself proves nothing: a scheduler without CPU time may
/// not have noticed that a core has finished. So every scheduler must have completed idle rounds too.
#[derive(Default)]
struct DeadlockDetector {
    checks: u32,
    /// Idle rounds of each scheduler at the first check.
    rounds: Vec<u64>,
}

impl DeadlockDetector {
    /// Checks once. Returns true if nothing can ever move again.
    fn check(&mut self, run: &Run<'_>) -> bool {
        if !nothing_moves(run) {
            *self = DeadlockDetector::default();
            return false;
        }
        if self.checks == 0 {
            self.rounds = idle_rounds(run).collect();
        }
        self.checks += 1;
        // A sleeping scheduler makes no rounds.
        run.scheduler_parkers.iter().for_each(tensortap_sync::park::Parker::wake);
        let looked = |(before, now): (&u64, u64)| now.saturating_sub(*before) >= IDLE_ROUNDS;
        self.checks > IDLE_CHECKS && self.rounds.iter().zip(idle_rounds(run)).all(looked)
    }
}

fn idle_rounds(run: &Run<'_>) -> impl Iterator<Item = u64> {
    (1..=run.schedulers()).map(|thread| run.control.thread(thread).idle_rounds().see())
}

/// Time without progress. The clock stops while the dump blocks a thread.
struct StallClock {
    progress: u64,
    still: Duration,
}

impl StallClock {
    /// Adds an interval. Returns true if there was progress.
    fn observe(&mut self, run: &Run<'_>, interval: Duration) -> bool {
        let progress = run.progress();
        if progress != self.progress {
            *self = StallClock { progress, still: Duration::ZERO };
            return true;
        }
        if !blocked_by_dump(run) {
            self.still += interval;
        }
        false
    }
}

fn blocked_by_dump(run: &Run<'_>) -> bool {
    let threads = u32::try_from(run.scheduler_parkers.len()).expect("at most MAX_SCHEDULERS");
    (0..=threads).any(|t| ThreadState::is_held_up(run.control.thread(t).state().get()))
}

fn busy_cores(run: &Run<'_>) -> impl Iterator<Item = u32> {
    (0..run.control.cores()).filter(|&core| {
        let view = run.control.core(core);
        view.posted().see() != view.done().see()
    })
}

/// Slots of the tasks that run on cores, without duplicates.
pub fn tasks_in_flight(run: &Run<'_>) -> Vec<u32> {
    let mut slots: Vec<u32> = busy_cores(run).map(|core| run.control.core(core).task_slot()).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// The graph is built, no core works and no task is ready, but tasks remain.
fn nothing_moves(run: &Run<'_>) -> bool {
    run.is_sealed()
        && run.ready_is_empty()
        && busy_cores(run).next().is_none()
        && !blocked_by_dump(run)
        && !run.is_complete()
}

fn stall(run: &Run<'_>, still: Duration) -> Failure {
    let stuck = busy_cores(run).next();
    let view = stuck.map(|core| run.control.core(core));
    let busy = busy_cores(run).count();
    let are = if busy == 1 { "is" } else { "are" };
    Failure {
        address: None,
        kind: FailureKind::Stall,
        task: view.map(|v| TaskId(v.task_id())),
        func_id: view.map(|v| v.func_id()),
        core: stuck,
        message: format!(
            "no progress for {:.1} s; {busy} of {} cores {are} busy",
            still.as_secs_f64(),
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
        format!("{waiting} tasks wait for each other in a cycle; remove one of its edges")
    } else {
        let names: Vec<_> = unpublished.iter().map(|&s| TaskId(run.slots.task_id(s)).to_string()).collect();
        format!(
            "{waiting} tasks wait for tasks that were never published, such as {}; publish every task",
            names.join(", ")
        )
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

    /// A graph with one task. A scheduler took it and its core has finished, but no scheduler has noticed
    /// yet.
    fn finished_and_not_collected() -> Run<'static> {
        let run = drive::graph(&[(AIV, 1)], &[], 1);
        assert_eq!(run.pop_ready(0, Shape::of(AIV)), Some(0));
        assert!(nothing_moves(&run), "nothing moves as seen from outside");
        run
    }

    fn set_rounds(run: &Run<'_>, rounds: u64) {
        run.control.thread(1).idle_rounds().publish(rounds);
    }

    #[test]
    fn a_scheduler_without_cpu_time_is_not_a_deadlock() {
        let run = finished_and_not_collected();
        // Rounds before the first check prove nothing.
        set_rounds(&run, 70);
        let mut detector = DeadlockDetector::default();
        assert!((0..1000).all(|_| !detector.check(&run)));
        // A round in progress at the first check may have begun before the core finished.
        set_rounds(&run, 71);
        assert!((0..1000).all(|_| !detector.check(&run)));
        set_rounds(&run, 72);
        assert!(detector.check(&run));
    }

    #[test]
    fn idle_rounds_after_one_check_are_not_a_deadlock() {
        let run = drive::graph(&[(AIV, 1), (AIV, 1)], &[(0, 1), (1, 0)], 1);
        let mut detector = DeadlockDetector::default();
        for check in 0..IDLE_CHECKS {
            assert!(!detector.check(&run));
            set_rounds(&run, 100 * u64::from(check + 1));
        }
        assert!(detector.check(&run), "a cycle");
    }

    #[test]
    fn any_movement_restarts_checks_and_rounds() {
        let run = finished_and_not_collected();
        let mut detector = DeadlockDetector::default();
        assert!((0..10).all(|_| !detector.check(&run)));
        run.requeue(0, None);
        set_rounds(&run, 5);
        assert!(!detector.check(&run), "a task is ready");
        assert_eq!(run.pop_ready(0, Shape::of(AIV)), Some(0));
        assert!((0..10).all(|_| !detector.check(&run)), "no scheduler has completed a round since");
    }
}
