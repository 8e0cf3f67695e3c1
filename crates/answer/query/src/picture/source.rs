//! Sources of the elements of a picture.

use tensortap::DType;
use tensortap::analysis::compare::{Side, record_side};
use tensortap::format::{Dump, PayloadState, Record};
use tensortap::judge::{Content, Payload};

use crate::QueryError;

/// A tensor to draw: a record of a dump, or an array of a golden.
pub struct Source<'a> {
    /// Element type.
    pub dtype: DType,
    /// The shape.
    pub shape: Vec<u64>,
    /// Number of readable elements, from the first on.
    pub stored: u64,
    bytes: SourceBytes<'a>,
}

enum SourceBytes<'a> {
    Record(&'a Dump, Box<Record>),
    Side(Box<Side<'a>>),
}

impl<'a> Source<'a> {
    /// A record of a dump: the stored part if it is truncated, the single element if it is a scalar.
    #[must_use]
    pub fn of_record(dump: &'a Dump, record: &Record) -> Source<'a> {
        if let Some(bits) = record.scalar_bits {
            let bytes = bits.to_le_bytes()[..record.dtype.bits() as usize / 8].to_vec();
            return Source::of_side(Side::of_bytes(record.dtype, &[], bytes));
        }
        if record.payload != PayloadState::Truncated {
            return Source::of_side(record_side(dump, record));
        }
        let held = record.bin_size.saturating_mul(8) / u64::from(record.dtype.bits());
        Source {
            dtype: record.dtype,
            shape: record.shape().to_vec(),
            stored: held.min(record.numel),
            bytes: SourceBytes::Record(dump, Box::new(*record)),
        }
    }

    /// The shape.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// One of two compared tensors.
    #[must_use]
    pub fn of_side(side: Side<'a>) -> Source<'a> {
        let (dtype, shape) = (side.tensor.dtype, side.tensor.shape.clone());
        let numel = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let stored = match &side.content {
            Content::Stored(_) => numel.unwrap_or(0),
            Content::Bytes(bytes) => {
                let held = (bytes.len() as u64).saturating_mul(8) / u64::from(dtype.bits());
                held.min(numel.unwrap_or(0))
            }
            Content::Missing(_) => 0,
        };
        Source { dtype, shape, stored, bytes: SourceBytes::Side(Box::new(side)) }
    }

    /// Reads bytes of the contiguous content from `offset`.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), QueryError> {
        match &self.bytes {
            SourceBytes::Record(dump, record) => Ok(dump.payload_part(record, offset, into)?),
            SourceBytes::Side(side) => match &side.content {
                Content::Stored(payload) => Ok(payload.read_at(offset, into)?),
                Content::Bytes(bytes) => {
                    let held =
                        usize::try_from(offset).ok().and_then(|from| bytes.get(from..)?.get(..into.len()));
                    // Callers never read beyond the stored part.
                    into.copy_from_slice(held.unwrap_or(&vec![0; into.len()]));
                    Ok(())
                }
                Content::Missing(_) => Ok(()),
            },
        }
    }
}

/// The input of a picture: a tensor, or its elementwise difference from another of the same shape.
#[derive(Clone, Copy)]
pub struct PictureInput<'s> {
    pub(super) of: &'s Source<'s>,
    pub(super) minus: Option<&'s Source<'s>>,
}

impl<'s> PictureInput<'s> {
    /// A single tensor.
    #[must_use]
    pub fn tensor(of: &'s Source<'s>) -> PictureInput<'s> {
        PictureInput { of, minus: None }
    }

    /// A tensor minus another. Equal infinities and two NaNs give 0; NaN and a number give NaN.
    ///
    /// # Errors
    /// Their shapes differ.
    pub fn difference(of: &'s Source<'s>, minus: &'s Source<'s>) -> Result<PictureInput<'s>, QueryError> {
        if of.shape != minus.shape {
            return Err(QueryError::Record {
                message: format!(
                    "tensors of shapes {:?} and {:?} cannot be subtracted",
                    of.shape, minus.shape
                ),
                hint: "view each of them by itself".into(),
            });
        }
        Ok(PictureInput { of, minus: Some(minus) })
    }

    /// Number of elements that are stored on all sides.
    pub(super) fn stored(&self) -> u64 {
        self.minus.map_or(u64::MAX, |minus| minus.stored).min(self.of.stored)
    }
}
