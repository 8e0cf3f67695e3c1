//! One tensor: a slice of it as numbers or as a heat map, and the value under the cursor. Only what is seen is read.

use std::sync::Arc;

use ratatui::crossterm::event::KeyCode;
use tensortap::DumpStage;
use tensortap::format::Record;
use tensortap_query::picture::Tile;
use tensortap_query::words::stage_word;

use crate::list::Cursor;
use crate::request::{Labels, Pictured};

/// Digits of a number fit in as many columns.
pub(crate) const NUMBER_WIDTH: usize = 14;
/// Columns before the numbers of a row.
pub(crate) const NUMBER_MARGIN: usize = 8;

/// What of two tensors is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Given,
    Left,
    /// What the dump has less what the golden has.
    Difference,
}

/// A tensor that is looked at.
pub(crate) struct TensorRoom {
    pub title: String,
    pub before: Option<Record>,
    pub after: Option<Record>,
    /// The golden's record of the same argument, at the stage that was compared.
    pub golden: Option<(DumpStage, Record)>,
    pub seen: Seen,
    pub as_heat: bool,
    /// Where the axes stand that are not drawn.
    pub fixed: Vec<u64>,
    pub row: Cursor,
    pub column: Cursor,
    /// What was read last, and what of the tensor that is.
    pub picture: Option<(View, Result<Box<Picture>, String>)>,
    /// What was asked for last.
    asked: Option<View>,
}

/// A part of a tensor as it is to be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub seen: Seen,
    pub as_heat: bool,
    /// As selectors have it: what is drawn, and the element under the cursor.
    pub slice: String,
    pub at: String,
    /// Cells that there is room for.
    pub lines: usize,
    pub across: usize,
}

/// What was read to be seen.
pub(crate) struct Picture {
    pub tile: Tile,
    /// The value under the cursor.
    pub value: String,
}

impl TensorRoom {
    pub fn new(title: String, before: Option<Record>, after: Option<Record>) -> Option<TensorRoom> {
        let record = after.as_ref().or(before.as_ref())?;
        let fixed = vec![0; record.shape().len()];
        let seen = if after.is_some() { Seen::Left } else { Seen::Given };
        let (row, column) = Default::default();
        let (picture, asked, golden) = (None, None, None);
        Some(TensorRoom {
            title,
            before,
            after,
            golden,
            seen,
            as_heat: false,
            fixed,
            row,
            column,
            picture,
            asked,
        })
    }

    pub fn record(&self) -> Option<&Record> {
        match self.seen {
            Seen::Given => self.before.as_ref(),
            Seen::Left => self.after.as_ref(),
            Seen::Difference => match self.golden.as_ref()?.0 {
                DumpStage::BeforeDispatch => self.before.as_ref(),
                DumpStage::AfterCompletion => self.after.as_ref(),
            },
        }
    }

    pub fn words(&self) -> &'static str {
        match self.seen {
            Seen::Given => stage_word(DumpStage::BeforeDispatch),
            Seen::Left => stage_word(DumpStage::AfterCompletion),
            Seen::Difference => "dump less golden",
        }
    }

    /// The next thing there is to see of it.
    fn turn(&mut self) {
        let all = [Seen::Given, Seen::Left, Seen::Difference];
        let at = all.iter().position(|seen| *seen == self.seen).unwrap_or(0);
        for step in 1..=all.len() {
            self.seen = all[(at + step) % all.len()];
            if self.record().is_some() {
                return;
            }
        }
    }

    /// Sizes of the two axes that are drawn.
    pub fn sides(&self) -> (u64, u64) {
        let shape = self.record().map(|record| record.shape().to_vec()).unwrap_or_default();
        let at = |from_end: usize| shape.len().checked_sub(from_end).map_or(1, |axis| shape[axis]);
        (at(2), at(1))
    }

    fn outer(&self) -> usize {
        self.fixed.len().saturating_sub(2)
    }

    /// Whether it took the key.
    pub fn key(&mut self, key: KeyCode, page: usize) -> bool {
        let (rows, columns) = self.sides();
        let len = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        match key {
            KeyCode::Left | KeyCode::Char('h') => self.column.at = self.column.at.saturating_sub(1),
            KeyCode::Right | KeyCode::Char('l') => {
                self.column.at = (self.column.at + 1).min(len(columns).saturating_sub(1));
            }
            KeyCode::Char('m') => self.as_heat = !self.as_heat,
            KeyCode::Char('t') => self.turn(),
            KeyCode::Char(']') => self.step(1),
            KeyCode::Char('[') => self.step(-1),
            key => return self.row.key(key, len(rows), page),
        }
        true
    }

    /// The next or last slice along the axes that are not drawn, the innermost first.
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

    /// What is to be seen in so many lines and columns.
    pub fn view(&mut self, lines: usize, width: usize) -> View {
        let (rows, columns) = self.sides();
        let len = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let across = if self.as_heat { width } else { (width / NUMBER_WIDTH).max(1) };
        let (down, over) = (self.row.seen(len(rows), lines), self.column.seen(len(columns), across));
        let slice = if self.as_heat {
            self.slice(":", ":")
        } else {
            self.slice(&format!("{}:{}", down.start, down.end), &format!("{}:{}", over.start, over.end))
        };
        let at = self.slice(&self.row.at.to_string(), &self.column.at.to_string());
        View { seen: self.seen, as_heat: self.as_heat, slice, at, lines, across }
    }

    /// What is to be read for it, unless that was asked for last.
    pub fn wanted(&mut self, lines: usize, width: usize, labels: Option<Arc<Labels>>) -> Option<Pictured> {
        // Columns of numbers have their positions above them, rows before them.
        let (lines, width) = match self.as_heat {
            true => (lines, width),
            false => (lines.saturating_sub(1), width.saturating_sub(NUMBER_MARGIN)),
        };
        let view = self.view(lines, width);
        if self.asked.as_ref() == Some(&view) {
            return None;
        }
        self.asked = Some(view.clone());
        let less = match self.seen {
            Seen::Difference => labels.zip(self.golden.map(|(_, record)| record)),
            Seen::Given | Seen::Left => None,
        };
        Some(Pictured { view, record: *self.record()?, less })
    }

    /// What was read, if it is what was asked for last.
    pub fn drawn(&self) -> Option<&Result<Box<Picture>, String>> {
        let (view, picture) = self.picture.as_ref()?;
        (Some(view) == self.asked.as_ref()).then_some(picture)
    }
}
