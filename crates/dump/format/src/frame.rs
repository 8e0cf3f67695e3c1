//! Writes frames and the file header before them.

use std::ops::Range;

use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};
use zerocopy::IntoBytes;

use crate::{
    Footer, FormatError, IndexRecord, RunInfo,
    layout::{
        CLOSE_MAGIC, EndMark, FILE_HEADER_BYTES, FOOTER_MAGIC, FRAME_HEADER_BYTES, FRAME_MAGIC, FileHeader,
        FrameHeader, INDEX_MAGIC, MAX_BODY_BYTES, MAX_INFO_BYTES, SPLIT_BODY_BYTES,
    },
};

/// Header, run information and padding for the start of an index.
pub(crate) fn encode_file_header(info: &RunInfo, flags: u64, version: u32) -> Result<Vec<u8>, FormatError> {
    let mut json = to_json(info);
    let info_bytes = json.len() as u64;
    json.resize(json.len().next_multiple_of(8), b' ');
    let too_large = || FormatError::InfoTooLarge { bytes: info_bytes, limit: MAX_INFO_BYTES };
    if info_bytes > MAX_INFO_BYTES {
        return Err(too_large());
    }
    let mut header = FileHeader {
        magic: INDEX_MAGIC,
        version,
        header_bytes: u32::try_from(FILE_HEADER_BYTES + json.len()).map_err(|_| too_large())?,
        run_id: info.run_id,
        info_bytes,
        flags,
        reserved: [0; 2],
        checksum: 0,
    };
    header.checksum = file_checksum(&header, &json);
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(&json);
    Ok(bytes)
}

/// Checksum of a file header and everything up to the first frame.
pub(crate) fn file_checksum(header: &FileHeader, padded_info: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(header.run_id);
    hash.update(&header.as_bytes()[..FILE_HEADER_BYTES - size_of_val(&header.checksum)]);
    hash.update(padded_info);
    hash.digest()
}

/// Appends frames to a buffer, so that one write stores all of them.
pub(crate) struct FrameEncoder {
    run_id: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A frame whose body is being filled.
struct OpenFrame {
    start: usize,
    count: u32,
}

impl FrameEncoder {
    pub(crate) fn new(run_id: u64) -> FrameEncoder {
        FrameEncoder { run_id, bytes: Vec::new() }
    }

    /// One frame for these records, or several if they exceed the maximum body. All but the last then
    /// account for no sequence numbers, so that a file truncated between them never claims missing records.
    pub(crate) fn records<'r>(
        &mut self,
        thread: u32,
        seq: &Range<u64>,
        records: impl IntoIterator<Item = &'r IndexRecord>,
    ) {
        let mut frame = self.open();
        for record in records {
            if self.bytes.len() - frame.start > SPLIT_BODY_BYTES {
                self.close(&frame, FRAME_MAGIC, thread, &(seq.start..seq.start));
                frame = self.open();
            }
            record.encode(&mut self.bytes);
            frame.count += 1;
        }
        self.close(&frame, FRAME_MAGIC, thread, seq);
    }

    /// The footer and the end mark. `at` is the buffer's offset in the file.
    pub(crate) fn footer(&mut self, footer: &Footer, at: u64) {
        let footer_at = at + self.bytes.len() as u64;
        let frame = self.open();
        self.bytes.extend_from_slice(&footer_json(footer));
        self.bytes.resize(self.bytes.len().next_multiple_of(8), b' ');
        self.close(&frame, FOOTER_MAGIC, 0, &(0..0));
        self.bytes.extend_from_slice(EndMark { footer_at, magic: CLOSE_MAGIC }.as_bytes());
    }

    fn open(&mut self) -> OpenFrame {
        let start = self.bytes.len();
        self.bytes.resize(start + FRAME_HEADER_BYTES, 0);
        OpenFrame { start, count: 0 }
    }

    fn close(&mut self, frame: &OpenFrame, magic: [u8; 4], thread: u32, seq: &Range<u64>) {
        let body_bytes = self.bytes.len() - frame.start - FRAME_HEADER_BYTES;
        debug_assert!(body_bytes as u64 <= MAX_BODY_BYTES && body_bytes.is_multiple_of(8));
        let header = FrameHeader {
            magic,
            body_bytes: u32::try_from(body_bytes).expect("a body is split long before 4 GiB"),
            thread,
            count: frame.count,
            first_seq: seq.start,
            next_seq: seq.end,
        };
        self.bytes[frame.start..frame.start + FRAME_HEADER_BYTES].copy_from_slice(header.as_bytes());
        let checksum = xxh3_64_with_seed(&self.bytes[frame.start..], self.run_id);
        self.bytes.extend_from_slice(&checksum.to_le_bytes());
    }
}

/// The footer as JSON. Lists that would make it larger than a body are omitted; counters never are.
fn footer_json(footer: &Footer) -> Vec<u8> {
    let json = to_json(footer);
    if json.len() as u64 <= MAX_BODY_BYTES - 8 {
        return json;
    }
    to_json(&Footer { in_flight: None, message: None, extra: serde_json::Map::new(), ..footer.clone() })
}

fn to_json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("maps have string keys and writing to memory does not fail")
}
