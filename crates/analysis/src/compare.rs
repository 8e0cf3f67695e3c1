//! Records as [`tensortap_judge`] compares them.

use tensortap_format::{ArgumentKind, Dump, FormatError, PayloadState, Record, RunInfo};
use tensortap_judge::{Content, Payload, RuleBook, TensorType, Tolerance};

/// One of two tensors to be compared, whose bytes may be in a dump.
pub type Side<'a> = tensortap_judge::Side<'a, StoredPayload<'a>>;

/// The payload of a record of a dump.
pub struct StoredPayload<'a> {
    dump: &'a Dump,
    record: Box<Record>,
}

impl Payload for StoredPayload<'_> {
    type Error = FormatError;

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), FormatError> {
        self.dump.payload_part(&self.record, offset, buffer)
    }

    fn damage(&self) -> Result<Option<String>, FormatError> {
        damage(self.dump, &self.record)
    }
}

/// A tensor record of a dump.
#[must_use]
pub fn record_side<'a>(dump: &'a Dump, record: &Record) -> Side<'a> {
    let content = match record.payload {
        PayloadState::Stored => Content::Stored(StoredPayload { dump, record: Box::new(*record) }),
        state => Content::Missing(format!("its payload is {}", missing(state))),
    };
    Side {
        tensor: TensorType::new(record.dtype, record.shape()),
        hash: record.hash.filter(|_| record.kind == ArgumentKind::Tensor),
        stats: record.stats,
        content,
    }
}

/// Adds what a dump says about the tolerances of its kernels to a rule book.
#[must_use]
pub fn with_kernels_of(book: RuleBook, info: &RunInfo) -> RuleBook {
    book.with_kernels(info.kernels.iter().filter_map(|kernel| {
        let declared = kernel.tolerance?;
        Some((kernel.name.clone(), Tolerance { rtol: declared.rtol, atol: declared.atol }))
    }))
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
        PayloadState::Missing => "missing: the payload file does not have it",
        other => other.name(),
    }
}
