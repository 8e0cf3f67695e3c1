//! What came of an export.

use serde::Serialize;
use tensortap::format::Dump;
use tensortap::interchange::{EXPORT_MANIFEST_FILE, SkippedRecord};
use tensortap::{ExportConfig, ExportReport};

use crate::dump_arg::quoted;
use tensortap_query::number::{bytes, counted, grouped};

/// Records without content that are named; the manifest has all.
const NAMED: usize = 10;

/// What was exported, how, and what came of it.
pub struct Exported<'a> {
    /// The dump.
    pub dump: &'a Dump,
    /// How and where to.
    pub config: &'a ExportConfig,
    /// What came of it.
    pub report: &'a ExportReport,
}

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

/// For machines.
pub fn document<'a>(exported: &Exported<'a>) -> ExportDocument<'a> {
    let &Exported { dump, config, report } = exported;
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

/// For people.
pub fn text(exported: &Exported<'_>) -> String {
    let &Exported { dump, config, report } = exported;
    let ExportReport { selected, tensors, scalars, bytes: content, files, skipped, .. } = report;
    let of = if *selected == dump.len() {
        String::new()
    } else {
        format!(" of {} selected from {}", grouped(*selected), grouped(dump.len()))
    };
    let (tensors, scalars) = (counted(*tensors, "tensor"), counted(*scalars, "scalar"));
    let (files, out) = (counted(*files, &format!("{} file", config.format.name())), quoted(&config.out));
    let mut text = format!("{tensors} and {scalars}{of}, {}: {files} in {out}\n", bytes(*content));
    if !skipped.is_empty() {
        text += &format!("{} without whole content left out:\n", counted(skipped.len() as u64, "record"));
        for SkippedRecord { index, name, payload } in skipped.iter().take(NAMED) {
            text += &format!("  record {index}, {name}: payload {payload}\n");
        }
        if skipped.len() > NAMED {
            let more = grouped((skipped.len() - NAMED) as u64);
            text += &format!("  and {more} more, named in {EXPORT_MANIFEST_FILE}\n");
        }
    }
    text
}
