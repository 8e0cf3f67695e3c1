//! Checks a dump for consistency: every hash, every offset, every counter.

use std::{collections::BTreeMap, io, ops::Range, path::Path, sync::OnceLock};

use serde::{Serialize, Serializer, ser::SerializeMap};
use tensortap_abi::DumpStage;

use tensortap_values::{ContentHasher, content_hash};

use crate::{
    ARGS_FILE, ArgumentKind, Dump, DumpFormat, FormatError, GRAPH_FILE, KERNEL_ARGS_FILE, MANIFEST_FILE,
    PayloadState, Record, Tail, Totals,
    allocation_check::check_allocations,
    error::AtPath,
    family_check::{check_families, may_lack_tasks},
    index::ReadAhead,
    json::Hex64,
    json_check::problems_beside,
    manifest_check::manifest_problems,
    names::quoted,
    source::{IndexRecords, ManifestRecords, SkipReason, SkippedIndex, Source, StatedCounter},
};

/// Bytes per read while hashing.
const READ_BYTES: usize = 1 << 20;
/// Maximum number of listed problems. Further ones are only counted.
const MAX_PROBLEMS: usize = 10_000;

/// The record of a problem.
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

/// One problem of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The record, if the problem concerns one.
    pub record: Option<RecordName>,
    /// Description of the problem.
    pub what: String,
    /// The next step.
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

/// The result of a check. Every record is either `checked` or `unverifiable`. A scalar is checked together
/// with its frame (in a manifest without an index, by its two notations). A tensor is checked by the hash
/// of its stored payload. A tensor without a hash, or without a completely stored payload, is unverifiable.
/// Records of other projects' dumps are always unverifiable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of records.
    pub records: u64,
    /// Number of records whose content was checked, good or bad.
    pub checked: u64,
    /// Number of records whose content cannot be checked.
    pub unverifiable: u64,
    /// Unverifiable records that left the window of a running `--dump-last` run while they were read.
    pub gone: u64,
    /// The problems, up to a limit.
    pub problems: Vec<Problem>,
    /// Number of further problems that are not listed.
    pub more_problems: u64,
}

impl Findings {
    /// One word: `bad` if there is a problem, `unverifiable` if no record could be checked, `ok` otherwise.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.is_ok(), self.checked) {
            (false, _) => "bad",
            (true, 0) if self.records > 0 => "unverifiable",
            (true, _) => "ok",
        }
    }

    /// Whether there are no problems.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    /// Counts records that had left the window when they were read: the bytes were those of freed space.
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

pub(crate) const TAKE_AGAIN: &str = "copy the dump again, or record it again";

/// The command that repairs the dump in a folder.
pub(crate) fn repair_command(dir: &Path) -> String {
    format!("run `tensortap repair {}`", quoted(dir))
}

/// Runs a piece of work for every number below a count: once each, in any order, possibly in parallel.
pub type ParallelFor<'s> = dyn Fn(usize, &(dyn Fn(usize) + Sync)) + 's;

/// Checks every record of a dump and the dump as a whole. An error means that a file cannot be read. All
/// other problems are in the findings.
pub fn verify(dump: &Dump) -> Result<Findings, FormatError> {
    verify_spread(dump, &|count, work| (0..count).for_each(work))
}

/// As [`verify`], but hashes payloads through `spread`, for example on several threads. Hashing takes most
/// of the time.
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
/// As for [`verify`].
pub fn verify_spread(dump: &Dump, spread: &ParallelFor<'_>) -> Result<Findings, FormatError> {
    let mut findings = Findings { records: dump.len(), ..Findings::default() };
    match dump.source() {
        Source::Index(indexed) => {
            check_end(dump, indexed, &mut findings);
            // Dumps of older versions may have any parents.
            if indexed.index.schema_version() > 1 {
                check_families(dump, indexed, &mut findings)?;
                check_allocations(dump, may_lack_tasks(dump, indexed), &mut findings)?;
            }
        }
        Source::Manifest(held) => {
            check_manifest(dump, held, &mut findings);
            check_allocations(dump, true, &mut findings)?;
        }
    }
    check_modules(dump, &mut findings);
    let stored = collect_stored(dump, &dump.payloads.lengths()?, &mut findings)?;
    check_overlaps(&stored, &mut findings);
    check_hashes(dump, &stored, spread, &mut findings)?;
    let is_closed = dump.format() == DumpFormat::Indexed && dump.tail() == Tail::Closed;
    // A closing writer writes the JSON files after the footer.
    let is_closing = matches!(dump.source(), Source::Index(indexed) if indexed.is_being_written());
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

/// Checks that the images of modules exist and match their hashes.
fn check_modules(dump: &Dump, findings: &mut Findings) {
    for module in dump.modules().iter().filter(|module| module.has_image) {
        if let Err(error) = module.image(dump.dir()) {
            let remedy = "tasks that use this module cannot be replayed from this dump";
            findings.problem(Problem::of_dump(error.to_string(), remedy));
        }
    }
}

/// Checks that a closed dump has its JSON files.
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

/// Checks the end of the index, its gaps, and the footer's counters.
fn check_end(dump: &Dump, indexed: &IndexRecords, findings: &mut Findings) {
    if let Tail::Torn { offset, lost_bytes, reason } = dump.tail() {
        let lost = match lost_bytes {
            0 => String::new(),
            1 => ", and the last byte is lost".into(),
            lost => format!(", and the last {lost} bytes are lost"),
        };
        let what = format!("the index ends at byte {offset}{lost}: {reason}");
        findings.problem(Problem::of_dump(what, repair_command(dump.dir())));
    }
    for (thread, records) in indexed.survey.unlisted_missing() {
        let what = format!("thread {thread}: {records} records are missing");
        findings.problem(Problem::of_dump(what, repair_command(dump.dir())));
    }
    if let (Tail::Closed, Some(footer)) = (dump.tail(), dump.footer()) {
        check_counters(dump.totals(), &footer.totals, findings);
    }
}

/// Checks a manifest's counters, and that the files next to it can be read.
fn check_manifest(dump: &Dump, held: &ManifestRecords, findings: &mut Findings) {
    if let Some(SkippedIndex { path, why: SkipReason::Damaged { reason, records } }) = &held.passed_over {
        let (path, all) = (path.display(), dump.len());
        let what = format!(
            "{path} is damaged ({reason}): it has {records} of {all} records, but the manifest has all of them"
        );
        findings.problem(Problem::of_dump(what, repair_command(dump.dir())));
    }
    let name = held.manifest.file_name().unwrap_or_default().display().to_string();
    for StatedCounter { key, stated, counted } in &held.stated {
        if stated != counted {
            let what = format!("{name} states {key} = {stated}, but its records have {counted}");
            findings.problem(Problem::of_dump(what, TAKE_AGAIN));
        }
    }
    for (path, reason) in &held.unreadable {
        let what = format!("{} cannot be read: {reason}", path.display());
        findings.problem(Problem::of_dump(what, "copy this file again, or move it away"));
    }
}

fn check_counters(counted: &Totals, stated: &Totals, findings: &mut Findings) {
    if counted == stated {
        return;
    }
    let (counted, stated) = (serde_json::json!(counted), serde_json::json!(stated));
    let Some(counters) = counted.as_object() else { return };
    for (name, counted) in counters.iter().filter(|(name, value)| stated.get(name) != Some(value)) {
        let stated = &stated[name];
        let what = format!("the footer states {name} = {stated}, but the index has {counted}");
        findings.problem(Problem::of_dump(what, TAKE_AGAIN));
    }
}

/// A stored payload and the record that refers to it.
struct StoredPayload {
    range: Range<u64>,
    hash: Option<u128>,
    index: u64,
}

/// Every stored payload whose bytes exist, sorted by offset. Counts records that cannot be checked and
/// reports missing payloads.
fn collect_stored(
    dump: &Dump,
    lengths: &[Option<u64>],
    findings: &mut Findings,
) -> Result<Vec<StoredPayload>, FormatError> {
    let mut stored = Vec::new();
    let mut without_file: BTreeMap<usize, u64> = BTreeMap::new();
    for record in dump.stored_records() {
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
        let (number, offset) = dump.payloads.place(record.bin_offset);
        match lengths.get(number).copied().flatten() {
            _ if range.is_empty() => stored.push(StoredPayload { range, hash, index: record.index }),
            Some(have) if offset + record.bin_size <= have => {
                stored.push(StoredPayload { range, hash, index: record.index })
            }
            _ if dump.has_left(&range)? => findings.gone(u64::from(hash.is_some())),
            Some(have) => findings.problem(short(dump, &record, have)),
            None => *without_file.entry(number).or_default() += 1,
        }
    }
    for (number, records) in without_file {
        let path = dump.payloads.path(number).display().to_string();
        let what =
            format!("the payload file {path} is missing, which contains the payloads of {records} records");
        findings.problem(Problem::of_dump(what, missing_file_remedy(dump)));
    }
    stored.sort_by_key(|s| (s.range.start, s.range.end, s.index));
    Ok(stored)
}

fn short(dump: &Dump, record: &Record, have: u64) -> Problem {
    let (path, offset) = dump.payload_place(record);
    let (path, bytes) = (path.display(), record.bin_size);
    let what = format!(
        "its payload has {bytes} bytes at offset {offset} in {path}, but that file has only {have} bytes"
    );
    Problem::of(record, what, dump.short_remedy())
}

fn missing_file_remedy(dump: &Dump) -> String {
    let copy = "copy it from the original dump";
    if dump.format() != DumpFormat::Indexed {
        return copy.into();
    }
    let dir = quoted(dump.dir());
    format!(
        "{copy}; if it is lost, `tensortap repair --without-payloads {dir}` drops the payloads permanently"
    )
}

/// Two payloads must be identical or disjoint.
fn check_overlaps(stored: &[StoredPayload], findings: &mut Findings) {
    let mut furthest: Option<&StoredPayload> = None;
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

/// Payload bytes of one piece of work: neighbors in the file that one read covers.
const PIECE_BYTES: u64 = 4 << 20;
const PIECE_PAYLOADS: usize = 4096;

type Hashes = Vec<Result<u128, FormatError>>;

/// Hashes each stored payload once, in file order, and compares it with all its records.
fn check_hashes(
    dump: &Dump,
    stored: &[StoredPayload],
    spread: &ParallelFor<'_>,
    findings: &mut Findings,
) -> Result<(), FormatError> {
    let payloads = stored.chunk_by(|a, b| a.range == b.range);
    let payloads: Vec<&[StoredPayload]> =
        payloads.filter(|same| same.iter().any(|s| s.hash.is_some())).collect();
    let pieces = pieces_of(&payloads, |position| dump.payloads.place(position).0);
    let hashes: Vec<OnceLock<Hashes>> = pieces.iter().map(|_| OnceLock::new()).collect();
    spread(pieces.len(), &|number| {
        let mut window = ReadAhead::new();
        let of_piece = &payloads[pieces[number].clone()];
        let end = of_piece.iter().map(|same| same[0].range.end).max().unwrap_or(0);
        let found = of_piece.iter().map(|same| hash_range(dump, &same[0].range, &mut window, end)).collect();
        // If a caller runs a number twice, the first result counts.
        let _ = hashes[number].set(found);
    });
    let hashes = hashes.into_iter().flat_map(|piece| piece.into_inner().unwrap_or_default());
    for (same, hash) in payloads.iter().zip(hashes) {
        compare_hashes(dump, same, hash, findings)?;
    }
    Ok(())
}

/// Splits payloads, in order, into pieces of work. All payloads of a piece are in one file.
fn pieces_of(payloads: &[&[StoredPayload]], file_of: impl Fn(u64) -> usize) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let (mut bytes, mut file) = (PIECE_BYTES, 0);
    for (place, same) in payloads.iter().enumerate() {
        let before = std::mem::replace(&mut file, file_of(same[0].range.start));
        match pieces.last_mut() {
            Some(piece) if bytes < PIECE_BYTES && piece.len() < PIECE_PAYLOADS && before == file => {
                piece.end = place + 1;
            }
            _ => {
                bytes = 0;
                pieces.push(place..place + 1);
            }
        }
        bytes = bytes.saturating_add(same[0].range.end - same[0].range.start);
    }
    pieces
}

/// Compares the records of one payload with the hash of the stored bytes.
fn compare_hashes(
    dump: &Dump,
    same: &[StoredPayload],
    hash: Result<u128, FormatError>,
    findings: &mut Findings,
) -> Result<(), FormatError> {
    let is_right =
        |s: &StoredPayload| hash.as_ref().is_ok_and(|hash| s.hash.is_none_or(|stated| stated == *hash));
    if !same.iter().all(is_right) && dump.has_left(&same[0].range)? {
        findings.gone(same.iter().filter(|s| s.hash.is_some()).count() as u64);
        return Ok(());
    }
    let hash = hash?;
    for bad in same.iter().filter(|s| s.hash.is_some_and(|stated| stated != hash)) {
        let record = dump.record(bad.index)?;
        let what =
            format!("hash mismatch: its payload has {hash:#034x}, expected {:#034x}", bad.hash.unwrap_or(0));
        findings.problem(Problem::of(&record, what, TAKE_AGAIN));
    }
    Ok(())
}

impl Dump {
    /// Reads the stored payload of a record and compares it with its hash. Does nothing if there is no hash
    /// or the content is not completely stored.
    ///
    /// # Errors
    /// [`FormatError::PayloadDamaged`] if the hash does not match, or an error of reading the payload file.
    pub fn check_payload(&self, record: &Record) -> Result<(), FormatError> {
        let Some(stated) = record.hash.filter(|_| record.payload == PayloadState::Stored) else {
            return Ok(());
        };
        let range = record.bin_offset..record.bin_offset.saturating_add(record.bin_size);
        let hash = hash_range(self, &range, &mut ReadAhead::new(), range.end)?;
        if hash == stated {
            return Ok(());
        }
        Err(if self.has_left(&range)? { self.gone(record) } else { self.damaged(record) })
    }

    /// The error of a record whose stored payload does not match its hash.
    #[must_use]
    pub fn damaged(&self, record: &Record) -> FormatError {
        FormatError::PayloadDamaged { record: record.to_string(), dir: self.dir().to_owned() }
    }
}

/// The hash of a range of the payload file. Does not read ahead past `limit`, which must not be before the
/// range's end.
fn hash_range(
    dump: &Dump,
    range: &Range<u64>,
    window: &mut ReadAhead,
    limit: u64,
) -> Result<u128, FormatError> {
    if range.is_empty() {
        return Ok(content_hash(&[]));
    }
    let (number, mut at) = dump.payloads.place(range.start);
    let (path, payloads) = (dump.payloads.path(number), dump.payloads.file(number)?);
    let bytes = range.end - range.start;
    let (end, limit) = (at + bytes, at + (limit - range.start));
    let mut hash = ContentHasher::new(bytes);
    while at < end {
        let len = usize::try_from(end - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        let piece = window.get(payloads, at, len, limit).at("read", &path)?;
        if piece.len() < len {
            // The file was long enough a moment ago.
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
    use crate::{payload_files::FILE_BYTES, split_position};

    #[test]
    fn payloads_are_split_into_pieces_in_order_without_omissions() {
        let stored =
            |start: u64, bytes: u64| StoredPayload { range: start..start + bytes, hash: Some(0), index: 0 };
        let sizes = [1, PIECE_BYTES - 1, 1, 1, 3 * PIECE_BYTES, 2 * PIECE_BYTES, 5];
        let stored: Vec<Vec<StoredPayload>> = sizes.iter().map(|&bytes| vec![stored(0, bytes)]).collect();
        let payloads: Vec<&[StoredPayload]> = stored.iter().map(Vec::as_slice).collect();
        let pieces_of = |payloads: &[&[StoredPayload]]| pieces_of(payloads, |_| 0);
        assert_eq!(pieces_of(&payloads), [0..2, 2..5, 5..6, 6..7]);
        let many: Vec<&[StoredPayload]> = (0..2 * PIECE_PAYLOADS + 1).map(|_| payloads[0]).collect();
        let cut: Vec<usize> = pieces_of(&many).iter().map(Range::len).collect();
        assert_eq!(cut, [PIECE_PAYLOADS, PIECE_PAYLOADS, 1]);
        assert!(pieces_of(&[]).is_empty());
        let small = [0, 1, FILE_BYTES].map(|at| StoredPayload { range: at..at + 1, hash: Some(0), index: 0 });
        let small: Vec<&[StoredPayload]> = small.chunks(1).collect();
        assert_eq!(super::pieces_of(&small, |position| split_position(position).0), [0..2, 2..3]);
    }
}
