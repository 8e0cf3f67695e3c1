//! Tables and wrapped text for people. Every verb that prints columns uses this module.
//!
//! On a terminal a table fits the window: it leaves out the least important columns in a stated order, shortens or
//! wraps long texts, and says which columns are missing. In a pipe or file nothing is left out and nothing is cut.

mod layout;
mod stream;
pub mod text;

pub use layout::{Column, Fit, Layout, Overflow};
pub use stream::StreamTable;

/// A table of rows that are all known, with headings.
pub fn whole_table<const N: usize>(columns: &[Column; N], rows: &[[String; N]], fit: Fit) -> String {
    let widest = |(place, column): (usize, &Column)| {
        let cells = rows.iter().map(|row| text::width(&row[place])).max().unwrap_or(0);
        cells.max(column.width).max(text::width(column.heading))
    };
    let widths = columns.iter().enumerate().map(widest).collect();
    let layout = Layout::with_widths(columns.to_vec(), widths, fit);
    rows.iter().fold(layout.head(), |text, row| text + &layout.row(row)) + &layout.left_out_note()
}

/// Left-aligned columns without headings.
pub fn plain_rows<const N: usize>(rows: &[[String; N]], indent: usize) -> String {
    let columns = [Column { overflow: Overflow::Keep, ..Column::text("", 0) }; N];
    let table = whole_table(&columns, rows, Fit::default().indented(indent));
    table.split_once('\n').map_or_else(String::new, |(_head, rows)| rows.to_owned())
}
