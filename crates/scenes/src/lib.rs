//! The built-in scenes.
//!
//! Every scene brings its kernels, one orchestration for all runtimes it makes sense for, seeded inputs, and a
//! golden computed in f64 from the inputs alone. Beside each kernel stands a reference written from the
//! definition of the operation; it shares no code with the kernel, and neither does the golden. Scenes know neither
//! runtimes, but for the names of those they make sense for, nor platforms.
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

/// Every built-in scene.
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
