//! `blame` of a run of many ranks: all ranks are judged together.

use std::path::{Path, PathBuf};

use tensortap::analysis::ranks::{CollectiveNames, MissingRank, RankBlame, RunVerdict, has_collectives};
use tensortap::format::{Dump, Tasks};
use tensortap::scene::Registry;
use tensortap_query::document::{
    BlameDocument, MemberDocument, RunVerdictDocument, SetDocument, run_verdict_word,
};
use tensortap_query::number::{counted, grouped};
use tensortap_query::run_blame::{AcrossRanks, RunBlame};
use tensortap_query::words::printable_path;
use tensortap_query::{DumpSet, Member, Pair, is_run_folder};

use super::BlameArgs;
use super::case::Case;
use super::headline::word;
use crate::dump_path::{DumpPathArg, RankArg, golden_for_rank};
use crate::error::Exit;
use crate::output::{self, Output};
use crate::ranks::VerdictDetail;

/// A run whose ranks are judged together.
pub(super) struct Run<'a> {
    args: &'a BlameArgs,
    folder: PathBuf,
    members: Vec<(Box<Member>, PathBuf, Option<String>)>,
    missing: Vec<Pair>,
    /// The only rank that the user chose.
    only: Option<usize>,
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
    /// The run that the user named, if it has several ranks. `chosen` are the dumps that the options choose.
    pub fn of(args: &'a BlameArgs, chosen: &DumpSet, golden: &Path) -> anyhow::Result<Option<Run<'a>>> {
        let is_whole = is_run_folder(chosen.path());
        if !is_whole {
            return Run::of_one(args, chosen, golden);
        }
        if !is_run_folder(golden) {
            return Ok(None);
        }
        let set = DumpPathArg::named(Some(chosen.path().to_owned()), &RankArg::default()).open_set()?;
        let golden = DumpSet::open(golden)?;
        let known: Vec<u64> =
            set.members().iter().chain(golden.members()).filter_map(|member| member.rank).collect();
        let absent = set.absent(&known);
        if set.members().len() == 1 && golden.members().len() == 1 && absent.is_empty() {
            return Ok(None);
        }
        let mut run =
            Run { args, folder: set.path().to_owned(), members: Vec::new(), missing: absent, only: None };
        let is_chosen = |member: &Member| args.dump.rank.matches(member.rank, member.process());
        for pair in set.paired(&golden) {
            match pair {
                Pair::Paired { member, golden: Some(golden), why } => run.members.push((member, golden, why)),
                Pair::Paired { .. } => {}
                unpaired @ Pair::Unpaired { .. } => run.missing.push(unpaired),
            }
        }
        let chosen: Vec<usize> =
            (0..run.members.len()).filter(|&rank| is_chosen(&run.members[rank].0)).collect();
        if let ([only], false) = (chosen.as_slice(), args.dump.rank.is_empty()) {
            run.only = Some(*only);
        }
        Ok((!run.members.is_empty()).then_some(run))
    }

    /// The run of a folder of one rank. The other ranks of its run are missing.
    fn of_one(args: &'a BlameArgs, chosen: &DumpSet, golden: &Path) -> anyhow::Result<Option<Run<'a>>> {
        let [member] = chosen.members() else { return Ok(None) };
        let missing = member.rank.map_or_else(Vec::new, |rank| chosen.absent(&[rank]));
        if missing.is_empty() || !golden.is_dir() {
            return Ok(None);
        }
        let golden = golden_for_rank(golden, member.rank)?;
        let Some(member) = DumpSet::open(chosen.path())?.into_members().next() else { return Ok(None) };
        let members = vec![(Box::new(member), golden, None)];
        Ok(Some(Run { args, folder: chosen.path().to_owned(), members, missing, only: Some(0) }))
    }

    /// Judges all ranks together and prints the results of the chosen ones.
    pub fn judge(self, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
        let names =
            self.args.collective.as_deref().map_or_else(CollectiveNames::default, CollectiveNames::parse);
        let case = |rank: usize| {
            let (member, golden, _) = &self.members[rank];
            Case::new(self.args, registry, &member.dump, Some(golden), output)
        };
        if let Some(only) = self.only {
            let (case, blame) = {
                let case = case(only)?;
                let blame = case.blame()?;
                (case, blame)
            };
            // Without a collective, the other ranks show nothing about this one.
            if blame.golden.is_none() || !has_collectives(blame.graph.tasks(), &names) {
                return case.report(&blame, None, |report| report.print(output));
            }
        }
        let cases = (0..self.members.len()).map(case).collect::<anyhow::Result<Vec<_>>>()?;
        let mut ranks = Vec::new();
        for (case, (member, ..)) in cases.iter().zip(&self.members) {
            ranks.push((member.rank, RankBlame { name: member.name(), blame: case.blame()? }));
        }
        let run = RunBlame::new(ranks, self.missing(), names);
        if let Some(rank) = self.only {
            let across = AcrossRanks { run: &run, rank, is_only: true };
            return cases[rank].report(run.blame(rank), Some(across), |report| report.print(output));
        }
        let results = self.results(&cases, &run, output)?;
        self.print(results, &run, output)
    }

    /// The missing ranks, with their tasks if there is a dump of them.
    fn missing(&self) -> Vec<(Option<u64>, MissingRank)> {
        let one = |pair: &Pair| match pair {
            Pair::Unpaired { name, rank, why, dir, .. } => {
                let tasks = dir.as_deref().and_then(|dir| self.tasks(dir));
                Some((*rank, MissingRank { name: name.clone(), why: (*why).to_owned(), tasks }))
            }
            Pair::Paired { .. } => None,
        };
        self.missing.iter().filter_map(one).collect()
    }

    /// The tasks of the chosen steps of a dump; `None` if it cannot be read.
    fn tasks(&self, dir: &Path) -> Option<Tasks> {
        let mut tasks = Dump::open(dir).ok()?.tasks().ok()?;
        tasks.keep_steps(&self.args.step.step);
        Some(tasks)
    }

    fn results(&self, cases: &[Case<'_>], run: &RunBlame, output: Output) -> anyhow::Result<Results> {
        let first = run.joint.first_wrong.first().map(|at| at.rank);
        let mut results = Results::default();
        for (rank, (case, (member, _, why))) in cases.iter().zip(&self.members).enumerate() {
            if !self.args.dump.rank.matches(member.rank, member.process()) {
                continue;
            }
            let across = AcrossRanks { run, rank, is_only: false };
            let (verdict, judged) = case.report(run.blame(rank), Some(across), |report| {
                Ok((report.found.verdict(), report.verdict(output)?))
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
        for pair in &self.missing {
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
                dump: self.folder.display().to_string(),
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
        let folder = printable_path(&self.folder);
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
