//! Holding the tasks of a dump against something, for views that show their labels beside something else.

use std::path::Path;

use tensortap::analysis::AnalysisError;
use tensortap::analysis::blame::{Against, Blame, BlameOptions};
use tensortap::analysis::compare::with_kernels_of;
use tensortap::format::Dump;
use tensortap::judge::RuleBook;
use tensortap::scene::Registry;

use crate::QueryError;
use crate::golden::{Golden, open};
use crate::ids::IdRange;

/// What the tasks of one dump are held against, opened.
pub struct Labelling {
    golden: Option<Golden>,
    registry: Registry,
}

impl Labelling {
    /// Against a golden, or, without one, against the references of the dump's scene.
    ///
    /// # Errors
    /// The golden cannot be opened, or the scene of the dump is a folder that cannot.
    pub fn open(registry: &Registry, dump: &Dump, golden: Option<&Path>) -> Result<Labelling, QueryError> {
        let golden = golden.map(open).transpose()?;
        // References need the scene; against a golden it only sharpens the verdict.
        let registry = match tensortap::with_scene_of(registry, dump, None) {
            Err(_) if golden.is_some() => registry.clone(),
            found => found?,
        };
        Ok(Labelling { golden, registry })
    }

    /// What a dump's tasks are held against.
    ///
    /// # Errors
    /// The scene is not known, and there is no golden.
    pub fn against(&self, dump: &Dump) -> Result<Against<'_>, QueryError> {
        Ok(match &self.golden {
            Some(Golden::Dump(golden)) => Against::Golden(golden),
            Some(Golden::Files(arrays)) => Against::Arrays(arrays),
            None => {
                let scene = &dump.info().scene;
                let unknown = || AnalysisError::UnknownScene { scene: scene.clone() };
                Against::Reference(self.registry.find(scene).ok_or_else(unknown)?)
            }
        })
    }

    /// How: by the rules of the dump's kernels, for some of its steps.
    #[must_use]
    pub fn options(&self, dump: &Dump, steps: &[IdRange]) -> BlameOptions<'_> {
        let rules = with_kernels_of(RuleBook::default(), dump.info());
        let scene = self.registry.find(&dump.info().scene);
        BlameOptions { rules, steps: steps.to_vec(), scene, ..BlameOptions::default() }
    }

    /// Labels every task.
    ///
    /// # Errors
    /// A file cannot be read, or there is nothing to hold tasks against.
    pub fn blame(&self, dump: &Dump, steps: &[IdRange]) -> Result<Blame, QueryError> {
        Ok(Blame::of(dump, &self.against(dump)?, &self.options(dump, steps))?)
    }

    /// The golden, where there is one.
    #[must_use]
    pub fn golden(&self) -> Option<&Golden> {
        self.golden.as_ref()
    }
}
