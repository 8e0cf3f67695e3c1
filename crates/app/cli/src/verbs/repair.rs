//! `tensortap repair`: repairs a torn dump.

use std::path::PathBuf;

use clap::Args;
use tensortap::format::{Repair, repair, repair_without_payloads};

use tensortap_query::document::{MemberDocument, RepairDocument, SetDocument};

use crate::dump_path::{DumpPathArg, quoted};
use crate::error::Exit;
use crate::output::Output;
use crate::program::program;
use tensortap_query::number::{bytes, counted};
use tensortap_query::words::{printable, printable_path};

/// Arguments of `tensortap repair`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    tensortap repair                   the newest dump under outputs/\n  \
    tensortap repair my_dump\n  \
    tensortap repair run_folder        every dump of a run folder\n  \
    tensortap repair --without-payloads my_dump        if tensor_dump.bin is lost\n\n\
    Repair keeps every readable record, cuts off the rest and counts it. If the index is damaged and the manifest has more \
    records, the index is moved aside and the manifest is read instead. Replaced files are kept as FILE.old. A complete dump is not changed.\n\n\
    Repair rejects a dump that is still being written, a dump without its payload file (unless --without-payloads is \
    given), and symbolic links or folders in place of its files.\n\n\
    Afterwards the dump is checked as by `verify`. Changed bytes and overlapping payloads cannot be repaired; they are \
    reported and stay.\n\n\
    Exit status: 0 the dump is complete now, 1 a problem remains, 2 the dump cannot be read")]
pub struct RepairArgs {
    #[command(flatten)]
    dump: DumpPathArg,
    /// Repair a dump without its payload file: all payloads are lost
    #[arg(long)]
    without_payloads: bool,
}

/// Repairs the dump and prints what was done.
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
        let dumps =
            each.map(|(member, done)| MemberDocument::new(member, RepairDocument::of(done))).collect();
        output.document(&SetDocument {
            dump: path.display().to_string(),
            verdict: None,
            run: None,
            dumps,
        })?;
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
        (true, true) => "repaired",
        (true, false) => "no repair needed",
        (false, true) => "repaired in part",
        (false, false) => "cannot be repaired",
    };
    // `cannot be repaired, 3 records, complete` would contradict itself: a complete dump can have changed payloads.
    let status = if done.is_whole() || done.changed { format!(", {status}") } else { String::new() };
    format!("{dir}: {state}, {records}{status}\n") + &what_was_done(done) + &what_is_wrong(done)
}

fn what_was_done(done: &Repair) -> String {
    let Repair { changed, cut_bytes, missing_records, lost_payloads, .. } = done;
    if !changed {
        return String::new();
    }
    if let Some(held) = done.set_aside {
        let held = counted(held, "record");
        return format!("  the records are now read from tensor_dump.json; the damaged index had {held}\n")
            + &kept(done);
    }
    let mut text = String::new();
    if *cut_bytes > 0 {
        text += &format!("  cut off {} of the index that could not be read\n", bytes(*cut_bytes));
    }
    if *lost_payloads > 0 {
        text += &format!(
            "  marked {} as lost, which the payload file does not contain\n",
            counted(*lost_payloads, "payload")
        );
    }
    if *missing_records > 0 {
        text += &format!("  {} missing\n", counted(*missing_records, "record"));
    }
    text + "  wrote the end of the index, tensor_dump.json and graph.json\n" + &kept(done)
}

/// Problems that are listed; `verify` lists all.
const LISTED: usize = 10;

fn what_is_wrong(done: &Repair) -> String {
    let listed = done.problems.iter().take(LISTED);
    let mut text: String = listed.map(|problem| format!("  {}\n", printable(&problem.to_string()))).collect();
    let more = done.problem_count() - done.problems.len().min(LISTED) as u64;
    if more > 0 {
        let (more, program) = (counted(more, "further problem"), program());
        text += &format!("  and {more}, which `{program} verify {}` lists\n", quoted(&done.dir));
    }
    text
}

/// The files that keep replaced contents.
fn kept(done: &Repair) -> String {
    let line = |path: &PathBuf| format!("  the previous content is kept as {}\n", quoted(path));
    done.kept.iter().map(line).collect()
}
