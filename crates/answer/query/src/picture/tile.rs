//! A part of a tensor as a grid of cells of one or more elements.

use serde::{Serialize, Serializer};
use tensortap::DType;
use tensortap::values::Element;

use super::plane::{Plane, PlaneAxis};
use super::reader::{GAP_BYTES, LINE, LineReader};
use super::source::PictureInput;
use super::spread::step;
use super::{MOST_APART, MOST_ELEMENTS};
use crate::QueryError;
use crate::number::{json_optional_float, significant};
use crate::show::Slice;

/// Maximum cells along each side.
const MOST_CELLS: usize = 1024;
/// Maximum cells that are also written as text, if each is one element.
const MOST_TEXTS: u64 = 4096;
const CLOSE_BITS: u64 = 8 * GAP_BYTES;
/// Digits of a difference.
const DIGITS: usize = 6;

/// Maximum size of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Maximum rows.
    pub rows: usize,
    /// Maximum columns.
    pub columns: usize,
}

/// A picture of a part of a tensor.
#[derive(Debug, Serialize)]
pub struct Tile {
    /// Element type.
    pub dtype: &'static str,
    /// Shape of the whole tensor.
    pub shape: Vec<u64>,
    /// The drawn part in the syntax of `--slice`.
    pub slice: String,
    /// Whether it is a difference of two tensors.
    pub difference: bool,
    /// From top to bottom.
    pub rows: TileAxis,
    /// From left to right.
    pub columns: TileAxis,
    /// Elements of the part.
    pub elements: u64,
    /// Elements that were read; fewer if there are too many.
    pub looked_at: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Lowest finite value.
    #[serde(serialize_with = "json_optional_float")]
    pub min: Option<f64>,
    /// Highest finite value.
    #[serde(serialize_with = "json_optional_float")]
    pub max: Option<f64>,
    /// Elements that are NaN.
    pub nan: u64,
    /// Elements that are infinite.
    pub inf: u64,
    /// Elements that are not stored.
    pub missing: u64,
    /// The cells, row by row.
    pub cells: Cells,
}

/// One axis of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TileAxis {
    /// Axis of the tensor; null if the tensor has too few axes.
    pub axis: Option<usize>,
    /// Position of the first element on that axis.
    pub first: i64,
    /// Step from one element to the next.
    pub step: i64,
    /// Number of elements.
    pub count: u64,
    /// Elements per cell; the last cell may have fewer.
    pub per_cell: u64,
    /// Number of cells.
    pub cells: usize,
}

/// The content of the cells. Each list has one entry per cell. Lists without information are omitted.
#[derive(Debug, Default, Serialize)]
pub struct Cells {
    /// Mean of the finite values; null without any.
    #[serde(serialize_with = "short_floats")]
    pub mean: Vec<f64>,
    /// Lowest finite value, if cells have several elements.
    #[serde(serialize_with = "some_short_floats", skip_serializing_if = "Option::is_none")]
    pub min: Option<Vec<f64>>,
    /// Highest finite value, if cells have several elements.
    #[serde(serialize_with = "some_short_floats", skip_serializing_if = "Option::is_none")]
    pub max: Option<Vec<f64>>,
    /// Number of NaNs, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nan: Option<Vec<u64>>,
    /// Number of infinities, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inf: Option<Vec<u64>>,
    /// Number of elements that are not stored, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<u64>>,
    /// Every element as text, if cells have one element each and are few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Vec<String>>,
}

/// Accumulated content of a cell.
#[derive(Clone, Copy)]
struct Cell {
    finite: u64,
    sum: f64,
    min: f64,
    max: f64,
    nan: u64,
    inf: u64,
    missing: u64,
}

const EMPTY: Cell =
    Cell { finite: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY, nan: 0, inf: 0, missing: 0 };

impl Tile {
    /// Draws a slice of a tensor along the two given axes.
    ///
    /// # Errors
    /// The slice does not fit, or the content cannot be read.
    pub fn of(
        subject: PictureInput<'_>,
        slice: &Slice,
        axes: (Option<usize>, Option<usize>),
        frame: Frame,
    ) -> Result<Tile, QueryError> {
        Tile::of_plane(subject, &Plane::of(slice, &subject.of.shape, axes.0, axes.1)?, frame)
    }

    /// Draws only the first elements of the slice, one per cell.
    ///
    /// # Errors
    /// The slice does not fit, or the content cannot be read.
    pub fn corner(
        subject: PictureInput<'_>,
        slice: &Slice,
        axes: (Option<usize>, Option<usize>),
        frame: Frame,
    ) -> Result<Tile, QueryError> {
        let plane = Plane::of(slice, &subject.of.shape, axes.0, axes.1)?;
        Tile::of_plane(subject, &plane.corner(frame.rows, frame.columns), frame)
    }

    fn of_plane(subject: PictureInput<'_>, plane: &Plane, frame: Frame) -> Result<Tile, QueryError> {
        let (rows, columns) =
            (TileAxis::of(&plane.rows, frame.rows), TileAxis::of(&plane.columns, frame.columns));
        let (cells, looked_at, bytes_read) = Painter::new(subject, plane, rows, columns).paint()?;
        let total = cells.iter().fold(EMPTY, |total, cell| total.with(cell));
        let single = rows.per_cell == 1 && columns.per_cell == 1;
        let mut tile = Tile {
            dtype: subject.of.dtype.name(),
            shape: subject.of.shape.clone(),
            slice: plane.slice.clone(),
            difference: subject.minus.is_some(),
            rows,
            columns,
            elements: plane.numel(),
            looked_at,
            bytes_read,
            min: (total.finite > 0).then_some(total.min),
            max: (total.finite > 0).then_some(total.max),
            nan: total.nan,
            inf: total.inf,
            missing: total.missing,
            cells: Cells::of(&cells, &total, single),
        };
        if single && plane.numel() <= MOST_TEXTS {
            tile.cells.text = Some(tile.texts(subject, plane)?);
        }
        Ok(tile)
    }

    /// Every element as text.
    fn texts(&self, subject: PictureInput<'_>, plane: &Plane) -> Result<Vec<String>, QueryError> {
        let mut lines = LineReader::new(subject, true);
        let (across, down) = (plane.columns.dim, plane.rows.dim);
        let mut texts = Vec::new();
        for row in 0..down.count {
            for column in 0..across.count {
                let position = step(step(plane.first, down.stride, row), across.stride, column);
                let text = if subject.minus.is_some() {
                    let (values, there) = lines.read(position, 1, 1)?;
                    there.contains(&0).then(|| difference_text(values[0]))
                } else {
                    let bits = lines.bits(u64::try_from(position).unwrap_or(u64::MAX))?;
                    bits.map(|bits| Element { dtype: subject.of.dtype, bits }.to_string())
                };
                texts.push(text.unwrap_or_else(|| "?".into()));
            }
        }
        Ok(texts)
    }
}

/// A number with some digits; NaN and infinities as elements are written.
fn difference_text(value: f64) -> String {
    if value.is_finite() {
        return significant(value, DIGITS);
    }
    Element { dtype: DType::Float64, bits: value.to_bits().into() }.to_string()
}

impl TileAxis {
    fn of(axis: &PlaneAxis, most: usize) -> TileAxis {
        let count = axis.dim.count;
        let per_cell = count.div_ceil(most.clamp(1, MOST_CELLS) as u64).max(1);
        let cells = usize::try_from(count.div_ceil(per_cell)).unwrap_or(MOST_CELLS);
        TileAxis { axis: axis.axis, first: axis.first, step: axis.step, count, per_cell, cells }
    }
}

/// Fills the cells in memory order: along the axis with the smaller stride.
struct Painter<'s> {
    subject: PictureInput<'s>,
    first: i64,
    outer: AxisWalk,
    inner: AxisWalk,
    /// Distance between cells along the outer axis, and along the inner axis.
    places: (usize, usize),
    cells: usize,
}

/// One axis of the walk through memory.
#[derive(Clone, Copy)]
struct AxisWalk {
    stride: i64,
    count: u64,
    per_cell: u64,
    /// Elements of a cell that are read: the first ones on the inner axis, evenly spaced ones on the outer
    /// axis.
    taken: u64,
}

impl<'s> Painter<'s> {
    fn new(subject: PictureInput<'s>, plane: &Plane, rows: TileAxis, columns: TileAxis) -> Painter<'s> {
        let way = |axis: &PlaneAxis, tile: TileAxis| AxisWalk {
            stride: axis.dim.stride,
            count: tile.count,
            per_cell: tile.per_cell,
            taken: tile.per_cell,
        };
        let (down, across) = (way(&plane.rows, rows), way(&plane.columns, columns));
        let closer = |one: AxisWalk, other: AxisWalk| {
            one.count > 1 && one.stride.unsigned_abs() < other.stride.unsigned_abs()
        };
        let down_inside = across.count <= 1 || closer(down, across);
        let (outer, inner) = if down_inside { (across, down) } else { (down, across) };
        let places = if down_inside { (1, columns.cells) } else { (columns.cells, 1) };
        let mut painter =
            Painter { subject, first: plane.first, outer, inner, places, cells: rows.cells * columns.cells };
        painter.thin_out();
        painter
    }

    fn bits_apart(&self, way: AxisWalk) -> u64 {
        way.stride.unsigned_abs().saturating_mul(u64::from(self.subject.of.dtype.bits()))
    }

    /// Reduces the elements read per cell until the picture is fast enough.
    fn thin_out(&mut self) {
        let most = if self.bits_apart(self.inner) <= CLOSE_BITS { MOST_ELEMENTS } else { MOST_APART };
        let looked_at = |way: AxisWalk| way.count.div_ceil(way.per_cell).saturating_mul(way.taken);
        while looked_at(self.outer).saturating_mul(looked_at(self.inner)) > most {
            let way = if self.outer.taken > 1 { &mut self.outer } else { &mut self.inner };
            if way.taken == 1 {
                break;
            }
            way.taken = way.taken.div_ceil(2);
        }
    }

    fn paint(&self) -> Result<(Vec<Cell>, u64, u64), QueryError> {
        let mut cells = vec![EMPTY; self.cells];
        let mut looked_at = 0;
        if self.outer.count == 0 || self.inner.count == 0 {
            return Ok((cells, 0, 0));
        }
        let mut lines =
            LineReader::new(self.subject, self.outer.count > 1 && self.bits_apart(self.outer) <= CLOSE_BITS);
        let spread = self.outer.per_cell.div_ceil(self.outer.taken);
        for cell in 0..self.outer.count.div_ceil(self.outer.per_cell) {
            let start = cell * self.outer.per_cell;
            let end = (start + self.outer.per_cell).min(self.outer.count);
            let mut at = start;
            while at < end {
                let first = step(self.first, self.outer.stride, at);
                let from = usize::try_from(cell).unwrap_or(usize::MAX).saturating_mul(self.places.0);
                looked_at += self.line(&mut lines, first, &mut cells, from)?;
                at += spread;
            }
        }
        Ok((cells, looked_at, lines.bytes_read()))
    }

    /// Adds one line along the inner axis to the cells from `from`. Returns the number of elements read.
    fn line(
        &self,
        lines: &mut LineReader<'_>,
        first: i64,
        cells: &mut [Cell],
        from: usize,
    ) -> Result<u64, QueryError> {
        let AxisWalk { stride, count, per_cell, taken } = self.inner;
        let mut looked_at = 0;
        let mut at = 0;
        while at < count {
            // Read whole lines if no element is skipped, else the first elements of a cell.
            let inside = at % per_cell;
            let length = if taken == per_cell { count - at } else { (taken - inside).min(count - at) };
            let length = usize::try_from(length).map_or(LINE, |length| length.min(LINE));
            let (values, there) = lines.read(step(first, stride, at), stride, length)?;
            let mut place = 0;
            while place < length {
                let cell = (at + place as u64) / per_cell;
                let end = ((cell + 1) * per_cell - at).min(length as u64);
                let end = usize::try_from(end).unwrap_or(length);
                let stored = place.max(there.start).min(end)..end.min(there.end).max(place);
                let target = usize::try_from(cell).unwrap_or(usize::MAX).saturating_mul(self.places.1);
                if let Some(cell) = cells.get_mut(from.saturating_add(target)) {
                    let stored = if stored.start < stored.end { &values[stored] } else { &[] };
                    stored.iter().for_each(|&value| cell.add(value));
                    cell.missing += (end - place - stored.len()) as u64;
                }
                place = end;
            }
            looked_at += length as u64;
            at += length as u64;
            if taken != per_cell && at % per_cell >= taken {
                at = (at / per_cell + 1) * per_cell;
            }
        }
        Ok(looked_at)
    }
}

impl Cell {
    fn add(&mut self, value: f64) {
        if value.is_finite() {
            self.finite += 1;
            self.sum += value;
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        } else if value.is_nan() {
            self.nan += 1;
        } else {
            self.inf += 1;
        }
    }

    fn with(self, other: &Cell) -> Cell {
        Cell {
            finite: self.finite + other.finite,
            sum: self.sum + other.sum,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            nan: self.nan + other.nan,
            inf: self.inf + other.inf,
            missing: self.missing + other.missing,
        }
    }

    /// NaN without finite values. If the sum overflows, the midpoint of the range.
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    fn mean(&self) -> f64 {
        let mean = self.sum / self.finite as f64;
        if self.finite > 0 && !mean.is_finite() { f64::midpoint(self.min, self.max) } else { mean }
    }
}

impl Cells {
    fn of(cells: &[Cell], total: &Cell, single: bool) -> Cells {
        let floats = |of: fn(&Cell) -> f64| cells.iter().map(of).collect::<Vec<f64>>();
        let counts = |total: u64, of: fn(&Cell) -> u64| (total > 0).then(|| cells.iter().map(of).collect());
        let or_nan = |value: f64| if value.is_finite() { value } else { f64::NAN };
        Cells {
            mean: floats(Cell::mean),
            min: (!single).then(|| floats(|cell| cell.min).into_iter().map(or_nan).collect()),
            max: (!single).then(|| floats(|cell| cell.max).into_iter().map(or_nan).collect()),
            nan: counts(total.nan, |cell| cell.nan),
            inf: counts(total.inf, |cell| cell.inf),
            missing: counts(total.missing, |cell| cell.missing),
            text: None,
        }
    }
}

/// A float in single precision, which is enough for a picture and halves the text. `None` for NaN and
/// infinities.
#[derive(Serialize)]
#[serde(untagged)]
enum CompactFloat {
    Single(f32),
    Double(f64),
    None(()),
}

impl CompactFloat {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
    fn of(value: f64) -> CompactFloat {
        let single = value as f32;
        match value {
            value if !value.is_finite() => CompactFloat::None(()),
            value if single.is_normal() || value == 0.0 => CompactFloat::Single(single),
            value => CompactFloat::Double(value),
        }
    }
}

fn short_floats<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().copied().map(CompactFloat::of))
}

#[expect(clippy::ref_option, reason = "serde's form")]
fn some_short_floats<S: Serializer>(values: &Option<Vec<f64>>, serializer: S) -> Result<S::Ok, S::Error> {
    short_floats(values.as_deref().unwrap_or_default(), serializer)
}
