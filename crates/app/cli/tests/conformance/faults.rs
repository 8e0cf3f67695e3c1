//! Every fault kind that a kernel lists changes the scene's result.

use std::collections::HashSet;

use tensortap::GoldenVerdict;
use tensortap::scene::{FaultKind, KernelDef};

use crate::common::{Rotation, Venue};
use crate::{config, config_in, label, listed_scenes, run, venues};

/// Every fault that the scenes list.
fn listed_faults() -> impl Iterator<Item = (&'static str, &'static KernelDef, FaultKind)> {
    listed_scenes().into_iter().flat_map(|scene| {
        let kernels = tensortap_cli::scenes().find(scene).expect("listed").kernels();
        kernels.iter().flat_map(move |kernel| kernel.faults.iter().map(move |&kind| (scene, kernel, kind)))
    })
}

fn makes_the_golden_fail(scene: &str, kernel: &KernelDef, kind: FaultKind, venue: Venue) {
    let mut config = config_in(scene, venue);
    config.inject_fault = Some((kernel.name.into(), kind));
    let report = run(&config);
    let what = format!("{kind} in {} of {}", kernel.name, label(&config));
    assert_eq!(report.golden, GoldenVerdict::Fail, "{what}");
    assert!(report.failure.is_none(), "{what}");
}

/// A kernel does the same damage in every venue. The `blame` suite runs every listed fault with a dump and
/// checks the verdict of each run. Here, one kernel of each scene shows each kind without a dump, and the
/// venues take turns.
#[test]
fn every_kind_of_damage_fails_the_golden_of_every_scene() {
    let mut rotation = Rotation::new();
    let mut shown = HashSet::new();
    for (scene, kernel, kind) in listed_faults().filter(|(.., kind)| *kind != FaultKind::Race) {
        if shown.insert((scene, kind)) {
            makes_the_golden_fail(scene, kernel, kind, rotation.next(scene, kind));
        }
    }
    rotation.assert_complete();
}

/// Whether tasks collide depends on runtime, scheduler and device.
#[test]
fn every_listed_race_fails_the_golden_in_every_venue() {
    for (scene, kernel, kind) in listed_faults().filter(|(.., kind)| *kind == FaultKind::Race) {
        for venue in venues(scene) {
            makes_the_golden_fail(scene, kernel, kind, venue);
        }
    }
}

#[test]
fn every_kind_of_fault_is_listed_and_every_kernel_lists_one() {
    let scenes =
        listed_scenes().into_iter().map(|scene| tensortap_cli::scenes().find(scene).expect("listed"));
    let kernels: Vec<_> = scenes.flat_map(|scene| scene.kernels()).collect();
    for kernel in &kernels {
        assert!(!kernel.faults.is_empty(), "kernel {} lists no fault", kernel.name);
    }
    for kind in FaultKind::ALL {
        assert!(kernels.iter().any(|kernel| kernel.faults.contains(&kind)), "no kernel lists {kind}");
    }
}

#[test]
fn a_race_also_shows_with_several_schedulers() {
    for (scene, kernel, kind) in listed_faults().filter(|(.., kind)| *kind == FaultKind::Race) {
        let mut config = config(scene);
        config.inject_fault = Some((kernel.name.into(), kind));
        (config.schedulers, config.blocks) = (2, Some(3));
        assert_eq!(run(&config).golden, GoldenVerdict::Fail, "race in {} of {scene}", kernel.name);
    }
}

#[test]
fn a_fault_that_a_kernel_does_not_list_is_rejected_with_the_listed_ones() {
    let mut config = config("dump_tensor_example");
    let kernel = tensortap_cli::scenes().find("dump_tensor_example").expect("built in").kernels()[0];
    let missing = FaultKind::ALL
        .into_iter()
        .find(|kind| !kernel.faults.contains(kind))
        .expect("constant inputs hide some faults");
    config.inject_fault = Some((kernel.name.into(), missing));
    let error = tensortap::run(&config).expect_err("refused");
    assert!(error.is_usage());
    assert!(error.to_string().contains(kernel.faults[0].name()), "{error}");
}
