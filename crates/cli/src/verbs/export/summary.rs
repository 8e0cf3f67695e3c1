//! What came of an export.

use tensortap::ExportReport;
use tensortap::interchange::{EXPORT_MANIFEST_FILE, SkippedRecord};
use tensortap_query::document::Exported;

use crate::dump_arg::quoted;
use tensortap_query::number::{bytes, counted, grouped};

/// Records without content that are named; the manifest has all.
const NAMED: usize = 10;

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
