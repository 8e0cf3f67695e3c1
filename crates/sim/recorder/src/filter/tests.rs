//! Behavior of level and filter.

use tensortap_abi::NO_KERNEL;

use super::*;

fn rules(level: DumpLevel, filter: DumpFilter) -> Rules {
    Rules { level, waits: true, batch: false, liveness_ms: 1, filter }
}

fn filtered(filter: DumpFilter) -> Rules {
    rules(DumpLevel::Full, filter)
}

#[test]
fn each_level_records_the_parts_it_documents() {
    let depth = |level, marked| rules(level, DumpFilter::ALL).tensor_depth(marked);
    for marked in [false, true] {
        assert_eq!(depth(DumpLevel::Off, marked), None);
        assert_eq!(depth(DumpLevel::Marked, marked), marked.then_some(Depth::Payload));
        assert_eq!(depth(DumpLevel::Full, marked), Some(Depth::Payload));
        assert_eq!(depth(DumpLevel::Hash, marked), Some(Depth::Statistics));
    }
    assert_eq!(depth(DumpLevel::Meta, false), Some(Depth::Metadata));
    assert_eq!(depth(DumpLevel::Meta, true), Some(Depth::Payload));
}

#[test]
fn a_task_passes_within_any_range_including_its_ends() {
    let mut filter = DumpFilter { task_ranges: 2, ..DumpFilter::ALL };
    filter.tasks[0] = [3, 5];
    filter.tasks[1] = [u64::MAX, u64::MAX];
    filter.tasks[2] = [7, 7]; // not in use
    let passing =
        [2, 3, 5, 6, 7, u64::MAX].map(|task| filtered(filter).passes_task(task, &[0, NO_KERNEL, NO_KERNEL]));
    assert_eq!(passing, [false, true, true, false, false, true]);
}

#[test]
fn a_task_passes_when_any_of_its_kernels_does() {
    let filter = DumpFilter { funcs: [1 << 3, 0, 0, 1 << 63], ..DumpFilter::ALL };
    let passes = |func_ids| filtered(filter).passes_task(1, &func_ids);
    assert!(passes([3, NO_KERNEL, NO_KERNEL]) && passes([0, 1, 255]));
    assert!(!passes([4, 67, NO_KERNEL]) && !passes([256, 254, NO_KERNEL]));
}

#[test]
fn kernels_above_the_filters_range_pass_only_without_a_filter() {
    let beyond = [1000, NO_KERNEL, NO_KERNEL];
    assert!(filtered(DumpFilter::ALL).passes_task(0, &beyond));
    let all_but_one = DumpFilter { funcs: [u64::MAX, u64::MAX, u64::MAX, u64::MAX - 1], ..DumpFilter::ALL };
    assert!(!filtered(all_but_one).passes_task(0, &beyond));
}

#[test]
fn arguments_pass_by_index_and_stage() {
    use DumpStage::{AfterCompletion, BeforeDispatch};
    let filter = DumpFilter { args: 1 << 2 | 1 << 47, stages: 1 << BeforeDispatch as u64, ..DumpFilter::ALL };
    let passes = |stage, arg| filtered(filter).passes_arg(stage, arg);
    assert!(passes(BeforeDispatch, 2) && passes(BeforeDispatch, 47));
    assert!(!passes(BeforeDispatch, 3) && !passes(BeforeDispatch, 66) && !passes(AfterCompletion, 2));
    assert!(filtered(DumpFilter::ALL).passes_arg(AfterCompletion, u16::MAX));
}
