//! A report as one file: opens in any browser, from a disk or a mail, and asks for nothing else.

use tensortap_query::document::{ReportDocument, VerdictDocument};

use crate::assets::{PARTS, REPORT, STYLE};
use crate::bundle::script;
use crate::page::{Page, escaped};
use crate::palette;

/// The page of a report. The verdict stands in it as text, too, for those who run no scripts.
///
/// # Errors
/// The report cannot be JSON.
pub fn page(report: &ReportDocument) -> serde_json::Result<String> {
    let verdicts: String = report
        .verdict
        .iter()
        .chain(report.members.iter().map(|member| &member.found.verdict))
        .map(said)
        .collect();
    let body = format!(
        "<main id=\"report\">\n<h1>{}</h1>\n{verdicts}<noscript><p>Pictures and tables of this report are drawn by its own script, which \
         this browser does not run.</p></noscript>\n</main>",
        escaped(&report.title)
    );
    let style = STYLE.to_owned() + &palette::css();
    let script = script(PARTS.iter().chain(REPORT));
    Page { title: &report.title, body: &body, style: &style, script: &script }.with_data(report)
}

fn said(verdict: &VerdictDocument) -> String {
    format!("<p><strong>{}</strong>: {}</p>\n", escaped(verdict.word), escaped(&verdict.sentence))
}
