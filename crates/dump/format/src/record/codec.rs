//! The bytes of a record in the index.

use tensortap_abi::{
    AttributeRecord, DumpRecord, MAX_DIMS, RECORD_HAS_STATS, RECORD_TRUNCATED, RecordKind, TaskRecord,
    TensorRecord, TensorStats,
};
use zerocopy::IntoBytes;

use super::IndexRecord;
use crate::layout::MAX_RECORD_BYTES;

impl IndexRecord {
    /// Appends the record's bytes.
    pub(crate) fn encode(&self, body: &mut Vec<u8>) {
        let start = body.len();
        let fixed = self.field_bytes();
        body.extend_from_slice(&self.record.as_bytes()[..fixed]);
        if let Some(view) = self.view() {
            let ndims = usize::from(view.ndims).min(MAX_DIMS);
            body.extend_from_slice(view.shape[..ndims].as_bytes());
            body.extend_from_slice(view.strides[..ndims].as_bytes());
        }
        body.extend_from_slice(self.tail.as_bytes());
        debug_assert!(body.len() - start <= MAX_RECORD_BYTES && (body.len() - start).is_multiple_of(8));
    }

    /// Size of the encoded record.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let dims = self.view().map_or(0, |view| usize::from(view.ndims).min(MAX_DIMS));
        self.field_bytes() + 2 * dims * size_of::<u64>() + self.tail.as_bytes().len()
    }

    /// Size of its fields, including those that only some records have.
    fn field_bytes(&self) -> usize {
        let kind = self.kind();
        kind.fixed_bytes() + kind.extended_bytes(self.record.flags) + self.value_bytes()
    }

    /// Bytes of the values of an attribute, which follow its fields.
    pub(super) fn value_bytes(&self) -> usize {
        self.get::<AttributeRecord>().map_or(0, AttributeRecord::value_bytes)
    }

    /// A record to decode into.
    pub(crate) fn scratch() -> IndexRecord {
        IndexRecord { record: DumpRecord::default(), tail: Vec::new() }
    }

    /// Decodes the record at the start of `bytes` into `self`, checks it, and returns its length. It
    /// decodes in place, because moving millions of records would cost more than reading them. After an
    /// error, the content of `self` is undefined.
    pub(crate) fn decode_from(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let len = self.decode_checked(bytes)?;
        self.check()?;
        Ok(len)
    }

    /// As `decode_from`, for bytes that were checked before.
    pub(crate) fn decode_checked(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let kind = bytes.first().ok_or(CUT)?;
        let kind = RecordKind::from_tag(*kind).ok_or("its kind is unknown")?;
        let (head, mut rest) = bytes.split_at_checked(kind.fixed_bytes()).ok_or(CUT)?;
        let (fixed, variable) = self.record.as_mut_bytes().split_at_mut(kind.fixed_bytes());
        fixed.copy_from_slice(head);
        variable.fill(0);
        let extended = kind.extended_bytes(self.record.flags) + self.value_bytes();
        take_into(&mut rest, &mut self.record.as_mut_bytes()[kind.fixed_bytes()..][..extended])?;
        if let Some(ndims) = self.view().map(|view| usize::from(view.ndims)) {
            self.decode_dims(ndims, &mut rest)?;
        }
        let tail_words = self.tail_words()?;
        self.tail.resize(tail_words, 0);
        take_into(&mut rest, self.tail.as_mut_bytes())?;
        Ok(bytes.len() - rest.len())
    }

    /// Length of the record at the start of `bytes`, for the frequent kinds whose length depends on few
    /// bytes. `None` for other kinds and for a truncated record.
    pub(crate) fn plain_bytes(bytes: &[u8]) -> Option<usize> {
        let kind = RecordKind::from_tag(*bytes.first()?)?;
        match kind {
            RecordKind::Scalar | RecordKind::Edge | RecordKind::Finished => Some(kind.fixed_bytes()),
            RecordKind::Task => {
                let flags = bytes.get(core::mem::offset_of!(TaskRecord, flags)..)?.first_chunk()?;
                Some(kind.fixed_bytes() + kind.extended_bytes(u32::from_le_bytes(*flags)))
            }
            RecordKind::Tensor => {
                let ndims = usize::from(*bytes.get(core::mem::offset_of!(TensorRecord, ndims))?);
                let flags = bytes.get(core::mem::offset_of!(TensorRecord, flags)..)?.first_chunk()?;
                let has_tail = u32::from_le_bytes(*flags) & (RECORD_HAS_STATS | RECORD_TRUNCATED) != 0;
                (!has_tail).then_some(kind.fixed_bytes() + 2 * ndims * size_of::<u64>())
            }
            _ => None,
        }
    }

    fn decode_dims(&mut self, ndims: usize, rest: &mut &[u8]) -> Result<(), &'static str> {
        if ndims > MAX_DIMS {
            return Err(TOO_MANY_DIMS);
        }
        let (shape, strides) = self.record.body[SHAPE_AT..].split_at_mut(MAX_DIMS * size_of::<u64>());
        let bytes = ndims * size_of::<u64>();
        take_into(rest, &mut shape[..bytes])?;
        take_into(rest, &mut strides[..bytes])
    }

    /// Number of words after the fields, according to the fields.
    pub(super) fn tail_words(&self) -> Result<usize, &'static str> {
        match self.kind() {
            RecordKind::Tensor if self.has(RECORD_HAS_STATS) => Ok(STATS_WORDS),
            RecordKind::Tensor => Ok(usize::from(self.has(RECORD_TRUNCATED))),
            _ => self.variable_words(),
        }
    }
}

/// Offset of the dimensions in the body of a record.
const SHAPE_AT: usize = core::mem::offset_of!(TensorRecord, shape) - core::mem::offset_of!(DumpRecord, body);
/// Words of a [`TensorStats`].
pub(super) const STATS_WORDS: usize = size_of::<TensorStats>() / size_of::<u64>();

const CUT: &str = "it ends within its fixed part";
pub(super) const TOO_MANY_DIMS: &str = "it has more than 8 dimensions";

fn take_into(rest: &mut &[u8], into: &mut [u8]) -> Result<(), &'static str> {
    let (taken, left) = rest.split_at_checked(into.len()).ok_or("it ends within its variable part")?;
    into.copy_from_slice(taken);
    *rest = left;
    Ok(())
}
