//! What `stats --json` prints.

use std::io::{self, Write};

use serde::Serialize;
use tensortap::Measured;
use tensortap::format::{Dump, Record, StatsDocument};

use super::record::{KernelNames, OfProgram, RecordDocument};
use super::set::OfMember;
use super::{Lines, begin_records};
use crate::Part;
use crate::fields::Row;

/// All that stands before the records.
#[derive(Serialize)]
pub struct StatsHead {
    /// Folder of the dump, or of several.
    pub dump: String,
    /// Records of the dump.
    pub total: u64,
    /// Records selected.
    pub selected: u64,
    /// Bytes to be read for those that may be shown.
    pub bytes: u64,
    /// Each of several dumps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dumps: Vec<OfMember<StatsHead>>,
}

/// What stands behind the records: how many were flagged, and whether a limit left out any.
#[derive(Clone, Copy, Serialize)]
pub struct StatsTail {
    flagged: u64,
    cut: bool,
}

/// One record and what was measured.
#[derive(Serialize)]
pub struct StatsRecord<'a> {
    /// Of a tensor it holds the statistics.
    #[serde(flatten)]
    record: RecordDocument<'a>,
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
}

/// The record with the statistics that were taken in the place of those that the device recorded.
fn with_stats(measured: &Measured) -> Record {
    let mut record = measured.record;
    record.stats = measured.summary.map(|summary| summary.stats);
    record
}

impl<'a> StatsRecord<'a> {
    fn of(
        dump: &'a Dump,
        record: &'a Record,
        measured: &'a Measured,
        kernels: &'a [String],
        (rank, program): (Option<u64>, &'a OfProgram<'_>),
    ) -> StatsRecord<'a> {
        let range = measured.summary.and_then(|summary| summary.exact_range);
        let scalar = measured.summary.filter(|_| record.scalar_bits.is_some());
        StatsRecord {
            record: RecordDocument::of(dump, &Row { record, ..Row::measured(measured) }, kernels, rank)
                .told_by(program, record),
            scalar_stats: scalar.map(|summary| StatsDocument(summary.stats)),
            f16_overflow: measured.summary.filter(|_| measured.from_payload).map(|s| s.f16_overflow),
            exact_min: range.map(|(min, _)| min.to_string()),
            exact_max: range.map(|(_, max)| max.to_string()),
        }
    }
}

impl StatsHead {
    /// Writes the document: the head, a line for each record that `source` gives with the place of its part, and how many of
    /// them were flagged. `is_cut` says afterwards whether a limit left out any.
    pub fn write<E: From<io::Error>>(
        &self,
        out: &mut dyn Write,
        parts: &[Part<'_>],
        source: impl FnOnce(&mut dyn FnMut(usize, Measured) -> Result<(), E>) -> Result<(), E>,
        is_cut: impl FnOnce() -> bool,
    ) -> Result<(), E> {
        begin_records(out, self)?;
        let mut lines = Lines::new();
        let mut kernels: Vec<KernelNames<'_>> =
            parts.iter().map(|part| KernelNames::new(part.dump.info())).collect();
        // A dump alone has no rank among others.
        let rank = |part: usize| parts[part].rank.filter(|_| parts.len() > 1);
        let programs = parts.iter().map(|part| OfProgram::of(part.dump, parts.len() > 1));
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
