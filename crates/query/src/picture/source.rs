//! Where the elements of a picture come from.

use tensortap::DType;
use tensortap::analysis::compare::{Side, record_side};
use tensortap::format::{Dump, PayloadState, Record};
use tensortap::judge::{Content, Payload};

use crate::QueryError;

/// A tensor to look at: a record of a dump, or an array of a golden.
pub struct Source<'a> {
    /// What its elements are.
    pub dtype: DType,
    /// Its shape.
    pub shape: Vec<u64>,
    /// Elements that can be read, from the first on.
    pub stored: u64,
    bytes: Bytes<'a>,
}

enum Bytes<'a> {
    Record(&'a Dump, Box<Record>),
    Side(Box<Side<'a>>),
}

impl<'a> Source<'a> {
    /// A record of a dump; of a truncated one what there is of it, of a scalar its one element.
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
            bytes: Bytes::Record(dump, Box::new(*record)),
        }
    }

    /// Its sizes.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// One of two tensors that were compared.
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
        Source { dtype, shape, stored, bytes: Bytes::Side(Box::new(side)) }
    }

    /// Fills a buffer with bytes of the contiguous content, from `offset` on.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), QueryError> {
        match &self.bytes {
            Bytes::Record(dump, record) => Ok(dump.payload_part(record, offset, into)?),
            Bytes::Side(side) => match &side.content {
                Content::Stored(payload) => Ok(payload.read_at(offset, into)?),
                Content::Bytes(bytes) => {
                    let held =
                        usize::try_from(offset).ok().and_then(|from| bytes.get(from..)?.get(..into.len()));
                    // Nothing beyond what is stored is ever asked for.
                    into.copy_from_slice(held.unwrap_or(&vec![0; into.len()]));
                    Ok(())
                }
                Content::Missing(_) => Ok(()),
            },
        }
    }
}

/// What is pictured: a tensor, or how far it is from another of the same shape, element by element.
#[derive(Clone, Copy)]
pub struct Subject<'s> {
    pub(super) of: &'s Source<'s>,
    pub(super) minus: Option<&'s Source<'s>>,
}

impl<'s> Subject<'s> {
    /// A tensor itself.
    #[must_use]
    pub fn tensor(of: &'s Source<'s>) -> Subject<'s> {
        Subject { of, minus: None }
    }

    /// A tensor less another. Equal infinities and two NaNs are no difference; NaN beside a number is one that is NaN.
    ///
    /// # Errors
    /// Their shapes differ.
    pub fn difference(of: &'s Source<'s>, minus: &'s Source<'s>) -> Result<Subject<'s>, QueryError> {
        if of.shape != minus.shape {
            return Err(QueryError::Record {
                message: format!(
                    "a tensor of shape {:?} and one of {:?} have no difference",
                    of.shape, minus.shape
                ),
                hint: "look at each of them alone".into(),
            });
        }
        Ok(Subject { of, minus: Some(minus) })
    }

    /// Elements of which there is something to see.
    pub(super) fn stored(&self) -> u64 {
        self.minus.map_or(u64::MAX, |minus| minus.stored).min(self.of.stored)
    }
}
