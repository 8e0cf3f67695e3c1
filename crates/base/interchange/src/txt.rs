//! An array as text: notes in `#` lines, an overview in rows, then every element on its own line.

mod overview;
mod read;

use std::io::Write;
use std::path::Path;

use tensortap_abi::DType;
use tensortap_values::Element;

pub use self::read::{TextArray, read_txt};
use crate::error::AtPath;
use crate::writer::each_element;
use crate::{ArrayHead, Content, InterchangeError};

const FORMAT: &str = "txt";
const DETAIL: &str = "Detail";

pub(crate) fn write(
    out: &mut dyn Write,
    path: &Path,
    head: &ArrayHead<'_>,
    notes: &[(&str, String)],
    content: &dyn Content,
    buffer: &mut Vec<u8>,
) -> Result<(), InterchangeError> {
    let mut line = |text: String| writeln!(out, "{text}").at("write", path);
    for (key, value) in notes {
        // Line ends in a note would end the comment.
        line(format!("# {key}: {}", value.replace(['\n', '\r'], " ")))?;
    }
    line(format!("# dtype: {}", head.dtype))?;
    line(format!("# shape: {:?}", head.shape))?;
    line("Overview".into())?;
    for row in overview::rows(head, content)? {
        line(row)?;
    }
    line(DETAIL.into())?;
    each_element(head, content, buffer, |bits| {
        writeln!(out, "{}", Element { dtype: head.dtype, bits }).at("write", path)
    })
}

/// Packs consecutive elements into bytes.
pub(crate) struct ElementPacker {
    dtype: DType,
    bytes: Vec<u8>,
    count: u64,
}

impl ElementPacker {
    pub(crate) fn new(dtype: DType) -> ElementPacker {
        ElementPacker { dtype, bytes: Vec::new(), count: 0 }
    }

    pub(crate) fn push(&mut self, bits: u128) {
        let word = bits.to_le_bytes();
        match (self.dtype.bits(), self.bytes.last_mut()) {
            (4, Some(last)) if self.count % 2 == 1 => *last |= word[0] << 4,
            (bits, _) => self.bytes.extend_from_slice(&word[..bits.div_ceil(8) as usize]),
        }
        self.count += 1;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
