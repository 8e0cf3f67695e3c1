//! `blame` of a run of many ranks: all ranks are judged together.

use std::path::Path;

use tensortap::analysis::ranks::{CollectiveNames, RankBlame, RunVerdict, has_collectives};
use tensortap::scene::Registry;
use tensortap_query::document::{
    BlameDocument, MemberDocument, RunVerdictDocument, SetDocument, run_verdict_word,
};
use tensortap_query::number::{counted, grouped};
use tensortap_query::run_blame::{AcrossRanks, RunBlame};
use tensortap_query::words::printable_path;
use tensortap_query::{DumpSet, Pair};

use super::BlameArgs;
use super::case::Case;
use super::headline::word;
use crate::error::Exit;
use crate::joint_ranks::{JointRanks, RankPair};
use crate::output::{self, Output};
use crate::ranks::VerdictDetail;

/// A run whose ranks are judged together.
pub(super) struct Run<'a> {
    args: &'a BlameArgs,
    ranks: JointRanks,
}

/// The results of all chosen ranks.
#[derive(Default)]
struct Results {
    /// Of the compared ranks.
    verdicts: Vec<RunVerdict>,
    /// One line for each rank, with its number.
    lines: Vec<(Option<u64>, String)>,
    documents: Vec<(Option<u64>, MemberDocument<BlameDocument>)>,
    /// The name and the full report of the rank where the error began, else of the first rank that fails.
    main: Option<(String, String)>,
    /// Missing ranks that the user did not allow.
    missing: usize,
}

impl<'a> Run<'a> {
    /// The run that the user named, if it has several ranks.
    pub fn of(args: &'a BlameArgs, chosen: &DumpSet, golden: &Path) -> anyhow::Result<Option<Run<'a>>> {
        let ranks = JointRanks::of(chosen, golden, &args.dump.rank)?;
        Ok(ranks.map(|ranks| Run { args, ranks }))
    }

    /// Judges all ranks together and prints the results of the chosen ones.
    pub fn judge(self, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
        let names =
            self.args.collective.as_deref().map_or_else(CollectiveNames::default, CollectiveNames::parse);
        let case = |rank: usize| {
            let RankPair { member, golden, .. } = &self.ranks.members[rank];
            Case::new(self.args, registry, &member.dump, Some(golden), output)
        };
        if let Some(only) = self.ranks.only {
            let case = case(only)?;
            let blame = case.blame()?;
            // Without a collective, the other ranks show nothing about this one.
            if blame.golden.is_none() || !has_collectives(blame.graph.tasks(), &names) {
                return case.report(&blame, None, |report| report.print(output));
            }
        }
        let cases = (0..self.ranks.members.len()).map(case).collect::<anyhow::Result<Vec<_>>>()?;
        let mut ranks = Vec::new();
        for (case, RankPair { member, .. }) in cases.iter().zip(&self.ranks.members) {
            ranks.push((member.rank, RankBlame { name: member.name(), blame: case.blame()? }));
        }
        let run = RunBlame::new(ranks, self.ranks.missing(&self.args.step.step), names);
        if let Some(rank) = self.ranks.only {
            let across = AcrossRanks { run: &run, rank, is_only: true };
            return cases[rank].report(run.blame(rank), Some(across), |report| report.print(output));
        }
        let results = self.results(&cases, &run, output)?;
        self.print(results, &run, output)
    }

    fn results(&self, cases: &[Case<'_>], run: &RunBlame, output: Output) -> anyhow::Result<Results> {
        let first = run.joint.first_wrong.first().map(|at| at.rank);
        let mut results = Results::default();
        for (rank, (case, RankPair { member, why, .. })) in cases.iter().zip(&self.ranks.members).enumerate()
        {
            if !self.args.dump.rank.matches(member.rank, member.process()) {
                continue;
            }
            let across = AcrossRanks { run, rank, is_only: false };
            let (verdict, judged) = case.report(run.blame(rank), Some(across), |report| {
                Ok((report.found.run_verdict(), report.verdict(output)?))
            })?;
            let why = why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            let line = format!("  {}: {}{why}\n", member.name(), judged.headline);
            match judged.detail {
                VerdictDetail::Document(document) => {
                    results.documents.push((member.rank, MemberDocument::new(member, document)))
                }
                VerdictDetail::Text(text)
                    if !judged.passes && (results.main.is_none() || first == Some(rank)) =>
                {
                    results.main = Some((member.name(), text));
                }
                VerdictDetail::Text(_) | VerdictDetail::Lines(_) => {}
            }
            results.lines.push((member.rank, line));
            results.verdicts.push(verdict);
        }
        for pair in &self.ranks.missing {
            let Pair::Unpaired { name, rank, pid, why, .. } = pair else { continue };
            if self.args.dump.rank.matches(*rank, *pid) {
                results.add_missing((name, *rank, *pid), why, self.args.compare.allow_unmatched);
            }
        }
        results.lines.sort_by_key(|(rank, _)| (rank.is_none(), *rank));
        results.documents.sort_by_key(|(rank, _)| (rank.is_none(), *rank));
        Ok(results)
    }

    fn verdict(&self, results: &Results, run: &RunBlame) -> RunVerdict {
        let passes = results.verdicts.iter().all(|verdict| *verdict == RunVerdict::Pass);
        if self.args.dump.rank.is_empty() {
            return run.joint.verdict(&run.ranks, passes, results.missing > 0);
        }
        let fails = results.verdicts.contains(&RunVerdict::Fail);
        match (fails, passes && results.missing == 0) {
            (true, _) => RunVerdict::Fail,
            (false, true) => RunVerdict::Pass,
            (false, false) => RunVerdict::Undecided,
        }
    }

    fn print(&self, results: Results, run: &RunBlame, output: Output) -> anyhow::Result<Exit> {
        let verdict = self.verdict(&results, run);
        let exit = if verdict == RunVerdict::Pass { Exit::Good } else { Exit::Difference };
        if output.json {
            output.document(&SetDocument {
                dump: self.ranks.folder.display().to_string(),
                verdict: Some(run_verdict_word(verdict)),
                run: Some(RunVerdictDocument::of(run, verdict)),
                dumps: results.documents.into_iter().map(|(_, document)| document).collect(),
            })?;
            return Ok(exit);
        }
        let mut text = format!("{}: {}\n", word(verdict), self.sentence(&results, run, verdict));
        results.lines.iter().for_each(|(_, line)| text += line);
        run.remarks().iter().for_each(|remark| text += &format!("  {remark}\n"));
        let failing = results.failing();
        if let Some((name, report)) = results.main {
            text += &format!("\n{name}:\n{report}");
        }
        if failing > 1 {
            text += "\n--rank N or --pid N shows the full report of another dump\n";
        }
        output.text(&text)?;
        Ok(exit)
    }

    /// The first line, without the verdict.
    fn sentence(&self, results: &Results, run: &RunBlame, verdict: RunVerdict) -> String {
        let folder = printable_path(&self.ranks.folder);
        let dumps = counted(results.verdicts.len() as u64, "dump");
        let count = format!("{} of {dumps} in {folder}", grouped(results.failing() as u64));
        match verdict {
            RunVerdict::Pass => format!("all of {dumps} in {folder}"),
            RunVerdict::Undecided => run.undecided_words(),
            RunVerdict::Fail => match run.cause() {
                Some(cause) => format!("{cause}; {count} fail"),
                None => count,
            },
        }
    }
}

impl Results {
    fn add_missing(
        &mut self,
        (name, rank, pid): (&str, Option<u64>, Option<u64>),
        why: &str,
        is_allowed: bool,
    ) {
        let verdict = if is_allowed { "skipped".into() } else { output::verdict("MISSING", false) };
        self.missing += usize::from(!is_allowed);
        self.lines.push((rank, format!("  {name}: {verdict}: {why}\n")));
        self.documents.push((rank, MemberDocument::unpaired(rank, pid, is_allowed, why.to_owned())));
    }

    /// Number of compared ranks that do not pass.
    fn failing(&self) -> usize {
        self.verdicts.iter().filter(|verdict| **verdict != RunVerdict::Pass).count()
    }
}
