//! Every scene gives the right answer, everywhere and however it is spread over threads.

use tensortap::{BuildMode, Golden};

use crate::{config, everywhere, label, listed_scenes, run};

#[test]
fn the_eight_scenes_are_built_in() {
    let mut scenes = listed_scenes();
    scenes.sort_unstable();
    let expected = [
        "bgemm",
        "dump_tensor_example",
        "mixed_example",
        "paged_attention",
        "scalar_data",
        "stream",
        "tiny_llm",
        "vector_example",
    ];
    assert_eq!(scenes, expected);
}

#[test]
fn every_scene_passes_its_golden_on_every_platform_runtime_and_mode() {
    for scene in listed_scenes() {
        for config in everywhere(scene) {
            let report = run(&config);
            assert_eq!(report.golden, Golden::Pass, "{}: {:?}", label(&config), report.outputs);
            assert!(report.failure.is_none() && report.tasks > 0 && report.dispatches >= report.tasks);
        }
    }
}

#[test]
fn no_poison_survives_in_any_scene() {
    for scene in listed_scenes() {
        for mut config in everywhere(scene) {
            config.poison = Some(0xa5);
            let report = run(&config);
            assert_eq!(report.golden, Golden::Pass, "{}: {:?}", label(&config), report.outputs);
        }
    }
}

#[test]
fn results_do_not_depend_on_schedulers_blocks_or_device_mode() {
    for scene in listed_scenes() {
        let first = run(&config(scene)).results;
        assert!(!first.is_empty());
        for mut config in everywhere(scene) {
            for (schedulers, blocks) in [(1, 1), (2, 1), (1, 3), (3, 4)] {
                (config.schedulers, config.blocks) = (schedulers, Some(blocks));
                let again = run(&config).results;
                assert!(again == first, "{} with {schedulers} schedulers, {blocks} blocks", label(&config));
            }
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
        assert_eq!(sequential.golden, Golden::Pass, "{scene}");
        assert!(concurrent.results == sequential.results, "{scene}");
    }
}

#[test]
fn two_hundred_runs_of_mixed_example_with_three_schedulers_all_pass() {
    for round in 0..200 {
        let mut config = config("mixed_example");
        config.schedulers = 3;
        assert_eq!(run(&config).golden, Golden::Pass, "run {round}");
    }
}
