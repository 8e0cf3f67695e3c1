//! `tensortap diff --repeat-check`: tasks with equal kernels and inputs, but different outputs.

use std::path::PathBuf;

use tensortap::analysis::repeat::{Occurrence, RepeatCheck, RepeatDifference};
use tensortap::format::Dump;

use tensortap_query::document::RepeatDocument;

use crate::dump_path::existing;
use crate::error::Exit;
use crate::output::{self, Output};
use tensortap_query::number::{counted, grouped};
use tensortap_query::words::{printable, short_task};

/// Outputs that are listed.
const LISTED: usize = 20;
/// Tasks that are named for each content.
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
    let word = output::pass_or_fail(check.passes());
    let what = match (check.groups, check.differing.len()) {
        (0, _) => "no two tasks have the same inputs, so nothing could be compared".into(),
        (_, 0) => "tasks with equal inputs have equal outputs".into(),
        (_, 1) => "1 output differs although the inputs are equal".into(),
        (_, n) => format!("{} outputs differ although the inputs are equal", grouped(n as u64)),
    };
    let mut text = format!("{word}: {what}\n");
    text += &format!(
        "  {} in {}: {} have the same inputs as another, in {}\n",
        counted(check.tasks, "task"),
        counted(dumps.len() as u64, "dump"),
        grouped(check.repeated),
        counted(check.groups, "group"),
    );
    if check.left_out > 0 {
        text += &format!(
            "  {} left out: some of their arguments have no hash\n",
            counted(check.left_out, "task")
        );
    }
    for differing in check.differing.iter().take(LISTED) {
        text += &differing_text(dumps, differing);
    }
    if check.differing.len() > LISTED {
        text += &format!("and {} more\n", grouped((check.differing.len() - LISTED) as u64));
    }
    text
}

fn differing_text(dumps: &[Dump], differing: &RepeatDifference) -> String {
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
