//! Tests of all built-in scenes together.

use std::collections::HashSet;

use crate::builtin;
use crate::checks::{self, recorded};

#[test]
fn names_are_unique_and_every_scene_is_well_formed() {
    let mut names = HashSet::new();
    for scene in builtin().scenes() {
        assert!(names.insert(scene.name()), "two scenes have the name {}", scene.name());
        checks::is_well_formed(*scene);
    }
}

#[test]
fn every_kernel_of_a_listed_scene_runs_by_default() {
    for scene in builtin().scenes().iter().filter(|s| !s.hidden()) {
        let graph = recorded(*scene, &[]);
        let used: HashSet<u32> =
            (0..graph.len()).flat_map(|task| graph.kernels(task)).map(|k| k.func_id).collect();
        for kernel in scene.kernels() {
            assert!(used.contains(&kernel.func_id), "{}: {} never runs", scene.name(), kernel.name);
        }
    }
}

#[test]
fn listed_scenes_list_every_fault_that_changes_the_result() {
    for scene in builtin().scenes().iter().filter(|s| !s.hidden()) {
        checks::faults_that_show_are_listed(*scene);
    }
}
