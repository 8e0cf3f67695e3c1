//! The overview: the first and last elements of the first and last rows.

use tensortap_abi::DType;
use tensortap_values::{Element, element_bits};

use crate::writer::{check_size, read};
use crate::{ArrayHead, Content, InterchangeError};

/// Number of elements shown at each end of a row, and of rows shown at each end.
const EDGE: u64 = 4;
/// Up to this many are shown without a gap.
const ALL: u64 = 2 * EDGE;

/// One line for each row of the last dimension, with the row's coordinates.
pub(super) fn rows(head: &ArrayHead<'_>, content: &dyn Content) -> Result<Vec<String>, InterchangeError> {
    check_size(head, content)?;
    let (row_elements, leading) = match head.shape.split_last() {
        Some((last, leading)) => (*last, leading),
        None => (1, head.shape),
    };
    let rows = crate::storage::numel(leading).unwrap_or(0);
    if rows == 0 || row_elements == 0 {
        return Ok(vec!["(no elements)".into()]);
    }
    let mut lines = Vec::new();
    for row in edges(rows) {
        let Some(row) = row else {
            lines.push("...".into());
            continue;
        };
        let mut cells = Vec::new();
        for column in edges(row_elements) {
            cells.push(match column {
                Some(column) => element(head, content, row * row_elements + column)?,
                None => "...".into(),
            });
        }
        lines.push(format!("{} {}", label(leading, row), cells.join(" ")));
    }
    Ok(lines)
}

/// Positions at both ends; `None` marks the gap between them.
fn edges(count: u64) -> Vec<Option<u64>> {
    if count <= ALL {
        return (0..count).map(Some).collect();
    }
    (0..EDGE).map(Some).chain([None]).chain((count - EDGE..count).map(Some)).collect()
}

/// Coordinates of a row: `[1, 0, :]`.
fn label(leading: &[u64], row: u64) -> String {
    let mut places = vec![":".to_string()];
    let mut rest = row;
    for size in leading.iter().rev() {
        places.push((rest % size).to_string());
        rest /= size;
    }
    places.reverse();
    format!("[{}]", places.join(", "))
}

fn element(head: &ArrayHead<'_>, content: &dyn Content, place: u64) -> Result<String, InterchangeError> {
    let dtype = head.dtype;
    let (offset, within) = match dtype.bits() {
        4 => (place / 2, usize::from(place % 2 == 1)),
        bits => (place * u64::from(bits / 8), 0),
    };
    let mut bytes = [0; 16];
    let bytes = &mut bytes[..width(dtype)];
    read(head, content, offset, bytes)?;
    let bits = element_bits(dtype, bytes, within).unwrap_or(0);
    Ok(Element { dtype, bits }.to_string())
}

fn width(dtype: DType) -> usize {
    dtype.bits().div_ceil(8) as usize
}
