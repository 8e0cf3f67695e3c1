//! Reads and writes comma-separated values.

use std::fs;
use std::io::Write;
use std::path::Path;

use tensortap_abi::DType;
use tensortap_values::Element;

use crate::error::AtPath;
use crate::storage::numel;
use crate::txt::ElementPacker;
use crate::writer::each_element;
use crate::{ArrayHead, Content, InterchangeError};

const FORMAT: &str = "csv";

pub(crate) fn write(
    out: &mut dyn Write,
    path: &Path,
    head: &ArrayHead<'_>,
    content: &dyn Content,
    buffer: &mut Vec<u8>,
) -> Result<(), InterchangeError> {
    let row = head.shape.last().copied().unwrap_or(1);
    let mut column = 0;
    each_element(head, content, buffer, |bits| {
        column += 1;
        let end = if column == row { "\n" } else { "," };
        column %= row;
        write!(out, "{}{end}", Element { dtype: head.dtype, bits }).at("write", path)
    })
}

/// Reads a file that [`ArrayWriter::csv`](crate::ArrayWriter::csv) wrote. The file does not contain dtype and
/// shape. Returns the array's content.
pub fn read_csv(path: &Path, dtype: DType, shape: &[u64]) -> Result<Vec<u8>, InterchangeError> {
    let damaged = |reason: String| InterchangeError::damaged(path, FORMAT, reason);
    let text = fs::read_to_string(path).at("read", path)?;
    let expected = numel(shape).unwrap_or(u64::MAX);
    let mut packer = ElementPacker::new(dtype);
    for (number, line) in text.lines().enumerate() {
        for field in line.split(',') {
            let element = Element::parse(dtype, field);
            packer.push(element.map_err(|error| damaged(format!("line {}: {error}", number + 1)))?.bits);
        }
    }
    let found = packer.count();
    if found == expected {
        Ok(packer.finish())
    } else {
        Err(damaged(format!("it has {found} elements instead of {expected}")))
    }
}
