//! What `stats --json` prints, record by record: memory does not grow with the dump.

use std::io::{self, Write};

use serde::Serialize;
use tensortap::format::{Dump, Record, StatsDocument};
use tensortap::{Flag, Measured};

use super::{Extent, Seen, Source, kernels};

#[derive(Serialize)]
struct HeadDocument {
    dump: String,
    total: u64,
    selected: u64,
    bytes: u64,
}

/// One record: its place, what the manifest says, and what was measured.
#[derive(Serialize)]
struct RecordDocument {
    index: u64,
    /// Of a tensor it holds the statistics.
    #[serde(flatten)]
    record: Record,
    kernels: Vec<String>,
    /// Of a scalar, which has none in the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "stats")]
    scalar_stats: Option<StatsDocument>,
    /// Finite elements of 65504 or more in magnitude; null when only the device measured.
    f16_overflow: Option<u64>,
    /// Ends of 64-bit integers, which the statistics round.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact_min: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exact_max: Option<String>,
    flags: Vec<&'static str>,
}

/// Writes the document.
pub fn write(
    out: &mut dyn Write,
    dump: &Dump,
    extent: &Extent,
    seen: &Seen,
    source: impl Source,
) -> anyhow::Result<()> {
    let head = HeadDocument {
        dump: dump.dir().display().to_string(),
        total: dump.len(),
        selected: extent.records,
        bytes: extent.bytes,
    };
    let head = serde_json::to_string_pretty(&head)?;
    // The records take the place of the closing brace.
    let open = head.strip_suffix("\n}").unwrap_or(&head);
    write!(out, "{open},\n  \"records\": [")?;
    let (mut separator, mut flagged) = ("\n    ", 0_u64);
    source(&mut |measured| {
        flagged += u64::from(measured.is_flagged());
        out.write_all(separator.as_bytes())?;
        separator = ",\n    ";
        let document = RecordDocument::of(dump, &measured);
        Ok(serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?)
    })?;
    // Whether `--limit` left out any.
    let cut = seen.is_cut(extent);
    Ok(writeln!(out, "\n  ],\n  \"flagged\": {flagged},\n  \"cut\": {cut}\n}}")?)
}

impl RecordDocument {
    fn of(dump: &Dump, measured: &Measured) -> RecordDocument {
        let mut record = measured.record;
        record.stats = measured.summary.map(|summary| summary.stats);
        let range = measured.summary.and_then(|summary| summary.exact_range);
        let scalar = measured.summary.filter(|_| record.scalar_bits.is_some());
        RecordDocument {
            index: record.index,
            kernels: kernels(dump, &record),
            scalar_stats: scalar.map(|summary| StatsDocument(summary.stats)),
            f16_overflow: measured.summary.filter(|_| measured.from_payload).map(|s| s.f16_overflow),
            exact_min: range.map(|(min, _)| min.to_string()),
            exact_max: range.map(|(_, max)| max.to_string()),
            flags: measured.flags().into_iter().map(Flag::name).collect(),
            record,
        }
    }
}
