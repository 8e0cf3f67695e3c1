//! Scene folders: scenes that consist of `scene.toml` and sources in C or C++.
//!
//! [`FolderScene::open`] reads the description, compiles its sources with the host's compiler, and returns a
//! [`Scene`](tensortap_scene::Scene) like any other. The `tensortap` crate opens folders for the command
//! line. This crate does not know which runtimes and platforms exist, nor what a dump is.
//!
//! # What must hold
//!
//! - **No code of a folder runs in the host.** On the host the kernels of a folder have entries that refuse
//!   to be called. Kernels run on devices ([`load_plan`]). Orchestrations of host-built graphs, references
//!   and goldens run in [workers](become_worker_if_asked): confined processes that compute what the host
//!   needs.
//! - **A device loads a folder from its plan** ([`ScenePlan`]): the description as the host read it, and the
//!   build ids of the libraries. It does so before it is confined. A library that was rebuilt in between is
//!   refused.
//! - **Every mistake in `scene.toml` is reported with its line and a remedy** before anything runs
//!   ([`Mistake`]).
//! - **A compiled library is cached under a name with the hash of all its inputs,** so a new build never
//!   replaces a library that is loaded.
//! - **Code that only a dump or a case names is not run.** The user must have named the folder or library
//!   before ([`grant_folder`], [`is_folder_granted`]).
//! - **`include/tensortap.h` and the Rust layouts agree.** `tests/header.rs` compiles one against the other.
//!
//! [`UserKernelScene`] covers another case: kernels from libraries that the user names for a replay (`replay
//! --kernel`).
#![deny(unsafe_code)]

mod arrays;
#[expect(unsafe_code, reason = "a table of functions that C code calls with pointers")]
mod bridge;
#[expect(unsafe_code, reason = "calling functions of a library")]
mod call;
mod compile;
mod consent;
mod definition;
mod dry;
mod error;
mod expression;
mod golden;
mod graph;
mod library;
#[expect(unsafe_code, reason = "loading libraries and finding functions in them")]
mod load;
mod plan;
mod raw;
mod sanitize;
mod scene;
mod scene_files;
mod template;
mod user_kernels;
mod worker;

pub use compile::cache_dir;
pub use consent::{grant_file, grant_folder, is_file_granted, is_folder_granted};
pub use definition::{Definition, TensorDef};
pub use error::{FolderError, Mistake};
pub use library::{ABI_VERSION, build_id, exports_symbol};
pub use plan::{PlannedLibrary, ScenePlan};
pub use sanitize::{SanitizerKind, find_sanitizer};
pub use scene::{DESCRIPTION_FILE, FolderScene, OpenOptions, is_folder};
pub use template::new_scene;
pub use user_kernels::{UserKernel, UserKernelScene};
pub use worker::become_worker_if_asked;

use tensortap_scene::{Registry, Scene};

/// Creates the scene of a plan in a process that runs its kernels. This is the
/// [`Loader`](tensortap_scene::Loader) of devices.
///
/// # Errors
///
/// A message for the user, if a library cannot be loaded.
pub fn load_plan(plan: &[u8], known: &Registry) -> Result<&'static dyn Scene, String> {
    if UserKernelScene::is_plan(plan) {
        return UserKernelScene::load(plan, known).map(|scene| scene as &'static dyn Scene);
    }
    FolderScene::load(plan).map(|scene| scene as &'static dyn Scene)
}
