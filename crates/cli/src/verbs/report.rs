//! `tensortap report`: a dump as one page, to be sent to others.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use tensortap::scene::Registry;
use tensortap_query::document::{MemberReport, ReportDocument, VerdictDocument};
use tensortap_query::number::bytes;
use tensortap_query::report::{MOST_BYTES, ReportOptions, member, of_members};
use tensortap_query::words::printable;
use tensortap_query::{Labelling, Member, Pair};

use crate::dump_arg::{DumpArg, StepArg};
use crate::error::Exit;
use crate::labels::LabelArgs;
use crate::output::{self, Output};
use crate::parse::JobsArg;
use crate::program::program;
use crate::whole_file::write_whole;
use crate::{ranks, version};

/// What `tensortap report` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap report -o report.html                        the newest dump under outputs/\n  \
    tensortap report wrong --golden right -o report.html   what went wrong first, and how\n  \
    tensortap report wrong --reference -o report.html      the same without a run that was right\n  \
    tensortap report run_folder --golden right_run -o report.html   every rank, or one with --rank\n\n\
    One file that opens in any browser and asks for nothing else. Of large dumps it has the rows that matter most and says which are left out.\n\
    Exit status, as of blame: 0 the report is written, and nothing that was held against something is wrong; 1 it is written, and something is wrong or nothing could be compared; 2 a dump cannot be read")]
pub struct ReportArgs {
    #[command(flatten)]
    dump: DumpArg,

    /// Write the page to this file
    #[arg(long, short, value_name = "FILE.html")]
    output: PathBuf,

    /// Do not read contents that nothing is held against: statistics are left out
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
        let page = tensortap_web::report::page(&report).context("encoding the report")?;
        out.write_all(page.as_bytes())?;
        Ok((report, page.len()))
    })?;
    tell(args, &report, size, output)?;
    let fails =
        verdict(&report).is_some_and(|verdict| verdict.passes == Some(false) || verdict.compares_nothing());
    Ok(if fails { Exit::Difference } else { Exit::Good })
}

/// The verdict over everything that is in a report.
fn verdict(report: &ReportDocument) -> Option<&VerdictDocument> {
    report.verdict.as_ref().or(report.members.first().map(|member| &member.found.verdict))
}

impl ReportArgs {
    fn report(&self, registry: &Registry) -> anyhow::Result<ReportDocument> {
        let set = self.dump.open_set()?;
        let folder = set.path().to_owned();
        let pairs = ranks::pairs(set, self.labels.golden.as_deref(), &self.dump.rank)?;
        let (mut members, count) = (Vec::new(), pairs.len());
        for pair in pairs {
            members.push(match pair {
                Pair::Held { member, golden, .. } => {
                    self.member(registry, &member, golden.as_deref(), count)?
                }
                Pair::Lonely { name, why, .. } => MemberReport::lonely(name, why),
            });
        }
        let title = printable(&folder.display().to_string()).into_owned();
        Ok(of_members(title, format!("{} {}", program(), version::SHORT.as_str()), members))
    }

    fn member(
        &self,
        registry: &Registry,
        one: &Member,
        golden: Option<&Path>,
        count: usize,
    ) -> anyhow::Result<MemberReport> {
        let labelling = match self.labels.any() {
            true => Some(Labelling::open(registry, &one.dump, golden)?),
            false => None,
        };
        let options = ReportOptions {
            steps: &self.step.step,
            measures: !self.no_values,
            jobs: Some(self.jobs.get()),
            program: program(),
            most_bytes: MOST_BYTES / count.max(1),
        };
        let name = if count > 1 { one.name() } else { String::new() };
        Ok(member(&one.dump, &name, labelling.as_ref().map(|labelling| (labelling, golden)), options)?)
    }
}

fn tell(args: &ReportArgs, report: &ReportDocument, size: usize, output: Output) -> anyhow::Result<()> {
    let path = args.output.display().to_string();
    let verdict = verdict(report);
    if output.json {
        let VerdictDocument { word, passes, sentence, .. } = verdict.context("a report of nothing")?;
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
