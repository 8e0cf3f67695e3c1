//! What stands below the table: counts, sizes, and whether the dump is whole.

use std::fmt::Write;

use tensortap::format::{ArgumentKind, Dump, Record, Tail};

use crate::dump_arg::quoted;
use crate::losses::by_reason;
use crate::number::{bytes, counted, grouped};

/// Counts over the records that were shown.
#[derive(Default)]
pub struct Foot {
    tensors: u64,
    scalars: u64,
    tensor_bytes: u64,
}

impl Foot {
    /// Counts a record.
    pub fn add(&mut self, record: &Record) {
        match record.kind {
            ArgumentKind::Tensor => {
                self.tensors += 1;
                self.tensor_bytes = self.tensor_bytes.saturating_add(record.content_bytes());
            }
            ArgumentKind::Scalar => self.scalars += 1,
        }
    }

    /// What was shown of how much, and what the files hold.
    pub fn text(&self, dump: &Dump) -> String {
        let Foot { tensors, scalars, tensor_bytes } = *self;
        let (shown, all) = (tensors + scalars, dump.len());
        let lead = if shown > 0 { "\n" } else { "" };
        let of = if shown == all { String::new() } else { format!("{} of ", grouped(shown)) };
        let (tensors, scalars) = (counted(tensors, "tensor"), counted(scalars, "scalar"));
        let records = counted(all, "record");
        let mut text = format!("{lead}{of}{records}: {tensors} with {}, {scalars}\n", bytes(tensor_bytes));
        let totals = dump.totals();
        let (stored, saved) = (bytes(totals.stored_bytes), bytes(totals.deduplicated_bytes));
        let _ = writeln!(text, "The dump stores {stored}; deduplication saved {saved}.");
        if totals.uncaptured > 0 {
            let arguments = counted(totals.uncaptured, "argument");
            let _ = writeln!(text, "{arguments} could not be captured; the manifest says why.");
        }
        text
    }
}

/// What is missing or still to come; nothing for a dump that is whole.
pub fn state_lines(dump: &Dump) -> String {
    let mut text = String::new();
    let lost = dump.footer().map(|footer| by_reason(&footer.losses)).unwrap_or_default();
    let missing: u64 = dump.gaps().iter().map(|gap| gap.records).sum();
    if !lost.is_empty() {
        let _ = writeln!(text, "Records that lost their payload or are missing, by reason: {lost}.");
    } else if missing > 0 {
        let _ = writeln!(text, "{} missing: lost while the run lasted.", counted(missing, "record"));
    }
    match dump.tail() {
        Tail::Closed => {}
        Tail::Open => text += "The run still goes on: these are its records so far.\n",
        Tail::Torn { offset, lost_bytes, reason } => {
            let (offset, lost) = (grouped(offset), counted(lost_bytes, "byte"));
            let dir = quoted(dump.dir());
            let _ = writeln!(
                text,
                "The dump is torn at byte {offset} of its index ({reason}); {lost} after it lost."
            );
            let _ = writeln!(text, "`tensortap repair {dir}` makes it whole.");
        }
    }
    text
}
