//! Labels of all tasks, for verbs that show them beside something else.

use std::path::PathBuf;

use clap::Args;
use tensortap::analysis::blame::Blame;
use tensortap::format::Dump;
use tensortap::scene::Registry;
use tensortap_query::Labelling;
use tensortap_query::ids::IdRange;

/// What tasks are held against.
#[derive(Args)]
pub struct LabelArgs {
    /// Say what tasks did by the dump of a run that was right, or by arrays in files
    #[arg(long, value_name = "DUMP", conflicts_with = "reference")]
    pub golden: Option<PathBuf>,
    /// Say what tasks did by the references of their kernels
    #[arg(long)]
    pub reference: bool,
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
    let labelling = Labelling::open(registry, dump, args.golden.as_deref())?;
    Ok(Some(labelling.blame(dump, steps)?))
}
