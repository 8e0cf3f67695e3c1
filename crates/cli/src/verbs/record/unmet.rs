//! Kernels that were asked for and that the program does not have.

use std::collections::BTreeSet;

use tensortap::RecordingReport;
use tensortap::format::{Dump, word_fits};
use tensortap_query::words::printable;

/// Kernels that are named.
const NAMED: usize = 8;

/// Which of these names and patterns no kernel of the run has, with those that there are; none where each has some, where they are numbers, and where nothing was recorded.
pub fn words(report: &RecordingReport, funcs: &[String]) -> Option<String> {
    if funcs.is_empty() || report.run.processes.is_empty() {
        return None;
    }
    let kernels = kernels(report);
    let is_met =
        |func: &String| func.parse::<u32>().is_ok() || kernels.iter().any(|kernel| word_fits(func, kernel));
    let unmet: Vec<&str> = funcs.iter().filter(|func| !is_met(func)).map(String::as_str).collect();
    if unmet.is_empty() {
        return None;
    }
    let mut there: Vec<String> =
        kernels.iter().take(NAMED).map(|kernel| printable(kernel).into_owned()).collect();
    if kernels.len() > NAMED {
        there.push(format!("and {} more", kernels.len() - NAMED));
    }
    let there =
        if there.is_empty() { "it named none".into() } else { format!("it has {}", there.join(", ")) };
    Some(format!("the program has no kernel `{}` (--dump-func): {there}", unmet.join("`, `")))
}

/// The kernels of all processes.
fn kernels(report: &RecordingReport) -> BTreeSet<String> {
    let dumps =
        report.run.processes.iter().filter_map(|process| Dump::open(&report.dir.join(&process.folder)).ok());
    dumps
        .flat_map(|dump| dump.info().kernels.iter().map(|kernel| kernel.name.clone()).collect::<Vec<_>>())
        .collect()
}
