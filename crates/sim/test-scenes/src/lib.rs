//! Scenes that fail on purpose or are hard to handle: kernels that crash, hang, race or wait for one another, unusual views
//! and graphs. Tests use them, and the documentation runs some of them to show failures.
//!
//! All of them are hidden: only `tensortap scenes --all` lists them.
//!
//! ```
//! let registry = tensortap_test_scenes::all();
//! assert!(registry.find("crash_segv").is_some_and(|scene| scene.hidden()));
//! ```
//!
//! `unsafe` is denied, except in a kernel that writes to an unmapped address on purpose.
#![deny(unsafe_code)]

mod faulty;
mod garbage;
mod large_tensor;
mod misrouted;
mod odd_names;
mod odd_views;
mod reaching;
mod rendezvous;
mod ring_scopes;
mod shuffled;
mod trace_args;

use tensortap_scene::Registry;

/// Scenes that the documentation runs, to show what a failure looks like. Every `tensortap` binary has them.
pub fn documented() -> Registry {
    Registry::new(&[
        &faulty::CRASH_SEGV,
        &faulty::CRASH_ABORT,
        &faulty::CRASH_STACK,
        &faulty::HANG,
        &ring_scopes::RingScopes,
        &misrouted::MisroutedScene,
    ])
}

/// Names of the scenes that only tests need: the ones in [`all`] that are not [`documented`].
pub const TEST_ONLY: [&str; 8] =
    ["reaching", "rendezvous", "odd_names", "odd_views", "large_tensor", "garbage", "shuffled", "trace_args"];

/// Every scene of this crate.
pub fn all() -> Registry {
    documented().and(&Registry::new(&[
        &reaching::ReachingScene,
        &rendezvous::Rendezvous,
        &odd_names::OddNames,
        &odd_views::OddViews,
        &large_tensor::LargeTensor,
        &garbage::GarbageScene,
        &shuffled::ShuffledScene,
        &trace_args::TraceArgs,
    ]))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tensortap_scenes::checks;

    use super::{TEST_ONLY, all, documented};

    #[test]
    fn test_only_scenes_are_those_that_are_not_documented() {
        let documented = documented();
        let registry = all();
        let others = registry.scenes().iter().map(|scene| scene.name());
        let others: Vec<&str> = others.filter(|name| documented.find(name).is_none()).collect();
        assert_eq!(others, TEST_ONLY);
    }

    #[test]
    fn names_are_unique_and_all_scenes_are_hidden() {
        let (registry, builtin) = (all(), tensortap_scenes::builtin());
        let mut names: HashSet<_> = builtin.scenes().iter().map(|scene| scene.name()).collect();
        for scene in registry.scenes() {
            assert!(names.insert(scene.name()), "two scenes are called {}", scene.name());
            assert!(scene.hidden(), "{}", scene.name());
            checks::is_well_formed(*scene);
        }
    }
}
