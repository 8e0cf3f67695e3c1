//! Tasks that are connected differently than in the golden run, and what to do if that is suspected without a golden.

use std::io::Write;
use std::path::Path;

use tensortap::analysis::blame::FailureReason;

use super::Report;
use super::text::LISTED;
use crate::dump_path::quoted;
use crate::program::program;
use tensortap_query::blame_words::name;
use tensortap_query::number::counted;
use tensortap_query::wiring_words::wiring_words;

pub(super) fn write_wiring(out: &mut dyn Write, report: &Report<'_>) -> anyhow::Result<()> {
    let blame = report.found.blame;
    if report.found.verdict.failure == Some(FailureReason::Orchestration) {
        writeln!(out, "\nto find wrong views and edges, compare with the dump of a correct run:")?;
        let dump = quoted(report.found.dump.dir());
        writeln!(out, "  {} blame {dump} --golden DUMP", program())?;
        let info = report.found.dump.info();
        let scene = info.scene_folder.as_ref().unwrap_or(&info.scene);
        let scene = quoted(Path::new(scene));
        writeln!(out, "to find a kernel that writes outside its tensors, run with guard pages:")?;
        writeln!(out, "  {} run {scene} --guard", program())?;
    }
    let all = &blame.wiring;
    if all.is_empty() {
        return Ok(());
    }
    let count = counted(all.len() as u64, "difference");
    writeln!(out, "\ntasks are connected differently than in the golden run, {count}:")?;
    let shown = if report.all { all.len() } else { LISTED };
    let mut last = None;
    for difference in all.iter().take(shown) {
        if last.replace(difference.task) != Some(difference.task) {
            writeln!(out, "  {}", name(blame, difference.task))?;
        }
        for line in wiring_words(blame, difference) {
            writeln!(out, "    {line}")?;
        }
    }
    if all.len() > shown {
        writeln!(
            out,
            "  and {} (--all lists them)",
            counted((all.len() - shown) as u64, "further difference")
        )?;
    }
    Ok(())
}
