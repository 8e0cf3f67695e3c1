//! The built-in scenes.
//!
//! Each scene has kernels, one orchestration for all runtimes that it supports, seeded inputs, and a golden.
//! The golden is computed in f64 from the inputs only. Next to each kernel is a reference, written from the
//! definition of the operation. Neither the reference nor the golden shares code with the kernel.
//!
//! Scenes know no platforms. They know runtimes only by the names in [`Runtimes`](tensortap_scene::Runtimes).
//! [`checks`] has the tests that every scene must pass.
//!
//! ```
//! use tensortap_scene::{Params, SequentialGraph};
//!
//! let scene = tensortap_scenes::builtin().find("vector_example").expect("a built-in scene");
//! let params = Params::resolve(scene.name(), scene.params(), [("n", "64")])?;
//! let inputs = scene.host_args(&params);
//! let mut graph = SequentialGraph::record(scene, &params, &inputs)?;
//! graph.run().expect("kernels do not panic");
//! assert_eq!(graph.len(), 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

use tensortap_scene::Registry;

mod bgemm;
pub mod checks;
mod dump_tensor_example;
mod every_dtype;
pub mod inputs;
mod limits;
mod mixed_example;
mod paged_attention;
mod scalar_data;
mod stream;
mod tiny_llm;
mod vector_example;

#[cfg(test)]
mod tests;

/// A registry of all built-in scenes.
pub fn builtin() -> Registry {
    Registry::new(&[
        &vector_example::VectorExample,
        &dump_tensor_example::DumpTensorExample,
        &scalar_data::ScalarData,
        &every_dtype::EveryDtype,
        &bgemm::Bgemm,
        &mixed_example::MixedExample,
        &paged_attention::PagedAttention,
        &tiny_llm::TinyLlm,
        &stream::Stream,
    ])
}
