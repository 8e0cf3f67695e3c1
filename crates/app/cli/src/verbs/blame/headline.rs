//! The first line of the report: the verdict and its reason.

use super::Report;
use crate::output;

pub(super) fn headline(report: &Report<'_>) -> String {
    let word = output::pass_or_fail(report.found.passes());
    format!("{word}: {}", report.found.headline())
}
