//! Scenes that are made to go wrong, or to be hard: kernels that crash, hang, race or wait for one another, views and graphs that
//! no sane author writes. The tests run them, and anyone who wants to see what a failure looks like.
//!
//! All of them are hidden: `tensortap scenes --all` lists them.
//!
//! ```
//! let registry = tensortap_test_scenes::all();
//! assert!(registry.find("crash_segv").is_some_and(|scene| scene.hidden()));
//! ```
//!
//! `unsafe` is denied, with one exception: a kernel writes to an unmapped address on purpose.
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

/// Every scene of this crate.
pub fn all() -> Registry {
    Registry::new(&[
        &faulty::CRASH_SEGV,
        &faulty::CRASH_ABORT,
        &faulty::CRASH_STACK,
        &faulty::HANG,
        &ring_scopes::RingScopes,
        &reaching::Reaching,
        &rendezvous::Rendezvous,
        &odd_names::OddNames,
        &odd_views::OddViews,
        &large_tensor::LargeTensor,
        &garbage::Garbage,
        &shuffled::Shuffled,
        &misrouted::Misrouted,
        &trace_args::TraceArgs,
    ])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tensortap_scenes::checks;

    use super::all;

    #[test]
    fn names_are_unique_also_among_the_built_in_scenes_and_all_are_hidden() {
        let (registry, builtin) = (all(), tensortap_scenes::builtin());
        let mut names: HashSet<_> = builtin.scenes().iter().map(|scene| scene.name()).collect();
        for scene in registry.scenes() {
            assert!(names.insert(scene.name()), "two scenes are called {}", scene.name());
            assert!(scene.hidden(), "{}", scene.name());
            checks::is_well_formed(*scene);
        }
    }
}
