//! A warning about kernels in `--dump-func` that the program does not have.

use std::collections::BTreeSet;

use tensortap::RecordingReport;
use tensortap::format::{Dump, kernel_fits, short_name};
use tensortap_query::words::printable;

/// Kernels that the warning lists.
const NAMED: usize = 8;

/// A warning that lists the names and patterns without a match and the kernels of the run. `None` if everything matches,
/// or if nothing was recorded. Numbers always match.
pub fn warning(report: &RecordingReport, funcs: &[String]) -> Option<String> {
    if funcs.is_empty() || report.run.processes.is_empty() {
        return None;
    }
    let kernels = kernels(report);
    let matches =
        |func: &String| func.parse::<u32>().is_ok() || kernels.iter().any(|kernel| kernel_fits(func, kernel));
    let missing: Vec<&str> = funcs.iter().filter(|func| !matches(func)).map(String::as_str).collect();
    if missing.is_empty() {
        return None;
    }
    let mut known: Vec<String> =
        kernels.iter().take(NAMED).map(|kernel| printable(&short_name(kernel)).into_owned()).collect();
    if kernels.len() > NAMED {
        known.push(format!("and {} more", kernels.len() - NAMED));
    }
    let known = if known.is_empty() {
        "it has no named kernels".into()
    } else {
        format!("it has {}", known.join(", "))
    };
    Some(format!("the program has no kernel `{}` (--dump-func): {known}", missing.join("`, `")))
}

/// The kernels of all processes.
fn kernels(report: &RecordingReport) -> BTreeSet<String> {
    let dumps =
        report.run.processes.iter().filter_map(|process| Dump::open(&report.dir.join(&process.folder)).ok());
    dumps
        .flat_map(|dump| dump.info().kernels.iter().map(|kernel| kernel.name.clone()).collect::<Vec<_>>())
        .collect()
}
