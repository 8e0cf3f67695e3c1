//! `tensortap scenes`: what can be run.

mod details;
mod table;

use clap::Args;
use tensortap::scene::{Registry, Scene};
use tensortap::{Error, RunConfig};

use tensortap_query::document::SceneDocument;

use crate::exit::Exit;
use crate::output::{Output, terminal_width};

/// What `tensortap scenes` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap scenes\n  \
    tensortap scenes bgemm             parameters with their ranges, kernels, faults\n  \
    tensortap scenes --all             those made for tests, too, such as crash_segv and hang\n  \
    tensortap scenes --json")]
pub struct ScenesArgs {
    /// Tell all about one scene
    #[arg(value_name = "SCENE")]
    pub scene: Option<String>,

    /// List scenes made for tests, too: kernels that crash, hang or race
    #[arg(long, conflicts_with = "scene")]
    all: bool,
}

/// Lists the scenes.
pub fn run(args: &ScenesArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    match &args.scene {
        Some(name) => {
            let scene = find(name, registry)?;
            if output.json {
                output.document(&[SceneDocument::of(scene)])?;
            } else {
                output.text(&details::of(scene))?;
            }
        }
        None => {
            let listed: Vec<&dyn Scene> =
                registry.scenes().iter().copied().filter(|s| args.all || !s.hidden()).collect();
            if output.json {
                let documents: Vec<_> = listed.into_iter().map(SceneDocument::of).collect();
                output.document(&documents)?;
            } else {
                output.text(&table::of(&listed, terminal_width()))?;
            }
        }
    }
    Ok(Exit::Good)
}

/// The same error as `run` gives for a name nobody knows.
fn find(name: &str, registry: &Registry) -> Result<&'static dyn Scene, Error> {
    let config = RunConfig { registry: registry.clone(), ..RunConfig::new(name) };
    tensortap::resolve(&config).map(|request| request.scene)
}
