//! What holding the tasks of a dump against something found, told the same in a report and on a page.

use std::path::Path;

use tensortap::analysis::blame::{Blame, BlameOptions};
use tensortap::analysis::labels::Label;
use tensortap::format::{Dump, quoted};

use super::{about, culprit, graphs, verdict};
use crate::blame::{BlameReport, culprits};
use crate::blame_words::Suspicions;
use crate::document::{FoundDocument, LabelCount};
use crate::golden::{Golden, other_scene, remarks};
use crate::module_words::other_programs;
use crate::number::grouped;
use crate::{Labelling, QueryError};

/// What tasks were held against, and what came of it.
pub struct Labelled<'a> {
    /// Labels and culprits.
    pub found: BlameReport<'a>,
    pub(super) labelling: &'a Labelling,
    orchestration: bool,
    unjudged: bool,
    other_scene: Option<String>,
}

impl<'a> Labelled<'a> {
    /// Finds out what is known of the first wrong tasks. `golden` is where `labelling` has it from, and `options` are those that the
    /// tasks were labelled with.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(
        dump: &'a Dump,
        blame: &'a Blame,
        labelling: &'a Labelling,
        golden: Option<&Path>,
        options: &BlameOptions<'_>,
        program: &'a str,
    ) -> Result<Labelled<'a>, QueryError> {
        let culprits = culprits(blame, dump, &labelling.against(dump)?, options)?;
        let (orchestration, unjudged) = (blame.suspects_orchestration(dump), blame.suspects_unjudged(dump));
        let right = labelling.golden().and_then(Golden::dump);
        let other_scene = right.and_then(|golden| other_scene(dump, golden));
        let remarks = right.map_or_else(Vec::new, |golden| remarks(dump, golden, blame.compared));
        let found = BlameReport {
            dump,
            golden: golden.map(|path| right.map_or(path, Dump::dir).display().to_string()),
            blame,
            culprits,
            passes: blame.passes(false) && !orchestration && !unjudged,
            program,
            given: &[],
            replay_options: String::new(),
            remarks,
            other_programs: right.map_or_else(Vec::new, |golden| other_programs(dump, golden)),
        };
        Ok(Labelled { found, labelling, orchestration, unjudged, other_scene })
    }

    /// All that a report says of it.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn document(&self) -> Result<FoundDocument, QueryError> {
        Ok(FoundDocument {
            verdict: verdict::verdict(self),
            expected: if self.found.golden.is_some() { "golden" } else { "reference" },
            labels: self.labels(),
            culprits: culprit::culprits(self)?,
            way: graphs::way(self.found.dump, self.found.blame),
        })
    }

    pub(super) fn suspicions(&self) -> Suspicions<'_> {
        Suspicions {
            passes: self.found.passes,
            orchestration: self.orchestration,
            unjudged: self.unjudged,
            other_scene: self.other_scene.as_deref(),
        }
    }

    /// The options that say what tasks are held against: ` --golden right`.
    pub(super) fn against_option(&self) -> String {
        match &self.found.golden {
            Some(golden) => format!(" --golden {}", quoted(Path::new(golden))),
            None => " --reference".into(),
        }
    }

    fn labels(&self) -> Vec<LabelCount> {
        let blame = self.found.blame;
        let count = |label: Label| LabelCount {
            label: label.name(),
            tasks: blame.count(label) as u64,
            text: grouped(blame.count(label) as u64),
            about: about(label),
        };
        Label::ALL.into_iter().map(count).filter(|one| one.tasks > 0).collect()
    }
}
