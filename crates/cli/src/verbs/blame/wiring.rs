//! Where the orchestration is not that of the golden, and what to do when it is suspected without one.

use std::io::Write;
use std::path::Path;

use tensortap::DType;
use tensortap::analysis::blame::{Rewired, TakenView, WiringDifference};
use tensortap::analysis::graph::{OutputRef, TaskGraph};
use tensortap::format::ScalarValue;

use super::Report;
use super::text::LISTED;
use crate::dump_arg::quoted;
use crate::program::program;
use tensortap_query::blame_words::name;
use tensortap_query::number::counted;
use tensortap_query::words::{arg_words, launch_text, scalar_text, sizes_text, step_task, task_words};

pub(super) fn write_wiring(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let blame = report.found.blame;
    if report.suspects_orchestration {
        writeln!(out, "\nviews and edges that are wrong show beside the dump of a run that was right:")?;
        let dump = quoted(report.found.dump.dir());
        writeln!(out, "  {} blame {dump} --golden DUMP", program())?;
        let info = report.found.dump.info();
        let scene = info.scene_folder.as_ref().unwrap_or(&info.scene);
        let scene = quoted(Path::new(scene));
        writeln!(out, "a kernel that writes beside its tensors is caught in the act by:")?;
        writeln!(out, "  {} run {scene} --guard", program())?;
    }
    let all = &blame.wiring;
    if all.is_empty() {
        return Ok(());
    }
    let count = counted(all.len() as u64, "difference");
    writeln!(out, "\nthe orchestration is not that of the golden, {count}:")?;
    let shown = if report.all { all.len() } else { LISTED };
    let mut last = None;
    for difference in all.iter().take(shown) {
        if last.replace(difference.task) != Some(difference.task) {
            writeln!(out, "  {}", name(blame, difference.task))?;
        }
        for line in words(report, difference) {
            writeln!(out, "    {line}")?;
        }
    }
    if all.len() > shown {
        writeln!(
            out,
            "  and {} (--all lists every one)",
            counted((all.len() - shown) as u64, "further difference")
        )?;
    }
    Ok(())
}

fn words(report: &Report<'_>, difference: &WiringDifference) -> Vec<String> {
    let blame = report.found.blame;
    let Some(golden) = &blame.golden else { return Vec::new() };
    let task = blame.graph.task(difference.task);
    match &difference.what {
        Rewired::View { arg_index, dump, golden } => vec![
            format!("{} is another view:", arg_words(task, *arg_index)),
            format!("  in the dump    {}", view(dump)),
            format!("  in the golden  {}", view(golden)),
        ],
        Rewired::Source { arg_index, dump, golden: there } => vec![
            format!("{} came from elsewhere:", arg_words(task, *arg_index)),
            format!("  in the dump    {}", sources(&blame.graph, dump)),
            format!("  in the golden  {}", sources(golden, there)),
        ],
        Rewired::Waits(on) => vec![format!("waits for {}, not so in the golden", name(blame, *on))],
        Rewired::DoesNotWait(on) => {
            let on = golden.task(*on);
            let task = format!("task {} ({}) of the golden", step_task(on.step, on.task_id), task_words(on));
            vec![format!("does not wait for {task}, as it does there")]
        }
        Rewired::LostOrder(on) => {
            vec![format!("nothing orders it behind {}, as the golden does", name(blame, *on))]
        }
        Rewired::Launch { dump, golden } => vec![
            "is launched in another size:".into(),
            format!("  in the dump    {}", launch_text(dump)),
            format!("  in the golden  {}", launch_text(golden)),
        ],
        Rewired::Scalar { arg_index, dump, golden } => {
            let dtype = task.argument(*arg_index).map_or(DType::UInt64, |arg| arg.dtype);
            let value = |bits: u64| scalar_text(ScalarValue::decode(dtype, bits));
            let argument = arg_words(task, *arg_index);
            vec![format!("{argument} is {}, {} in the golden", value(*dump), value(*golden))]
        }
    }
}

/// `2x64 from element 128, strides 64, 1`.
fn view(view: &TakenView) -> String {
    let strides: Vec<String> = view.strides.iter().map(i64::to_string).collect();
    let strides =
        if strides.is_empty() { String::new() } else { format!(", strides {}", strides.join(", ")) };
    format!("{} from element {}{strides}", sizes_text(&view.shape), view.start_offset)
}

/// `task 0x1 (double), task 0x2 (double)`.
fn sources(graph: &TaskGraph, outputs: &[OutputRef]) -> String {
    let mut names: Vec<String> = outputs
        .iter()
        .map(|output| graph.task(output.task))
        .map(|task| format!("task {} ({})", step_task(task.step, task.task_id), task_words(task)))
        .collect();
    names.dedup();
    if names.is_empty() { "no task".into() } else { names.join(", ") }
}
