//! Every fault kind that a kernel lists shows in the scene's result.

use tensortap::Golden;
use tensortap::scene::FaultKind;

use crate::{config, everywhere, label, listed_scenes, run};

#[test]
fn every_listed_fault_makes_the_golden_fail_on_every_platform_runtime_and_mode() {
    let mut seen = Vec::new();
    for scene in listed_scenes() {
        for kernel in tensortap::builtin().find(scene).expect("listed").kernels() {
            assert!(!kernel.faults.is_empty(), "{scene}: kernel {} lists no fault", kernel.name);
            for &kind in kernel.faults {
                seen.push(kind);
                for mut config in everywhere(scene) {
                    config.inject_fault = Some((kernel.name.into(), kind));
                    let report = run(&config);
                    assert_eq!(
                        report.golden,
                        Golden::Fail,
                        "{kind} in {} of {}",
                        kernel.name,
                        label(&config)
                    );
                    assert!(report.failure.is_none());
                }
            }
        }
    }
    for kind in FaultKind::ALL {
        assert!(seen.contains(&kind), "no kernel lists {kind}");
    }
}

#[test]
fn a_race_shows_with_several_schedulers_too() {
    for scene in listed_scenes() {
        for kernel in tensortap::builtin().find(scene).expect("listed").kernels() {
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
    let kernel = tensortap::builtin().find("dump_tensor_example").expect("built in").kernels()[0];
    let missing = FaultKind::ALL
        .into_iter()
        .find(|kind| !kernel.faults.contains(kind))
        .expect("constant inputs hide some");
    config.inject_fault = Some((kernel.name.into(), missing));
    let error = tensortap::run(&config).expect_err("refused");
    assert!(error.is_usage());
    assert!(error.to_string().contains(kernel.faults[0].name()), "{error}");
}
