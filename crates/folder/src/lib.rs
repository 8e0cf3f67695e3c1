//! Scenes that are folders: `scene.toml` and sources in C or C++, compiled with the host's compiler.
//!
//! [`FolderScene::open`] reads the description, compiles what it names, and gives a [`Scene`](tensortap_scene::Scene) like any
//! other. Nothing of the folder runs in the host: its libraries are loaded by devices ([`load_plan`]), and by
//! [workers](become_worker_if_asked), which compute what the host wants to know (steps of an orchestration, references, goldens).
//!
//! It does not know which runtimes and platforms there are, nor what a dump is.
#![deny(unsafe_code)]

mod arrays;
#[expect(unsafe_code, reason = "a table of functions that C code calls with pointers")]
mod bridge;
#[expect(unsafe_code, reason = "calling functions of a library")]
mod call;
mod compile;
mod definition;
mod dry;
mod error;
mod expression;
mod given;
mod golden;
mod graph;
mod known;
mod library;
#[expect(unsafe_code, reason = "loading libraries and finding functions in them")]
mod load;
mod opening;
mod plan;
mod raw;
mod sanitize;
mod scene;
mod template;
mod worker;

pub use compile::cache_dir;
pub use definition::{Definition, TensorDef};
pub use error::{FolderError, Mistake};
pub use given::{GivenKernel, GivenScene};
pub use known::{is_known, is_known_file, remember, remember_file};
pub use library::{ABI_VERSION, build_id, exports_symbol};
pub use plan::{PlannedLibrary, ScenePlan};
pub use sanitize::{Sanitize, find_sanitizer};
pub use scene::{DESCRIPTION_FILE, FolderScene, OpenOptions, is_folder};
pub use template::new_scene;
pub use worker::become_worker_if_asked;

use tensortap_scene::{Registry, Scene};

/// Makes the scene of a plan in a process that is to run its kernels; the [`Loader`](tensortap_scene::Loader) of devices.
///
/// # Errors
/// A library that cannot be loaded, in words for the user.
pub fn load_plan(plan: &[u8], known: &Registry) -> Result<&'static dyn Scene, String> {
    if GivenScene::is_plan(plan) {
        return GivenScene::load(plan, known).map(|scene| scene as &'static dyn Scene);
    }
    FolderScene::load(plan).map(|scene| scene as &'static dyn Scene)
}
