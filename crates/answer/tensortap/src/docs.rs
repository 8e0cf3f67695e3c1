//! Compiles and runs the Rust examples of the documentation as tests of this crate.

#[doc = include_str!("../../../../README.md")]
struct Readme;

#[doc = include_str!("../../../../docs/how-to/write-a-scene-in-rust.md")]
struct Scenes;
