//! What `export`, `extract`, `verify` and `repair` print with `--json`.

use serde::Serialize;
use tensortap::format::{Dump, Findings, Problem, Repair};
use tensortap::interchange::{EXPORT_MANIFEST_FILE, SkippedRecord};
use tensortap::{ExpectedSource, ExportConfig, ExportReport, ExtractReport, TaskId};

use crate::words::state_name;

/// The document of a verification.
#[derive(Serialize)]
pub struct VerifyDocument<'a> {
    #[serde(flatten)]
    findings: &'a Findings,
    dump: String,
    state: &'static str,
    /// Why no record could be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Why nothing in a dump could be checked; `None` if something was checked.
#[must_use]
pub fn why_unverifiable(dump: &Dump, findings: &Findings) -> Option<String> {
    (findings.word() == "unverifiable").then(|| match dump.format().is_foreign() {
        true => format!("dumps of {} have no content hashes; only offsets and counters agree", dump.format()),
        false => "no record has a stored payload with a hash".into(),
    })
}

impl<'a> VerifyDocument<'a> {
    /// The document of a checked dump.
    #[must_use]
    pub fn of(dump: &Dump, findings: &'a Findings) -> VerifyDocument<'a> {
        VerifyDocument {
            findings,
            dump: dump.dir().display().to_string(),
            state: state_name(&dump.tail()),
            reason: why_unverifiable(dump, findings),
        }
    }
}

/// The document of a repair.
#[derive(Serialize)]
pub struct RepairDocument<'a> {
    verdict: &'static str,
    dump: String,
    changed: bool,
    status: &'static str,
    records: u64,
    cut_bytes: u64,
    missing_records: u64,
    lost_payloads: u64,
    set_aside: Option<u64>,
    kept: Vec<String>,
    problems: &'a [Problem],
    more_problems: u64,
}

impl<'a> RepairDocument<'a> {
    /// The document of a repair that was made.
    #[must_use]
    pub fn of(done: &'a Repair) -> RepairDocument<'a> {
        let Repair {
            dir,
            changed,
            status,
            records,
            cut_bytes,
            missing_records,
            lost_payloads,
            set_aside,
            kept,
            problems,
            more_problems,
        } = done;
        RepairDocument {
            verdict: if done.is_whole() { "whole" } else { "bad" },
            dump: dir.display().to_string(),
            changed: *changed,
            status: status.name(),
            records: *records,
            cut_bytes: *cut_bytes,
            missing_records: *missing_records,
            lost_payloads: *lost_payloads,
            set_aside: *set_aside,
            kept: kept.iter().map(|path| path.display().to_string()).collect(),
            problems,
            more_problems: *more_problems,
        }
    }
}

/// An export with its result.
pub struct ExportResult<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// Format and destination.
    pub config: &'a ExportConfig,
    /// The result.
    pub report: &'a ExportReport,
}

/// The document of an export.
#[derive(Serialize)]
pub struct ExportDocument<'a> {
    dump: String,
    format: &'static str,
    out: String,
    manifest: String,
    total: u64,
    selected: u64,
    exported: u64,
    tensors: u64,
    scalars: u64,
    /// Bytes of content.
    bytes: u64,
    files: u64,
    file_bytes: u64,
    skipped: &'a [SkippedRecord],
}

impl<'a> ExportDocument<'a> {
    /// The document of an export.
    #[must_use]
    pub fn of(exported: &ExportResult<'a>) -> ExportDocument<'a> {
        let &ExportResult { dump, config, report } = exported;
        let &ExportReport { selected, tensors, scalars, bytes, files, file_bytes, ref skipped } = report;
        ExportDocument {
            dump: dump.dir().display().to_string(),
            format: config.format.name(),
            out: config.out.display().to_string(),
            manifest: config.out.join(EXPORT_MANIFEST_FILE).display().to_string(),
            total: dump.len(),
            selected,
            exported: tensors + scalars,
            tensors,
            scalars,
            bytes,
            files,
            file_bytes,
            skipped,
        }
    }
}

/// The document of a case that was extracted from a dump.
#[derive(Serialize)]
pub struct ExtractDocument<'a> {
    out: String,
    task_id: String,
    kernels: &'a [String],
    arguments: usize,
    payloads: usize,
    bytes: u64,
    redacted: bool,
    expect: &'static str,
    /// How the captured output differs from the kernel's reference.
    captured_outside: Option<&'a str>,
    /// Libraries that the case contains.
    libraries: Vec<String>,
}

impl<'a> ExtractDocument<'a> {
    /// The document of a report.
    #[must_use]
    pub fn of(report: &'a ExtractReport) -> ExtractDocument<'a> {
        ExtractDocument {
            out: report.out.display().to_string(),
            task_id: TaskId(report.task_id).to_string(),
            kernels: &report.kernels,
            arguments: report.arguments,
            payloads: report.payloads,
            bytes: report.bytes,
            redacted: report.redacted,
            expect: expect_name(report.expect),
            captured_outside: report.outside.as_deref(),
            libraries: report.libraries.iter().map(|library| library.display().to_string()).collect(),
        }
    }
}

/// What a case expects, in one word.
#[must_use]
pub const fn expect_name(expect: ExpectedSource) -> &'static str {
    match expect {
        ExpectedSource::Captured => "captured",
        ExpectedSource::Reference => "reference",
    }
}
