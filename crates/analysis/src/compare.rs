//! Records as [`tensortap_judge`] compares them.

use std::collections::HashMap;
use std::path::Path;

use tensortap_format::{ArgumentKind, Dump, FormatError, PayloadState, Record, RunInfo};
use tensortap_judge::{Content, Depth, Detail, Outcome, Payload, Rule, RuleBook, TensorType, Tolerance};

use crate::blame::LIVE_GOLDEN_KEY;

/// Why a record is not judged that a run let go (`--dump-last`) while it was read.
pub(crate) const GONE: &str = "it left the dump while the run went on";

/// Whether an outcome is that of a record which had left when it was read.
#[must_use]
pub fn is_gone(outcome: &Outcome) -> bool {
    outcome.reason().is_some_and(|reason| reason.ends_with(GONE))
}

/// What was read, or `None` of a record that left meanwhile: nothing but itself depends on it.
pub(crate) fn unless_gone<T>(read: Result<T, FormatError>) -> Result<Option<T>, FormatError> {
    match read {
        Err(FormatError::RecordGone { .. }) => Ok(None),
        read => read.map(Some),
    }
}

/// Compares as [`tensortap_judge::compare`] does; a record that left meanwhile decides nothing.
pub(crate) fn compare(
    dump: &Side<'_>,
    golden: &Side<'_>,
    rule: &Rule,
    across: bool,
    depth: Depth,
) -> Result<Outcome, FormatError> {
    let outcome = unless_gone(tensortap_judge::compare(dump, golden, rule, across, depth))?;
    Ok(outcome.unwrap_or_else(|| Outcome::unknown(GONE)))
}

/// Where errors sit, as [`tensortap_judge::detail`] says; of a record that left meanwhile nothing is known.
pub(crate) fn detail(
    dump: &Side<'_>,
    golden: &Side<'_>,
    rule: &Rule,
    across: bool,
) -> Result<Option<Detail>, FormatError> {
    Ok(unless_gone(tensortap_judge::detail(dump, golden, rule, across))?.flatten())
}

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

/// The golden that a dump was compared with while it ran: it has the bytes of what agreed and was not kept.
pub(crate) struct Lender {
    dump: Dump,
    /// Numbers of the records that have a payload, by the hash of it.
    by_hash: HashMap<u128, u64>,
}

impl Lender {
    /// The golden that `dump` names, where it is still there: as it was named, or beside the dump.
    pub fn of(dump: &Dump) -> Option<Lender> {
        let named = Path::new(dump.info().extra.get(LIVE_GOLDEN_KEY)?.as_str()?);
        let beside = dump.dir().parent().zip(named.file_name()).map(|(folder, name)| folder.join(name));
        let found = Dump::open(named).ok().or_else(|| Dump::open(&beside?).ok())?;
        let stored = found.records().flatten().filter(|record| record.payload == PayloadState::Stored);
        let by_hash = stored.filter_map(|record| Some((record.hash?, record.index))).collect();
        Some(Lender { dump: found, by_hash })
    }

    /// The same content, where this dump has bytes of that hash.
    pub fn side(&self, lacking: &Side<'_>) -> Option<Side<'_>> {
        let record = self.dump.record(*self.by_hash.get(&lacking.hash?)?).ok()?;
        let side = record_side(&self.dump, &record);
        let same = side.tensor.dtype == lacking.tensor.dtype && side.tensor.shape == lacking.tensor.shape;
        same.then_some(side)
    }

    /// A side with bytes that were not kept beside it, where these can be had.
    pub fn complete<'a>(lender: Option<&'a Lender>, side: Side<'a>) -> Side<'a> {
        match (&side.content, lender) {
            (Content::Missing(_), Some(lender)) => lender.side(&side).unwrap_or(side),
            _ => side,
        }
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

/// What is wrong with the stored payload of a record, in words: it does not hash to what was captured, or is gone. Reads all of it, so it is
/// asked only where something looks wrong: a difference may be damage of the file.
///
/// # Errors
/// The payload cannot be read.
pub(crate) fn damage(dump: &Dump, record: &Record) -> Result<Option<String>, FormatError> {
    match dump.check_payload(record) {
        Ok(()) => Ok(None),
        Err(damaged @ FormatError::PayloadDamaged { .. }) => Ok(Some(damaged.to_string())),
        Err(FormatError::RecordGone { .. }) => Ok(Some(GONE.into())),
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
