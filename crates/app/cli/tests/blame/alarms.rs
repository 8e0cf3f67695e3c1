//! Correct runs: every task is labeled `ok`.

use tensortap::DumpLevel;
use tensortap::analysis::blame::Blame;
use tensortap::analysis::graph::TaskGraph;

use crate::{
    blame_by_golden, blame_by_reference, complaints, config, listed_scenes, passes_strictly, run, venue,
};

fn all_ok(blame: &Blame, label: &str) {
    let complaints = complaints(blame);
    assert!(complaints.is_empty(), "{label}: {}", complaints.join("\n"));
    assert!(blame.compared > 0 && blame.compared == blame.of, "{label}: {} of {}", blame.compared, blame.of);
    assert!(passes_strictly(blame), "{label}: {:?}", blame.matching);
}

#[test]
fn a_correct_run_passes_on_any_platform_runtime_scheduler_and_block_count() {
    for scene in listed_scenes().into_iter().chain(["odd_views"]) {
        let folder = tempfile::tempdir().expect("a folder");
        let first = venue(scene, 0);
        let golden = run(&config(scene, first.0, first.1, &folder.path().join("golden")));
        all_ok(&blame_by_reference(&golden), &format!("{scene} by reference"));
        for (turn, schedulers, blocks) in [(1, 1, 1), (2, 3, 3), (3, 2, 4)] {
            let (platform, runtime) = venue(scene, turn);
            let mut config = config(scene, platform, runtime, &folder.path().join(format!("{turn}")));
            (config.schedulers, config.blocks) = (schedulers, Some(blocks));
            let dump = run(&config);
            let label = format!("{scene} on {platform}, {runtime}, {schedulers} schedulers, {blocks} blocks");
            all_ok(&blame_by_golden(&dump, &golden), &label);
            all_ok(&blame_by_reference(&dump), &label);
        }
    }
}

#[test]
fn identical_tasks_submitted_in_another_order_are_matched() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden =
        run(&config("shuffled", "a2a3sim", "tensormap_and_ringbuffer", &folder.path().join("golden")));
    for (turn, order) in [(0, 3), (1, 5), (2, 8), (3, 13)] {
        let (platform, runtime) = venue("shuffled", turn);
        let out = folder.path().join(format!("{turn}"));
        let dump = run(&config("shuffled", platform, runtime, &out).param("order", order));
        let label = format!("order {order} on {platform}, {runtime}");
        all_ok(&blame_by_golden(&dump, &golden), &label);
        all_ok(&blame_by_reference(&dump), &label);
        // Two lanes have equal inputs; only these may be matched with each other.
        let blame = blame_by_golden(&dump, &golden);
        let same = |place: usize, other: usize| {
            let given =
                |graph: &TaskGraph, place| graph.task(place).argument(0).expect("it has one").hash_before();
            given(&blame.graph, place) == given(blame.golden.as_ref().expect("a golden"), other)
        };
        let pairs = blame.matching.partner.iter().enumerate();
        assert!(pairs.into_iter().all(|(ours, other)| same(ours, other.expect("matched"))), "{label}");
    }
}

#[test]
fn equal_hashes_suffice_without_payloads() {
    let folder = tempfile::tempdir().expect("a folder");
    let [dump, golden] = ["dump", "golden"].map(|name| {
        let mut config = config("bgemm", "a2a3sim", "tensormap_and_ringbuffer", &folder.path().join(name));
        config.dump.as_mut().expect("dumped").level = DumpLevel::Hash;
        run(&config)
    });
    all_ok(&blame_by_golden(&dump, &golden), "level hash");
}
