//! Tasks that must run at the same time do.

use tensortap::GoldenVerdict;

use crate::{everywhere, label, run};

#[test]
fn slots_of_a_mix_task_that_wait_for_each_other_complete() {
    for config in everywhere("rendezvous") {
        let config = config.param("mode", "mix");
        assert_eq!(run(&config).golden, GoldenVerdict::Pass, "{}", label(&config));
    }
}

#[test]
fn independent_tasks_that_wait_for_each_other_complete() {
    for config in everywhere("rendezvous") {
        for (schedulers, blocks) in [(1, 1), (2, 2)] {
            let mut config = config.clone().param("mode", "tasks");
            (config.schedulers, config.blocks) = (schedulers, Some(blocks));
            assert_eq!(run(&config).golden, GoldenVerdict::Pass, "{} with {blocks} blocks", label(&config));
        }
    }
}
