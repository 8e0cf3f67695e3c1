//! The result of comparing the tasks of a dump, shared by the report and the web page.

use std::path::Path;

use tensortap::analysis::blame::{Blame, BlameOptions, VerdictOptions};
use tensortap::analysis::labels::Label;
use tensortap::format::{Dump, quoted};

use super::{culprit, graphs, label_meaning, verdict};
use crate::blame::{BlameReport, culprits};
use crate::document::{FindingsDocument, LabelCount};
use crate::number::grouped;
use crate::{LabelSource, QueryError};

/// The labels of a dump's tasks, and what they were compared with.
pub struct LabeledTasks<'a> {
    /// Labels and first wrong tasks.
    pub found: BlameReport<'a>,
    pub(super) label_source: &'a LabelSource,
}

impl<'a> LabeledTasks<'a> {
    /// Analyzes the first wrong tasks. `golden` is the path that `label_source` was opened with, and
    /// `options` are those that the tasks were labeled with.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(
        dump: &'a Dump,
        blame: &'a Blame,
        label_source: &'a LabelSource,
        golden: Option<&Path>,
        options: &BlameOptions<'_>,
        program: &'a str,
    ) -> Result<LabeledTasks<'a>, QueryError> {
        let verdict_options = VerdictOptions::default();
        let culprits = culprits(blame, dump, &label_source.against(dump)?, options)?;
        let found = BlameReport::new(
            dump,
            blame,
            culprits,
            label_source.golden().zip(golden),
            verdict_options,
            program,
        );
        Ok(LabeledTasks { found, label_source })
    }

    /// The findings document of a report.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn document(&self) -> Result<FindingsDocument, QueryError> {
        Ok(FindingsDocument {
            verdict: verdict::verdict(self),
            expected: self.found.blame.basis.name(),
            labels: self.labels(),
            culprits: culprit::culprits(self)?,
            way: graphs::way(self.found.dump, self.found.blame),
        })
    }

    /// The options that choose what to compare with: ` --golden right`.
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
            about: label_meaning(label),
        };
        Label::ALL.into_iter().map(count).filter(|one| one.tasks > 0).collect()
    }
}
