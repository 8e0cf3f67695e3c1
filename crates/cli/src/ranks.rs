//! Verbs that judge all dumps of a run: each rank on its own, in a line, with one verdict; and what there is to say of the
//! first that fails.

use std::path::Path;

use serde::Serialize;
use tensortap_query::document::{OfMember, SetDocument, pass_or_fail};
use tensortap_query::number::{counted, grouped};
use tensortap_query::{DumpSet, Member, Pair, is_run_folder};

use crate::dump_arg::{RankArg, existing, golden_of};
use crate::error::Exit;
use crate::output::{self, Output};

/// How one dump was judged.
pub struct Judged<D> {
    pub passes: bool,
    /// The verdict in a line.
    pub headline: String,
    pub told: Told<D>,
}

/// All there is to say of it, in the form that was asked for.
pub enum Told<D> {
    Document(D),
    /// Lines for a file, the same columns for every dump.
    Lines(String),
    Text(String),
}

/// Each dump beside what it is held against. A dump alone takes the golden as it is.
pub fn pairs(set: DumpSet, golden: Option<&Path>, ranks: &RankArg) -> anyhow::Result<Vec<Pair>> {
    let Some(golden) = golden else { return Ok(set.alone()) };
    let golden = &existing(Some(golden.to_owned()))?;
    if set.members().len() == 1 || !is_run_folder(golden) {
        // Several dumps against one: which of them is for the caller to say.
        let member = Box::new(set.one_member()?);
        let golden = Some(golden_of(golden, member.rank)?);
        return Ok(vec![Pair::Held { member, golden, why: None }]);
    }
    let mut pairs = set.paired(&DumpSet::open(golden)?);
    pairs.retain(|pair| match pair {
        Pair::Held { .. } => true,
        Pair::Lonely { rank, pid, .. } => ranks.means(*rank, *pid),
    });
    Ok(pairs)
}

/// Judges several dumps and tells of them.
pub fn judge_each<D: Serialize>(
    folder: &Path,
    pairs: Vec<Pair>,
    allow_unmatched: bool,
    output: Output,
    mut judge: impl FnMut(&Member, Option<&Path>) -> anyhow::Result<Judged<D>>,
) -> anyhow::Result<Exit> {
    let mut all = All {
        passes: Vec::new(),
        text: String::new(),
        lines: String::new(),
        lonely: Vec::new(),
        first: None,
        documents: Vec::new(),
    };
    for pair in pairs {
        match pair {
            Pair::Held { member, golden, why } => {
                let mut judged = judge(&member, golden.as_deref())?;
                why.iter().for_each(|why| judged.headline += &format!(" ({why})"));
                all.add(&member, judged);
            }
            Pair::Lonely { name, rank, pid, why } => {
                all.passes.push(allow_unmatched);
                let verdict =
                    if allow_unmatched { "left out".into() } else { output::verdict("FAIL", false) };
                all.text += &format!("  {name}: {verdict}: {why}\n");
                all.lonely.push(format!("{name} is not compared: {why}"));
                all.documents.push(OfMember::lonely(rank, pid, allow_unmatched, why));
            }
        }
    }
    all.print(folder, output)
}

/// What came of all.
struct All<D> {
    passes: Vec<bool>,
    /// A line for each.
    text: String,
    lines: String,
    /// Dumps without a partner, which have no rows.
    lonely: Vec<String>,
    /// The first that fails, and all there is to say of it.
    first: Option<(String, String)>,
    documents: Vec<OfMember<D>>,
}

impl<D: Serialize> All<D> {
    fn add(&mut self, member: &Member, judged: Judged<D>) {
        let Judged { passes, headline, told } = judged;
        self.passes.push(passes);
        self.text += &format!("  {}: {headline}\n", member.name());
        match told {
            Told::Document(document) => self.documents.push(OfMember::new(member, document)),
            Told::Lines(lines) => self.lines += &lines,
            Told::Text(text) if !passes && self.first.is_none() => self.first = Some((member.name(), text)),
            Told::Text(_) => {}
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
                dumps: self.documents,
            })?;
        } else if !self.lines.is_empty() {
            self.lonely.iter().for_each(|lonely| output::warning(lonely));
            output.text(&self.lines)?;
        } else {
            let word = output::verdict(if passes { "PASS" } else { "FAIL" }, passes);
            let dumps = counted(self.passes.len() as u64, "dump");
            let folder = folder.display();
            let mut text = match failing {
                0 => format!("{word}: all of {dumps} in {folder}\n"),
                _ => format!("{word}: {} of {dumps} in {folder}\n", grouped(failing as u64)),
            };
            text += &self.text;
            if let Some((name, said)) = self.first {
                text += &format!("\n{name}:\n{said}");
            }
            if failing > 1 {
                text += "\n--rank N or --pid N tells as much of another\n";
            }
            output.text(&text)?;
        }
        Ok(if passes { Exit::Good } else { Exit::Difference })
    }
}
