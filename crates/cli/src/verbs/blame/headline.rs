//! The first line: the verdict and what it rests on.

use tensortap_query::blame_words::{self, Suspicions};

use super::Report;
use crate::output;

pub(super) fn headline(report: &Report<'_>) -> String {
    let word = output::verdict(if report.found.passes { "PASS" } else { "FAIL" }, report.found.passes);
    let suspicions = Suspicions {
        passes: report.found.passes,
        orchestration: report.suspects_orchestration,
        unjudged: report.suspects_unjudged,
        other_scene: report.other_scene.as_deref(),
    };
    format!("{word}: {}", blame_words::headline(report.found.blame, suspicions))
}
