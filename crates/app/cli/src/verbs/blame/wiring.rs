//! Tasks that are connected differently than in the golden run, and what to do if that is suspected without a golden.

use std::io::Write;
use std::path::Path;

use tensortap::analysis::blame::{Blame, FailureReason, WiringChange, WiringDifference};
use tensortap::analysis::labels::Label;

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
    let is_harmless = |difference: &&WiringDifference| is_value_of_right_task(blame, difference);
    let (harmless, all): (Vec<_>, Vec<_>) =
        blame.wiring.iter().partition(|difference| !report.all && is_harmless(difference));
    if !all.is_empty() {
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
            let further = counted((all.len() - shown) as u64, "further difference");
            writeln!(out, "  and {further} (--all lists them)")?;
        }
    }
    if !harmless.is_empty() {
        let count = counted(harmless.len() as u64, "value");
        writeln!(
            out,
            "\nignored: {count} passed by copy to right tasks, which may hold addresses and padding (--all lists them)"
        )?;
    }
    Ok(())
}

/// Whether a difference is a value that did no harm: its task is right.
fn is_value_of_right_task(blame: &Blame, difference: &WiringDifference) -> bool {
    let is_value = matches!(difference.what, WiringChange::Value { .. } | WiringChange::Scalar { .. });
    is_value && matches!(blame.findings[difference.task].label, Label::Ok | Label::Masked)
}
