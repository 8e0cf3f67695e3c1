use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use tensortap_abi::DType;
use tensortap_values::Element;

use super::{DETAIL, ElementPacker, FORMAT};
use crate::InterchangeError;
use crate::error::AtPath;
use crate::storage::numel;

/// Maximum line length; a file without line ends must not become one string.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// The content of a text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextArray {
    /// Element type.
    pub dtype: DType,
    /// Size of each dimension.
    pub shape: Vec<u64>,
    /// The `#` lines, as key and value.
    pub notes: Vec<(String, String)>,
    /// The array's bytes.
    pub content: Vec<u8>,
}

/// Reads a file that [`ArrayWriter::txt`](crate::ArrayWriter::txt) wrote: the notes, and the elements of the
/// detail section.
pub fn read_txt(path: &Path) -> Result<TextArray, InterchangeError> {
    let damaged = |reason: String| InterchangeError::damaged(path, FORMAT, reason);
    let mut lines = Lines { path, file: BufReader::new(File::open(path).at("open", path)?), number: 0 };
    let mut notes = Vec::new();
    loop {
        let line = lines.next()?.ok_or_else(|| damaged(format!("it has no line `{DETAIL}`")))?;
        if let Some((key, value)) = line.strip_prefix("# ").and_then(|note| note.split_once(": ")) {
            notes.push((key.into(), value.into()));
        } else if line == DETAIL {
            break;
        }
    }
    let note = |key: &str| {
        let found = notes.iter().rev().find(|(name, _): &&(String, String)| name == key);
        found.map(|(_, value)| value.as_str()).ok_or_else(|| damaged(format!("it has no line `# {key}: `")))
    };
    let dtype = DType::parse(note("dtype")?).ok_or_else(|| damaged("its dtype is not valid".into()))?;
    let shape: Vec<u64> =
        serde_json::from_str(note("shape")?).map_err(|_| damaged("its shape is not valid".into()))?;
    let mut packer = ElementPacker::new(dtype);
    while let Some(line) = lines.next()? {
        let element = Element::parse(dtype, &line);
        packer.push(element.map_err(|error| damaged(format!("line {}: {error}", lines.number)))?.bits);
    }
    let (found, expected) = (packer.count(), numel(&shape).unwrap_or(u64::MAX));
    if found != expected {
        return Err(damaged(format!("it has {found} elements instead of {expected}")));
    }
    Ok(TextArray { dtype, shape, notes, content: packer.finish() })
}

struct Lines<'a> {
    path: &'a Path,
    file: BufReader<File>,
    number: u64,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<String>, InterchangeError> {
        use std::io::Read;
        let mut line = String::new();
        let read = (&mut self.file).take(MAX_LINE_BYTES).read_line(&mut line).at("read", self.path)?;
        self.number += 1;
        if line.ends_with('\n') {
            line.pop();
        } else if read as u64 == MAX_LINE_BYTES {
            let reason = format!("line {} is longer than {MAX_LINE_BYTES} bytes", self.number);
            return Err(InterchangeError::damaged(self.path, FORMAT, reason));
        }
        Ok((read > 0).then_some(line))
    }
}
