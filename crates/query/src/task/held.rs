//! What the arguments of a task are held against, and what came of it.

use tensortap::DumpStage;
use tensortap::analysis::blame::{Against, Basis, Blame, BlameOptions, ComparedArg, Share};
use tensortap::format::Dump;
use tensortap::judge::Verdict;

use crate::QueryError;
use crate::blame::{Outside, outside};
use crate::compare_words::{
    evidence, evidence_written, place_lines, rule_text, unwritten_lines, worst_table,
};
use crate::kind_words::kind_words;

/// A task with its label and its records that are not what they should be.
pub struct HeldTask<'b> {
    /// The labels of all tasks.
    pub blame: &'b Blame,
    /// Where the task stands among them.
    pub place: usize,
    outside: Vec<Outside>,
}

impl<'b> HeldTask<'b> {
    /// Looks at each record that is outside its rule. Their contents are read.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(
        blame: &'b Blame,
        dump: &Dump,
        against: &Against<'_>,
        options: &BlameOptions<'_>,
        place: usize,
    ) -> Result<HeldTask<'b>, QueryError> {
        Ok(HeldTask { blame, place, outside: outside(blame, dump, against, options, place)? })
    }

    /// How an argument compares at a stage; `None` when nothing was held against it.
    #[must_use]
    pub fn compared(&self, arg_index: u16, stage: DumpStage) -> Option<&ComparedArg> {
        let all = self.blame.compared_args[self.place].iter();
        all.into_iter().find(|one| (one.arg_index, one.stage) == (arg_index, stage))
    }

    /// What is known of it where it is outside its rule.
    #[must_use]
    pub fn outside(&self, arg_index: u16, stage: DumpStage) -> Option<&Outside> {
        self.outside.iter().find(|one| (one.compared.arg_index, one.compared.stage) == (arg_index, stage))
    }

    /// The first record that is not what it should be.
    #[must_use]
    pub fn first_outside(&self) -> Option<&Outside> {
        self.outside.first()
    }

    /// How an argument compares at a stage, in lines: as `blame` says it of a culprit, with the worst elements side by side.
    #[must_use]
    pub fn lines(&self, arg_index: u16, stage: DumpStage) -> Vec<String> {
        let Some(compared) = self.compared(arg_index, stage) else { return Vec::new() };
        let (expected, words) = (expected(self.blame), evidence(&compared.outcome));
        let rule = rule_text(&compared.rule);
        match (compared.outcome.verdict, self.outside(arg_index, stage)) {
            (Verdict::Within, _) => vec![format!("as in the {expected}: {words} (rule: {rule})")],
            (Verdict::Unknown, _) => vec![format!("cannot be held against the {expected}: {words}")],
            (Verdict::Outside, found) => {
                let unwritten = found.map(|found| found.unwritten).unwrap_or_default();
                let words =
                    found.map_or(words, |found| evidence_written(&found.compared.outcome, &unwritten));
                let mut lines = match unwritten.in_both {
                    Share::All => vec![format!("not as in the {expected}: {words}")],
                    _ => vec![format!("not as in the {expected}: {words} (rule: {rule})")],
                };
                lines.extend(unwritten_lines(&unwritten));
                if let Some(kind) = found.and_then(|found| found.kind.as_ref()) {
                    lines.push(format!("kind: {}", kind_words(&self.blame.graph, kind)));
                }
                if let Some(detail) = found.and_then(|found| found.detail.as_ref()) {
                    lines.extend(worst_table(detail, expected));
                    lines.extend(place_lines(detail));
                }
                lines
            }
        }
    }
}

/// What tasks were held against, in a word.
fn expected(blame: &Blame) -> &'static str {
    match blame.basis {
        Basis::Golden => "golden",
        Basis::References => "reference",
        Basis::Rerun => "rerun",
    }
}
