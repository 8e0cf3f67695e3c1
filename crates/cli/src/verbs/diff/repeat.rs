//! `tensortap diff --repeat-check`: tasks that were given the same and did not make the same of it.

use std::path::PathBuf;

use tensortap::analysis::repeat::{Differing, Occurrence, RepeatCheck};
use tensortap::format::Dump;

use tensortap_query::document::RepeatDocument;

use crate::dump_arg::existing;
use crate::error::Exit;
use crate::output::{self, Output};
use tensortap_query::number::{counted, grouped};
use tensortap_query::words::{printable, short_task};

/// Outputs listed.
const LISTED: usize = 20;
/// Tasks named for each content.
const NAMED: usize = 4;

/// Checks the dumps.
pub fn run(paths: &[PathBuf], output: Output) -> anyhow::Result<Exit> {
    let mut dumps = Vec::new();
    for path in paths {
        dumps.push(Dump::open(&existing(Some(path.clone()))?)?);
    }
    let check = RepeatCheck::of(&dumps.iter().collect::<Vec<_>>())?;
    if output.json {
        output.document(&RepeatDocument::of(&dumps, &check))?;
    } else {
        output.text(&text(&dumps, &check))?;
    }
    Ok(if check.passes() { Exit::Good } else { Exit::Difference })
}

fn text(dumps: &[Dump], check: &RepeatCheck) -> String {
    let word = output::verdict(if check.passes() { "PASS" } else { "FAIL" }, check.passes());
    let what = match (check.groups, check.differing.len()) {
        (0, _) => "no two tasks were given the same, so nothing could be compared".into(),
        (_, 0) => "tasks that were given the same wrote the same".into(),
        (_, 1) => "1 output differs although the inputs are equal".into(),
        (_, n) => format!("{} outputs differ although the inputs are equal", grouped(n as u64)),
    };
    let mut text = format!("{word}: {what}\n");
    text += &format!(
        "  {} in {}: {} were given the same as another, in {}\n",
        counted(check.tasks, "task"),
        counted(dumps.len() as u64, "dump"),
        grouped(check.repeated),
        counted(check.groups, "group"),
    );
    if check.left_out > 0 {
        text +=
            &format!("  {} left out: not everything of them has a hash\n", counted(check.left_out, "task"));
    }
    for differing in check.differing.iter().take(LISTED) {
        text += &differing_text(dumps, differing);
    }
    if check.differing.len() > LISTED {
        text += &format!("and {} more\n", grouped((check.differing.len() - LISTED) as u64));
    }
    text
}

fn differing_text(dumps: &[Dump], differing: &Differing) -> String {
    let kernels: Vec<String> = differing.kernels.iter().map(|k| printable(k).into_owned()).collect();
    let mut text = format!("{}, argument {}:\n", kernels.join("+"), differing.arg_index);
    for (hash, tasks) in &differing.contents {
        let mut names: Vec<String> = tasks.iter().take(NAMED).map(|t| occurrence(dumps, t)).collect();
        if tasks.len() > NAMED {
            names.push(format!("{} more", tasks.len() - NAMED));
        }
        text += &format!("  {:.12}  {}\n", format!("{hash:032x}"), names.join(", "));
    }
    text
}

fn occurrence(dumps: &[Dump], task: &Occurrence) -> String {
    let dir = dumps[task.dump].dir().display().to_string();
    format!("task {} of {}", short_task(task.task_id), printable(&dir))
}
