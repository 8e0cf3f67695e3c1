//! The Rust examples in the documentation are compiled and run as tests of this crate.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/scenes.md")]
struct Scenes;
