//! The payload files of a dump that is being written.

use std::{
    fs::{self, File},
    ops::Range,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::fs::FallocateFlags;
use tensortap_abi::{DumpGeometry, LARGE_PAYLOAD_ALIGN, LARGE_PAYLOAD_BYTES};

use crate::{
    FormatError, MAX_PAYLOAD_FILES,
    error::AtPath,
    files::create_new,
    payload_files::{FILE_BYTES, first_position, payload_file_name, split_position},
    window::dead_ranges,
};

/// A place in a payload file.
#[derive(Clone, Copy, Debug)]
pub struct PayloadPlace<'f> {
    /// Number of the file.
    pub number: usize,
    /// The file.
    pub file: BorrowedFd<'f>,
    /// Offset in the file.
    pub offset: u64,
}

/// The files, by number. The first call of [`WrittenFiles::file`] creates each of them.
pub(crate) struct WrittenFiles {
    dir: PathBuf,
    first_name: String,
    files: Vec<WrittenFile>,
    /// Freed ranges of positions.
    freed: Vec<Range<u64>>,
}

struct WrittenFile {
    path: PathBuf,
    file: OnceLock<File>,
    /// End of the last reserved range in the file.
    reserved_end: u64,
    /// End of the last payload that a record refers to.
    used_end: u64,
}

impl WrittenFile {
    /// Where a payload of this size could start.
    fn next(&self, bytes: u64) -> u64 {
        self.reserved_end.next_multiple_of(DumpGeometry::payload_align(bytes))
    }
}

impl WrittenFiles {
    pub(crate) fn new(dir: &Path, first_name: &str) -> WrittenFiles {
        let (files, freed) = Default::default();
        let mut written =
            WrittenFiles { dir: dir.to_owned(), first_name: first_name.to_owned(), files, freed };
        written.add_file();
        written
    }

    fn add_file(&mut self) {
        let path = self.dir.join(payload_file_name(&self.first_name, self.files.len()));
        self.files.push(WrittenFile { path, file: OnceLock::new(), reserved_end: 0, used_end: 0 });
    }

    /// Spreads large payloads over this many files from now on. Has no effect if there are as many already.
    pub(crate) fn spread_over(&mut self, count: usize) {
        // Positions in a longer file would be those of the second file.
        if self.files[0].reserved_end > FILE_BYTES {
            return;
        }
        while self.files.len() < count.min(MAX_PAYLOAD_FILES) {
            self.add_file();
        }
    }

    /// Reserves a range for a payload of this size and returns its position. Small payloads go to the first file
    /// with space, large ones to the shortest.
    pub(crate) fn reserve(&mut self, bytes: u64) -> u64 {
        let number = if self.files.len() == 1 { 0 } else { self.choose(bytes) };
        let file = &mut self.files[number];
        let offset = file.next(bytes);
        file.reserved_end = offset + bytes;
        first_position(number) + offset
    }

    fn choose(&self, bytes: u64) -> usize {
        let fits = |file: &WrittenFile| file.next(bytes) + bytes <= FILE_BYTES;
        let mut files = self.files.iter().enumerate().filter(|(_, file)| fits(file));
        let chosen = match bytes < LARGE_PAYLOAD_BYTES {
            true => files.next(),
            false => files.min_by_key(|(_, file)| file.reserved_end),
        };
        // Without space in any file, 16 TiB each, the last one grows on.
        chosen.map_or(self.files.len() - 1, |(number, _)| number)
    }

    /// The place of a position. The caller writes a payload there before it appends the record.
    pub(crate) fn place(&self, position: u64) -> Result<PayloadPlace<'_>, FormatError> {
        let (number, offset) = self.split(position);
        Ok(PayloadPlace { number, file: self.files[number].open()?.as_fd(), offset })
    }

    fn split(&self, position: u64) -> (usize, u64) {
        match split_position(position) {
            (number, offset) if number < self.files.len() && self.files.len() > 1 => (number, offset),
            _ => (0, position),
        }
    }

    pub(crate) fn path(&self, position: u64) -> &Path {
        &self.files[self.split(position).0].path
    }

    pub(crate) fn write(&self, position: u64, bytes: &[u8]) -> Result<(), FormatError> {
        let (number, offset) = self.split(position);
        let written = &self.files[number];
        written.open()?.write_all_at(bytes, offset).at("write", &written.path)
    }

    pub(crate) fn read(&self, position: u64, into: &mut [u8]) -> Result<(), FormatError> {
        let (number, offset) = self.split(position);
        let written = &self.files[number];
        written.open()?.read_exact_at(into, offset).at("read", &written.path)
    }

    /// Whether a position is in another file than the first.
    pub(crate) fn is_in_numbered_file(&self, position: u64) -> bool {
        self.split(position).0 > 0
    }

    /// Number of files that exist.
    pub(crate) fn count(&self) -> usize {
        self.files.iter().filter(|written| written.file.get().is_some()).count()
    }

    /// Notes that a record refers to this range.
    pub(crate) fn use_range(&mut self, position: u64, bytes: u64) {
        let (number, offset) = self.split(position);
        let used_end = &mut self.files[number].used_end;
        *used_end = (*used_end).max(offset + bytes);
    }

    /// Notes that records refer only to these ranges.
    pub(crate) fn use_only(&mut self, ranges: &[Range<u64>]) {
        self.files.iter_mut().for_each(|written| written.used_end = 0);
        ranges.iter().for_each(|range| self.use_range(range.start, range.end - range.start));
    }

    pub(crate) fn sync_data(&self) -> Result<(), FormatError> {
        let existing = self.files.iter().filter_map(|written| Some((&written.path, written.file.get()?)));
        existing.into_iter().try_for_each(|(path, file)| file.sync_data().at("sync", path))
    }

    /// The reserved ranges that none of `live` touches, sorted.
    pub(crate) fn dead(&self, live: Vec<Range<u64>>) -> Vec<Range<u64>> {
        let mut by_file: Vec<Vec<Range<u64>>> = self.files.iter().map(|_| Vec::new()).collect();
        for range in live {
            by_file[self.split(range.start).0].push(range);
        }
        let dead = by_file.into_iter().zip(&self.files).enumerate().map(|(number, (live, written))| {
            let first = first_position(number);
            dead_ranges(live, first..first + written.reserved_end)
        });
        dead.flatten().collect()
    }

    /// Frees the whole pages of a range. No record may refer to it, now or later.
    pub(crate) fn free(&self, range: &Range<u64>) -> Result<(), FormatError> {
        let (number, offset) = self.split(range.start);
        let WrittenFile { path, file, .. } = &self.files[number];
        let Some(file) = file.get() else { return Ok(()) };
        punch_pages(file, offset..offset + (range.end - range.start)).at("free space in", path)
    }

    /// Punches holes into dead pages. Only called when no index refers to them anymore.
    pub(crate) fn give_back(&mut self, dead: &[Range<u64>]) -> Result<(), FormatError> {
        let is_new = |range: &&Range<u64>| {
            let at = self.freed.partition_point(|freed| freed.end < range.end);
            self.freed.get(at).is_none_or(|freed| freed.start > range.start)
        };
        dead.iter().filter(is_new).try_for_each(|range| self.free(range))?;
        self.freed = dead.to_vec();
        Ok(())
    }

    /// Cuts off reserved or half-written bytes after the last payload of each file, which on a full disk makes
    /// room for the footer. Removes files without payloads.
    pub(crate) fn trim(&self) -> Result<(), FormatError> {
        self.files.iter().try_for_each(WrittenFile::trim)
    }
}

impl WrittenFile {
    /// The file, which the first call creates.
    fn open(&self) -> Result<&File, FormatError> {
        if self.file.get().is_none() {
            // No other caller can have set it: creating the file would have failed.
            let _ = self.file.set(create_new(&self.path)?);
        }
        Ok(self.file.get().expect("it was set"))
    }

    fn trim(&self) -> Result<(), FormatError> {
        let Some(file) = self.file.get() else { return Ok(()) };
        if self.used_end == 0 {
            return fs::remove_file(&self.path).at("remove", &self.path);
        }
        let bytes = file.metadata().at("measure", &self.path)?.len();
        if bytes > self.used_end {
            file.set_len(self.used_end).at("cut", &self.path)?;
        }
        Ok(())
    }
}

/// Frees the whole pages of a range.
fn punch_pages(file: &File, range: Range<u64>) -> std::io::Result<()> {
    let start = range.start.next_multiple_of(LARGE_PAYLOAD_ALIGN);
    let end = range.end / LARGE_PAYLOAD_ALIGN * LARGE_PAYLOAD_ALIGN;
    if start < end { punch_hole(file, start..end) } else { Ok(()) }
}

/// Frees a range's disk space. File systems without this function keep the bytes.
fn punch_hole(file: &File, range: Range<u64>) -> std::io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, range.start, range.end - range.start) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
        punched => Ok(punched?),
    }
}
