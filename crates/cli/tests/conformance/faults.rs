//! Every fault kind that a kernel lists shows in the scene's result.

use tensortap::scene::FaultKind;
use tensortap::{DeviceMode, Golden, PLATFORMS};

use crate::{config, everywhere, label, listed_scenes, run};

#[test]
fn every_listed_fault_makes_the_golden_fail_on_every_platform_and_runtime_in_a_process() {
    every_listed_fault_makes_the_golden_fail(DeviceMode::Process);
}

#[test]
fn every_listed_fault_makes_the_golden_fail_on_every_platform_and_runtime_in_threads() {
    every_listed_fault_makes_the_golden_fail(DeviceMode::Thread);
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

fn every_listed_fault_makes_the_golden_fail(mode: DeviceMode) {
    for scene in listed_scenes() {
        let places: Vec<_> = everywhere(scene).into_iter().filter(|c| c.device_mode == mode).collect();
        assert!(places.len() >= PLATFORMS.len(), "{scene} runs in too few places");
        for kernel in tensortap_cli::scenes().find(scene).expect("listed").kernels() {
            for &kind in kernel.faults {
                for mut config in places.iter().cloned() {
                    config.inject_fault = Some((kernel.name.into(), kind));
                    let report = run(&config);
                    let what = format!("{kind} in {} of {}", kernel.name, label(&config));
                    assert_eq!(report.golden, Golden::Fail, "{what}");
                    assert!(report.failure.is_none(), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_race_shows_with_several_schedulers_too() {
    for scene in listed_scenes() {
        for kernel in tensortap_cli::scenes().find(scene).expect("listed").kernels() {
            if kernel.faults.contains(&FaultKind::Race) {
                let mut config = config(scene);
                config.inject_fault = Some((kernel.name.into(), FaultKind::Race));
                (config.schedulers, config.blocks) = (2, Some(3));
                assert_eq!(run(&config).golden, Golden::Fail, "race in {} of {scene}", kernel.name);
            }
        }
    }
}

#[test]
fn a_fault_that_a_kernel_cannot_show_is_refused_with_those_it_can() {
    let mut config = config("dump_tensor_example");
    let kernel = tensortap_cli::scenes().find("dump_tensor_example").expect("built in").kernels()[0];
    let missing = FaultKind::ALL
        .into_iter()
        .find(|kind| !kernel.faults.contains(kind))
        .expect("constant inputs hide some");
    config.inject_fault = Some((kernel.name.into(), missing));
    let error = tensortap::run(&config).expect_err("refused");
    assert!(error.is_usage());
    assert!(error.to_string().contains(kernel.faults[0].name()), "{error}");
}
