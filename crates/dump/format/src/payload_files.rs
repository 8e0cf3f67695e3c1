//! The payload files of a dump: their names, and which of them a position is in.
//!
//! Most dumps have one payload file. In a segmented dump, several threads write up to 64 files at once, because
//! a lock of the file system limits how fast one file can be written. A position in a segmented dump contains
//! the number of the file in the bits from 44 on, and the offset in this file in the bits before.

use std::{
    fs::File,
    io::{self, ErrorKind},
    path::PathBuf,
    sync::OnceLock,
};

use crate::{FormatError, error::AtPath, index::open_beside};

/// Maximum number of payload files of a dump.
pub const MAX_PAYLOAD_FILES: usize = 64;
/// Bytes of positions that belong to one file of a segmented dump.
pub(crate) const FILE_BYTES: u64 = 1 << 44;

/// The number of the payload file of a position in a segmented dump, and the offset in that file.
///
/// ```
/// use tensortap_format::split_position;
/// assert_eq!(split_position(4096), (0, 4096));
/// assert_eq!(split_position((3 << 44) + 4096), (3, 4096));
/// ```
#[must_use]
pub const fn split_position(position: u64) -> (usize, u64) {
    ((position / FILE_BYTES) as usize, position % FILE_BYTES)
}

/// The position of the first byte of a payload file.
pub(crate) const fn first_position(number: usize) -> u64 {
    number as u64 * FILE_BYTES
}

/// Name of a payload file by its number. `first` is the name of file 0.
///
/// ```
/// use tensortap_format::payload_file_name;
/// assert_eq!(payload_file_name("tensor_dump.bin", 0), "tensor_dump.bin");
/// assert_eq!(payload_file_name("tensor_dump.bin", 2), "tensor_dump.2.bin");
/// ```
#[must_use]
pub fn payload_file_name(first: &str, number: usize) -> String {
    match (number, first.rsplit_once('.')) {
        (0, _) => first.to_owned(),
        (_, Some((stem, extension))) => format!("{stem}.{number}.{extension}"),
        (_, None) => format!("{first}.{number}"),
    }
}

/// Lengths of the payload files, which limit the payloads that can be read.
pub(crate) enum PayloadLimits {
    /// Not known, or still growing.
    Unlimited,
    /// The only file.
    OneFile(u64),
    /// Every file of a segmented dump, by number.
    Segmented(Vec<u64>),
}

impl PayloadLimits {
    /// The lengths that `length` returns for each file.
    pub(crate) fn of(
        is_segmented: bool,
        mut length: impl FnMut(usize) -> Result<u64, FormatError>,
    ) -> Result<PayloadLimits, FormatError> {
        if !is_segmented {
            return Ok(PayloadLimits::OneFile(length(0)?));
        }
        Ok(PayloadLimits::Segmented((0..MAX_PAYLOAD_FILES).map(length).collect::<Result<_, _>>()?))
    }

    /// Whether the file ends before this payload does.
    pub(crate) fn cut(&self, position: u64, bytes: u64) -> bool {
        let (offset, length) = match self {
            PayloadLimits::Unlimited => return false,
            PayloadLimits::OneFile(length) => (position, Some(length)),
            PayloadLimits::Segmented(lengths) => {
                let (number, offset) = split_position(position);
                (offset, lengths.get(number))
            }
        };
        bytes > 0 && length.is_none_or(|length| offset.saturating_add(bytes) > *length)
    }
}

/// The payload files of a dump that is read. Each is opened when it is needed.
pub(crate) struct PayloadFiles {
    folder: PathBuf,
    first_name: String,
    is_segmented: bool,
    files: Vec<OnceLock<File>>,
}

impl PayloadFiles {
    pub(crate) fn new(folder: PathBuf, first_name: String, is_segmented: bool) -> PayloadFiles {
        let count = if is_segmented { MAX_PAYLOAD_FILES } else { 1 };
        PayloadFiles {
            folder,
            first_name,
            is_segmented,
            files: (0..count).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(crate) fn is_segmented(&self) -> bool {
        self.is_segmented
    }

    /// Number of the file of a position, and the offset in it.
    pub(crate) fn place(&self, position: u64) -> (usize, u64) {
        if self.is_segmented { split_position(position) } else { (0, position) }
    }

    pub(crate) fn path(&self, number: usize) -> PathBuf {
        self.folder.join(payload_file_name(&self.first_name, number))
    }

    pub(crate) fn file(&self, number: usize) -> Result<&File, FormatError> {
        let path = self.path(number);
        // A number that no writer uses has no file.
        let slot = self.files.get(number).ok_or_else(|| io::Error::from(ErrorKind::NotFound));
        let slot = slot.at("open", &path)?;
        if let Some(file) = slot.get() {
            return Ok(file);
        }
        let file = open_beside(&path)?;
        Ok(slot.get_or_init(|| file))
    }

    /// Length of a file at this moment.
    pub(crate) fn length(&self, number: usize) -> Result<u64, FormatError> {
        Ok(self.file(number)?.metadata().at("measure", &self.path(number))?.len())
    }

    /// Length of each file; `None` if it does not exist.
    pub(crate) fn lengths(&self) -> Result<Vec<Option<u64>>, FormatError> {
        let length = |number| match self.length(number) {
            Ok(length) => Ok(Some(length)),
            Err(FormatError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        (0..self.files.len()).map(length).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_cut_if_its_own_file_is_too_short() {
        let limits =
            PayloadLimits::of(true, |number| Ok([100, 50].get(number).copied().unwrap_or(0))).unwrap();
        for (position, bytes, cut) in [
            (0, 100, false),
            (1, 100, true),
            (FILE_BYTES, 50, false),
            (FILE_BYTES + 1, 50, true),
            (2 * FILE_BYTES, 1, true),
            (MAX_PAYLOAD_FILES as u64 * FILE_BYTES, 1, true),
            (u64::MAX, 0, false),
            (u64::MAX, u64::MAX, true),
        ] {
            assert_eq!(limits.cut(position, bytes), cut, "{position:#x}, {bytes}");
        }
        let one = PayloadLimits::of(false, |_| Ok(FILE_BYTES + 9)).unwrap();
        assert!(!one.cut(FILE_BYTES, 9) && one.cut(FILE_BYTES, 10), "one file has no segments");
        assert!(!PayloadLimits::Unlimited.cut(u64::MAX, u64::MAX));
    }

    #[test]
    fn numbered_names_keep_the_extension() {
        assert_eq!(payload_file_name("a.b.bin", 63), "a.b.63.bin");
        assert_eq!(payload_file_name("payloads", 1), "payloads.1");
    }
}
