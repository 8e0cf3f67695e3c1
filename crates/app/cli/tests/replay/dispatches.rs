//! Tests replays of single dispatches of mix and SPMD tasks.

use tensortap::format::{Dump, dispatch_id};
use tensortap::{DumpConfig, DumpLevel, Outcome, Selection};

use crate::{capture, only, replay, replay_of, small};

#[test]
fn every_dispatch_writes_its_share_of_the_outputs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = small("mixed_example");
    config.dump = Some(DumpConfig { dump_args: true, ..DumpConfig::new(DumpLevel::Full) });
    let ran = capture(config, &folder.path().join("dump"));
    let dump = Dump::open(folder.path()).expect("a dump");
    let dispatches = dump.dispatches().expect("recorded");
    assert_eq!(dispatches.len() as u64, ran.dispatches);
    let mut config = replay_of(folder.path());
    let mut shares = std::collections::BTreeMap::<u64, Vec<(u64, u64)>>::new();
    for dispatch in &dispatches {
        let id = dispatch_id(dispatch.task_id, dispatch.subtask_id, dispatch.block_idx);
        config.select = Selection::Dispatch(id);
        config.repeat = 2;
        let report = replay(&config);
        let task = only(&report);
        assert_eq!(task.outcome, Outcome::BitExact, "dispatch {id:#x} of {}", task.name());
        assert_eq!(task.distinct_results, 1, "dispatch {id:#x} of {}", task.name());
        let sum = |of: fn(&tensortap::OutputReport) -> u64| task.outputs.iter().map(of).sum();
        shares.entry(dispatch.task_id).or_default().push((sum(|o| o.compared), sum(|o| o.elements)));
    }
    // Together the dispatches write everything, and no single one does.
    for (task, shares) in shares {
        let compared: u64 = shares.iter().map(|(compared, _)| compared).sum();
        // An element that is written with its old value does not count as written.
        assert!(compared * 100 >= shares[0].1 * 99, "task {task:#x}: {shares:?}");
        assert!(
            shares.len() == 1 || shares.iter().any(|(part, whole)| part < whole),
            "{task:#x}: {shares:?}"
        );
    }
}

#[test]
fn refuses_unknown_slots_and_blocks() {
    let folder = tempfile::tempdir().expect("a folder");
    capture(small("vector_example"), &folder.path().join("dump"));
    let task = Dump::open(folder.path()).expect("a dump").tasks().expect("tasks").at(0).task_id;
    let mut config = replay_of(folder.path());
    for (slot, block, reason) in
        [(0, 0, "slot 0 is not active; active slots: [1]"), (1, 7, "block 7 is out of range")]
    {
        config.select = Selection::Dispatch(dispatch_id(task, slot, block));
        let error = tensortap::replay(&config).expect_err("refused");
        assert!(error.is_usage() && error.to_string().contains(reason), "{error}");
    }
}
