//! Verbs that check all dumps of a run: one line for each rank, one verdict for the run, and the full report of the
//! first rank that fails.

use std::path::Path;

use serde::Serialize;
use tensortap_query::document::{MemberDocument, SetDocument, pass_or_fail};
use tensortap_query::number::{counted, grouped};
use tensortap_query::{DumpSet, Member, Pair, is_run_folder};

use crate::dump_path::{RankArg, existing, golden_for_rank};
use crate::error::Exit;
use crate::output::{self, Output};

/// The result for one dump.
pub struct DumpVerdict<D> {
    pub passes: bool,
    /// The verdict in one line.
    pub headline: String,
    pub detail: VerdictDetail<D>,
}

/// The full result, in the requested form.
pub enum VerdictDetail<D> {
    Document(D),
    /// CSV lines. All dumps have the same columns.
    Lines(String),
    Text(String),
}

/// Pairs each dump with its golden. A single dump is paired with the golden itself.
pub fn pairs(set: DumpSet, golden: Option<&Path>, ranks: &RankArg) -> anyhow::Result<Vec<Pair>> {
    let Some(golden) = golden else { return Ok(set.alone()) };
    let golden = &existing(Some(golden.to_owned()))?;
    if set.members().len() == 1 || !is_run_folder(golden) {
        // Several dumps and one golden: the user must choose a dump.
        let member = Box::new(set.one_member()?);
        let golden = Some(golden_for_rank(golden, member.rank)?);
        return Ok(vec![Pair::Paired { member, golden, why: None }]);
    }
    let mut pairs = set.paired(&DumpSet::open(golden)?);
    pairs.retain(|pair| match pair {
        Pair::Paired { .. } => true,
        Pair::Unpaired { rank, pid, .. } => ranks.matches(*rank, *pid),
    });
    Ok(pairs)
}

/// Checks several dumps and prints the results.
pub fn judge_each<D: Serialize>(
    folder: &Path,
    pairs: Vec<Pair>,
    allow_unmatched: bool,
    output: Output,
    mut judge: impl FnMut(&Member, Option<&Path>) -> anyhow::Result<DumpVerdict<D>>,
) -> anyhow::Result<Exit> {
    let mut all = SetVerdict {
        passes: Vec::new(),
        text: String::new(),
        lines: String::new(),
        unpaired: Vec::new(),
        first: None,
        documents: Vec::new(),
    };
    for pair in pairs {
        match pair {
            Pair::Paired { member, golden, why } => {
                let mut judged = judge(&member, golden.as_deref())?;
                why.iter().for_each(|why| judged.headline += &format!(" ({why})"));
                all.add(&member, judged);
            }
            Pair::Unpaired { name, rank, pid, why, .. } => {
                all.passes.push(allow_unmatched);
                let verdict = if allow_unmatched { "skipped".into() } else { output::verdict("FAIL", false) };
                all.text += &format!("  {name}: {verdict}: {why}\n");
                all.unpaired.push(format!("{name} was not compared: {why}"));
                all.documents.push(MemberDocument::unpaired(rank, pid, allow_unmatched, why.to_owned()));
            }
        }
    }
    all.print(folder, output)
}

/// The collected results.
struct SetVerdict<D> {
    passes: Vec<bool>,
    /// One line for each dump.
    text: String,
    lines: String,
    /// Warnings about dumps without a counterpart, which have no rows.
    unpaired: Vec<String>,
    /// The name and the full report of the first dump that fails.
    first: Option<(String, String)>,
    documents: Vec<MemberDocument<D>>,
}

impl<D: Serialize> SetVerdict<D> {
    fn add(&mut self, member: &Member, judged: DumpVerdict<D>) {
        let DumpVerdict { passes, headline, detail } = judged;
        self.passes.push(passes);
        self.text += &format!("  {}: {headline}\n", member.name());
        match detail {
            VerdictDetail::Document(document) => self.documents.push(MemberDocument::new(member, document)),
            VerdictDetail::Lines(lines) => self.lines += &lines,
            VerdictDetail::Text(text) if !passes && self.first.is_none() => {
                self.first = Some((member.name(), text))
            }
            VerdictDetail::Text(_) => {}
        }
    }

    fn print(self, folder: &Path, output: Output) -> anyhow::Result<Exit> {
        let failing = self.passes.iter().filter(|passes| !**passes).count();
        let passes = failing == 0;
        if output.json {
            let verdict = Some(pass_or_fail(passes));
            output.document(&SetDocument {
                dump: folder.display().to_string(),
                verdict,
                run: None,
                dumps: self.documents,
            })?;
        } else if !self.lines.is_empty() {
            self.unpaired.iter().for_each(|unpaired| output::warning(unpaired));
            output.text(&self.lines)?;
        } else {
            let word = output::pass_or_fail(passes);
            let dumps = counted(self.passes.len() as u64, "dump");
            let folder = folder.display();
            let mut text = match failing {
                0 => format!("{word}: all of {dumps} in {folder}\n"),
                _ => format!("{word}: {} of {dumps} in {folder}\n", grouped(failing as u64)),
            };
            text += &self.text;
            if let Some((name, report)) = self.first {
                text += &format!("\n{name}:\n{report}");
            }
            if failing > 1 {
                text += "\n--rank N or --pid N shows the full report of another dump\n";
            }
            output.text(&text)?;
        }
        Ok(if passes { Exit::Good } else { Exit::Difference })
    }
}
