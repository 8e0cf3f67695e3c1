//! Labels of all tasks, for verbs that show them beside something else.

use std::path::PathBuf;

use clap::Args;
use tensortap::analysis::AnalysisError;
use tensortap::analysis::blame::{Against, Blame, BlameOptions};
use tensortap::analysis::compare::with_kernels_of;
use tensortap::format::Dump;
use tensortap::judge::RuleBook;
use tensortap::scene::Registry;
use tensortap_query::golden::{Golden, open};
use tensortap_query::ids::IdRange;

/// What tasks are held against.
#[derive(Args)]
pub struct LabelArgs {
    /// Say what tasks did by the dump of a run that was right, or by arrays in files
    #[arg(long, value_name = "DUMP", conflicts_with = "reference")]
    golden: Option<PathBuf>,
    /// Say what tasks did by the references of their kernels
    #[arg(long)]
    reference: bool,
}

impl LabelArgs {
    /// Whether labels are asked for.
    pub fn any(&self) -> bool {
        self.golden.is_some() || self.reference
    }
}

/// The labels of all tasks, by the rules of their kernels, where they are asked for.
pub fn labels(
    args: &LabelArgs,
    registry: &Registry,
    dump: &Dump,
    steps: &[IdRange],
) -> anyhow::Result<Option<Blame>> {
    if !args.any() {
        return Ok(None);
    }
    let golden = args.golden.as_deref().map(open).transpose()?;
    let registry = match tensortap::with_scene_of(registry, dump, None) {
        Err(_) if golden.is_some() => registry.clone(),
        found => found?,
    };
    let scene = registry.find(&dump.info().scene);
    let against = match &golden {
        Some(Golden::Dump(golden)) => Against::Golden(golden),
        Some(Golden::Files(arrays)) => Against::Arrays(arrays),
        None => {
            let unknown = || AnalysisError::UnknownScene { scene: dump.info().scene.clone() };
            Against::Reference(scene.ok_or_else(unknown)?)
        }
    };
    let rules = with_kernels_of(RuleBook::default(), dump.info());
    let options = BlameOptions { rules, steps: steps.to_vec(), scene, ..BlameOptions::default() };
    Ok(Some(Blame::of(dump, &against, &options)?))
}
