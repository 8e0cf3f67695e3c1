//! Timelines of synthetic dumps: for any times, every task and dispatch occurs once and no slices overlap.

use std::path::Path;

use proptest::prelude::*;
use tensortap::abi::{
    DispatchRecord, DispatchWords, FinishedRecord, LaneRecord, NO_KERNEL, QueueRecord, TaskRecord,
};
use tensortap::analysis::graph::load;
use tensortap::format::{DumpWriter, Footer, IndexRecord, KernelInfo, RunInfo, Status};

use super::rows::lay;
use super::*;

/// Writes a dump of these records, each in its lane.
pub(crate) fn made(dir: &Path, runtime: &str, records: &[(u32, IndexRecord)]) -> Dump {
    let kernel = KernelInfo { name: "kernel \u{1b}[2J\0".into(), ..KernelInfo::default() };
    let info = RunInfo {
        scene: "made".into(),
        runtime: runtime.into(),
        dump_level: 2,
        dump_args: true,
        kernels: vec![kernel],
        ..RunInfo::default()
    };
    let mut writer = DumpWriter::create(dir, &info).expect("a new dump");
    let mut seqs = HashMap::new();
    for (lane, record) in records {
        let seq: &mut u64 = seqs.entry(*lane).or_default();
        writer.append(*lane, *seq..*seq + 1, std::slice::from_ref(record)).expect("appended");
        *seq += 1;
    }
    writer.finish(&Footer::new(Status::Complete)).expect("closed");
    Dump::open(dir).expect("a dump")
}

pub(crate) fn task(task_id: u64, started_ns: u64, completed_ns: u64) -> IndexRecord {
    let func_id = [NO_KERNEL, 0, NO_KERNEL];
    let task = TaskRecord { task_id, func_id, block_num: 1, started_ns, completed_ns, ..Default::default() };
    IndexRecord::plain(&task)
}

pub(crate) fn dispatch(task_id: u64, core_id: u32, handed_ns: u64) -> IndexRecord {
    let (block, subtask) = Default::default();
    let words = DispatchWords::new(&[0; tensortap::abi::ARG_SLOTS], 0, 0, block, subtask);
    let fields = DispatchRecord {
        task_id,
        core_id,
        stage: 1,
        subtask_id: 1,
        subtask_count: 1,
        block_num: 1,
        started_ns: handed_ns,
        ..Default::default()
    };
    IndexRecord::dispatch(&fields, words.words())
}

pub(crate) fn ran(task_id: u64, started_ns: u64, completed_ns: u64) -> IndexRecord {
    let ran = FinishedRecord { task_id, subtask_id: 1, started_ns, completed_ns, ..Default::default() };
    IndexRecord::plain(&ran)
}

fn of(dump: &Dump) -> Timeline {
    Timeline::of(dump, &load(dump, &[]).expect("a graph"), |_| true)
}

fn names(timeline: &Timeline) -> Vec<&str> {
    timeline.tracks.iter().map(|track| track.name.as_str()).collect()
}

/// Whether no slices of a row overlap.
fn are_apart(slices: &[Slice]) -> bool {
    let same = |a: &Slice, b: &Slice| (a.track, a.row) == (b.track, b.row);
    slices.windows(2).all(|pair| !same(&pair[0], &pair[1]) || pair[0].end_ns() <= pair[1].start_ns)
}

#[test]
fn separates_invalid_times_from_valid_ones() {
    let folder = tempfile::tempdir().unwrap();
    let records = [
        (1, task(0, 1_000, 2_000)),
        (1, dispatch(0, 4, 1_100)),
        (1, ran(0, 1_200, 1_900)),
        // Backward, out of range, never ended, without times.
        (2, task(1, 5_000, 4_000)),
        (2, dispatch(1, 4, u64::MAX)),
        (2, ran(1, 4_500, 100)),
        (1, task(2, u64::MAX, u64::MAX)),
        (1, task(3, 1_500, 0)),
        (1, dispatch(3, 1, 1_600)),
        (1, task(4, 0, 0)),
    ];
    let dump = made(&folder.path().join("d"), "host_build_graph", &records);
    let timeline = of(&dump);
    assert_eq!((timeline.is_timed, timeline.start_ns, timeline.end_ns), (true, 100, 5_000));
    assert_eq!(
        names(&timeline),
        ["scheduler 0", "scheduler 1", "core 1 (AIV)", "core 4 (AIV)", "tasks without times"]
    );
    let graph = load(&dump, &[]).unwrap();
    let mut seen: Vec<_> = timeline
        .slices
        .iter()
        .map(|slice| {
            let is_task = matches!(slice.what, SliceKind::Task(_));
            let id = graph.task(slice.what.task()).task_id;
            (is_task, id, slice.start_ns, slice.duration_ns, slice.sure)
        })
        .collect();
    seen.sort_by_key(|slice| (slice.0, slice.1));
    let expected = [
        (false, 0, 1_200, 700, Precision::Measured),
        (false, 1, 4_500, 0, Precision::GoesBack),
        (false, 3, 1_600, 3_400, Precision::NeverEnded),
        (true, 0, 1_000, 1_000, Precision::Measured),
        (true, 1, 5_000, 0, Precision::GoesBack),
        (true, 2, 100, 0, Precision::Unknown),
        (true, 3, 1_500, 3_500, Precision::NeverEnded),
        (true, 4, 100, 0, Precision::Unknown),
    ];
    assert_eq!(seen, expected);
    assert!(are_apart(&timeline.slices));
    assert_eq!(timeline.tracks[0].rows, 2, "the task that never ended overlaps another");
}

#[test]
fn a_dump_without_times_shows_tasks_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let edge = tensortap::abi::EdgeRecord::new(2, 1, tensortap::abi::EdgeCause::Explicit, 0);
    let records = [(1, task(1, 0, 0)), (1, task(2, 0, 0)), (0, IndexRecord::plain(&edge))];
    let dump = made(&folder.path().join("d"), "host_build_graph", &records);
    let timeline = of(&dump);
    let graph = load(&dump, &[]).unwrap();
    let order: Vec<_> =
        timeline.slices.iter().map(|s| (graph.task(s.what.task()).task_id, s.start_ns)).collect();
    assert_eq!((timeline.is_timed, order), (false, vec![(2, 0), (1, 1000)]));
    let flows: Vec<_> = timeline
        .flows
        .iter()
        .map(|flow| (graph.task(flow.from).task_id, graph.task(flow.to).task_id))
        .collect();
    assert_eq!((flows, timeline.counters.len()), (vec![(2, 1)], 0));
}

#[test]
fn program_tasks_are_on_queues_and_threads_and_calls_nest() {
    let folder = tempfile::tempdir().unwrap();
    let name = |id, text: &str| (0, IndexRecord::string(id, text));
    let lane =
        |lane, tid, name| (lane, IndexRecord::plain(&LaneRecord { tid, name, lane, ..Default::default() }));
    let queued = TaskRecord { task_id: 9, started_ns: 5, completed_ns: 6, queue: 3, ..Default::default() };
    let records = [
        name(7, "loader\u{202e}"),
        name(8, "copies"),
        (0, IndexRecord::plain(&QueueRecord { id: 3, name: 8, ..Default::default() })),
        lane(0, 4711, 7),
        (0, task(1, 100, 900)),
        (0, task(2, 200, 300)),
        (0, task(3, 300, 900)),
        // From here on, the lane belongs to another thread.
        lane(0, 12, 0),
        (0, task(4, 10, 20)),
        (0, task(5, 15, 25)),
        (0, IndexRecord::plain(&queued)),
    ];
    let timeline = of(&made(&folder.path().join("d"), "record", &records));
    assert_eq!(names(&timeline), ["copies", "loader\\u{202e} (thread 4711)", "thread 12"]);
    let shapes: Vec<_> = timeline.tracks.iter().map(|track| (track.rows, track.nests)).collect();
    assert_eq!(shapes, [(1, true), (2, true), (2, false)], "overlapping slices do not nest");
}

proptest! {
    /// For any times: every slice occurs, slices of a row do not overlap, and nested rows are inside each
    /// other.
    #[test]
    fn slices_of_a_row_never_overlap(
        spans in proptest::collection::vec((0_u64..40, 0_u64..12), 0..60),
        calls in any::<bool>(),
    ) {
        let slice = |(place, &(start_ns, duration_ns)): (usize, &(u64, u64))| {
            UnplacedSlice { what: SliceKind::Task(place), start_ns, duration_ns, sure: Precision::Measured }
        };
        let loose: Vec<UnplacedSlice> = spans.iter().enumerate().map(slice).collect();
        let mut slices = Vec::new();
        let (rows, nests) = lay(loose, 0, calls, &mut slices);
        let mut there: Vec<(usize, u64, u64)> =
            slices.iter().map(|s| (s.what.task(), s.start_ns, s.duration_ns)).collect();
        there.sort_unstable();
        let expected: Vec<_> = spans.iter().enumerate().map(|(at, &(start, took))| (at, start, took)).collect();
        prop_assert_eq!(there, expected);
        prop_assert!(are_apart(&slices));
        prop_assert!(slices.iter().all(|slice| slice.row < rows));
        if nests {
            for slice in slices.iter().filter(|slice| slice.row > 0) {
                let holds = |other: &&Slice| {
                    other.row + 1 == slice.row
                        && other.start_ns <= slice.start_ns
                        && slice.end_ns() <= other.end_ns()
                };
                prop_assert!(slices.iter().any(|other| holds(&other)), "{:?}", slice);
            }
        }
    }
}

#[test]
fn limits_the_number_of_rows_by_cutting_slices() {
    let slice = |place| UnplacedSlice {
        what: SliceKind::Task(place),
        start_ns: place as u64,
        duration_ns: 10_000,
        sure: Precision::Measured,
    };
    let mut slices = Vec::new();
    let (rows, _) = lay((0..1000).map(slice).collect(), 0, false, &mut slices);
    assert_eq!((rows, slices.len()), (256, 1000));
    assert!(are_apart(&slices));
}
