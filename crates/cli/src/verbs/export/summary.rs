//! What came of an export.

use serde::Serialize;
use tensortap::format::{ArgumentKind, Record};
use tensortap::interchange::{EXPORT_MANIFEST_FILE, SkippedRecord};

use super::plan::Plan;
use crate::dump_arg::quoted;
use crate::number::{bytes, counted, grouped};

/// Records without content that are named; the manifest has all.
const NAMED: usize = 10;

/// Counts over an export.
#[derive(Default)]
pub struct Exported {
    /// Records selected.
    pub selected: u64,
    /// Tensors written.
    pub tensors: u64,
    /// Scalars written.
    pub scalars: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Files written, without the manifest.
    pub files: u64,
    /// Their sizes, together.
    pub file_bytes: u64,
    /// Records without content.
    pub skipped: Vec<SkippedRecord>,
}

impl Exported {
    /// Counts a record that was written.
    pub fn count(&mut self, record: &Record) {
        match record.kind {
            ArgumentKind::Tensor => self.tensors += 1,
            ArgumentKind::Scalar => self.scalars += 1,
        }
        self.bytes = self.bytes.saturating_add(record.content_bytes());
    }
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
pub fn document<'a>(plan: &Plan<'_>, exported: &'a Exported) -> ExportDocument<'a> {
    let &Exported { selected, tensors, scalars, bytes, files, file_bytes, ref skipped } = exported;
    ExportDocument {
        dump: plan.dump.dir().display().to_string(),
        format: plan.format.name(),
        out: plan.out.display().to_string(),
        manifest: plan.out.join(EXPORT_MANIFEST_FILE).display().to_string(),
        total: plan.dump.len(),
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
pub fn text(plan: &Plan<'_>, exported: &Exported) -> String {
    let Exported { selected, tensors, scalars, bytes: content, files, skipped, .. } = exported;
    let of = if *selected == plan.dump.len() {
        String::new()
    } else {
        format!(" of {} selected from {}", grouped(*selected), grouped(plan.dump.len()))
    };
    let (tensors, scalars) = (counted(*tensors, "tensor"), counted(*scalars, "scalar"));
    let (files, out) = (counted(*files, &format!("{} file", plan.format.name())), quoted(plan.out));
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
