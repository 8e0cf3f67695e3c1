//! Labels the tasks of a dump, for views that show labels in addition to other data.

use std::path::Path;

use tensortap::analysis::AnalysisError;
use tensortap::analysis::blame::{Baseline, Blame, BlameOptions};
use tensortap::analysis::compare::with_kernels_of;
use tensortap::format::Dump;
use tensortap::judge::RuleBook;
use tensortap::scene::Registry;

use crate::QueryError;
use crate::golden::{Golden, open};
use crate::ids::IdRange;

/// The opened golden or references for comparing the tasks of one dump.
pub struct LabelSource {
    golden: Option<Golden>,
    registry: Registry,
}

impl LabelSource {
    /// Opens a golden or, without one, the references of the dump's scene.
    ///
    /// # Errors
    /// The golden cannot be opened, or the scene folder of the dump cannot be loaded.
    pub fn open(registry: &Registry, dump: &Dump, golden: Option<&Path>) -> Result<LabelSource, QueryError> {
        let golden = golden.map(open).transpose()?;
        // References need the scene. With a golden, the scene only improves the verdict.
        let registry = match tensortap::with_scene_of(registry, dump, None) {
            Err(_) if golden.is_some() => registry.clone(),
            found => found?,
        };
        Ok(LabelSource { golden, registry })
    }

    /// What the tasks are compared with.
    ///
    /// # Errors
    /// The scene is unknown, and there is no golden.
    pub fn against(&self, dump: &Dump) -> Result<Baseline<'_>, QueryError> {
        Ok(match &self.golden {
            Some(Golden::Dump(golden)) => Baseline::Golden(golden),
            Some(Golden::Files(arrays)) => Baseline::Arrays(arrays),
            None => {
                let scene = &dump.info().scene;
                let unknown = || AnalysisError::UnknownScene { scene: scene.clone() };
                Baseline::Reference(self.registry.find(scene).ok_or_else(unknown)?)
            }
        })
    }

    /// Options for labeling: the rules of the dump's kernels, and the selected steps.
    #[must_use]
    pub fn options(&self, dump: &Dump, steps: &[IdRange]) -> BlameOptions<'_> {
        let rules = with_kernels_of(RuleBook::default(), dump.info());
        let scene = self.registry.find(&dump.info().scene);
        BlameOptions { rules, steps: steps.to_vec(), scene, ..BlameOptions::default() }
    }

    /// Labels every task.
    ///
    /// # Errors
    /// A file cannot be read, or there is nothing to compare with.
    pub fn blame(&self, dump: &Dump, steps: &[IdRange]) -> Result<Blame, QueryError> {
        Ok(Blame::of(dump, &self.against(dump)?, &self.options(dump, steps))?)
    }

    /// The golden, if there is one.
    #[must_use]
    pub fn golden(&self) -> Option<&Golden> {
        self.golden.as_ref()
    }
}
