//! Reads elements at a constant stride. It reads their bytes, and the bytes between close neighbors. A complex
//! number is drawn as its magnitude, and a difference of complex numbers as the magnitude of their difference.

use std::ops::Range;

use tensortap::DType;
use tensortap::values::{Value, decode_block, element_bits};

use super::source::{PictureInput, Source};
use crate::QueryError;

/// Elements at most this many bytes apart are read together with the bytes between them.
pub(super) const GAP_BYTES: u64 = 512;
/// Bytes to read ahead if lines follow each other closely.
const AHEAD_BYTES: u64 = 1 << 16;
/// Elements returned at a time. With the bytes between them, at most 2 MiB of a tensor.
pub(super) const LINE: usize = 4096;

/// Reads elements of a tensor or of the difference of two.
pub(super) struct LineReader<'s> {
    left: Window<'s>,
    right: Option<Window<'s>>,
    stored: u64,
    values: Vec<f64>,
    other: Vec<f64>,
}

impl<'s> LineReader<'s> {
    /// `dense`: lines follow each other closely, so that reading ahead pays off.
    pub fn new(subject: PictureInput<'s>, dense: bool) -> LineReader<'s> {
        let window = |source| Window {
            source,
            bytes: Vec::new(),
            at: 0,
            ahead: if dense { AHEAD_BYTES } else { 0 },
            read: 0,
        };
        LineReader {
            left: window(subject.of),
            right: subject.minus.map(window),
            stored: subject.stored(),
            values: Vec::new(),
            other: Vec::new(),
        }
    }

    /// Reads `count` elements (at most [`LINE`]) from position `first`, `stride` apart. Returns their values
    /// and the range of those that are stored; the others are meaningless.
    pub fn read(
        &mut self,
        first: i64,
        stride: i64,
        count: usize,
    ) -> Result<(&[f64], Range<usize>), QueryError> {
        let count = count.min(LINE);
        let there = stored_part(first, stride, count, self.stored);
        self.values.clear();
        self.values.resize(count, 0.0);
        if there.is_empty() {
            return Ok((&self.values, there));
        }
        // Read from the lowest position; reversed below.
        let last = if stride < 0 { there.end - 1 } else { there.start };
        let lowest = at(first, stride, last);
        let apart = stride.unsigned_abs();
        let into = &mut self.values[there.clone()];
        match &mut self.right {
            None => self.left.numbers(lowest, apart, into)?,
            Some(right) => {
                self.other.clear();
                self.other.resize(into.len(), 0.0);
                let dtypes = (self.left.source.dtype, right.source.dtype);
                if dtypes.0.is_complex() && dtypes.1.is_complex() {
                    subtract_complex(&mut self.left, right, lowest, apart, into)?;
                } else if is_wide(dtypes.0) && is_wide(dtypes.1) {
                    subtract_exactly(&mut self.left, right, lowest, apart, into)?;
                } else {
                    self.left.numbers(lowest, apart, into)?;
                    right.numbers(lowest, apart, &mut self.other)?;
                    into.iter_mut().zip(&self.other).for_each(|(value, other)| *value = less(*value, *other));
                }
            }
        }
        if stride < 0 {
            into.reverse();
        }
        Ok((&self.values, there))
    }

    /// Number of bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.left.read + self.right.as_ref().map_or(0, |right| right.read)
    }

    /// The bits of an element of the first tensor; `None` if it is not stored.
    pub fn bits(&mut self, position: u64) -> Result<Option<u128>, QueryError> {
        if position >= self.stored { Ok(None) } else { self.left.bits(position).map(Some) }
    }
}

/// Integers that f64 cannot represent exactly.
fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::Int64 | DType::UInt64)
}

/// The difference of two numbers; 0 for equal infinities and for two NaNs.
fn less(value: f64, other: f64) -> f64 {
    if value == other || (value.is_nan() && other.is_nan()) { 0.0 } else { value - other }
}

#[expect(clippy::cast_precision_loss, reason = "the difference is exact, and shown to some digits")]
fn subtract_exactly(
    left: &mut Window<'_>,
    right: &mut Window<'_>,
    lowest: u64,
    apart: u64,
    into: &mut [f64],
) -> Result<(), QueryError> {
    let whole = |window: &mut Window<'_>, position| {
        let bits = window.bits(position)?;
        Ok::<i128, QueryError>(match Value::decode(window.source.dtype, bits) {
            Value::Int(value) => value.into(),
            Value::UInt(value) => value.into(),
            Value::Float(_) | Value::Bool(_) | Value::Complex(..) => 0,
        })
    };
    left.load_line(lowest, apart, into.len())?;
    right.load_line(lowest, apart, into.len())?;
    let mut position = lowest;
    for value in into {
        *value = (whole(left, position)? - whole(right, position)?) as f64;
        position += apart;
    }
    Ok(())
}

/// Magnitudes of differences. Equal parts differ by 0, also if they are infinite or NaN.
fn subtract_complex(
    left: &mut Window<'_>,
    right: &mut Window<'_>,
    lowest: u64,
    apart: u64,
    into: &mut [f64],
) -> Result<(), QueryError> {
    left.load_line(lowest, apart, into.len())?;
    right.load_line(lowest, apart, into.len())?;
    let mut position = lowest;
    for value in into {
        let (ours, theirs) = (left.value(position)?, right.value(position)?);
        *value = match (ours, theirs) {
            (Value::Complex(a, b), Value::Complex(c, d)) => less(a, c).hypot(less(b, d)),
            (ours, theirs) => less(ours.to_f64(), theirs.to_f64()),
        };
        position += apart;
    }
    Ok(())
}

/// A value as it is drawn.
fn drawn(value: Value) -> f64 {
    match value {
        Value::Complex(real, imaginary) => real.hypot(imaginary),
        other => other.to_f64(),
    }
}

/// The range of elements of a line before position `stored`.
fn stored_part(first: i64, stride: i64, count: usize, stored: u64) -> Range<usize> {
    let is_there = |place: usize| at(first, stride, place) < stored;
    if stride >= 0 {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_there(middle) { low = middle + 1 } else { high = middle }
        }
        0..low
    } else {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_there(middle) { high = middle } else { low = middle + 1 }
        }
        low..count
    }
}

/// The position of an element of a line. It is outside the tensor only for lines without elements, which are
/// never read.
fn at(first: i64, stride: i64, place: usize) -> u64 {
    let place = i64::try_from(place).unwrap_or(i64::MAX);
    u64::try_from(first.saturating_add(stride.saturating_mul(place))).unwrap_or(u64::MAX)
}

/// A window of a tensor's bytes.
struct Window<'s> {
    source: &'s Source<'s>,
    bytes: Vec<u8>,
    /// Offset of the window in the content. Elements are not split across windows.
    at: u64,
    ahead: u64,
    /// Number of bytes read so far.
    read: u64,
}

impl Window<'_> {
    fn numbers(&mut self, lowest: u64, apart: u64, into: &mut [f64]) -> Result<(), QueryError> {
        if apart == 1 {
            return self.neighbors(lowest, into);
        }
        self.load_line(lowest, apart, into.len())?;
        let mut position = lowest;
        for value in into {
            *value = drawn(self.value(position)?);
            position += apart;
        }
        Ok(())
    }

    /// Reads a whole line if its elements are close together. Otherwise each element is read separately.
    fn load_line(&mut self, lowest: u64, apart: u64, count: usize) -> Result<(), QueryError> {
        let close = apart.saturating_mul(u64::from(self.source.dtype.bits())) / 8 <= GAP_BYTES;
        if close && count > 0 {
            self.load(lowest, apart * (count as u64 - 1) + 1, self.ahead)
        } else {
            Ok(())
        }
    }

    fn neighbors(&mut self, lowest: u64, into: &mut [f64]) -> Result<(), QueryError> {
        self.load(lowest, into.len() as u64, self.ahead)?;
        let dtype = self.source.dtype;
        let (byte, inside) = self.place(lowest);
        let bytes = self.bytes.get(byte..).unwrap_or_default();
        if inside == 0 && !dtype.is_complex() {
            decode_block(dtype, bytes, into);
            return Ok(());
        }
        // The first element is the upper half of a byte, or elements have two parts.
        for (place, value) in into.iter_mut().enumerate() {
            *value = element_bits(dtype, bytes, inside + place)
                .map_or(0.0, |bits| drawn(Value::decode(dtype, bits)));
        }
        Ok(())
    }

    fn value(&mut self, position: u64) -> Result<Value, QueryError> {
        Ok(Value::decode(self.source.dtype, self.bits(position)?))
    }

    fn bits(&mut self, position: u64) -> Result<u128, QueryError> {
        self.load(position, 1, 0)?;
        let (byte, inside) = self.place(position);
        let bytes = self.bytes.get(byte..).unwrap_or_default();
        Ok(element_bits(self.source.dtype, bytes, inside).unwrap_or(0))
    }

    /// Byte of an element in the window, and its index within that byte.
    fn place(&self, position: u64) -> (usize, usize) {
        let width = u64::from(self.source.dtype.bits());
        let inside = if width < 8 { position % (8 / width) } else { 0 };
        let byte = position.saturating_mul(width) / 8 - self.at;
        (usize::try_from(byte).unwrap_or(usize::MAX), usize::from(inside != 0))
    }

    /// Ensures that `count` stored elements from `lowest` are in the window. If it has to read, it reads at
    /// least `ahead` bytes.
    fn load(&mut self, lowest: u64, count: u64, ahead: u64) -> Result<(), QueryError> {
        let width = u64::from(self.source.dtype.bits());
        let (start, end) = (lowest * width / 8, ((lowest + count) * width).div_ceil(8));
        if self.at <= start && end <= self.at + self.bytes.len() as u64 {
            return Ok(());
        }
        let held = (self.source.stored * width).div_ceil(8);
        let length = (end - start).max(ahead).min(held - start);
        self.bytes.resize(usize::try_from(length).unwrap_or(0), 0);
        self.at = start;
        self.read += length;
        let read = self.source.read(start, &mut self.bytes);
        if read.is_err() {
            self.bytes.clear();
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_part_of_a_line_is_a_prefix_or_suffix() {
        for (first, stride, count, stored, part) in [
            (0, 1, 5, 3, 0..3),
            (0, 1, 5, 9, 0..5),
            (4, 1, 5, 3, 0..0),
            (8, -2, 5, 5, 2..5),
            (4, -1, 5, 0, 5..5),
            (0, 3, 4, 7, 0..3),
            (2, 0, 3, 3, 0..3),
        ] {
            assert_eq!(stored_part(first, stride, count, stored), part, "{first} {stride} {count} {stored}");
        }
    }
}
