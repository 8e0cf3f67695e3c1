//! `tensortap verify`: whether a dump is what was captured.

use clap::Args;
use tensortap::format::{Dump, Findings, Tail, verify};

use crate::dump_arg::DumpArg;
use crate::error::Exit;
use crate::output::{self, Output};
use tensortap_query::document::{VerifyDocument, why_unverifiable};
use tensortap_query::number::{counted, grouped};

/// What `tensortap verify` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap verify                   the newest dump under outputs/\n  \
    tensortap verify my_dump --json\n\n\
    Exit status: 0 nothing is wrong (unverifiable: nothing could be checked either), 1 something is, 2 the dump cannot be read")]
pub struct VerifyArgs {
    #[command(flatten)]
    dump: DumpArg,
}

/// Checks every hash, offset and counter.
pub fn run(args: &VerifyArgs, output: Output) -> anyhow::Result<Exit> {
    let dump = args.dump.open()?;
    let findings = verify(&dump)?;
    if output.json {
        output.document(&VerifyDocument::of(&dump, &findings))?;
    } else {
        output.text(&text(&dump, &findings))?;
    }
    Ok(if findings.is_ok() { Exit::Good } else { Exit::Difference })
}

fn text(dump: &Dump, findings: &Findings) -> String {
    let Findings { records, checked, unverifiable, problems, more_problems } = findings;
    let word = output::verdict(&findings.word().to_uppercase(), findings.is_ok());
    let mut text = format!("{}: {word}\n", dump.dir().display());
    text += &format!("  {}, {} checked", counted(*records, "record"), grouped(*checked));
    if *unverifiable > 0 {
        text += &format!(", {} without a stored payload that could be", grouped(*unverifiable));
    }
    text += "\n";
    if let Some(why) = why_unverifiable(dump, findings) {
        text += &format!("  nothing could be checked: {why}\n");
    }
    if dump.tail() == Tail::Open {
        text += "  the run still goes on: this is what there is so far\n";
    }
    for problem in problems {
        text += &format!("  {problem}\n");
    }
    if *more_problems > 0 {
        text += &format!("  and {}\n", counted(*more_problems, "further problem"));
    }
    text
}
