use std::borrow::Cow;

use tensortap_abi::{DType, TensorStats};
use tensortap_format::{ArgumentKind, Dump, FormatError, PayloadState, Record};

use crate::metrics::TensorType;

/// One of two tensors to be compared: what is known of it, and where its bytes are.
pub struct Side<'a> {
    /// Dtype and shape.
    pub tensor: TensorType,
    /// Hash of the content.
    pub hash: Option<u128>,
    /// Statistics of the content.
    pub stats: Option<TensorStats>,
    /// The bytes.
    pub content: Content<'a>,
}

/// Where the bytes of a tensor are.
pub enum Content<'a> {
    /// In memory.
    Bytes(Cow<'a, [u8]>),
    /// In a dump.
    Stored(&'a Dump, Box<Record>),
    /// Nowhere, and why.
    Missing(String),
}

impl<'a> Side<'a> {
    /// A tensor record of a dump.
    #[must_use]
    pub fn of_record(dump: &'a Dump, record: &Record) -> Side<'a> {
        let content = match record.payload {
            PayloadState::Stored => Content::Stored(dump, Box::new(*record)),
            state => Content::Missing(format!("its payload is {}", missing(state))),
        };
        Side {
            tensor: TensorType::new(record.dtype, record.shape()),
            hash: record.hash.filter(|_| record.kind == ArgumentKind::Tensor),
            stats: record.stats,
            content,
        }
    }

    /// A tensor in memory.
    #[must_use]
    pub fn of_bytes(dtype: DType, shape: &[u64], bytes: impl Into<Cow<'a, [u8]>>) -> Side<'a> {
        let content = Content::Bytes(bytes.into());
        Side { tensor: TensorType::new(dtype, shape), hash: None, stats: None, content }
    }

    /// Why there are no bytes; `None` when there are.
    pub(super) fn missing(&self) -> Option<&str> {
        match &self.content {
            Content::Missing(reason) => Some(reason),
            Content::Bytes(_) | Content::Stored(..) => None,
        }
    }

    /// What is wrong with the bytes, in words: they do not hash to what was captured. `None` when nothing says so.
    pub(super) fn damage(&self) -> Result<Option<String>, FormatError> {
        match &self.content {
            Content::Stored(dump, record) => damage(dump, record),
            Content::Bytes(_) | Content::Missing(_) => Ok(None),
        }
    }

    /// The bytes from `offset` on, as many as `buffer` has.
    pub(super) fn part<'b>(&'b self, offset: u64, buffer: &'b mut [u8]) -> Result<&'b [u8], FormatError> {
        match &self.content {
            Content::Stored(dump, record) => {
                dump.payload_part(record, offset, buffer)?;
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

/// What is wrong with the stored payload of a record, in words: it does not hash to what was captured. Reads all of it, so it is
/// asked only where something looks wrong: a difference may be damage of the file.
///
/// # Errors
/// The payload cannot be read.
pub(crate) fn damage(dump: &Dump, record: &Record) -> Result<Option<String>, FormatError> {
    match dump.check_payload(record) {
        Ok(()) => Ok(None),
        Err(damaged @ FormatError::PayloadDamaged { .. }) => Ok(Some(damaged.to_string())),
        Err(error) => Err(error),
    }
}

fn missing(state: PayloadState) -> &'static str {
    match state {
        PayloadState::None => "not captured",
        PayloadState::Truncated => "stored in part",
        other => other.name(),
    }
}
