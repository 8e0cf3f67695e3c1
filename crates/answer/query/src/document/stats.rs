//! What `stats --json` prints.

use std::io::{self, Write};

use serde::Serialize;
use tensortap::RecordSummary;
use tensortap::format::{Dump, Record, StatsDocument};

use super::record::{KernelNames, ProgramContext, RecordDocument};
use super::set::MemberDocument;
use super::{Lines, begin_records};
use crate::Part;
use crate::fields::Row;

/// The document without its records.
#[derive(Serialize)]
pub struct StatsHead {
    /// Folder of the dump, or of several.
    pub dump: String,
    /// Records of the dump.
    pub total: u64,
    /// Selected records.
    pub selected: u64,
    /// Bytes to read for the records that may be shown.
    pub bytes: u64,
    /// The heads of several dumps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dumps: Vec<MemberDocument<StatsHead>>,
}

/// Fields after the records: how many were flagged, and whether a limit omitted any.
#[derive(Clone, Copy, Serialize)]
pub struct StatsTail {
    flagged: u64,
    cut: bool,
}

/// A record with its measured statistics.
#[derive(Serialize)]
pub struct StatsRecord<'a> {
    /// The record. For a tensor it contains the statistics.
    #[serde(flatten)]
    record: RecordDocument<'a>,
    /// Statistics of a scalar, which has none in the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "stats")]
    scalar_stats: Option<StatsDocument>,
    /// Finite elements beyond 65504 in magnitude; null if only the device measured.
    f16_overflow: Option<u64>,
    /// Exact minimum of 64-bit integers, which the statistics round.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact_min: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exact_max: Option<String>,
}

/// The record with measured statistics in place of those from the device.
fn with_stats(measured: &RecordSummary) -> Record {
    let mut record = measured.record;
    record.stats = measured.summary.map(|summary| summary.stats);
    record
}

impl<'a> StatsRecord<'a> {
    fn of(
        dump: &'a Dump,
        record: &'a Record,
        measured: &'a RecordSummary,
        kernels: &'a [String],
        (rank, program): (Option<u64>, &'a ProgramContext<'_>),
    ) -> StatsRecord<'a> {
        let range = measured.summary.and_then(|summary| summary.exact_range);
        let scalar = measured.summary.filter(|_| record.scalar_bits.is_some());
        StatsRecord {
            record: RecordDocument::of(dump, &Row { record, ..Row::measured(measured) }, kernels, rank)
                .with_program(program, record),
            scalar_stats: scalar.map(|summary| StatsDocument(summary.stats)),
            f16_overflow: measured.summary.filter(|_| measured.from_payload).map(|s| s.f16_overflow),
            exact_min: range.map(|(min, _)| min.to_string()),
            exact_max: range.map(|(_, max)| max.to_string()),
        }
    }
}

impl StatsHead {
    /// Writes the document: the head, one line per record that `source` yields with the index of its part,
    /// and the number of flagged records. `is_cut` is called at the end and returns whether a limit omitted
    /// records.
    pub fn write<E: From<io::Error>>(
        &self,
        out: &mut dyn Write,
        parts: &[Part<'_>],
        source: impl FnOnce(&mut dyn FnMut(usize, RecordSummary) -> Result<(), E>) -> Result<(), E>,
        is_cut: impl FnOnce() -> bool,
    ) -> Result<(), E> {
        begin_records(out, self)?;
        let mut lines = Lines::new();
        let mut kernels: Vec<KernelNames<'_>> =
            parts.iter().map(|part| KernelNames::new(part.dump.info())).collect();
        // A single dump has no rank.
        let rank = |part: usize| parts[part].rank.filter(|_| parts.len() > 1);
        let programs = parts.iter().map(|part| ProgramContext::of(part.dump, parts.len() > 1));
        let programs = programs.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let mut flagged = 0;
        source(&mut |part, measured| {
            flagged += u64::from(measured.is_flagged());
            let (dump, record) = (parts[part].dump, with_stats(&measured));
            let kernels = kernels[part].of(&measured.record);
            Ok(lines.put(
                out,
                &StatsRecord::of(dump, &record, &measured, kernels, (rank(part), &programs[part])),
            )?)
        })?;
        let StatsTail { flagged, cut } = StatsTail { flagged, cut: is_cut() };
        Ok(writeln!(out, "\n  ],\n  \"flagged\": {flagged},\n  \"cut\": {cut}\n}}")?)
    }
}
