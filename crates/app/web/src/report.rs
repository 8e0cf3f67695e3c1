//! A report as one file that opens in any browser and needs no other file.

use tensortap_query::document::{ReportDocument, VerdictDocument};

use crate::assets::{PARTS, REPORT, STYLE};
use crate::bundle::script;
use crate::page::{Page, escaped};
use crate::palette;

/// The page of a report. It also contains the verdict as plain text, for browsers without scripts.
///
/// # Errors
/// The report cannot be serialized as JSON.
pub fn page(report: &ReportDocument) -> serde_json::Result<String> {
    let verdicts: String = report
        .verdict
        .iter()
        .chain(report.members.iter().map(|member| &member.found.verdict))
        .map(verdict_markup)
        .collect();
    let body = format!(
        "<main id=\"report\">\n<h1>{}</h1>\n{verdicts}<noscript><p>This report draws its charts and tables with its own script, which \
         this browser does not run.</p></noscript>\n</main>",
        escaped(&report.title)
    );
    let style = STYLE.to_owned() + &palette::css();
    let script = script(PARTS.iter().chain(REPORT));
    Page { title: &report.title, body: &body, style: &style, script: &script }.with_data(report)
}

/// The verdict and, if it is FAIL, its first remark, which describes the first wrong task.
fn verdict_markup(verdict: &VerdictDocument) -> String {
    let detail = verdict.remarks.first().filter(|_| verdict.passes == Some(false));
    let detail = detail.map_or_else(String::new, |detail| format!("<p>{}</p>\n", escaped(detail)));
    format!("<p><strong>{}</strong>: {}</p>\n{detail}", escaped(verdict.word), escaped(&verdict.sentence))
}
