//! Checking a dump against itself: every hash, every offset, every counter.

use std::{io, ops::Range, path::Path, sync::OnceLock};

use serde::{Serialize, Serializer, ser::SerializeMap};
use tensortap_abi::DumpStage;

use tensortap_values::{ContentHasher, content_hash};

use crate::{
    ARGS_FILE, ArgumentKind, Dump, DumpFormat, FormatError, GRAPH_FILE, KERNEL_ARGS_FILE, MANIFEST_FILE,
    PayloadState, Record, Tail, Totals,
    error::AtPath,
    index::ReadAhead,
    json::Hex64,
    json_check::problems_beside,
    manifest_check::manifest_problems,
    names::quoted,
    source::{Held, Indexed, PassedOver, SaidCounter, Source, WhyPassedOver},
};

/// Bytes read at a time while hashing.
const READ_BYTES: usize = 1 << 20;
/// Problems listed; beyond it they are counted only.
const MAX_PROBLEMS: usize = 10_000;

/// The record that a problem is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordName {
    /// Position in the whole dump.
    pub index: u64,
    /// Task.
    pub task_id: u64,
    /// Stage.
    pub stage: DumpStage,
    /// Argument.
    pub arg_index: u16,
}

impl From<&Record> for RecordName {
    fn from(record: &Record) -> Self {
        let Record { index, task_id, stage, arg_index, .. } = *record;
        RecordName { index, task_id, stage, arg_index }
    }
}

/// One thing that is wrong with a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The record, when it is about one.
    pub record: Option<RecordName>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Problem {
    pub(crate) fn of(record: &Record, what: String, remedy: impl Into<String>) -> Problem {
        Problem { record: Some(record.into()), what, remedy: remedy.into() }
    }

    pub(crate) fn of_dump(what: String, remedy: impl Into<String>) -> Problem {
        Problem { record: None, what, remedy: remedy.into() }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(RecordName { index, task_id, stage, arg_index }) = self.record {
            let (task, stage) = (Hex64(task_id), stage.name());
            write!(f, "record {index} (task {task}, {stage}, argument {arg_index}): ")?;
        }
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("index", &self.record.map(|r| r.index))?;
        map.serialize_entry("task_id", &self.record.map(|r| Hex64(r.task_id)))?;
        map.serialize_entry("stage", &self.record.map(|r| r.stage.name()))?;
        map.serialize_entry("arg_index", &self.record.map(|r| r.arg_index))?;
        map.serialize_entry("what", &self.what)?;
        map.serialize_entry("remedy", &self.remedy)?;
        map.end()
    }
}

/// What a check found. Every record is either `checked` or `unverifiable`: a scalar is checked with its frame (of a
/// manifest alone, by its two spellings), a tensor by the hash of its stored payload; one without hash, or whose payload is not
/// stored in full, cannot be, and nothing of another project's dumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Records there are.
    pub records: u64,
    /// Records whose content was checked, good or bad.
    pub checked: u64,
    /// Records whose content cannot be checked.
    pub unverifiable: u64,
    /// Of those, records that left the window of a run which goes on and keeps its newest tasks, while they were read.
    pub gone: u64,
    /// What is wrong, up to a limit.
    pub problems: Vec<Problem>,
    /// Further problems, not listed.
    pub more_problems: u64,
}

impl Findings {
    /// In one word: `bad` when something is wrong, `unverifiable` when no record could be checked, `ok` otherwise.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.is_ok(), self.checked) {
            (false, _) => "bad",
            (true, 0) if self.records > 0 => "unverifiable",
            (true, _) => "ok",
        }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// Records that had left when they were read: what was read is space that was given back.
    fn gone(&mut self, records: u64) {
        self.gone += records;
        self.checked -= records;
        self.unverifiable += records;
    }

    pub(crate) fn problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.more_problems += 1;
        }
    }
}

impl Serialize for Findings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("verdict", self.word())?;
        map.serialize_entry("records", &self.records)?;
        map.serialize_entry("checked", &self.checked)?;
        map.serialize_entry("unverifiable", &self.unverifiable)?;
        map.serialize_entry("gone", &self.gone)?;
        map.serialize_entry("problems", &self.problems)?;
        map.serialize_entry("more_problems", &self.more_problems)?;
        map.end()
    }
}

pub(crate) const TAKE_AGAIN: &str = "copy the dump again from where it was taken, or take it again";

/// What makes the dump in a folder whole.
pub(crate) fn repair_command(dir: &Path) -> String {
    format!("run `tensortap repair {}`", quoted(dir))
}

/// Has pieces of work done: calls the work with every number below a count, once each, in any order, and at the same time if it
/// likes.
pub type Spread<'s> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + 's;

/// Checks every record of a dump and the dump as a whole. An error is a file that cannot be read; whatever is wrong
/// with what was read stands in the findings.
pub fn verify(dump: &Dump) -> Result<Findings, FormatError> {
    verify_spread(dump, &|count, work| (0..count).for_each(work))
}

/// The same with the hashing of payloads, which is most of it, spread over whatever the caller has: threads, say.
///
/// ```no_run
/// use tensortap_format::{Dump, verify_spread};
/// # fn main() -> Result<(), tensortap_format::FormatError> {
/// let dump = Dump::open("outputs/tensor_dump_20260415_101500".as_ref())?;
/// let findings = verify_spread(&dump, &|count, work| {
///     std::thread::scope(|scope| {
///         scope.spawn(|| (0..count).step_by(2).for_each(work));
///         (1..count).step_by(2).for_each(work);
///     });
/// })?;
/// println!("{}", findings.word());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As of [`verify`].
pub fn verify_spread(dump: &Dump, spread: &Spread<'_>) -> Result<Findings, FormatError> {
    let mut findings = Findings { records: dump.len(), ..Findings::default() };
    match dump.source() {
        Source::Indexed(indexed) => check_end(dump, indexed, &mut findings),
        Source::Held(held) => check_held(dump, held, &mut findings),
    }
    check_modules(dump, &mut findings);
    let payload_bytes = dump.payload_file_bytes()?;
    let stored = collect_stored(dump, payload_bytes, &mut findings)?;
    check_overlaps(&stored, &mut findings);
    check_hashes(dump, &stored, spread, &mut findings)?;
    let is_closed = dump.format() == DumpFormat::Indexed && dump.tail() == Tail::Closed;
    // Whoever writes it writes them next: the footer comes first.
    let is_closing = matches!(dump.source(), Source::Indexed(indexed) if indexed.is_being_written());
    if is_closed && !is_closing {
        check_files(dump, &mut findings);
    }
    if is_closed && dump.dir().join(MANIFEST_FILE).exists() {
        for problem in manifest_problems(dump)? {
            findings.problem(problem);
        }
    }
    if dump.tail() == Tail::Closed {
        for problem in problems_beside(dump)? {
            findings.problem(problem);
        }
    }
    Ok(findings)
}

/// Whether the images of modules are there, and what they were.
fn check_modules(dump: &Dump, findings: &mut Findings) {
    for module in dump.modules().iter().filter(|module| module.has_image) {
        if let Err(error) = module.image(dump.dir()) {
            let remedy = "kernels of this module cannot be replayed from this dump";
            findings.problem(Problem::of_dump(error.to_string(), remedy));
        }
    }
}

/// Whether a closed dump has the JSON files that its closing writes.
fn check_files(dump: &Dump, findings: &mut Findings) {
    let info = dump.info();
    let expected = [
        (MANIFEST_FILE, info.has_manifest()),
        (GRAPH_FILE, true),
        (ARGS_FILE, info.dump_args),
        (KERNEL_ARGS_FILE, info.dump_args),
    ];
    for (name, _) in expected.iter().filter(|(name, due)| *due && !dump.dir().join(name).exists()) {
        let remedy = format!("`tensortap repair {}` writes it", quoted(dump.dir()));
        findings.problem(Problem::of_dump(format!("{name} is missing"), remedy));
    }
}

/// How the index ends, what is missing from it, and whether the footer's counters are right.
fn check_end(dump: &Dump, indexed: &Indexed, findings: &mut Findings) {
    if let Tail::Torn { offset, lost_bytes, reason } = dump.tail() {
        let lost = match lost_bytes {
            0 => String::new(),
            1 => ", 1 byte behind it is lost".into(),
            lost => format!(", {lost} bytes behind it are lost"),
        };
        let what = format!("the index ends at byte {offset}{lost}: {reason}");
        findings.problem(Problem::of_dump(what, repair_command(dump.dir())));
    }
    for (thread, records) in indexed.survey.missing_unsaid() {
        let what = format!("thread {thread}: {records} records are missing");
        findings.problem(Problem::of_dump(what, repair_command(dump.dir())));
    }
    if let (Tail::Closed, Some(footer)) = (dump.tail(), dump.footer()) {
        check_counters(dump.totals(), &footer.totals, findings);
    }
}

/// Whether a manifest's counters are right, and what lies beside it can be read.
fn check_held(dump: &Dump, held: &Held, findings: &mut Findings) {
    if let Some(PassedOver { path, why: WhyPassedOver::Damaged { reason, records } }) = &held.passed_over {
        let (path, all) = (path.display(), dump.len());
        let what = format!(
            "{path} is damaged ({reason}): it has {records} of {all} records, the manifest has them all"
        );
        findings.problem(Problem::of_dump(what, repair_command(dump.dir())));
    }
    let name = held.manifest.file_name().unwrap_or_default().display().to_string();
    for SaidCounter { key, said, counted } in &held.said {
        if said != counted {
            let what = format!("{name} says {key} = {said}, its records have {counted}");
            findings.problem(Problem::of_dump(what, TAKE_AGAIN));
        }
    }
    for (path, reason) in &held.unreadable {
        let what = format!("{} cannot be read: {reason}", path.display());
        findings.problem(Problem::of_dump(what, "copy this file again, or move it away"));
    }
}

fn check_counters(counted: &Totals, said: &Totals, findings: &mut Findings) {
    if counted == said {
        return;
    }
    let (counted, said) = (serde_json::json!(counted), serde_json::json!(said));
    let Some(counters) = counted.as_object() else { return };
    for (name, counted) in counters.iter().filter(|(name, value)| said.get(name) != Some(value)) {
        let said = &said[name];
        let what = format!("the footer says {name} = {said}, the index has {counted}");
        findings.problem(Problem::of_dump(what, TAKE_AGAIN));
    }
}

/// A stored payload and the record that refers to it.
struct Stored {
    range: Range<u64>,
    hash: Option<u128>,
    index: u64,
}

/// Every stored payload whose bytes are there, by offset. Counts what cannot be checked, reports what is not there.
fn collect_stored(
    dump: &Dump,
    payload_bytes: Option<u64>,
    findings: &mut Findings,
) -> Result<Vec<Stored>, FormatError> {
    let mut stored = Vec::new();
    let mut without_file = 0;
    for record in dump.records_as_said() {
        let record = record?;
        let hash = record.hash.filter(|_| record.payload == PayloadState::Stored);
        if record.kind == ArgumentKind::Scalar && !dump.format().is_foreign() || hash.is_some() {
            findings.checked += 1;
        } else {
            findings.unverifiable += 1;
        }
        if !matches!(record.payload, PayloadState::Stored | PayloadState::Truncated) {
            continue;
        }
        let range = record.bin_offset..record.bin_offset + record.bin_size;
        match payload_bytes {
            _ if range.is_empty() => stored.push(Stored { range, hash, index: record.index }),
            Some(have) if range.end <= have => stored.push(Stored { range, hash, index: record.index }),
            _ if dump.has_left(&range)? => findings.gone(u64::from(hash.is_some())),
            Some(have) => findings.problem(short(dump, &record, have)),
            None => without_file += 1,
        }
    }
    if without_file > 0 {
        let path = dump.payload_path().display().to_string();
        let what = format!(
            "the payload file {path} is missing, in which {without_file} records have their payloads"
        );
        findings.problem(Problem::of_dump(what, missing_file_remedy(dump)));
    }
    stored.sort_by_key(|s| (s.range.start, s.range.end, s.index));
    Ok(stored)
}

fn short(dump: &Dump, record: &Record, have: u64) -> Problem {
    let Record { bin_offset: offset, bin_size: bytes, .. } = record;
    let path = dump.payload_path().display().to_string();
    let what = format!("its payload is {bytes} bytes at {offset} in {path}, which has {have} bytes");
    Problem::of(record, what, dump.short_remedy())
}

fn missing_file_remedy(dump: &Dump) -> String {
    let copy = "copy it from where the dump was taken";
    if dump.format() != DumpFormat::Indexed {
        return copy.into();
    }
    let dir = quoted(dump.dir());
    format!(
        "{copy}; if it is lost, `tensortap repair --without-payloads {dir}` gives the payloads up for good"
    )
}

/// Payloads are the same or apart.
fn check_overlaps(stored: &[Stored], findings: &mut Findings) {
    let mut furthest: Option<&Stored> = None;
    for payload in stored.iter().filter(|s| !s.range.is_empty()) {
        if let Some(before) =
            furthest.filter(|b| b.range != payload.range && b.range.end > payload.range.start)
        {
            let what = format!(
                "the payloads of records {} (bytes {:?}) and {} (bytes {:?}) overlap",
                before.index, before.range, payload.index, payload.range
            );
            findings.problem(Problem::of_dump(what, TAKE_AGAIN));
        }
        if furthest.is_none_or(|b| b.range.end < payload.range.end) {
            furthest = Some(payload);
        }
    }
}

/// Bytes of payloads, or payloads, that are hashed as one piece of work: neighbours in the file, which one read covers.
const PIECE_BYTES: u64 = 4 << 20;
const PIECE_PAYLOADS: usize = 4096;

type Hashes = Vec<Result<u128, FormatError>>;

/// Hashes each stored payload once and compares all its records, in the order of the file.
fn check_hashes(
    dump: &Dump,
    stored: &[Stored],
    spread: &Spread<'_>,
    findings: &mut Findings,
) -> Result<(), FormatError> {
    let payloads = stored.chunk_by(|a, b| a.range == b.range);
    let payloads: Vec<&[Stored]> = payloads.filter(|same| same.iter().any(|s| s.hash.is_some())).collect();
    let pieces = pieces_of(&payloads);
    let hashes: Vec<OnceLock<Hashes>> = pieces.iter().map(|_| OnceLock::new()).collect();
    spread(pieces.len(), &|number| {
        let mut window = ReadAhead::new();
        let of_piece = &payloads[pieces[number].clone()];
        let end = of_piece.iter().map(|same| same[0].range.end).max().unwrap_or(0);
        let found = of_piece.iter().map(|same| hash_range(dump, &same[0].range, &mut window, end)).collect();
        // Who calls twice for one number gets what came first.
        let _ = hashes[number].set(found);
    });
    let hashes = hashes.into_iter().flat_map(|piece| piece.into_inner().unwrap_or_default());
    for (same, hash) in payloads.iter().zip(hashes) {
        compare_hashes(dump, same, hash, findings)?;
    }
    Ok(())
}

/// Cuts payloads, in order, into pieces of work.
fn pieces_of(payloads: &[&[Stored]]) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut bytes = PIECE_BYTES;
    for (place, same) in payloads.iter().enumerate() {
        match pieces.last_mut() {
            Some(piece) if bytes < PIECE_BYTES && piece.len() < PIECE_PAYLOADS => piece.end = place + 1,
            _ => {
                bytes = 0;
                pieces.push(place..place + 1);
            }
        }
        bytes = bytes.saturating_add(same[0].range.end - same[0].range.start);
    }
    pieces
}

/// Holds the records of one payload against the hash of what is stored.
fn compare_hashes(
    dump: &Dump,
    same: &[Stored],
    hash: Result<u128, FormatError>,
    findings: &mut Findings,
) -> Result<(), FormatError> {
    let is_right = |s: &Stored| hash.as_ref().is_ok_and(|hash| s.hash.is_none_or(|said| said == *hash));
    if !same.iter().all(is_right) && dump.has_left(&same[0].range)? {
        findings.gone(same.iter().filter(|s| s.hash.is_some()).count() as u64);
        return Ok(());
    }
    let hash = hash?;
    for bad in same.iter().filter(|s| s.hash.is_some_and(|said| said != hash)) {
        let record = dump.record(bad.index)?;
        let what = format!("its payload hashes to {hash:#034x}, not {:#034x}", bad.hash.unwrap_or(0));
        findings.problem(Problem::of(&record, what, TAKE_AGAIN));
    }
    Ok(())
}

impl Dump {
    /// Reads the stored payload of a record and checks that it hashes to what was captured. Nothing is read, and nothing is
    /// wrong, where there is no hash or not all of the content is stored.
    ///
    /// # Errors
    /// [`FormatError::PayloadDamaged`] when it does not, or the payload file cannot be read.
    pub fn check_payload(&self, record: &Record) -> Result<(), FormatError> {
        let Some(said) = record.hash.filter(|_| record.payload == PayloadState::Stored) else {
            return Ok(());
        };
        let range = record.bin_offset..record.bin_offset.saturating_add(record.bin_size);
        let hash = hash_range(self, &range, &mut ReadAhead::new(), range.end)?;
        if hash == said {
            return Ok(());
        }
        Err(if self.has_left(&range)? { self.gone(record) } else { self.damaged(record) })
    }

    /// What to say of a record whose stored payload does not hash to what was captured.
    #[must_use]
    pub fn damaged(&self, record: &Record) -> FormatError {
        FormatError::PayloadDamaged { record: record.to_string(), dir: self.dir().to_owned() }
    }
}

/// The hash of a range of the payload file. Nothing is read ahead from `limit` on, which is not before the range's end.
fn hash_range(
    dump: &Dump,
    range: &Range<u64>,
    window: &mut ReadAhead,
    limit: u64,
) -> Result<u128, FormatError> {
    if range.is_empty() {
        return Ok(content_hash(&[]));
    }
    let path = dump.payload_path();
    let payloads = dump.payload_file()?;
    let mut hash = ContentHasher::new(range.end - range.start);
    let mut at = range.start;
    while at < range.end {
        let len = usize::try_from(range.end - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        let piece = window.get(payloads, at, len, limit).at("read", &path)?;
        if piece.len() < len {
            // It was long enough a moment ago.
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof)).at("read", &path);
        }
        hash.update(piece);
        at += len as u64;
    }
    Ok(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_cut_into_pieces_in_order_and_none_is_left_out() {
        let stored = |start: u64, bytes: u64| Stored { range: start..start + bytes, hash: Some(0), index: 0 };
        let sizes = [1, PIECE_BYTES - 1, 1, 1, 3 * PIECE_BYTES, 2 * PIECE_BYTES, 5];
        let stored: Vec<Vec<Stored>> = sizes.iter().map(|&bytes| vec![stored(0, bytes)]).collect();
        let payloads: Vec<&[Stored]> = stored.iter().map(Vec::as_slice).collect();
        assert_eq!(pieces_of(&payloads), [0..2, 2..5, 5..6, 6..7]);
        let many: Vec<&[Stored]> = (0..2 * PIECE_PAYLOADS + 1).map(|_| payloads[0]).collect();
        let cut: Vec<usize> = pieces_of(&many).iter().map(Range::len).collect();
        assert_eq!(cut, [PIECE_PAYLOADS, PIECE_PAYLOADS, 1]);
        assert!(pieces_of(&[]).is_empty());
    }
}
