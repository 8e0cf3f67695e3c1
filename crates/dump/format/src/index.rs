//! Reads an index frame by frame, with bounded memory and without trusting it.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags};
use tensortap_abi::RecordKind;
use xxhash_rust::xxh3::xxh3_64_with_seed;
use zerocopy::FromBytes;

use crate::{
    Footer, FormatError, IndexRecord, MANIFEST_FILE, RunInfo,
    error::AtPath,
    frame::file_checksum,
    layout::{
        CHECKSUM_BYTES, CLOSE_MAGIC, END_MARK_BYTES, EndMark, FILE_HEADER_BYTES, FLAG_WINDOWED, FOOTER_MAGIC,
        FRAME_HEADER_BYTES, FRAME_MAGIC, FileHeader, FrameHeader, INDEX_MAGIC, INDEX_VERSION, MAX_BODY_BYTES,
        MAX_INFO_BYTES, MIN_RECORD_BYTES, OLDEST_INDEX_VERSION, SEGMENTED_INDEX_VERSION,
    },
    manifest::{SCHEMA_VERSION, SEGMENTED_SCHEMA_VERSION},
    names::is_plain_file_name,
};

/// Size of the read-ahead buffer for a sequential walk.
const READ_AHEAD_BYTES: usize = 1 << 18;

/// An index with a valid header.
pub(crate) struct Index {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) header: FileHeader,
    pub(crate) info: RunInfo,
    /// Length at opening. Bytes that a writer appends later are not read.
    pub(crate) bytes: u64,
}

impl Index {
    pub(crate) fn open(path: &Path) -> Result<Index, FormatError> {
        Index::from_file(open_regular(path)?, path)
    }

    pub(crate) fn from_file(file: File, path: &Path) -> Result<Index, FormatError> {
        let bytes = file.metadata().at("open", path)?.len();
        // Read twice before it counts as damaged: a writer may replace it meanwhile.
        let (header, padded) = match read_checked_header(&file, path, bytes)? {
            Some(checked) => checked,
            None => read_checked_header(&file, path, bytes)?
                .ok_or_else(|| damaged(path, "its checksum does not match"))?,
        };
        let info_bytes = usize::try_from(header.info_bytes).unwrap_or(usize::MAX);
        let json =
            padded.get(..info_bytes).ok_or_else(|| damaged(path, "the run information is truncated"))?;
        let mut info: RunInfo = serde_json::from_slice(json)
            .map_err(|e| damaged(path, &format!("the run information cannot be parsed ({e})")))?;
        // The header's run id seeds the checksums, so it takes precedence over the JSON's.
        info.run_id = header.run_id;
        if !is_plain_file_name(&info.bin_file) {
            return Err(FormatError::BadBinFile { name: info.bin_file });
        }
        Ok(Index { file, path: path.to_owned(), header, info, bytes })
    }

    /// Offset of the first frame.
    pub(crate) fn first_frame(&self) -> u64 {
        u64::from(self.header.header_bytes)
    }

    /// The version of the JSON files that belong to it.
    pub(crate) fn schema_version(&self) -> u32 {
        match self.header.version {
            SEGMENTED_INDEX_VERSION.. => SEGMENTED_SCHEMA_VERSION,
            INDEX_VERSION => SCHEMA_VERSION,
            _ => SCHEMA_VERSION - 1,
        }
    }

    /// Whether there may be several payload files.
    pub(crate) fn is_segmented(&self) -> bool {
        self.header.version >= SEGMENTED_INDEX_VERSION
    }

    /// Whether records of older tasks were removed.
    pub(crate) fn is_windowed(&self) -> bool {
        self.header.flags & FLAG_WINDOWED != 0
    }

    /// Walks the frames from the first one.
    pub(crate) fn frames(&self) -> Frames<'_> {
        Frames { index: self, at: self.first_frame(), window: ReadAhead::new() }
    }

    /// The footer of a closed index, even if frames before it are damaged.
    pub(crate) fn footer_at_end(&self) -> Option<Footer> {
        let mark_at = self.bytes.checked_sub(END_MARK_BYTES as u64)?;
        let mut mark = [0; END_MARK_BYTES];
        self.file.read_exact_at(&mut mark, mark_at).ok()?;
        let mark = EndMark::read_from_bytes(&mark).ok()?;
        if mark.magic != CLOSE_MAGIC || mark.footer_at < self.first_frame() {
            return None;
        }
        let mut frames = Frames { index: self, at: mark.footer_at, window: ReadAhead::new() };
        match frames.next().ok()? {
            IndexPart::Footer { footer, .. } => Some(*footer),
            IndexPart::Records(_) | IndexPart::Stop(_) => None,
        }
    }

    /// Calls `each` for every record of some kinds up to `end`, in order, with its thread. For frames that
    /// this process has already read or written: their checksums are checked again, and a mismatch means
    /// that the file has changed. Records of other kinds are skipped by their length. The records
    /// themselves are not checked again.
    pub(crate) fn for_each<E: From<FormatError>>(
        &self,
        kinds: &[RecordKind],
        end: u64,
        mut each: impl FnMut(u32, &IndexRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut frames = self.frames();
        while frames.at < end {
            let at = frames.at;
            let IndexPart::Records(frame) = frames.next()? else {
                return Err(self.changed(at, "a frame is no longer valid").into());
            };
            let thread = frame.header.thread;
            let ended = frame.for_each_of(kinds, |record| each(thread, record).map_err(WalkError::Caller));
            ended.map_err(|stopped| match stopped {
                WalkError::Caller(error) => error,
                WalkError::InvalidRecord(reason) => self.changed(at, reason).into(),
            })?;
        }
        Ok(())
    }

    pub(crate) fn changed(&self, offset: u64, reason: &str) -> FormatError {
        FormatError::IndexChanged { path: self.path.clone(), offset, reason: reason.to_owned() }
    }
}

/// Why a walk over records stopped.
enum WalkError<E> {
    Caller(E),
    InvalidRecord(&'static str),
}

impl<E> From<InvalidRecord> for WalkError<E> {
    fn from(senseless: InvalidRecord) -> Self {
        WalkError::InvalidRecord(senseless.0)
    }
}

/// Opens a file of a dump for reading. Rejects a pipe, because opening it would wait for its other end.
pub(crate) fn open_regular(path: &Path) -> Result<File, FormatError> {
    if !std::fs::metadata(path).at("open", path)?.is_file() {
        return Err(not_a_dump(path, "it is not a regular file"));
    }
    File::open(path).at("open", path)
}

/// Opens a file whose name comes from the dump. Rejects a link: it could point anywhere, and the dump is
/// not trusted.
pub(crate) fn open_beside(path: &Path) -> Result<File, FormatError> {
    if std::fs::symlink_metadata(path).at("open", path)?.is_symlink() {
        return Err(not_a_dump(path, "it is a symbolic link, which could point outside the dump's folder"));
    }
    // The file may have been replaced between the check and the opening.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file =
        File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from).at("open", path)?);
    if file.metadata().at("open", path)?.is_file() {
        Ok(file)
    } else {
        Err(not_a_dump(path, "it is not a regular file"))
    }
}

fn read_header(file: &File, path: &Path, bytes: u64) -> Result<FileHeader, FormatError> {
    if bytes < FILE_HEADER_BYTES as u64 {
        return Err(not_a_dump(path, &format!("it has {bytes} bytes, but a header has {FILE_HEADER_BYTES}")));
    }
    let mut header = [0; FILE_HEADER_BYTES];
    file.read_exact_at(&mut header, 0).at("read", path)?;
    let header = FileHeader::read_from_bytes(&header).expect("the array has the header's size");
    if header.magic != INDEX_MAGIC {
        return Err(not_a_dump(path, "it does not start with TAPINDEX"));
    }
    if !(OLDEST_INDEX_VERSION..=SEGMENTED_INDEX_VERSION).contains(&header.version) {
        let (path, found) = (path.to_owned(), header.version);
        return Err(FormatError::Version { path, found, known: SEGMENTED_INDEX_VERSION });
    }
    let header_bytes = u64::from(header.header_bytes);
    let in_range = header_bytes >= FILE_HEADER_BYTES as u64 && header_bytes <= bytes.min(64 + MAX_INFO_BYTES);
    if !in_range || !header_bytes.is_multiple_of(8) {
        return Err(damaged(path, "its length is out of range"));
    }
    Ok(header)
}

/// Header and padded run information; `None` if their checksum does not match.
fn read_checked_header(
    file: &File,
    path: &Path,
    bytes: u64,
) -> Result<Option<(FileHeader, Vec<u8>)>, FormatError> {
    let header = read_header(file, path, bytes)?;
    let padded = read_padded_info(file, path, &header)?;
    Ok((file_checksum(&header, &padded) == header.checksum).then_some((header, padded)))
}

fn read_padded_info(file: &File, path: &Path, header: &FileHeader) -> Result<Vec<u8>, FormatError> {
    let bytes = usize::try_from(header.header_bytes).unwrap_or(0).saturating_sub(FILE_HEADER_BYTES);
    let mut padded = vec![0; bytes];
    file.read_exact_at(&mut padded, FILE_HEADER_BYTES as u64).at("read", path)?;
    Ok(padded)
}

fn not_a_dump(path: &Path, reason: &str) -> FormatError {
    FormatError::NotADump { path: path.to_owned(), reason: reason.to_owned() }
}

/// If the manifest next to the index is complete, it is read instead. This is the error if it is not.
fn damaged(path: &Path, reason: &str) -> FormatError {
    let remedy = if path.with_file_name(MANIFEST_FILE).is_file() {
        format!(
            "and {MANIFEST_FILE} next to it cannot be read either; copy the dump again, or record it again"
        )
    } else {
        "the dump cannot be opened; copy it again, or record it again".to_owned()
    };
    FormatError::HeaderDamaged { path: path.to_owned(), reason: reason.to_owned(), remedy }
}

/// A buffer over a part of a file that moves forward.
pub(crate) struct ReadAhead {
    bytes: Vec<u8>,
    start: u64,
}

impl ReadAhead {
    pub(crate) fn new() -> ReadAhead {
        ReadAhead { bytes: Vec::new(), start: 0 }
    }

    /// `len` bytes at `at`, or fewer if the file ends or `limit` comes first.
    pub(crate) fn get(&mut self, file: &File, at: u64, len: usize, limit: u64) -> io::Result<&[u8]> {
        let available = usize::try_from(limit.saturating_sub(at)).unwrap_or(usize::MAX);
        let len = len.min(available);
        if !self.holds(at, len) {
            self.bytes.resize(len.max(READ_AHEAD_BYTES).min(available), 0);
            self.start = at;
            let read = read_up_to(file, &mut self.bytes, at)?;
            self.bytes.truncate(read);
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX).min(self.bytes.len());
        let to = from.saturating_add(len).min(self.bytes.len());
        Ok(&self.bytes[from..to])
    }

    fn holds(&self, at: u64, len: usize) -> bool {
        let end = self.start + self.bytes.len() as u64;
        at >= self.start && at.checked_add(len as u64).is_some_and(|wanted| wanted <= end)
    }
}

/// Fills `into` from offset `at` on. Returns the number of bytes before the end of the file.
pub(crate) fn read_up_to(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// A walk over the frames of an index.
pub(crate) struct Frames<'i> {
    index: &'i Index,
    /// Offset of the next frame.
    pub(crate) at: u64,
    window: ReadAhead,
}

/// The next part of an index.
pub(crate) enum IndexPart<'f> {
    Records(Frame<'f>),
    /// The footer; `loose_end` describes a problem after it.
    Footer {
        footer: Box<Footer>,
        loose_end: Option<&'static str>,
    },
    /// No further frame can be read.
    Stop(WalkEnd),
}

/// Why a walk ended without a footer.
pub(crate) enum WalkEnd {
    /// The file ends at a frame boundary.
    End,
    /// The file ends inside a frame: a write was cut off or is still in progress.
    Partial,
    /// The frame is damaged.
    Bad(String),
}

/// A frame with a valid checksum.
pub(crate) struct Frame<'f> {
    pub(crate) header: FrameHeader,
    /// Offset of the body in the file.
    pub(crate) body_at: u64,
    body: &'f [u8],
}

impl<'i> Frames<'i> {
    /// The next frame. After [`IndexPart::Records`] the walk has moved past it, otherwise it stays.
    pub(crate) fn next(&mut self) -> Result<IndexPart<'_>, FormatError> {
        let Index { file, path, bytes: limit, .. } = self.index;
        let at = self.at;
        let head = self.window.get(file, at, FRAME_HEADER_BYTES, *limit).at("read", path)?;
        if head.is_empty() {
            return Ok(IndexPart::Stop(WalkEnd::End));
        }
        let Ok(header) = FrameHeader::read_from_bytes(head) else {
            return Ok(IndexPart::Stop(WalkEnd::Partial));
        };
        if let Some(reason) = implausible(&header) {
            return Ok(IndexPart::Stop(WalkEnd::Bad(reason.to_owned())));
        }
        let body_bytes = usize::try_from(header.body_bytes).unwrap_or(usize::MAX);
        let whole = FRAME_HEADER_BYTES + body_bytes + CHECKSUM_BYTES;
        let frame = self.window.get(file, at, whole, *limit).at("read", path)?;
        if frame.len() < whole {
            return Ok(IndexPart::Stop(WalkEnd::Partial));
        }
        let (covered, checksum) = frame.split_at(whole - CHECKSUM_BYTES);
        if xxh3_64_with_seed(covered, self.index.header.run_id).to_le_bytes() != checksum {
            return Ok(IndexPart::Stop(WalkEnd::Bad("its checksum does not match".into())));
        }
        let body = &covered[FRAME_HEADER_BYTES..];
        if header.magic == FOOTER_MAGIC {
            return Ok(decode_footer(self.index, body, at, whole));
        }
        self.at += whole as u64;
        Ok(IndexPart::Records(Frame { header, body_at: at + FRAME_HEADER_BYTES as u64, body }))
    }
}

fn implausible(header: &FrameHeader) -> Option<&'static str> {
    let FrameHeader { magic, body_bytes, thread: _, count, first_seq, next_seq } = *header;
    if magic != FRAME_MAGIC && magic != FOOTER_MAGIC {
        return Some("no frame starts at this offset");
    }
    if u64::from(body_bytes) > MAX_BODY_BYTES || !body_bytes.is_multiple_of(8) {
        return Some("its length is out of range");
    }
    let least = u64::from(count) * MIN_RECORD_BYTES as u64;
    (least > u64::from(body_bytes) || next_seq < first_seq).then_some("its header contradicts itself")
}

fn decode_footer<'f>(index: &Index, body: &[u8], at: u64, whole: usize) -> IndexPart<'f> {
    let footer: Footer = match serde_json::from_slice(body) {
        Ok(footer) => footer,
        Err(e) => return IndexPart::Stop(WalkEnd::Bad(format!("the footer cannot be parsed ({e})"))),
    };
    let mark_at = at + whole as u64;
    let mut mark = [0; END_MARK_BYTES];
    let loose_end = match index.file.read_exact_at(&mut mark, mark_at) {
        Err(_) => Some("the end mark is missing"),
        Ok(()) if EndMark::read_from_bytes(&mark) != Ok(EndMark { footer_at: at, magic: CLOSE_MAGIC }) => {
            Some("the end mark is damaged")
        }
        Ok(()) if mark_at + (END_MARK_BYTES as u64) < index.bytes => Some("bytes follow the end mark"),
        Ok(()) => None,
    };
    IndexPart::Footer { footer: Box::new(footer), loose_end }
}

impl Frame<'_> {
    /// Calls `each` with every record and its file offset. Returns an error at the first invalid record.
    pub(crate) fn for_each<E: From<InvalidRecord>>(
        &self,
        each: impl FnMut(u64, &IndexRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        self.for_each_decoded(IndexRecord::decode_from, each)
    }

    /// As `for_each`, for records that are already checked.
    pub(crate) fn for_each_again<E: From<InvalidRecord>>(
        &self,
        each: impl FnMut(u64, &IndexRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        self.for_each_decoded(IndexRecord::decode_checked, each)
    }

    fn for_each_decoded<E: From<InvalidRecord>>(
        &self,
        decode: impl Fn(&mut IndexRecord, &[u8]) -> Result<usize, &'static str>,
        mut each: impl FnMut(u64, &IndexRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut record = IndexRecord::scratch();
        let mut place = 0;
        for _ in 0..self.header.count {
            let bytes = decode(&mut record, &self.body[place..]).map_err(InvalidRecord)?;
            each(self.body_at + place as u64, &record)?;
            place += bytes;
        }
        if place < self.body.len() {
            Err(InvalidRecord("bytes follow its last record").into())
        } else {
            Ok(())
        }
    }

    /// Calls `each` with every record of some kinds, for records that are already checked.
    fn for_each_of<E: From<InvalidRecord>>(
        &self,
        kinds: &[RecordKind],
        mut each: impl FnMut(&IndexRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        let wanted = kinds.iter().fold(0_u32, |bits, kind| bits | 1 << (*kind as u8));
        let mut record = IndexRecord::scratch();
        let mut rest = self.body;
        for _ in 0..self.header.count {
            let kind = rest.first().and_then(|tag| RecordKind::from_tag(*tag));
            let is_wanted = kind.is_none_or(|kind| wanted & 1 << (kind as u8) != 0);
            let passed_over = if is_wanted { None } else { IndexRecord::plain_bytes(rest) };
            let bytes = match passed_over {
                Some(bytes) => bytes,
                None => record.decode_checked(rest).map_err(InvalidRecord)?,
            };
            if is_wanted {
                each(&record)?;
            }
            rest = rest.get(bytes..).ok_or(InvalidRecord("it ends within a record"))?;
        }
        Ok(())
    }
}

/// Why a record is invalid.
pub(crate) struct InvalidRecord(pub(crate) &'static str);
