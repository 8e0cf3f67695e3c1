//! `tensortap repair`: makes a torn dump whole.

use std::path::PathBuf;

use clap::Args;
use tensortap::format::{Repair, repair, repair_without_payloads};

use tensortap_query::document::{OfMember, RepairDocument, SetDocument};

use crate::dump_arg::{DumpArg, quoted};
use crate::error::Exit;
use crate::output::Output;
use crate::program::program;
use tensortap_query::number::{bytes, counted};
use tensortap_query::words::{printable, printable_path};

/// What `tensortap repair` takes.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap repair                   the newest dump under outputs/\n  \
    tensortap repair my_dump\n  \
    tensortap repair run_folder        every dump in it, one for each rank\n  \
    tensortap repair --without-payloads my_dump        tensor_dump.bin is lost for good\n\n\
    What can be read stays; what cannot is cut off and counted. Where the index was damaged and the manifest has more, \
    the manifest stays and the index is set aside. Whatever is replaced is kept beside it as FILE.old. A dump that is whole is left alone, one that is \
    still being written is refused, and so is one without its payload file unless told.\n\n\
    A symbolic link or a folder in place of a file of the dump is named and refused.\n\n\
    What is left is checked as `verify` does. Bytes that changed and payloads that lie in one another cannot be mended: they are named and stay.\n\n\
    Exit status: 0 the dump is whole now, 1 something that cannot be mended is wrong, 2 it cannot be read")]
pub struct RepairArgs {
    #[command(flatten)]
    dump: DumpArg,
    /// Give every payload up for good when the payload file is not there
    #[arg(long)]
    without_payloads: bool,
}

/// Repairs the dump and tells what was done.
pub fn run(args: &RepairArgs, output: Output) -> anyhow::Result<Exit> {
    let path = args.dump.path()?;
    let repair = if args.without_payloads { repair_without_payloads } else { repair };
    if args.dump.is_one(&path) {
        return one(&repair(&path)?, output);
    }
    let set = args.dump.open_set()?;
    if let [member] = set.members() {
        return one(&repair(member.dump.dir())?, output);
    }
    let done: Vec<Repair> =
        set.members().iter().map(|member| repair(member.dump.dir())).collect::<Result<_, _>>()?;
    let each = set.members().iter().zip(&done);
    if output.json {
        let dumps = each.map(|(member, done)| OfMember::new(member, RepairDocument::of(done))).collect();
        output.document(&SetDocument { dump: path.display().to_string(), verdict: None, dumps })?;
    } else {
        for (member, done) in each {
            output.text(&format!("{}, {}", member.name(), text(done)))?;
        }
    }
    Ok(exit(done.iter().all(Repair::is_whole)))
}

fn one(done: &Repair, output: Output) -> anyhow::Result<Exit> {
    if output.json {
        output.document(&RepairDocument::of(done))?;
    } else {
        output.text(&text(done))?;
    }
    Ok(exit(done.is_whole()))
}

fn exit(is_whole: bool) -> Exit {
    if is_whole { Exit::Good } else { Exit::Difference }
}

fn text(done: &Repair) -> String {
    let (dir, records, status) = (printable_path(&done.dir), counted(done.records, "record"), done.status);
    let state = match (done.is_whole(), done.changed) {
        (true, true) => "whole now",
        (true, false) => "whole already",
        (false, true) => "mended, not whole",
        (false, false) => "not whole, nothing can be mended",
    };
    format!("{dir}: {state}, {records}, {status}\n") + &what_was_done(done) + &what_is_wrong(done)
}

fn what_was_done(done: &Repair) -> String {
    let Repair { changed, cut_bytes, missing_records, lost_payloads, .. } = done;
    if !changed {
        return String::new();
    }
    if let Some(held) = done.set_aside {
        let held = counted(held, "record");
        return format!("  read from tensor_dump.json from now on: the index was damaged and had {held}\n")
            + &kept(done);
    }
    let mut text = String::new();
    if *cut_bytes > 0 {
        text += &format!("  cut {} off the index that could not be read\n", bytes(*cut_bytes));
    }
    if *lost_payloads > 0 {
        text += &format!(
            "  gave up {} that the payload file no longer has\n",
            counted(*lost_payloads, "payload")
        );
    }
    if *missing_records > 0 {
        text += &format!("  {} known to be missing\n", counted(*missing_records, "record"));
    }
    text + "  wrote its end, tensor_dump.json and graph.json\n" + &kept(done)
}

/// As many problems are told; `verify` has them all.
const TOLD: usize = 10;

fn what_is_wrong(done: &Repair) -> String {
    let told = done.problems.iter().take(TOLD);
    let mut text: String = told.map(|problem| format!("  {}\n", printable(&problem.to_string()))).collect();
    let more = done.problem_count() - done.problems.len().min(TOLD) as u64;
    if more > 0 {
        let (more, program) = (counted(more, "further problem"), program());
        text += &format!("  and {more}, which `{program} verify {}` lists\n", quoted(&done.dir));
    }
    text
}

/// The names under which what was there before is kept.
fn kept(done: &Repair) -> String {
    let line = |path: &PathBuf| format!("  what was there before is kept as {}\n", quoted(path));
    done.kept.iter().map(line).collect()
}
