//! The comparison of a task's arguments with a golden or references.

use tensortap::DumpStage;
use tensortap::analysis::blame::{Baseline, Blame, BlameOptions, ComparedArg};
use tensortap::format::Dump;
use tensortap::judge::Verdict;

use crate::QueryError;
use crate::blame::{OutsideRecord, outside};
use crate::compare_words::{evidence, place_lines, rule_text, worst_table};

/// The label of a task, and its records outside their rules.
pub struct TaskComparison<'b> {
    /// The labels of all tasks.
    pub blame: &'b Blame,
    /// Place of the task in the graph of the labels.
    pub place: usize,
    outside: Vec<OutsideRecord>,
}

impl<'b> TaskComparison<'b> {
    /// Analyzes each record outside its rule. Reads their contents.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(
        blame: &'b Blame,
        dump: &Dump,
        against: &Baseline<'_>,
        options: &BlameOptions<'_>,
        place: usize,
    ) -> Result<TaskComparison<'b>, QueryError> {
        Ok(TaskComparison { blame, place, outside: outside(blame, dump, against, options, place)? })
    }

    /// A comparison without the analysis of records outside their rules. Reads nothing.
    #[must_use]
    pub fn without_details(blame: &'b Blame, place: usize) -> TaskComparison<'b> {
        TaskComparison { blame, place, outside: Vec::new() }
    }

    /// The comparison of an argument at a stage; `None` if it was not compared.
    #[must_use]
    pub fn compared(&self, arg_index: u16, stage: DumpStage) -> Option<&ComparedArg> {
        let all = self.blame.compared_args[self.place].iter();
        all.into_iter().find(|one| (one.arg_index, one.stage) == (arg_index, stage))
    }

    /// The analysis of an argument that is outside its rule.
    #[must_use]
    pub fn outside(&self, arg_index: u16, stage: DumpStage) -> Option<&OutsideRecord> {
        self.outside.iter().find(|one| (one.compared.arg_index, one.compared.stage) == (arg_index, stage))
    }

    /// The first record outside its rule.
    #[must_use]
    pub fn first_outside(&self) -> Option<&OutsideRecord> {
        self.outside.first()
    }

    /// The comparison of an argument at a stage as lines of text, with a table of the worst elements.
    #[must_use]
    pub fn lines(&self, arg_index: u16, stage: DumpStage) -> Vec<String> {
        let Some(compared) = self.compared(arg_index, stage) else { return Vec::new() };
        let (expected, words) = (self.blame.basis.name(), evidence(&compared.outcome));
        let (rule, counts) = (rule_text(&compared.rule), self.blame.counts(self.place, compared));
        match (compared.outcome.verdict, self.outside(arg_index, stage)) {
            (Verdict::Within, _) => vec![format!("matches the {expected}: {words} (rule: {rule})")],
            (Verdict::Unknown, _) => vec![format!("cannot be compared with the {expected}: {words}")],
            (Verdict::Outside, None) if !counts => {
                vec![format!("ignored: it differs from the {expected}, but does not count")]
            }
            (Verdict::Outside, None) => vec![format!("differs from the {expected}: {words} (rule: {rule})")],
            (Verdict::Outside, Some(found)) => {
                let mut lines = vec![format!("differs from the {expected}: {}", found.evidence_text())];
                lines.extend(found.notes(&self.blame.graph));
                if let Some(detail) = &found.detail {
                    lines.extend(worst_table(detail, expected));
                    lines.extend(place_lines(detail));
                }
                lines
            }
        }
    }
}
