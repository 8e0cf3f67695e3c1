//! Labels of all tasks, for verbs that show them next to other information.

use std::path::PathBuf;

use clap::Args;
use tensortap::analysis::blame::Blame;
use tensortap::format::Dump;
use tensortap::scene::Registry;
use tensortap_query::LabelSource;
use tensortap_query::ids::IdRange;

/// Options that choose what tasks are compared with.
#[derive(Args)]
pub struct LabelArgs {
    /// Label tasks by comparing with this golden: the dump of a correct run, or array files
    #[arg(long, value_name = "DUMP", conflicts_with = "reference")]
    pub golden: Option<PathBuf>,
    /// Label tasks by comparing with the references of their kernels
    #[arg(long)]
    pub reference: bool,
}

impl LabelArgs {
    /// Whether labels are requested.
    pub fn any(&self) -> bool {
        self.golden.is_some() || self.reference
    }
}

/// The labels of all tasks, by the rules of their kernels; `None` if no option requests them.
pub fn labels(
    args: &LabelArgs,
    registry: &Registry,
    dump: &Dump,
    steps: &[IdRange],
) -> anyhow::Result<Option<Blame>> {
    if !args.any() {
        return Ok(None);
    }
    let label_source = LabelSource::open(registry, dump, args.golden.as_deref())?;
    Ok(Some(label_source.blame(dump, steps)?))
}
