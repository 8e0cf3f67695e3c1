//! The first line of the report: the verdict and its reason.

use tensortap::analysis::ranks::RunVerdict;

use super::Report;
use crate::output;

pub(super) fn headline(report: &Report<'_>) -> String {
    format!("{}: {}", word(report.found.run_verdict()), report.found.headline())
}

/// `PASS`, `FAIL` or `UNDECIDED`.
pub(super) fn word(verdict: RunVerdict) -> String {
    match verdict {
        RunVerdict::Pass | RunVerdict::Fail => output::pass_or_fail(verdict == RunVerdict::Pass),
        RunVerdict::Undecided => output::verdict("UNDECIDED", false),
    }
}
