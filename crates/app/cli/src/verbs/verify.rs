//! `tensortap verify`: checks a dump for damage.

use clap::Args;
use tensortap::format::{Dump, Findings, Tail};
use tensortap::verify;

use crate::dump_path::DumpPathArg;
use crate::error::Exit;
use crate::output::{self, Output};
use tensortap_query::document::{MemberDocument, SetDocument, VerifyDocument, why_unverifiable};
use tensortap_query::number::{counted, grouped};
use tensortap_query::words::{printable, printable_path};
use tensortap_query::{DumpSet, Member};

/// Arguments of `tensortap verify`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap verify                   the newest dump under outputs/\n  \
    tensortap verify my_dump --json\n  \
    tensortap verify run_folder        every dump of a run folder\n\n\
    Exit status: 0 no problem found (verdict ok, or unverifiable if nothing could be checked), 1 a problem was found, \
    2 the dump cannot be read")]
pub struct VerifyArgs {
    #[command(flatten)]
    dump: DumpPathArg,
}

/// Checks every hash, offset and counter.
pub fn run(args: &VerifyArgs, output: Output) -> anyhow::Result<Exit> {
    let set = args.dump.open_set()?;
    let found: Vec<Findings> =
        set.members().iter().map(|member| verify(&member.dump, None)).collect::<Result<_, _>>()?;
    match (set.members(), found.as_slice()) {
        ([Member { dump, .. }], [findings]) if output.json => {
            output.document(&VerifyDocument::of(dump, findings))?;
        }
        ([Member { dump, .. }], [findings]) => output.text(&text(dump, findings))?,
        _ if output.json => output.document(&set_document(&set, &found))?,
        _ => output.text(&set_text(&set, &found))?,
    }
    Ok(if found.iter().all(Findings::is_ok) { Exit::Good } else { Exit::Difference })
}

/// The verdict over all dumps of a run.
fn word_of(found: &[Findings]) -> &'static str {
    let has = |word: &str| found.iter().any(|findings| findings.word() == word);
    ["bad", "ok"].into_iter().find(|word| has(word)).unwrap_or("unverifiable")
}

fn set_document<'a>(set: &DumpSet, found: &'a [Findings]) -> SetDocument<VerifyDocument<'a>> {
    let of_member = |(member, findings): (&Member, &'a Findings)| {
        MemberDocument::new(member, VerifyDocument::of(&member.dump, findings))
    };
    SetDocument {
        dump: set.path().display().to_string(),
        verdict: Some(word_of(found)),
        run: None,
        dumps: set.members().iter().zip(found).map(of_member).collect(),
    }
}

/// The overall verdict, then each dump.
fn set_text(set: &DumpSet, found: &[Findings]) -> String {
    let word = output::verdict(&word_of(found).to_uppercase(), found.iter().all(Findings::is_ok));
    let mut all =
        format!("{}: {word}, {}\n", printable_path(set.path()), counted(found.len() as u64, "dump"));
    for (member, findings) in set.members().iter().zip(found) {
        all += &format!("{}, {}", printable(&member.name()), text(&member.dump, findings));
    }
    all
}

fn text(dump: &Dump, findings: &Findings) -> String {
    let Findings { records, checked, unverifiable, gone, problems, more_problems } = findings;
    let word = output::verdict(&findings.word().to_uppercase(), findings.is_ok());
    let mut text = format!("{}: {word}\n", printable_path(dump.dir()));
    text += &format!("  {}, {} checked", counted(*records, "record"), grouped(*checked));
    if *unverifiable > 0 {
        text += &format!(", {} without a stored payload to check", grouped(*unverifiable));
    }
    text += "\n";
    if *gone > 0 {
        let gone = counted(*gone, "record");
        text += &format!(
            "  {gone} gone: the run keeps only its newest tasks and removed these in the meantime\n"
        );
    }
    if let Some(why) = why_unverifiable(dump, findings) {
        text += &format!("  nothing could be checked: {why}\n");
    }
    if dump.tail() == Tail::Open {
        text += "  the run is still recording: these are the findings so far\n";
    }
    for problem in problems {
        text += &format!("  {}\n", printable(&problem.to_string()));
    }
    if *more_problems > 0 {
        text += &format!("  and {}\n", counted(*more_problems, "further problem"));
    }
    text
}
