//! Drives the scheduler step by step. The test decides when cores finish, and hooks log events.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tensortap_abi::PayloadLayout;

use super::super::run::ThreadCounts;
use super::*;
use crate::drive;

/// An observed event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Before(u32),
    Post { task: u32, core: u32, subtask: u32, block_idx: u32 },
    Finished { task: u32, core: u32 },
    After(u32),
}

type Log = Rc<RefCell<Vec<Event>>>;

/// Cores that finish when the test tells them to.
struct ManualCores {
    log: Log,
    done: Rc<RefCell<BTreeMap<u32, bool>>>,
}

impl Cores for ManualCores {
    fn post(
        &mut self,
        core: u32,
        dispatch: &Dispatch,
        _payload_addr: u64,
        _layout: PayloadLayout,
        _written: impl FnOnce(u32, &CoreView<'_>),
    ) {
        let Dispatch { task_slot, subtask, block, .. } = *dispatch;
        assert!(self.done.borrow_mut().insert(core, false).is_none(), "core {core} is busy");
        self.log.borrow_mut().push(Event::Post {
            task: task_slot,
            core,
            subtask,
            block_idx: block.block_idx,
        });
    }

    fn poll_done(&mut self, core: u32) -> bool {
        let finished = self.done.borrow().get(&core).copied().unwrap_or(false);
        if finished {
            self.done.borrow_mut().remove(&core);
        }
        finished
    }

    fn finished(&self, core: u32) -> FinishedDispatch {
        FinishedDispatch { core_id: core, ..FinishedDispatch::default() }
    }
}

struct Recorder(Log);

impl TaskHooks for Recorder {
    fn before_dispatch(&mut self, slot: u32) {
        self.0.borrow_mut().push(Event::Before(slot));
    }
    fn before_post(&mut self, _dispatch: &Dispatch, _core_id: u32, _message: &CoreView<'_>) {}
    fn after_dispatch(&mut self, slot: u32, finished: impl FnOnce() -> FinishedDispatch) {
        self.0.borrow_mut().push(Event::Finished { task: slot, core: finished().core_id });
    }
    fn after_completion(&mut self, slot: u32) {
        self.0.borrow_mut().push(Event::After(slot));
    }
}

struct Drive {
    run: &'static Run<'static>,
    scheduler: Scheduler<'static, 'static, ManualCores, Recorder>,
    log: Log,
    done: Rc<RefCell<BTreeMap<u32, bool>>>,
}

impl Drive {
    fn new(tasks: &[(u8, u32)], edges: &[(u32, u32)], blocks: u32) -> Drive {
        Drive::one_of(1, tasks, edges, blocks)
    }

    /// The first of several schedulers. The others do nothing.
    fn one_of(schedulers: u32, tasks: &[(u8, u32)], edges: &[(u32, u32)], blocks: u32) -> Drive {
        let (log, done) = (Log::default(), Rc::default());
        let cores = ManualCores { log: Rc::clone(&log), done: Rc::clone(&done) };
        let run = Box::leak(Box::new(drive::graph_for(
            tasks,
            edges,
            ThreadCounts { blocks, schedulers, spins: 0 },
        )));
        let scheduler = Scheduler::new(run, 0, blocks, cores, Recorder(Rc::clone(&log)));
        Drive { run, scheduler, log, done }
    }

    /// Steps once and returns the events.
    fn step(&mut self) -> Vec<Event> {
        self.scheduler.step();
        std::mem::take(&mut *self.log.borrow_mut())
    }

    fn busy(&self) -> Vec<u32> {
        self.done.borrow().keys().copied().collect()
    }

    fn finish(&self, core: u32) {
        *self.done.borrow_mut().get_mut(&core).expect("busy") = true;
    }

    fn posted(events: &[Event]) -> Vec<u32> {
        events
            .iter()
            .filter_map(|e| if let Event::Post { task, .. } = e { Some(*task) } else { None })
            .collect()
    }
}

const AIC: u8 = 0b001;
const AIV: u8 = 0b010;
const MIX: u8 = 0b111;

#[test]
fn hooks_run_before_the_first_dispatch_and_before_successors_start() {
    let mut drive = Drive::new(&[(AIV, 3), (AIV, 1)], &[(0, 1)], 1);
    let first = drive.step();
    assert_eq!(first[0], Event::Before(0));
    assert_eq!(Drive::posted(&first), [0, 0], "two AIV cores, three blocks");
    drive.finish(drive.busy()[0]);
    let second = drive.step();
    assert_eq!(Drive::posted(&second), [0], "the third block follows");
    assert!(!second.contains(&Event::Before(0)), "a task begins once: {second:?}");
    drive.busy().into_iter().for_each(|core| drive.finish(core));
    let third = drive.step();
    let finished = |task, core| Event::Finished { task, core };
    assert_eq!(third[..4], [finished(0, 1), finished(0, 2), Event::After(0), Event::Before(1)]);
    assert_eq!(Drive::posted(&third), [1]);
    let last = drive.busy()[0];
    drive.finish(last);
    assert_eq!(drive.step(), [finished(1, last), Event::After(1)]);
    assert!(drive.run.is_complete());
}

#[test]
fn every_block_is_dispatched_exactly_once() {
    let mut drive = Drive::new(&[(AIV, 17)], &[], 2);
    let mut seen = Vec::new();
    while !drive.run.is_complete() {
        let events = drive.step();
        seen.extend(
            events
                .iter()
                .filter_map(|e| if let Event::Post { block_idx, .. } = e { Some(*block_idx) } else { None }),
        );
        drive.busy().into_iter().for_each(|core| drive.finish(core));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..17).collect::<Vec<_>>());
}

#[test]
fn claimed_tasks_without_free_cores_go_back_to_the_queue_and_run_once() {
    let mut tasks = [(AIV, 1); 8];
    tasks[1].1 = 9;
    let mut drive = Drive::one_of(2, &tasks, &[], 2);
    let mut posted = Drive::posted(&drive.step());
    assert_eq!(posted, [0, 1, 1, 1], "four tasks were claimed for four cores");
    assert!(
        drive.scheduler.claimed.is_empty(),
        "between two steps every task is visible to other schedulers"
    );
    while !drive.run.is_complete() {
        drive.busy().into_iter().for_each(|core| drive.finish(core));
        posted.extend(Drive::posted(&drive.step()));
    }
    posted.sort_unstable();
    assert_eq!(posted, [[0].as_slice(), &[1; 9], &[2, 3, 4, 5, 6, 7]].concat());
}

#[test]
fn a_scheduler_takes_its_own_tasks_first_then_those_of_others() {
    // Groups of 16 consecutive slots alternate between the two schedulers.
    let mut drive = Drive::one_of(2, &[(AIC, 1); 40], &[], 4);
    let mut posted = Vec::new();
    while !drive.run.is_complete() {
        posted.extend(Drive::posted(&drive.step()));
        drive.busy().into_iter().for_each(|core| drive.finish(core));
    }
    let own = (0..16).chain(32..40);
    assert_eq!(posted, own.chain(16..32).collect::<Vec<u32>>());
}

#[test]
fn single_claims_take_own_tasks_first_then_those_of_every_other_scheduler() {
    let drive = Drive::one_of(3, &[(AIC, 1); 40], &[], 4);
    let mut taken = Vec::new();
    while let Some(slot) = drive.run.pop_ready(1, Shape::of(AIC)) {
        taken.push(slot);
    }
    assert_eq!(taken, (16..40).chain(0..16).collect::<Vec<u32>>());
}

#[test]
fn a_mix_task_starts_all_its_slots_together_on_one_block() {
    let mut drive = Drive::new(&[(AIV, 1), (MIX, 1)], &[], 2);
    let events = drive.step();
    let cores: Vec<_> = events
        .iter()
        .filter_map(|e| {
            if let Event::Post { task: 1, core, subtask, .. } = e { Some((*core, *subtask)) } else { None }
        })
        .collect();
    let block = cores[0].0 / 3;
    assert_eq!(cores, (0..3).map(|s| (block * 3 + s, s)).collect::<Vec<_>>());
}

#[test]
fn a_mix_task_waits_for_a_whole_block_while_other_tasks_continue() {
    let mut drive = Drive::new(&[(AIC, 1), (MIX, 1), (AIV, 1)], &[(0, 1)], 1);
    assert_eq!(Drive::posted(&drive.step()), [0, 2]);
    drive.finish(0);
    assert_eq!(Drive::posted(&drive.step()), [], "an AIV of the only block is busy");
    drive.busy().into_iter().for_each(|core| drive.finish(core));
    assert_eq!(Drive::posted(&drive.step()), [1, 1, 1]);
}

#[test]
fn a_task_runs_only_on_cores_of_its_type() {
    let mut drive = Drive::new(&[(AIC, 1), (AIC, 1), (AIV, 1), (AIV, 1), (AIV, 1)], &[], 1);
    let events = drive.step();
    let mut placed: Vec<_> = events
        .iter()
        .filter_map(|e| if let Event::Post { task, core, .. } = e { Some((*task, *core)) } else { None })
        .collect();
    placed.sort_unstable();
    assert_eq!(placed.iter().filter(|(task, _)| *task < 2).map(|p| p.1).collect::<Vec<_>>(), [0]);
    let mut vector_cores: Vec<_> = placed.iter().filter(|(task, _)| *task >= 2).map(|p| p.1).collect();
    vector_cores.sort_unstable();
    assert_eq!(vector_cores, [1, 2]);
}

#[test]
fn the_core_that_finished_last_is_preferred() {
    let mut drive = Drive::new(&[(AIV, 1), (AIV, 1), (AIV, 1)], &[(1, 2)], 2);
    drive.step();
    let warm = drive.busy()[1];
    drive.finish(warm);
    let events = drive.step();
    assert!(matches!(events.last(), Some(Event::Post { task: 2, core, .. }) if *core == warm), "{events:?}");
}

#[test]
fn a_successor_waits_for_all_its_predecessors() {
    let mut drive = Drive::new(&[(AIV, 1), (AIC, 1), (AIV, 1)], &[(0, 2), (1, 2)], 1);
    assert_eq!(Drive::posted(&drive.step()), [1, 0]);
    drive.finish(0);
    assert_eq!(Drive::posted(&drive.step()), []);
    drive.busy().into_iter().for_each(|core| drive.finish(core));
    assert_eq!(Drive::posted(&drive.step()), [2]);
}

#[test]
fn only_idle_rounds_are_counted_for_the_monitor() {
    let mut drive = Drive::new(&[(AIV, 1), (AIV, 1)], &[(0, 1)], 1);
    let round = |drive: &mut Drive| {
        let nothing = drive.scheduler.finds_nothing();
        (nothing, drive.run.control.thread(1).idle_rounds().see())
    };
    assert_eq!(round(&mut drive), (false, 0), "the round dispatched a task");
    assert_eq!([round(&mut drive), round(&mut drive)], [(true, 1), (true, 2)], "the core is busy");
    drive.finish(drive.busy()[0]);
    assert_eq!([round(&mut drive), round(&mut drive)], [(false, 2), (true, 3)]);
}

#[test]
fn a_successor_runs_on_its_predecessors_core_before_queued_tasks() {
    let mut drive = Drive::new(&[(AIC, 1), (AIC, 1), (AIC, 1)], &[(0, 2)], 1);
    assert_eq!(Drive::posted(&drive.step()), [0]);
    drive.finish(0);
    assert_eq!(Drive::posted(&drive.step()), [2]);
    drive.finish(0);
    assert_eq!(Drive::posted(&drive.step()), [1]);
}

#[test]
fn a_larger_task_takes_the_core_of_a_kept_task() {
    let mut drive = Drive::new(&[(AIC, 1), (MIX, 1), (AIC, 1)], &[(0, 1), (0, 2)], 1);
    assert_eq!(Drive::posted(&drive.step()), [0]);
    drive.finish(0);
    assert_eq!(Drive::posted(&drive.step()), [1, 1, 1], "larger tasks come first");
    assert_eq!(
        drive.run.pop_ready(0, Shape::of(AIC)),
        Some(2),
        "a task that cannot be dispatched is not kept"
    );
}
