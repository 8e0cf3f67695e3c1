//! Passes records of a dump to [`tensortap_judge`], with their payloads.

use std::collections::HashMap;
use std::path::Path;

use tensortap_format::{ArgumentKind, Dump, FormatError, PayloadState, Record, RunInfo};
use tensortap_judge::{Content, Depth, Detail, Outcome, Payload, Rule, RuleBook, TensorType, Tolerance};

use crate::blame::LIVE_GOLDEN_KEY;

/// Why a record is not judged: `--dump-last` removed it from the dump while the run went on.
pub(crate) const GONE: &str = "it left the dump because the run went on (--dump-last)";

/// Whether an outcome belongs to a record that left the dump before it was read.
#[must_use]
pub fn is_gone(outcome: &Outcome) -> bool {
    outcome.reason().is_some_and(|reason| reason.ends_with(GONE))
}

/// The value read, or `None` if the record left the dump meanwhile. A missing record affects only itself.
pub(crate) fn unless_gone<T>(read: Result<T, FormatError>) -> Result<Option<T>, FormatError> {
    match read {
        Err(FormatError::RecordGone { .. }) => Ok(None),
        read => read.map(Some),
    }
}

/// Compares like [`tensortap_judge::compare`]; a record that left the dump is unknown.
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

/// Like [`tensortap_judge::detail`]; `None` for a record that left the dump.
pub(crate) fn detail(
    dump: &Side<'_>,
    golden: &Side<'_>,
    rule: &Rule,
    across: bool,
) -> Result<Option<Detail>, FormatError> {
    Ok(unless_gone(tensortap_judge::detail(dump, golden, rule, across))?.flatten())
}

/// One of two tensors to compare, whose bytes may be in a dump.
pub type Side<'a> = tensortap_judge::Side<'a, StoredPayload<'a>>;

/// The payload of a record in a dump.
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

/// The side of a comparison for a tensor record of a dump.
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

/// The golden of a live comparison. It has the bytes of records that agreed and were not stored.
pub(crate) struct LiveGolden {
    dump: Dump,
    /// Numbers of records with a payload, by its hash.
    by_hash: HashMap<u128, u64>,
}

impl LiveGolden {
    /// Opens the golden that `dump` names, at its recorded path or next to the dump; `None` if it is not
    /// there.
    pub fn of(dump: &Dump) -> Option<LiveGolden> {
        let named = Path::new(dump.info().extra.get(LIVE_GOLDEN_KEY)?.as_str()?);
        let beside = dump.dir().parent().zip(named.file_name()).map(|(folder, name)| folder.join(name));
        let found = Dump::open(named).ok().or_else(|| Dump::open(&beside?).ok())?;
        let stored = found.records().flatten().filter(|record| record.payload == PayloadState::Stored);
        let by_hash = stored.filter_map(|record| Some((record.hash?, record.index))).collect();
        Some(LiveGolden { dump: found, by_hash })
    }

    /// The content with the same hash and type, if the golden has it.
    pub fn side(&self, lacking: &Side<'_>) -> Option<Side<'_>> {
        let record = self.dump.record(*self.by_hash.get(&lacking.hash?)?).ok()?;
        let side = record_side(&self.dump, &record);
        let same = side.tensor.dtype == lacking.tensor.dtype && side.tensor.shape == lacking.tensor.shape;
        same.then_some(side)
    }

    /// Fills in the bytes of a side that were not stored, if the golden has them.
    pub fn complete<'a>(lender: Option<&'a LiveGolden>, side: Side<'a>) -> Side<'a> {
        match (&side.content, lender) {
            (Content::Missing(_), Some(lender)) => lender.side(&side).unwrap_or(side),
            _ => side,
        }
    }
}

/// Adds the kernel tolerances that a dump declares to a rule book.
#[must_use]
pub fn with_kernels_of(book: RuleBook, info: &RunInfo) -> RuleBook {
    book.with_kernels(info.kernels.iter().filter_map(|kernel| {
        let declared = kernel.tolerance?;
        Some((kernel.name.clone(), Tolerance { rtol: declared.rtol, atol: declared.atol }))
    }))
}

/// Checks the stored payload of a record against its hash and describes the damage, if any. This reads the
/// whole payload, so it is used only when something looks wrong: a difference may be damage of the file.
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
        PayloadState::Truncated => "stored only in part",
        PayloadState::Missing => "missing from the payload file",
        other => other.name(),
    }
}
