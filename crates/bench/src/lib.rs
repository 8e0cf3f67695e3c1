//! Measures tensortap itself.
#![forbid(unsafe_code)]

mod scene;

use tensortap::scene::Registry;

/// The scenes that are measured and that no other crate has.
pub fn scenes() -> Registry {
    Registry::new(&[&scene::BenchDispatch])
}

/// Every scene that is measured; the device must know them, too.
pub fn registry() -> Registry {
    tensortap::builtin().and(&scenes())
}
