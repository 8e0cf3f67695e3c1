//! What `show --json` prints.

use serde::Serialize;
use serde_json::{Map, Value};
use tensortap::abi::TensorStats;
use tensortap::format::{Dump, Record, ScalarValue, StatsDocument};
use tensortap::values::Element;

use super::record::RecordDocument;
use crate::QueryError;
use crate::fields::Row;
use crate::show::{Delta, Elements, FIRST_BYTES, Histogram, RelatedRecords, View, coordinate};

/// Elements in the document, unless all are requested.
const FIRST_ELEMENTS: u64 = 1000;

/// Bytes read at a time.
const PIECE_BYTES: usize = 1 << 16;

/// The document of a record and the requested parts of its content.
#[derive(Serialize)]
pub struct ShowDocument<'a> {
    /// Folder of the dump.
    pub dump: String,
    /// The record.
    pub record: RecordDocument<'a>,
    /// Keys of the manifest's record that this version does not know.
    pub unknown: Map<String, Value>,
    /// First of the records with the same content.
    pub same_content: Vec<u64>,
    /// Number of such records.
    pub same_content_count: u64,
    /// The same argument at the other stage.
    pub other_stage: Option<u64>,
    /// Whether the content differs from its captured hash; null if it was not read completely or has no hash.
    pub damaged: Option<bool>,
    /// Statistics of the content.
    pub stats: Option<MeasuredDocument>,
    /// Distribution of its values.
    pub histogram: Option<Histogram>,
    /// Its values.
    pub values: Option<ValuesDocument>,
    /// Its bytes.
    pub hex: Option<HexDocument>,
    /// What the kernel changed.
    pub delta: Option<Delta>,
}

/// Statistics of the content.
#[derive(Serialize)]
pub struct MeasuredDocument {
    #[serde(flatten)]
    stats: StatsDocument,
    /// Number of measured elements; fewer than the record's if it was stored partly.
    numel: u64,
}

/// Elements of the shown part. The last axis changes fastest.
#[derive(Serialize)]
pub struct ValuesDocument {
    shape: Vec<u64>,
    /// Numbers, decimal strings for 64-bit integers, `NaN` and infinities as strings, null for elements that
    /// are not stored.
    elements: Vec<Option<Value>>,
    /// Number of omitted elements; `--full` includes them.
    left_out: u64,
}

/// The first bytes.
#[derive(Serialize)]
pub struct HexDocument {
    bytes: String,
    left_out: u64,
}

impl<'a> ShowDocument<'a> {
    /// The record and its relations. The requested parts are filled in later.
    #[must_use]
    pub fn new(
        dump: &'a Dump,
        record: &'a Record,
        kernels: &'a [String],
        related: &RelatedRecords,
    ) -> ShowDocument<'a> {
        ShowDocument {
            dump: dump.dir().display().to_string(),
            record: RecordDocument::of(dump, &Row::of(record), kernels, None).with_observations(dump, record),
            unknown: dump.unknown(record),
            same_content: related.same_content.iter().map(|other| other.index).collect(),
            same_content_count: related.same_content_count,
            other_stage: related.other_stage.map(|other| other.index),
            damaged: None,
            stats: None,
            histogram: None,
            values: None,
            hex: None,
            delta: None,
        }
    }
}

impl MeasuredDocument {
    /// The document of statistics.
    #[must_use]
    pub fn of(stats: TensorStats) -> MeasuredDocument {
        MeasuredDocument { stats: StatsDocument(stats), numel: stats.numel }
    }
}

impl ValuesDocument {
    /// Reads the elements of a view.
    pub fn of(
        elements: &mut Elements<'_>,
        record: &Record,
        view: &View,
        full: bool,
    ) -> Result<ValuesDocument, QueryError> {
        let numel = view.numel();
        let shown = if full { numel } else { numel.min(FIRST_ELEMENTS) };
        let shape = view.shape();
        let mut values = Vec::new();
        for place in 0..shown {
            let at = coordinate(place, &shape);
            let steps =
                at.iter().zip(&view.dims).map(|(&at, dim)| i64::try_from(at).unwrap_or(0) * dim.stride);
            let position = view.first + steps.sum::<i64>();
            let bits = elements.bits(u64::try_from(position).unwrap_or(u64::MAX))?;
            let value =
                bits.map(|bits| serde_json::to_value(ScalarValue::of(Element { dtype: record.dtype, bits })));
            values.push(value.transpose().map_err(std::io::Error::from)?);
        }
        Ok(ValuesDocument { shape, elements: values, left_out: numel - shown })
    }
}

impl HexDocument {
    /// Reads the bytes.
    pub fn of(dump: &Dump, record: &Record, full: bool) -> Result<HexDocument, QueryError> {
        let shown = if full { record.bin_size } else { record.bin_size.min(FIRST_BYTES) };
        let mut bytes = String::new();
        let mut piece = Vec::new();
        // Read in pieces, so that a false size in the manifest cannot cause a large allocation.
        for at in (0..shown).step_by(PIECE_BYTES) {
            piece.resize(usize::try_from(shown - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES)), 0);
            dump.payload_part(record, at, &mut piece)?;
            piece.iter().for_each(|byte| bytes += &format!("{byte:02x}"));
        }
        Ok(HexDocument { bytes, left_out: record.bin_size - shown })
    }
}
