//! Where the orchestration is not that of the golden, and what to do when it is suspected without one.

use std::io::Write;
use std::path::Path;

use super::Report;
use super::text::LISTED;
use crate::dump_arg::quoted;
use crate::program::program;
use tensortap_query::blame_words::name;
use tensortap_query::number::counted;
use tensortap_query::wiring_words::wiring_words;

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
        for line in wiring_words(blame, difference) {
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
