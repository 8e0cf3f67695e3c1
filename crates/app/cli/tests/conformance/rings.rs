//! Rings: reuse, wrap-around, back-pressure, and deadlocks that are reported with a solution.

use tensortap::{FailureKind, GoldenVerdict, PLATFORMS, RunConfig, RunReport};

use crate::{config, run};

fn in_rings(scene: &str) -> Vec<RunConfig> {
    PLATFORMS
        .iter()
        .map(|platform| {
            let mut config = config(scene);
            config.platform = platform.name().into();
            config.runtime = Some("tensormap_and_ringbuffer".into());
            config
        })
        .collect()
}

#[test]
fn a_hundred_thousand_tasks_run_in_a_ring_of_sixty_four_slots() {
    for mut config in in_rings("ring_scopes") {
        config.ring_slots = 64;
        let report = run(&config.param("tasks", 100_000).param("scope", 32));
        assert_eq!((report.golden, report.tasks), (GoldenVerdict::Pass, 100_000));
    }
}

#[test]
fn a_scope_too_large_for_its_ring_is_reported_and_the_suggested_size_works() {
    for mut config in in_rings("ring_scopes") {
        config.ring_slots = 64;
        let config = config.param("tasks", 1000).param("scope", 100);
        let message = deadlock(&run(&config));
        assert!(
            message.contains("ring 1") && message.contains("64 slots") && message.contains("100 tasks"),
            "{message}"
        );
        let mut enlarged = config.clone();
        enlarged.ring_slots = advised(&message, "--ring-slots ").try_into().expect("a sensible size");
        assert_eq!(run(&enlarged).golden, GoldenVerdict::Pass, "{message}");
    }
}

#[test]
fn a_heap_too_small_for_a_scope_is_reported_and_the_suggested_size_works() {
    for mut config in in_rings("tiny_llm") {
        config.ring_heap = Some(4 << 10);
        let message = deadlock(&run(&config));
        assert!(message.contains("bytes of heap"), "{message}");
        config.ring_heap = Some(advised(&message, "--ring-heap "));
        assert_eq!(run(&config).golden, GoldenVerdict::Pass, "{message}");
    }
}

#[test]
fn every_scene_fits_in_small_rings_or_reports_a_size_that_works() {
    for scene in crate::listed_scenes() {
        for mut config in in_rings(scene) {
            config.ring_slots = 256;
            let report = run(&config);
            assert_eq!(report.golden, GoldenVerdict::Pass, "{scene}: {:?}", report.failure);
        }
    }
}

#[test]
fn too_many_tasks_for_the_task_array_are_a_named_error() {
    for runtime in ["aicpu_build_graph", "host_build_graph"] {
        let mut config = config("bench_dispatch").param("tasks", 131_073);
        config.runtime = Some(runtime.into());
        let message = tensortap::run(&config).expect_err("the graph does not fit").to_string();
        assert!(message.contains("131072 tasks"), "{runtime}: {message}");
    }
    let mut config = config("bench_dispatch").param("tasks", 131_072);
    config.runtime = Some("host_build_graph".into());
    assert_eq!(run(&config).tasks, 131_072);
}

fn deadlock(report: &RunReport) -> String {
    let failure = report.failure.as_ref().expect("the ring is too small");
    assert_eq!(failure.kind, Some(FailureKind::RingDeadlock), "{failure}");
    failure.to_string()
}

fn advised(message: &str, option: &str) -> u64 {
    let (_, rest) = message.split_once(option).unwrap_or_else(|| panic!("no {option}in: {message}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a size")
}
