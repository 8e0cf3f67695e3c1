//! One file or folder per verb.

mod bench;
mod run;
mod scenes;

use clap::Subcommand;

use crate::exit::Exit;
use crate::output::Output;

/// What tensortap can be asked to do.
#[derive(Subcommand)]
pub enum Verb {
    /// List the built-in scenes, or tell about one
    Scenes(scenes::ScenesArgs),
    /// Run a scene and check its golden
    Run(run::RunArgs),
    /// Measure tensortap itself
    Bench(bench::BenchArgs),
}

impl Verb {
    /// Does it.
    pub fn run(&self, output: Output) -> anyhow::Result<Exit> {
        match self {
            Verb::Scenes(args) => scenes::run(args, output),
            Verb::Run(args) => run::run(args, output),
            Verb::Bench(args) => bench::run(args, output),
        }
    }

    /// The scene it is about.
    pub fn scene(&self) -> Option<&str> {
        match self {
            Verb::Scenes(args) => args.scene.as_deref(),
            Verb::Run(args) => Some(&args.scene),
            Verb::Bench(_) => None,
        }
    }
}

/// Whether a runtime stores its tasks in rings; the others have one array.
fn has_rings(runtime: &str) -> bool {
    runtime == "tensormap_and_ringbuffer"
}

/// Names for a help text: `a2a3sim or a5sim`.
fn any_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn platform_names() -> Vec<&'static str> {
    tensortap::PLATFORMS.iter().map(|p| p.name()).collect()
}

fn runtime_names() -> Vec<&'static str> {
    tensortap::RUNTIMES.iter().map(|r| r.name()).collect()
}
