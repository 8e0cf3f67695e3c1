//! One tensor: a slice as numbers or as a heat map, and the value under the cursor. Only the visible part is
//! read.

use std::sync::Arc;

use ratatui::crossterm::event::KeyCode;
use tensortap::DumpStage;
use tensortap::format::Record;
use tensortap_query::picture::Tile;

use crate::list::Cursor;
use crate::request::{Labels, PictureRequest};

/// Columns of one number.
pub(crate) const NUMBER_WIDTH: usize = 14;
/// Columns of the row number.
pub(crate) const NUMBER_MARGIN: usize = 8;

/// Which tensor is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TensorSide {
    Before,
    After,
    /// The dump minus the golden.
    Difference,
}

/// The tensor that is shown.
pub(crate) struct TensorTab {
    pub title: String,
    pub before: Option<Record>,
    pub after: Option<Record>,
    /// The golden's record of the same argument, at the stage that was compared.
    pub golden: Option<(DumpStage, Record)>,
    pub side: TensorSide,
    pub as_heat: bool,
    /// Positions on the axes that are not drawn.
    pub fixed: Vec<u64>,
    pub row: Cursor,
    pub column: Cursor,
    /// The last picture that was read, with the viewport it shows.
    pub picture: Option<(Viewport, Result<Box<Picture>, String>)>,
    /// The last viewport that was requested.
    asked: Option<Viewport>,
}

/// The part of a tensor that is shown, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Viewport {
    pub side: TensorSide,
    pub as_heat: bool,
    /// Slice expressions of the drawn part and of the element under the cursor.
    pub slice: String,
    pub at: String,
    /// Available rows and columns of cells.
    pub lines: usize,
    pub across: usize,
}

/// A picture that was read.
pub(crate) struct Picture {
    pub tile: Tile,
    /// The value under the cursor.
    pub value: String,
}

impl TensorTab {
    pub fn new(title: String, before: Option<Record>, after: Option<Record>) -> Option<TensorTab> {
        let record = after.as_ref().or(before.as_ref())?;
        let fixed = vec![0; record.shape().len()];
        let side = if after.is_some() { TensorSide::After } else { TensorSide::Before };
        let (row, column) = Default::default();
        let (picture, asked, golden) = (None, None, None);
        Some(TensorTab {
            title,
            before,
            after,
            golden,
            side,
            as_heat: false,
            fixed,
            row,
            column,
            picture,
            asked,
        })
    }

    pub fn record(&self) -> Option<&Record> {
        match self.side {
            TensorSide::Before => self.before.as_ref(),
            TensorSide::After => self.after.as_ref(),
            TensorSide::Difference => match self.golden.as_ref()?.0 {
                DumpStage::BeforeDispatch => self.before.as_ref(),
                DumpStage::AfterCompletion => self.after.as_ref(),
            },
        }
    }

    pub fn words(&self) -> &'static str {
        match self.side {
            TensorSide::Before => DumpStage::BeforeDispatch.word(),
            TensorSide::After => DumpStage::AfterCompletion.word(),
            TensorSide::Difference => "dump minus golden",
        }
    }

    /// Switches to the next tensor that exists: before, after, difference.
    fn show_next(&mut self) {
        let all = [TensorSide::Before, TensorSide::After, TensorSide::Difference];
        let at = all.iter().position(|side| *side == self.side).unwrap_or(0);
        for step in 1..=all.len() {
            self.side = all[(at + step) % all.len()];
            if self.record().is_some() {
                return;
            }
        }
    }

    /// Sizes of the two drawn axes.
    pub fn sides(&self) -> (u64, u64) {
        let shape = self.record().map(|record| record.shape().to_vec()).unwrap_or_default();
        let at = |from_end: usize| shape.len().checked_sub(from_end).map_or(1, |axis| shape[axis]);
        (at(2), at(1))
    }

    fn outer(&self) -> usize {
        self.fixed.len().saturating_sub(2)
    }

    /// Handles a key. Returns false if the key has no meaning here.
    pub fn key(&mut self, key: KeyCode, page: usize) -> bool {
        let (rows, columns) = self.sides();
        let len = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        match key {
            KeyCode::Left | KeyCode::Char('h') => self.column.at = self.column.at.saturating_sub(1),
            KeyCode::Right | KeyCode::Char('l') => {
                self.column.at = (self.column.at + 1).min(len(columns).saturating_sub(1));
            }
            KeyCode::Char('m') => self.as_heat = !self.as_heat,
            KeyCode::Char('t') => self.show_next(),
            KeyCode::Char(']') => self.step(1),
            KeyCode::Char('[') => self.step(-1),
            key => return self.row.key(key, len(rows), page),
        }
        true
    }

    /// Moves to the next or previous slice along the axes that are not drawn, innermost first.
    fn step(&mut self, by: i64) {
        let Some(shape) = self.record().map(|record| record.shape().to_vec()) else { return };
        for axis in (0..self.outer()).rev() {
            match self.fixed[axis].checked_add_signed(by).filter(|at| *at < shape[axis]) {
                Some(at) => {
                    self.fixed[axis] = at;
                    return;
                }
                None => self.fixed[axis] = if by > 0 { 0 } else { shape[axis].saturating_sub(1) },
            }
        }
    }

    fn slice(&self, rows: &str, columns: &str) -> String {
        let mut terms: Vec<String> = self.fixed[..self.outer()].iter().map(u64::to_string).collect();
        match self.fixed.len() {
            0 => {}
            1 => terms.push(columns.into()),
            _ => terms.extend([rows.into(), columns.into()]),
        }
        if terms.is_empty() { "...".into() } else { terms.join(",") }
    }

    /// The viewport for this many lines and columns.
    pub fn view(&mut self, lines: usize, width: usize) -> Viewport {
        let (rows, columns) = self.sides();
        let len = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let across = if self.as_heat { width } else { (width / NUMBER_WIDTH).max(1) };
        let (down, over) = (self.row.visible(len(rows), lines), self.column.visible(len(columns), across));
        let slice = if self.as_heat {
            self.slice(":", ":")
        } else {
            self.slice(&format!("{}:{}", down.start, down.end), &format!("{}:{}", over.start, over.end))
        };
        let at = self.slice(&self.row.at.to_string(), &self.column.at.to_string());
        Viewport { side: self.side, as_heat: self.as_heat, slice, at, lines, across }
    }

    /// The request for the current viewport, unless it was the last one requested.
    pub fn wanted(
        &mut self,
        lines: usize,
        width: usize,
        labels: Option<Arc<Labels>>,
    ) -> Option<PictureRequest> {
        // Numbers have a line of column positions above them and row positions before them.
        let (lines, width) = match self.as_heat {
            true => (lines, width),
            false => (lines.saturating_sub(1), width.saturating_sub(NUMBER_MARGIN)),
        };
        let view = self.view(lines, width);
        if self.asked.as_ref() == Some(&view) {
            return None;
        }
        self.asked = Some(view.clone());
        let less = match self.side {
            TensorSide::Difference => labels.zip(self.golden.map(|(_, record)| record)),
            TensorSide::Before | TensorSide::After => None,
        };
        Some(PictureRequest { view, record: *self.record()?, less })
    }

    /// The picture, if it belongs to the last requested viewport.
    pub fn drawn(&self) -> Option<&Result<Box<Picture>, String>> {
        let (view, picture) = self.picture.as_ref()?;
        (Some(view) == self.asked.as_ref()).then_some(picture)
    }
}
