use std::borrow::Cow;
use std::convert::Infallible;

use tensortap_abi::{DType, TensorStats};

use tensortap_values::{ContentHasher, Statistics};

use crate::metrics::TensorType;

/// Bytes read at a time; a multiple of every element size.
const CHUNK_BYTES: u64 = 1 << 20;

/// One of two tensors to compare: its type, hash, statistics and bytes, as far as they are known.
pub struct Side<'a, P = InMemory> {
    /// Dtype and shape.
    pub tensor: TensorType,
    /// Hash of the content.
    pub hash: Option<u128>,
    /// Statistics of the content.
    pub stats: Option<TensorStats>,
    /// The bytes.
    pub content: Content<'a, P>,
}

/// The bytes of a tensor.
pub enum Content<'a, P = InMemory> {
    /// In memory.
    Bytes(Cow<'a, [u8]>),
    /// Stored elsewhere, read in parts.
    Stored(P),
    /// Not available, with the reason.
    Missing(String),
}

/// Bytes that are read in parts, for example from a dump.
pub trait Payload {
    /// A read error.
    type Error;

    /// Fills a buffer with the bytes starting at `offset`.
    ///
    /// # Errors
    /// The bytes cannot be read, or there are not enough.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Self::Error>;

    /// Checks the bytes against their captured hash and describes the damage, if any. This may read
    /// everything, so it is called only if something looks wrong: a difference may be damage of the file.
    ///
    /// # Errors
    /// The bytes cannot be read.
    fn damage(&self) -> Result<Option<String>, Self::Error>;
}

/// The payload type for sides that are always in memory; it has no values.
#[derive(Clone, Copy, Debug)]
pub enum InMemory {}

impl Payload for InMemory {
    type Error = Infallible;

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), Infallible> {
        match *self {}
    }

    fn damage(&self) -> Result<Option<String>, Infallible> {
        match *self {}
    }
}

impl<'a, P> Side<'a, P> {
    /// A tensor in memory.
    #[must_use]
    pub fn of_bytes(dtype: DType, shape: &[u64], bytes: impl Into<Cow<'a, [u8]>>) -> Side<'a, P> {
        let content = Content::Bytes(bytes.into());
        Side { tensor: TensorType::new(dtype, shape), hash: None, stats: None, content }
    }

    /// Why there are no bytes; `None` if there are.
    pub(crate) fn missing(&self) -> Option<&str> {
        match &self.content {
            Content::Missing(reason) => Some(reason),
            Content::Bytes(_) | Content::Stored(_) => None,
        }
    }
}

impl<P: Payload> Side<'_, P> {
    /// The damage of the bytes in words; `None` if none is known.
    pub(crate) fn damage(&self) -> Result<Option<String>, P::Error> {
        match &self.content {
            Content::Stored(payload) => payload.damage(),
            Content::Bytes(_) | Content::Missing(_) => Ok(None),
        }
    }

    /// Hash and statistics: the known ones, else computed from the bytes, if available.
    pub(crate) fn summary(&self) -> Result<(Option<u128>, Option<TensorStats>), P::Error> {
        let known = (self.hash, self.stats);
        let TensorType { dtype, shape } = &self.tensor;
        let numel = shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        let sizes = numel.and_then(|numel| Some((numel, dtype.packed_bytes(numel)?)));
        let Some((numel, bytes)) = sizes.filter(|_| self.missing().is_none()) else { return Ok(known) };
        if known.0.is_some() && known.1.is_some() {
            return Ok(known);
        }
        let (mut hasher, mut statistics) = (ContentHasher::new(bytes), Statistics::new(*dtype, numel));
        let (mut offset, mut buffer) = (0, Vec::new());
        while offset < bytes {
            let size = CHUNK_BYTES.min(bytes - offset);
            buffer.resize(usize::try_from(size).unwrap_or(usize::MAX), 0);
            let part = self.part(offset, &mut buffer)?;
            if part.len() as u64 != size {
                return Ok(known);
            }
            hasher.update(part);
            statistics.update(part);
            offset += size;
        }
        Ok((known.0.or(Some(hasher.finish())), known.1.or(Some(statistics.finish()))))
    }

    /// Reads `buffer.len()` bytes starting at `offset`; fewer at the end of bytes in memory.
    pub(crate) fn part<'b>(&'b self, offset: u64, buffer: &'b mut [u8]) -> Result<&'b [u8], P::Error> {
        match &self.content {
            Content::Stored(payload) => {
                payload.read_at(offset, buffer)?;
                Ok(buffer)
            }
            Content::Bytes(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                let end = start.saturating_add(buffer.len()).min(bytes.len());
                Ok(&bytes[start..end])
            }
            Content::Missing(_) => Ok(&[]),
        }
    }
}
