//! Completes a torn dump.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::{
    ARGS_FILE, Dump, Findings, Footer, FormatError, GRAPH_FILE, INDEX_FILE, IndexRecord, KERNEL_ARGS_FILE,
    Loss, MANIFEST_FILE, Payload, Problem, Status, ThreadEnd, Totals,
    error::AtPath,
    files::{Tail, create_new, lock_for_writing, open_exclusively, unfinished, write_json_files},
    frame::FrameEncoder,
    index::Index,
    json_check::files_beside_are_right,
    manifest::{JsonInput, StreamError},
    manifest_check::{is_written_as, manifest_problems},
    names::{DumpLocation, locate},
    payload_files::{PayloadFiles, PayloadLimits},
    rewrite::rewrite,
    source::{ManifestRecords, has_more, open_manifest, take_end, whole_manifest},
    survey::{Survey, in_flight},
    verify::verify,
};

/// Files that are generated from the index.
const JSON_FILES: [&str; 4] = [MANIFEST_FILE, GRAPH_FILE, ARGS_FILE, KERNEL_ARGS_FILE];

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The dump's folder.
    pub dir: PathBuf,
    /// Whether anything was changed.
    pub changed: bool,
    /// How the run ended: the dump's status, or killed.
    pub status: Status,
    /// Number of records after the repair.
    pub records: u64,
    /// Unreadable bytes that were cut off the index.
    pub cut_bytes: u64,
    /// Number of records known to be missing.
    pub missing_records: u64,
    /// Payloads that are no longer in the payload file. Their metadata stays, marked as dropped.
    pub lost_payloads: u64,
    /// If the index was set aside because the manifest has more records: the number of records that could
    /// be read from the index. From now on the dump is read from its manifest.
    pub set_aside: Option<u64>,
    /// Backups of replaced files, next to the files that took their names.
    pub kept: Vec<PathBuf>,
    /// What [`verify`] reports after the repair, up to a limit: changed bytes or overlapping payloads,
    /// which cannot be restored.
    pub problems: Vec<Problem>,
    /// Number of further problems that are not listed.
    pub more_problems: u64,
}

impl Repair {
    /// Whether the dump is complete and valid now.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    /// Number of remaining problems.
    #[must_use]
    pub fn problem_count(&self) -> u64 {
        self.problems.len() as u64 + self.more_problems
    }
}

/// Completes a dump. It cuts the index after its last good frame, drops payloads that are missing from the
/// payload file, and writes footer, manifest and graph. If a complete manifest has more records than the
/// index, the manifest stays and the index is set aside. Every file that is replaced or cut is kept under a
/// backup name. A complete dump is not changed, so a second repair has no effect. Repair rejects a dump
/// that is still being written. It also rejects a dump whose payload file is missing, because the file may
/// still be found. The result is checked as [`verify`] does, and the report contains the remaining
/// problems.
pub fn repair(path: &Path) -> Result<Repair, FormatError> {
    repair_as(path, false)
}

/// As [`repair`], but drops every payload if the payload file is missing.
pub fn repair_without_payloads(path: &Path) -> Result<Repair, FormatError> {
    repair_as(path, true)
}

fn repair_as(path: &Path, without_payloads: bool) -> Result<Repair, FormatError> {
    let mut report = mend(path, without_payloads)?;
    let Findings { problems, more_problems, .. } = verify(&Dump::open(&report.dir)?)?;
    (report.problems, report.more_problems) = (problems, more_problems);
    Ok(report)
}

fn mend(path: &Path, without_payloads: bool) -> Result<Repair, FormatError> {
    let DumpLocation { dir, file: index_path, is_index } = locate(path)?;
    if !is_index {
        return Err(not_repairable(index_path));
    }
    plain_bytes(&index_path)?;
    for name in JSON_FILES {
        plain_bytes(&dir.join(name))?;
    }
    let index = match Index::from_file(open_exclusively(&index_path)?, &index_path) {
        Err(error @ (FormatError::HeaderDamaged { .. } | FormatError::NotADump { .. })) => {
            let held = whole_manifest(&index_path, None).ok_or(error)?;
            return set_aside(dir, &index_path, &held, 0);
        }
        opened => opened?,
    };
    let files = PayloadFiles::new(dir.clone(), index.info.bin_file.clone(), index.is_segmented());
    let limits = payload_limits(&files)?;
    let mut lost: BTreeMap<u32, Loss> = BTreeMap::new();
    let mut missing_file = None;
    let mut survey = Survey::of(&index, |thread, _, record| {
        if let Some((position, _)) = lost_range(record, &limits) {
            count_lost(&mut lost, thread, record);
            missing_file = missing_file.take().or_else(|| {
                let path = files.path(files.place(position).0);
                (!path.exists()).then_some(path)
            });
        }
    })?;
    if let Some(held) = whole_manifest(&index_path, Some(index.info.run_id)) {
        if has_more(&held, &survey) {
            return set_aside(dir, &index_path, &held, survey.totals.total_tensors);
        }
        take_end(&held, &mut survey);
    }
    let payloads = lost.values().map(|loss| loss.records).sum();
    if let Some(path) = missing_file.filter(|_| !without_payloads) {
        return Err(FormatError::PayloadFileMissing { path, dir, payloads });
    }
    for name in JSON_FILES.iter().chain(&[INDEX_FILE]) {
        unfinished(&dir.join(name))?;
    }
    let footer = footer_of(&survey, lost.values());
    // A footer with wrong counters, or one that reports fewer missing records than there are, is rewritten.
    let is_closed = survey.damage.is_none() && lost.is_empty();
    let is_whole = is_closed && survey.footer_is_right();
    let mut report = Repair {
        dir: dir.clone(),
        changed: !is_whole,
        status: footer.status,
        records: survey.totals.total_tensors,
        cut_bytes: if is_whole { 0 } else { cut_bytes(&index, &survey) },
        missing_records: survey.missing().iter().fold(0, |sum, loss| sum.saturating_add(loss.records)),
        lost_payloads: payloads,
        set_aside: None,
        kept: Vec::new(),
        problems: Vec::new(),
        more_problems: 0,
    };
    let aside = JsonBackups::new(&dir)?;
    if is_whole {
        report.changed = write_missing_json(&dir, &index, &survey, &footer)?;
    } else {
        let is_replaced = is_closed || report.cut_bytes > 0;
        if is_replaced || !lost.is_empty() {
            report.kept.push(second_name(&index_path)?);
        }
        let front = match lost.is_empty() {
            false => IndexPrefix::DropPayloads(&limits),
            true if is_replaced => IndexPrefix::Copy,
            true => IndexPrefix::Cut,
        };
        close(&dir, index, &survey, footer, &front)?;
    }
    report.kept.extend(aside.what_changed()?);
    Ok(report)
}

/// Leaves the dump to its manifest: renames the index, which has fewer records.
fn set_aside(
    dir: PathBuf,
    index: &Path,
    held: &ManifestRecords,
    records: u64,
) -> Result<Repair, FormatError> {
    let files = PayloadFiles::new(dir.clone(), held.info.bin_file.clone(), held.is_segmented);
    if held.lacks_payloads(&payload_limits(&files)?) {
        let reason = "its index is damaged and payloads are missing, too; its records and the payloads that are there can \
                      be read from its manifest";
        return Err(FormatError::NotRepairable { path: held.manifest.clone(), format: held.format, reason });
    }
    let old = free_name(index);
    fs::rename(index, &old).at("rename", index)?;
    Ok(Repair {
        dir,
        changed: true,
        status: held.footer.as_ref().map_or(Status::Killed, |footer| footer.status),
        records: held.len() as u64,
        cut_bytes: 0,
        missing_records: 0,
        lost_payloads: 0,
        set_aside: Some(records),
        kept: vec![old],
        problems: Vec::new(),
        more_problems: 0,
    })
}

/// An unused name next to `path`: `<name>.old`, `<name>.old2`, …
fn free_name(path: &Path) -> PathBuf {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 1 { ".old".to_owned() } else { format!(".old{number}") });
        PathBuf::from(name)
    };
    let mut names = (1..).map(numbered);
    names.find(|name| !name.exists()).expect("a folder does not hold four thousand million files of one name")
}

/// Gives a file a second name before it is replaced. Copies it if the file system has no links.
fn second_name(path: &Path) -> Result<PathBuf, FormatError> {
    let old = free_name(path);
    fs::hard_link(path, &old).or_else(|_| fs::copy(path, &old).map(drop)).at("copy", path)?;
    Ok(old)
}

/// Backups of the JSON files: second names for those that a repair replaces.
struct JsonBackups {
    files: Vec<(PathBuf, PathBuf)>,
}

impl JsonBackups {
    fn new(dir: &Path) -> Result<JsonBackups, FormatError> {
        let mut files = Vec::new();
        for name in JSON_FILES {
            let path = dir.join(name);
            if !path.is_file() {
                continue;
            }
            let old = second_name(&path)?;
            files.push((path, old));
        }
        Ok(JsonBackups { files })
    }

    /// The backups to keep: those of files whose content has changed.
    fn what_changed(mut self) -> Result<Vec<PathBuf>, FormatError> {
        let mut kept = Vec::new();
        for (path, old) in std::mem::take(&mut self.files) {
            let same = is_written_as(&path, |out| {
                let mut file = fs::File::open(&old).map_err(StreamError::Output)?;
                io::copy(&mut file, out).map(drop).map_err(StreamError::Output)
            })?;
            if same {
                fs::remove_file(&old).at("remove", &old)?;
            } else {
                kept.push(old);
            }
        }
        Ok(kept)
    }
}

impl Drop for JsonBackups {
    /// A failed repair leaves no backups of files that it did not replace.
    fn drop(&mut self) {
        for (path, old) in &self.files {
            let inode = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
            if inode(path) == inode(old) {
                let _ = fs::remove_file(old);
            }
        }
    }
}

/// Repairs need the index. A manifest without an index is either complete or cannot be repaired.
fn not_repairable(path: PathBuf) -> FormatError {
    let format = match open_manifest(&path) {
        Ok(held) => held.format,
        Err(error) => return error,
    };
    let reason = if format.is_foreign() {
        "it has no index to restore it from, and repair does not change files of other programs"
    } else {
        "its index tensor_dump.idx, from which it could be restored, is missing"
    };
    FormatError::NotRepairable { path, format, reason }
}

/// Length of a file of a dump; `None` if it does not exist. Anything but a regular file is rejected: a link
/// could point anywhere, and a folder has no defined meaning.
fn plain_bytes(path: &Path) -> Result<Option<u64>, FormatError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e).at("measure", path),
    };
    let what = match found.file_type() {
        kind if kind.is_file() => return Ok(Some(found.len())),
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a folder",
        _ => "not a regular file",
    };
    Err(FormatError::NotAPlainFile { path: path.to_owned(), what })
}

/// Lengths of the payload files; 0 for one that does not exist.
fn payload_limits(files: &PayloadFiles) -> Result<PayloadLimits, FormatError> {
    let length = |number| Ok(plain_bytes(&files.path(number))?.unwrap_or(0));
    PayloadLimits::of(files.is_segmented(), length)
}

/// The range of the record's payload, if the payload file ends before it does.
fn lost_range(record: &IndexRecord, limits: &PayloadLimits) -> Option<(u64, u64)> {
    record.stored_range().filter(|(position, bytes)| limits.cut(*position, *bytes))
}

fn count_lost(lost: &mut BTreeMap<u32, Loss>, thread: u32, record: &IndexRecord) {
    let (_, bytes) = record.stored_range().unwrap_or_default();
    let none = Loss { thread, reason: Loss::PAYLOAD_MISSING.into(), records: 0, bytes: 0 };
    let loss = lost.entry(thread).or_insert(none);
    loss.records += 1;
    loss.bytes = loss.bytes.saturating_add(bytes);
}

/// Number of bytes after the last good frame, except the footer's.
fn cut_bytes(index: &Index, survey: &Survey) -> u64 {
    if survey.damage.is_some() { index.bytes.saturating_sub(survey.end) } else { 0 }
}

/// The old footer's information with the current losses. The ends of the sequences stay unchanged, so that
/// a second repair counts the same records as missing.
fn footer_of<'l>(survey: &Survey, lost: impl Iterator<Item = &'l Loss>) -> Footer {
    let mut footer = survey.footer.clone().unwrap_or_else(|| Footer::new(Status::Killed));
    footer.losses.retain(|loss| loss.reason != Loss::MISSING);
    footer.losses.extend(survey.missing());
    footer.losses.extend(lost.cloned());
    footer.totals = survey.totals.clone();
    if survey.footer.is_none() {
        let ends =
            survey.next_seq.iter().map(|(thread, next)| ThreadEnd { thread: *thread, next_seq: *next });
        footer.threads = ends.collect();
    }
    footer
}

/// Writes the JSON files of a closed dump if one of them is missing or wrong. Returns whether it did.
fn write_missing_json(
    dir: &Path,
    index: &Index,
    survey: &Survey,
    footer: &Footer,
) -> Result<bool, FormatError> {
    let in_flight = in_flight(index, survey.end, footer)?;
    let input = JsonInput::new(index, survey.end, footer, &in_flight)?;
    let manifest_is_right = !index.info.has_manifest()
        || dir.join(MANIFEST_FILE).is_file() && manifest_problems(&Dump::open(dir)?)?.is_empty();
    if manifest_is_right && files_beside_are_right(dir, &input)? {
        return Ok(false);
    }
    write_json_files(dir, &input)?;
    Ok(true)
}

/// How the good frames of an index are kept.
enum IndexPrefix<'l> {
    /// They stay in the file: nothing after them is lost.
    Cut,
    /// They are copied, and the old file is kept.
    Copy,
    /// They are rewritten without the payloads that are past these lengths of the payload files.
    DropPayloads(&'l PayloadLimits),
}

/// Cuts or rewrites the index, then writes footer and JSON files. Every step leaves a dump that opens.
fn close(
    dir: &Path,
    index: Index,
    survey: &Survey,
    mut footer: Footer,
    front: &IndexPrefix<'_>,
) -> Result<(), FormatError> {
    let (file, end, totals) = match front {
        IndexPrefix::DropPayloads(limits) => drop_payloads(&index, survey.end, limits)?,
        IndexPrefix::Copy => (copy_front(&index, survey.end)?, survey.end, survey.totals.clone()),
        IndexPrefix::Cut => {
            index.file.set_len(survey.end).at("cut", &index.path)?;
            (index.file, survey.end, survey.totals.clone())
        }
    };
    let index = Index::from_file(file, &index.path)?;
    footer.totals = totals;
    let in_flight = in_flight(&index, end, &footer)?;
    footer.in_flight = Some(in_flight.clone());
    let mut encoder = FrameEncoder::new(index.info.run_id);
    encoder.footer(&footer, end);
    Tail::at(end).append(&index.file, &index.path, &encoder.bytes)?;
    write_json_files(dir, &JsonInput::new(&index, end, &footer, &in_flight)?)
}

/// Replaces the index by its first bytes. The old file has a second name and stays unchanged.
fn copy_front(index: &Index, end: u64) -> Result<fs::File, FormatError> {
    let path = unfinished(&index.path)?;
    let copied = || {
        let mut file = create_new(&path)?;
        lock_for_writing(&file, &path)?;
        let front = fs::File::open(&index.path).at("open", &index.path)?;
        io::copy(&mut front.take(end), &mut file).at("write", &path)?;
        file.sync_data().at("sync", &path)?;
        fs::rename(&path, &index.path).at("replace", &index.path)?;
        Ok(file)
    };
    copied().inspect_err(|_| {
        // Report the first error. The old index is unchanged.
        let _ = fs::remove_file(&path);
    })
}

/// Marks missing payloads as dropped. Their metadata and hashes stay.
fn drop_payloads(
    index: &Index,
    end: u64,
    limits: &PayloadLimits,
) -> Result<(fs::File, u64, Totals), FormatError> {
    let rewritten = rewrite(index, end, false, true, |_, record| {
        if lost_range(record, limits).is_some() {
            record.set_payload(Payload::Dropped);
        }
        true
    })?;
    Ok((rewritten.file, rewritten.end, rewritten.totals))
}
