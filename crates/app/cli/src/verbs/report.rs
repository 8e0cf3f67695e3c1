//! `tensortap report`: writes a dump as one self-contained HTML file.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use tensortap::analysis::ranks::{CollectiveNames, RankBlame};
use tensortap::scene::Registry;
use tensortap_query::document::{MemberReport, ReportDocument, VerdictDocument};
use tensortap_query::number::bytes;
use tensortap_query::report::{MOST_BYTES, MemberLabels, ReportOptions, member, of_members};
use tensortap_query::run_blame::{AcrossRanks, RunBlame};
use tensortap_query::words::printable;
use tensortap_query::{LabelSource, Member, Pair};

use crate::compare_args::check_steps;
use crate::dump_path::{DumpPathArg, StepArg};
use crate::error::Exit;
use crate::joint_ranks::{JointRanks, RankPair};
use crate::labels::LabelArgs;
use crate::output::{self, Output};
use crate::parse::JobsArg;
use crate::program::program;
use crate::whole_file::write_whole;
use crate::{ranks, version};

/// Arguments of `tensortap report`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap report -o report.html                        the newest dump under outputs/\n  \
    tensortap report wrong --golden right -o report.html   with the first wrong tasks\n  \
    tensortap report wrong --reference -o report.html      the same without a correct run\n  \
    tensortap report run_folder --golden right_run -o report.html   every rank; choose one with --rank\n\n\
    The file opens in any browser and needs no network. For a large dump it contains the most important rows and lists \
    what is left out.\n\n\
    Exit status: 0 the report is written and no compared record is wrong; 1 the report is written, and a record is wrong \
    or nothing could be compared; 2 a dump cannot be read; 3 the report cannot be written")]
pub struct ReportArgs {
    #[command(flatten)]
    dump: DumpPathArg,

    /// Write the page to this file
    #[arg(long, short, value_name = "FILE.html")]
    output: PathBuf,

    /// Do not read contents that are not compared; leaves out statistics
    #[arg(long)]
    no_values: bool,

    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    step: StepArg,
    #[command(flatten)]
    jobs: JobsArg,
}

/// Writes the report.
pub fn run(args: &ReportArgs, registry: &Registry, output: Output) -> anyhow::Result<Exit> {
    let (report, size) = write_whole(&args.output, |out| {
        let report = args.report(registry)?;
        let page = tensortap_web::report::page(&report).context("cannot encode the report")?;
        out.write_all(page.as_bytes())?;
        Ok((report, page.len()))
    })?;
    tell(args, &report, size, output)?;
    let fails =
        verdict(&report).is_some_and(|verdict| verdict.passes == Some(false) || verdict.compares_nothing());
    Ok(if fails { Exit::Difference } else { Exit::Good })
}

/// The verdict of the whole report.
fn verdict(report: &ReportDocument) -> Option<&VerdictDocument> {
    report.verdict.as_ref().or(report.members.first().map(|member| &member.found.verdict))
}

impl ReportArgs {
    fn report(&self, registry: &Registry) -> anyhow::Result<ReportDocument> {
        let set = self.dump.open_set()?;
        if let Some(golden) = &self.labels.golden
            && let Some(ranks) = JointRanks::of(&set, golden, &self.dump.rank)?
        {
            return self.of_run(registry, &ranks);
        }
        let folder = set.path().to_owned();
        let pairs = ranks::pairs(set, self.labels.golden.as_deref(), &self.dump.rank)?;
        let (mut members, count) = (Vec::new(), pairs.len());
        for pair in pairs {
            members.push(match pair {
                Pair::Paired { member, golden, .. } => {
                    self.alone(registry, &member, golden.as_deref(), count)?
                }
                Pair::Unpaired { name, why, .. } => MemberReport::unpaired(name, why),
            });
        }
        Ok(of_members(title(&folder), made_by(), members, None))
    }

    /// The report of a run whose ranks are judged together, about the chosen ranks.
    fn of_run(&self, registry: &Registry, ranks: &JointRanks) -> anyhow::Result<ReportDocument> {
        let mut sources = Vec::new();
        let mut labeled = Vec::new();
        for RankPair { member, golden, .. } in &ranks.members {
            check_steps(&member.dump, &self.step.step)?;
            let source = LabelSource::open(registry, &member.dump, Some(golden))?;
            let blame = source.blame(&member.dump, &self.step.step)?;
            labeled.push((member.rank, RankBlame { name: member.name(), blame }));
            sources.push(source);
        }
        if let (Some(_), [(_, one)]) = (ranks.only, labeled.as_slice())
            && one.blame.golden.is_none()
        {
            let labels = MemberLabels {
                source: &sources[0],
                golden: Some(&ranks.members[0].golden),
                blame: &one.blame,
                across: None,
            };
            let report = self.member(&ranks.members[0].member, Some(labels), 1)?;
            return Ok(of_members(title(&ranks.folder), made_by(), vec![report], None));
        }
        let run = RunBlame::new(labeled, ranks.missing(&self.step.step), CollectiveNames::default());
        let is_chosen = |rank: Option<u64>, pid: Option<u64>| self.dump.rank.matches(rank, pid);
        let count = ranks.members.len() + ranks.missing.len();
        let mut members = Vec::new();
        for (rank, RankPair { member, golden, .. }) in ranks.members.iter().enumerate() {
            if ranks.only.is_some_and(|only| only != rank) || !is_chosen(member.rank, member.process()) {
                continue;
            }
            let across = Some(AcrossRanks { run: &run, rank, is_only: ranks.only.is_some() });
            let labels =
                MemberLabels { source: &sources[rank], golden: Some(golden), blame: run.blame(rank), across };
            let count = if ranks.only.is_some() { 1 } else { count };
            members.push(self.member(member, Some(labels), count)?);
        }
        for pair in ranks.missing.iter().filter(|_| ranks.only.is_none()) {
            if let Pair::Unpaired { name, rank, pid, why, .. } = pair
                && is_chosen(*rank, *pid)
            {
                members.push(MemberReport::unpaired(name.clone(), why));
            }
        }
        let passes = members.iter().all(|member| member.found.verdict.passes == Some(true));
        let verdict = run.joint.verdict(&run.ranks, passes, !ranks.missing.is_empty());
        let is_whole = self.dump.rank.is_empty();
        let joint = is_whole.then_some((&run, verdict));
        Ok(of_members(title(&ranks.folder), made_by(), members, joint))
    }

    /// The report of a dump that is judged by itself.
    fn alone(
        &self,
        registry: &Registry,
        one: &Member,
        golden: Option<&Path>,
        count: usize,
    ) -> anyhow::Result<MemberReport> {
        check_steps(&one.dump, &self.step.step)?;
        if !self.labels.any() {
            return self.member(one, None, count);
        }
        let source = &LabelSource::open(registry, &one.dump, golden)?;
        let blame = &source.blame(&one.dump, &self.step.step)?;
        self.member(one, Some(MemberLabels { source, golden, blame, across: None }), count)
    }

    /// The report of one of `count` dumps.
    fn member(
        &self,
        one: &Member,
        labels: Option<MemberLabels<'_>>,
        count: usize,
    ) -> anyhow::Result<MemberReport> {
        let options = ReportOptions {
            steps: &self.step.step,
            measures: !self.no_values,
            jobs: Some(self.jobs.get()),
            program: program(),
            most_bytes: MOST_BYTES / count.max(1),
        };
        let name = if count > 1 { one.name() } else { String::new() };
        Ok(member(&one.dump, &name, labels, options)?)
    }
}

fn title(folder: &Path) -> String {
    printable(&folder.display().to_string()).into_owned()
}

fn made_by() -> String {
    format!("{} {}", program(), version::SHORT.as_str())
}

fn tell(args: &ReportArgs, report: &ReportDocument, size: usize, output: Output) -> anyhow::Result<()> {
    let path = args.output.display().to_string();
    let verdict = verdict(report);
    if output.json {
        let VerdictDocument { word, passes, sentence, .. } = verdict.context("the report is empty")?;
        return output.document(&serde_json::json!({
            "report": path, "bytes": size, "verdict": word, "passes": passes, "sentence": sentence,
        }));
    }
    let said = verdict.map_or(String::new(), |verdict| {
        let word = match verdict.passes {
            Some(passes) => output::verdict(verdict.word, passes),
            None => verdict.word.to_owned(),
        };
        format!("{word}: {}\n", verdict.sentence)
    });
    output.text(&format!("{said}{}: {}\n", printable(&path), bytes(size as u64)))
}
