//! Every scene gives the right answer, everywhere and however it is spread over threads.

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

/// What new memory is filled with.
const POISON: u8 = 0xa5;

/// The golden holds, no poison survives in any element, and results are the same bytes, the unused half of a last byte of
/// 4-bit elements included. In every venue a scene has another spread than the scene before it, so that every venue meets
/// every spread, and every scene does.
#[test]
fn every_scene_has_one_right_result_on_every_platform_runtime_and_mode_with_poison_and_however_it_is_spread()
{
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
fn sequential_and_concurrent_building_give_the_same() {
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
