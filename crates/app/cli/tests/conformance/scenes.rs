//! Every scene gives the right result in every venue, for any number of threads.

use tensortap::{BuildMode, GoldenVerdict};

use crate::{config, everywhere, label, listed_scenes, run};

#[test]
fn the_nine_scenes_are_built_in() {
    let mut scenes = listed_scenes();
    scenes.sort_unstable();
    let expected = [
        "bgemm",
        "dump_tensor_example",
        "every_dtype",
        "mixed_example",
        "paged_attention",
        "scalar_data",
        "stream",
        "tiny_llm",
        "vector_example",
    ];
    assert_eq!(scenes, expected);
}

/// Schedulers and blocks of a run.
const SPREADS: [(u32, u32); 4] = [(1, 1), (2, 1), (1, 3), (3, 4)];

/// The fill byte of new memory.
const POISON: u8 = 0xa5;

/// Checks that the golden passes, that no poison remains in any element, and that results have the same
/// bytes, including the unused half of a last byte of 4-bit elements. In every venue, each scene has another
/// spread than the scene before, so that every venue and every scene gets every spread.
#[test]
fn every_scene_has_one_right_result_in_every_venue_with_poison_and_any_spread() {
    for (turn, scene) in listed_scenes().into_iter().enumerate() {
        let plain = run(&config(scene));
        assert_eq!(plain.golden, GoldenVerdict::Pass, "{scene}: {:?}", plain.outputs);
        let mut poisoned = config(scene);
        poisoned.poison = Some(POISON);
        let first = run(&poisoned).results;
        assert!(!first.is_empty() && first.len() == plain.results.len());
        for (number, mut config) in everywhere(scene).into_iter().enumerate() {
            let (schedulers, blocks) = SPREADS[(number + number / SPREADS.len() + turn) % SPREADS.len()];
            (config.schedulers, config.blocks) = (schedulers, Some(blocks));
            config.poison = Some(POISON);
            let report = run(&config);
            let label = format!("{} with {schedulers} schedulers, {blocks} blocks", label(&config));
            assert_eq!(report.golden, GoldenVerdict::Pass, "{label}: {:?}", report.outputs);
            assert!(report.results == first, "{label}");
            assert!(report.failure.is_none() && report.tasks > 0 && report.dispatches >= report.tasks);
        }
    }
}

#[test]
fn sequential_and_concurrent_building_give_the_same_result() {
    for scene in listed_scenes() {
        let mut config = config(scene);
        config.runtime = Some("aicpu_build_graph".into());
        let concurrent = run(&config);
        config.build = BuildMode::Sequential;
        let sequential = run(&config);
        assert_eq!(sequential.golden, GoldenVerdict::Pass, "{scene}");
        assert!(concurrent.results == sequential.results, "{scene}");
    }
}

#[test]
fn two_hundred_runs_of_mixed_example_with_three_schedulers_all_pass() {
    for round in 0..200 {
        let mut config = config("mixed_example");
        config.schedulers = 3;
        assert_eq!(run(&config).golden, GoldenVerdict::Pass, "run {round}");
    }
}
