//! Tasks assembled from records in any order and with any content.

use std::collections::BTreeMap;

use crate::common::*;
use proptest::prelude::*;
use tensortap_abi::{DType, DumpStage, NO_KERNEL, Role, UncapturedReason};
use tensortap_format::*;

const NO_KERNELS: [u32; 3] = [NO_KERNEL; 3];

fn key(step: u32, task_id: u64) -> TaskKey {
    TaskKey { step, task_id }
}

fn argument(task: TaskKey, number: u64, stage: DumpStage, arg_index: u16) -> ArgumentRecord<'static> {
    ArgumentRecord {
        number,
        task,
        func_id: NO_KERNELS,
        stage,
        arg_index,
        kind: ArgumentKind::Tensor,
        role: Role::InOut,
        dtype: DType::Float32,
        dtype_known: true,
        role_known: true,
        extent_known: true,
        host_writable: false,
        shape: &[4, 2],
        strides: &[2, 1],
        start_offset: 0,
        address: 0x1000,
        scalar_bits: None,
        hash: Some(u128::from(number) << 70 | 5),
        payload: PayloadState::Stored,
        bytes: 32,
        in_flight: false,
        name: 0,
    }
}

fn task(key: TaskKey, completed_ns: Option<u64>) -> TaskPart<'static> {
    TaskPart::Task(TaskFacts {
        func_id: [7, NO_KERNEL, NO_KERNEL],
        dispatched_ns: 10,
        completed_ns,
        ..TaskFacts::unknown(key)
    })
}

/// All facts of a task as text.
fn written(task: Task<'_>) -> String {
    let arguments: Vec<String> = task
        .arguments()
        .map(|a| format!("{:?} {:?} {:?} {}", facts(&a), a.shape(), a.strides(), a.arg_index))
        .collect();
    let uncaptured: Vec<_> = (0..8).filter_map(|index| task.uncaptured(index)).collect();
    let (mut producers, mut consumers): (Vec<_>, Vec<_>) =
        (task.producers().map(|e| e.from).collect(), task.consumers().map(|e| e.to).collect());
    producers.sort_unstable();
    consumers.sort_unstable();
    let dispatches: Vec<_> = task.dispatches().iter().zip(task.dispatch_times()).collect();
    let is_recorded = task.is_recorded();
    format!(
        "{is_recorded} {:?} {arguments:?} {dispatches:?} {uncaptured:?} {producers:?} {consumers:?}",
        task.facts()
    )
}

/// Facts without the position of their dimensions.
fn facts(argument: &Argument<'_>) -> impl std::fmt::Debug + use<> {
    let a = argument.facts().clone();
    (a.kind, a.role, a.dtype, a.is_consistent, a.is_repeated, a.address, a.scalar_bits, a.before, a.after)
}

fn assembled(parts: &[TaskPart<'static>]) -> Tasks {
    let mut assembler = Assembler::default();
    parts.iter().cloned().for_each(|part| assembler.take(part));
    assembler.finish(&[])
}

fn by_key(tasks: &Tasks) -> BTreeMap<TaskKey, String> {
    tasks.iter().map(|task| (task.key(), written(task))).collect()
}

/// Any possible parts of one task of a step.
fn parts_of(step: u32, task_id: u64) -> impl Strategy<Value = Vec<TaskPart<'static>>> {
    let key = key(step, task_id);
    let said = prop_oneof![
        Just(task(key, None)),
        Just(task(key, Some(20))),
        (any::<bool>(), 0_u16..4, any::<bool>(), 0_u64..1000).prop_map(
            move |(before, arg_index, in_flight, number)| {
                let stage = if before { BEFORE } else { AFTER };
                let number = number * 4 + task_id;
                TaskPart::Argument(ArgumentRecord { in_flight, ..argument(key, number, stage, arg_index) })
            }
        ),
        (0_u32..3, 0_u32..4).prop_map(move |(subtask_id, block_idx)| {
            let times = DispatchTimes { handed_ns: u64::from(block_idx) + 1, ..DispatchTimes::default() };
            TaskPart::Dispatch(key, DispatchFacts { subtask_id, block_idx, func_id: 7, core_id: 1 }, times)
        }),
        (0_u32..3, 0_u32..4).prop_map(move |(subtask_id, block_idx)| {
            TaskPart::Finished(key, DispatchFinish { subtask_id, block_idx, started_ns: 9, completed_ns: 10 })
        }),
        (0_u64..4, 0_u16..3).prop_map(move |(from, arg_index)| {
            TaskPart::Edge(Edge { step, from_step: step, from, to: task_id, arg_index, why: "explicit" })
        }),
    ];
    proptest::collection::vec(said, 0..12)
}

proptest! {
    /// Records of each task keep their order, but records of different tasks are mixed randomly.
    #[test]
    fn tasks_do_not_depend_on_how_records_of_different_tasks_mix(
        each in (parts_of(0, 0), parts_of(0, 1), parts_of(1, 0), parts_of(0, 3)),
        choices in proptest::collection::vec(0_usize..4, 48),
    ) {
        let mut queues = [each.0, each.1, each.2, each.3];
        let in_turn: Vec<_> = queues.iter().flatten().cloned().collect();
        let mut mixed = Vec::new();
        for choice in choices {
            if !queues[choice].is_empty() {
                mixed.push(queues[choice].remove(0));
            }
        }
        mixed.extend(queues.into_iter().flatten());
        prop_assert_eq!(by_key(&assembled(&in_turn)), by_key(&assembled(&mixed)));
    }

    /// A task that is removed while others arrive equals the task in the final result.
    #[test]
    fn a_removed_task_equals_the_one_in_the_final_result(
        own in parts_of(0, 0),
        others in parts_of(0, 1),
    ) {
        let parts: Vec<_> = own.iter().zip(&others).flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        let is_no_edge = |part: &&TaskPart<'_>| !matches!(part, TaskPart::Edge(_));
        let parts: Vec<_> = parts.iter().filter(is_no_edge).cloned().collect();
        let mut assembler = Assembler::default();
        parts.iter().cloned().for_each(|part| assembler.take(part));
        let whole = assembler.clone().finish(&[]);
        let alone = assembler.remove(key(0, 0), &[].into());
        prop_assert_eq!(alone.map(|tasks| written(tasks.at(0))), whole.find(key(0, 0)).map(written));
        prop_assert!(assembler.pending(key(0, 0)).is_none());
        prop_assert_eq!(assembler.finish(&[]).len() + usize::from(whole.find(key(0, 0)).is_some()), whole.len());
    }
}

#[test]
fn arguments_of_both_stages_are_joined_and_find_their_task_by_key() {
    let [first, same_id] = [key(0, 1), key(1, 1)];
    let tasks = assembled(&[
        TaskPart::Argument(argument(first, 0, AFTER, 2)),
        task(same_id, Some(5)),
        TaskPart::Argument(argument(first, 1, BEFORE, 2)),
        TaskPart::Argument(ArgumentRecord { address: 0x2000, ..argument(same_id, 2, BEFORE, 0) }),
        TaskPart::Argument(argument(same_id, 3, AFTER, 0)),
        task(first, Some(9)),
        TaskPart::Uncaptured(UncapturedArgument {
            step: 0,
            task_id: 1,
            arg_index: 5,
            reason: UncapturedReason::NoTensorInfo,
        }),
    ]);
    assert_eq!(
        tasks.iter().map(|t| t.key()).collect::<Vec<_>>(),
        [same_id, first],
        "in the order of their own records"
    );
    let found = tasks.find(first).unwrap();
    let both = found.argument(2).unwrap();
    assert_eq!((both.before.unwrap().record, both.after.unwrap().record), (1, 0));
    assert_eq!((both.shape(), both.strides(), both.content_bytes()), (&[4, 2][..], &[2, 1][..], Some(32)));
    assert_eq!(both.before.unwrap().hash(), Some(1 << 70 | 5));
    assert!(both.is_consistent && !both.is_repeated && found.argument(0).is_none());
    assert!(found.uncaptured(5).is_some() && found.uncaptured(4).is_none());
    let other = tasks.find(same_id).unwrap().argument(0).unwrap();
    assert!(!other.is_consistent, "the two records are about different memory");
}

#[test]
fn one_of_several_repeated_records_counts_and_the_repetition_is_noted() {
    let key = key(0, 4);
    let in_flight = ArgumentRecord { in_flight: true, ..argument(key, 0, AFTER, 0) };
    let tasks = assembled(&[
        task(key, Some(30)),
        task(key, None),
        task(key, Some(40)),
        TaskPart::Argument(in_flight),
        TaskPart::Argument(argument(key, 1, AFTER, 0)),
        TaskPart::Argument(argument(key, 2, AFTER, 0)),
    ]);
    assert_eq!((tasks.len(), tasks.at(0).completed_ns), (1, Some(30)));
    let argument = tasks.at(0).argument(0).unwrap();
    assert_eq!((argument.after.unwrap().record, argument.is_repeated), (1, true));
}

#[test]
fn arguments_of_unrecorded_tasks_create_tasks_after_the_others() {
    let (lost, recorded) = (key(0, 8), key(0, 9));
    let named = ArgumentRecord { func_id: [NO_KERNEL, 3, NO_KERNEL], ..argument(lost, 1, BEFORE, 0) };
    let mut tasks = assembled(&[
        TaskPart::Argument(argument(lost, 0, BEFORE, 1)),
        TaskPart::Argument(named),
        task(recorded, None),
    ]);
    let order: Vec<_> = tasks.iter().map(|t| (t.task_id, t.is_recorded())).collect();
    assert_eq!(order, [(9, true), (8, false)]);
    assert_eq!(tasks.find(lost).unwrap().kernel_names(), ["func_3"]);
    tasks.put_in_order(&[1, 1, 7, 0]);
    assert_eq!(tasks.iter().map(|t| t.task_id).collect::<Vec<_>>(), [8, 9]);
    assert_eq!(tasks.find(lost).unwrap().place(), 0);
    assert_eq!(tasks.at(0).arguments().map(|a| a.number()).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_million_arguments_of_one_task_cost_no_more_than_a_task_can_have() {
    let key = key(0, 1);
    let mut assembler = Assembler::default();
    // From the last to the first, each many times.
    for number in 0..1_000_000_u64 {
        let arg_index = u16::MAX - u16::try_from(number % (1 << 16)).unwrap();
        let stage = if number % 131_072 < 65_536 { AFTER } else { BEFORE };
        assembler.take(TaskPart::Argument(argument(key, number, stage, arg_index)));
        assert!(assembler.pending(key).unwrap().argument_count() <= 1 << 18);
    }
    let tasks = assembler.finish(&[]);
    let task = tasks.at(0);
    assert_eq!((tasks.len(), task.arguments().len()), (1, 1 << 16));
    assert!(task.arguments().all(|a| a.is_repeated));
    let last = task.argument(u16::MAX).unwrap();
    assert_eq!((last.after.unwrap().record, last.before.unwrap().record), (0, 65_536));
}

#[test]
fn the_tasks_of_an_index_equal_the_written_ones() {
    let dir = tempfile::tempdir().unwrap();
    let mut scribe = TestWriter::new(dir.path(), &info());
    (0..3).for_each(|task| scribe.task(u32::try_from(task).unwrap(), task, 100));
    scribe.append(0, &[IndexRecord::plain(&edge_fields(0, 2, 1, 0))]);
    scribe.finish(Status::Complete);
    let dump = Dump::open(dir.path()).unwrap();
    let tasks = dump.tasks().unwrap();
    assert_eq!((tasks.len(), tasks.argument_count(), tasks.edges().len()), (3, 9, 1));
    for task in tasks.iter() {
        assert_eq!(task.kernel_names(), ["add_scalar"]);
        assert_eq!((task.inputs().count(), task.outputs().count()), (2, 1));
        for argument in task.arguments() {
            let captured = argument.before.or(argument.after).unwrap();
            let record = dump.record(captured.record).unwrap();
            assert_eq!((record.task_id, record.arg_index), (task.task_id, argument.arg_index));
            assert_eq!((record.hash, record.bin_size), (captured.hash(), captured.bytes));
            assert_eq!((record.shape(), record.scalar_bits), (argument.shape(), argument.scalar_bits));
        }
    }
    let consumers: Vec<u64> = tasks.at(0).consumers().map(|edge| edge.to).collect();
    let producers: Vec<u64> = tasks.at(2).producers().map(|edge| edge.from).collect();
    assert_eq!((consumers, producers), (vec![2], vec![0]));
}
