//! What `show --json` prints.

use serde::Serialize;
use serde_json::{Map, Value};
use tensortap::abi::TensorStats;
use tensortap::format::{Dump, Record, ScalarValue, StatsDocument};

use super::delta::Delta;
use super::elements::Elements;
use super::histogram::Histogram;
use super::related::Related;
use super::slice::View;
use tensortap_query::words::record_name;

/// Elements in the document unless all are asked for.
const FIRST_ELEMENTS: u64 = 1000;

/// Bytes read at a time.
const PIECE_BYTES: usize = 1 << 16;

/// One record and what was asked about it.
#[derive(Serialize)]
pub struct ShowDocument<'a> {
    pub dump: String,
    pub record: RecordDocument<'a>,
    /// Keys of the manifest's record that this version does not know.
    pub unknown: Map<String, Value>,
    pub same_content: Vec<u64>,
    pub same_content_count: u64,
    pub other_stage: Option<u64>,
    /// Whether the content is not what was captured; null when it was not read to its end, or there is no hash.
    pub damaged: Option<bool>,
    pub stats: Option<MeasuredDocument>,
    pub histogram: Option<Histogram>,
    pub values: Option<ValuesDocument>,
    pub hex: Option<HexDocument>,
    pub delta: Option<Delta>,
}

/// As `list` has it, and its name.
#[derive(Serialize)]
pub struct RecordDocument<'a> {
    index: u64,
    name: String,
    #[serde(flatten)]
    record: &'a Record,
    kernels: Vec<String>,
}

/// Statistics of the content.
#[derive(Serialize)]
pub struct MeasuredDocument {
    #[serde(flatten)]
    stats: StatsDocument,
    /// Elements they are of; fewer than the record's when it was stored in part.
    numel: u64,
}

/// Elements of the part that is shown, the last axis changing fastest.
#[derive(Serialize)]
pub struct ValuesDocument {
    shape: Vec<u64>,
    /// Numbers, decimal strings of 64-bit integers, words for what is no number, null where nothing is stored.
    elements: Vec<Option<Value>>,
    /// Elements behind those; `--full` has them.
    left_out: u64,
}

/// The first bytes.
#[derive(Serialize)]
pub struct HexDocument {
    bytes: String,
    left_out: u64,
}

impl<'a> ShowDocument<'a> {
    /// The record and its relations; the parts that were asked for are filled in later.
    pub fn new(dump: &Dump, record: &'a Record, related: &Related) -> ShowDocument<'a> {
        ShowDocument {
            dump: dump.dir().display().to_string(),
            record: RecordDocument {
                index: record.index,
                name: record_name(record),
                record,
                kernels: record.func_ids().map(|id| dump.info().kernel_name(id)).collect(),
            },
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
    /// For JSON.
    pub fn of(stats: TensorStats) -> MeasuredDocument {
        MeasuredDocument { stats: StatsDocument(stats), numel: stats.numel }
    }
}

impl ValuesDocument {
    /// Reads the elements.
    pub fn of(
        elements: &mut Elements<'_>,
        record: &Record,
        view: &View,
        full: bool,
    ) -> anyhow::Result<ValuesDocument> {
        let numel = view.numel();
        let shown = if full { numel } else { numel.min(FIRST_ELEMENTS) };
        let shape = view.shape();
        let mut values = Vec::new();
        for place in 0..shown {
            let at = super::delta::coordinate(place, &shape);
            let steps =
                at.iter().zip(&view.dims).map(|(&at, dim)| i64::try_from(at).unwrap_or(0) * dim.stride);
            let position = view.first + steps.sum::<i64>();
            let bits = elements.bits(u64::try_from(position).unwrap_or(u64::MAX))?;
            let value = bits.map(|bits| serde_json::to_value(ScalarValue::decode(record.dtype, bits)));
            values.push(value.transpose()?);
        }
        Ok(ValuesDocument { shape, elements: values, left_out: numel - shown })
    }
}

impl HexDocument {
    /// Reads the bytes.
    pub fn of(dump: &Dump, record: &Record, full: bool) -> anyhow::Result<HexDocument> {
        let shown = if full { record.bin_size } else { record.bin_size.min(super::hex::FIRST_BYTES) };
        let mut bytes = String::new();
        let mut piece = Vec::new();
        // In pieces, so that no more memory is taken than the file has bytes for.
        for at in (0..shown).step_by(PIECE_BYTES) {
            piece.resize(usize::try_from(shown - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES)), 0);
            dump.payload_part(record, at, &mut piece)?;
            piece.iter().for_each(|byte| bytes += &format!("{byte:02x}"));
        }
        Ok(HexDocument { bytes, left_out: record.bin_size - shown })
    }
}
