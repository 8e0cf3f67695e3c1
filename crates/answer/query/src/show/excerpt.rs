//! Prints values like numpy: brackets per axis, and only the corners of large tensors.

use std::io::Write;

use tensortap::DType;
use tensortap::format::FormatError;
use tensortap::values::Element;

use crate::QueryError;

use super::elements::Elements;
use super::slice::View;

/// Tensors with at most this many elements are shown completely.
const WHOLE_UP_TO: u64 = 1000;
/// Elements that determine the width of columns.
const MEASURED: usize = 4096;
/// Text for an element that is not stored.
const MISSING: &str = "?";

/// How much is shown, and in which width.
#[derive(Clone, Copy)]
pub struct Extent {
    /// Whether everything is shown.
    pub full: bool,
    /// Characters per line.
    pub width: usize,
}

/// Writes the elements of a view.
pub fn write(
    out: &mut dyn Write,
    elements: &mut Elements<'_>,
    dtype: DType,
    view: &View,
    extent: Extent,
) -> Result<(), QueryError> {
    // If one axis is empty, others may have any length.
    if view.numel() == 0 {
        return Ok(writeln!(out, "[]")?);
    }
    let edge = if extent.full || view.numel() <= WHOLE_UP_TO { u64::MAX } else { edge(view.dims.len()) };
    let mut printer = Printer { elements, dtype, view, edge, line_width: extent.width, cell_width: 0 };
    printer.cell_width = printer.measure()?;
    printer.block(out, 0, view.first)?;
    Ok(writeln!(out)?)
}

/// Elements shown at each end of an axis. Fewer with many axes, because the number of corners multiplies.
fn edge(axes: usize) -> u64 {
    match axes {
        0..=3 => 3,
        4 => 2,
        _ => 1,
    }
}

struct Printer<'p, 'd> {
    elements: &'p mut Elements<'d>,
    dtype: DType,
    view: &'p View,
    edge: u64,
    line_width: usize,
    cell_width: usize,
}

/// A position along an axis, or a gap.
enum Step {
    At(u64),
    /// Omitted positions.
    Gap,
}

impl Printer<'_, '_> {
    fn steps(&self, axis: usize) -> impl Iterator<Item = Step> + use<> {
        let count = self.view.dims[axis].count;
        let cut = count > self.edge.saturating_mul(2);
        let head = if cut { self.edge } else { count };
        let tail = if cut { count - self.edge } else { count };
        (0..head).map(Step::At).chain(cut.then_some(Step::Gap)).chain((tail..count).map(Step::At))
    }

    fn position(&self, axis: usize, first: i64, at: u64) -> i64 {
        // Positions are within the tensor, which has fewer than 2^53 elements.
        first.saturating_add(self.view.dims[axis].stride.saturating_mul(i64::try_from(at).unwrap_or(0)))
    }

    fn text(&mut self, position: i64) -> Result<String, FormatError> {
        let bits = self.elements.bits(u64::try_from(position).unwrap_or(u64::MAX))?;
        Ok(bits.map_or(MISSING.into(), |bits| Element { dtype: self.dtype, bits }.to_string()))
    }

    /// The width of the widest of the first shown elements.
    fn measure(&mut self) -> Result<usize, FormatError> {
        let mut widest = 0;
        let mut left = MEASURED;
        self.measure_from(0, self.view.first, &mut left, &mut widest)?;
        Ok(widest)
    }

    fn measure_from(
        &mut self,
        axis: usize,
        first: i64,
        left: &mut usize,
        widest: &mut usize,
    ) -> Result<(), FormatError> {
        if axis == self.view.dims.len() {
            *widest = (*widest).max(self.text(first)?.len());
            *left = left.saturating_sub(1);
            return Ok(());
        }
        for step in self.steps(axis) {
            if *left == 0 {
                break;
            }
            if let Step::At(at) = step {
                self.measure_from(axis + 1, self.position(axis, first, at), left, widest)?;
            }
        }
        Ok(())
    }

    /// Writes everything from an axis on, without a newline at the end.
    fn block(&mut self, out: &mut dyn Write, axis: usize, first: i64) -> Result<(), QueryError> {
        let axes = self.view.dims.len();
        if axis == axes {
            return Ok(write!(out, "{}", self.text(first)?)?);
        }
        write!(out, "[")?;
        if axis + 1 == axes {
            self.row(out, axis, first)?;
        } else {
            // Inner brackets are aligned. Blocks of more axes are separated by more empty lines.
            let newlines = "\n".repeat(axes - axis - 1);
            let indent = " ".repeat(axis + 1);
            for (place, step) in self.steps(axis).enumerate() {
                if place > 0 {
                    write!(out, "{newlines}{indent}")?;
                }
                match step {
                    Step::At(at) => self.block(out, axis + 1, self.position(axis, first, at))?,
                    Step::Gap => write!(out, "...")?,
                }
            }
        }
        Ok(write!(out, "]")?)
    }

    /// Writes the innermost axis, wrapped to the line width.
    fn row(&mut self, out: &mut dyn Write, axis: usize, first: i64) -> Result<(), QueryError> {
        let indent = axis + 1;
        let mut column = indent;
        for (place, step) in self.steps(axis).enumerate() {
            let cell = match step {
                Step::At(at) => {
                    let text = self.text(self.position(axis, first, at))?;
                    format!("{text:>width$}", width = self.cell_width)
                }
                Step::Gap => "...".into(),
            };
            let space = usize::from(place > 0);
            if place > 0 && column + space + cell.len() > self.line_width {
                write!(out, "\n{:indent$}", "")?;
                column = indent;
            } else {
                write!(out, "{:space$}", "")?;
                column += space;
            }
            write!(out, "{cell}")?;
            column += cell.len();
        }
        Ok(())
    }
}
