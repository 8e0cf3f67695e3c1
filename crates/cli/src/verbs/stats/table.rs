//! Statistics for people.

use std::io::Write;

use tensortap::TaskId;
use tensortap::format::{Dump, RunInfo, role_name};
use tensortap::values::Summary;

use super::{Extent, Seen, Source, joined};
use crate::fit::Fit;
use crate::stream_table::{Column, StreamTable};
use tensortap::{Flag, Measured};
use tensortap_query::number::{bytes, counted, grouped, significant};
use tensortap_query::stage_word;
use tensortap_query::words::{kernel_label, shape_text, short_task};

const DIGITS: usize = 5;
const HASH_DIGITS: usize = 8;

const COLUMNS: [Column; 17] = [
    ("INDEX", 5, true),
    ("TASK", 0, false),
    ("KERNEL", 6, false),
    ("STAGE", 6, false),
    ("ROLE", 6, false),
    ("ARG", 3, true),
    ("DTYPE", 8, false),
    ("SHAPE", 8, false),
    ("MIN", 8, true),
    ("MAX", 8, true),
    ("MEAN", 8, true),
    ("STD", 8, true),
    ("ZEROS", 5, true),
    ("NAN", 3, true),
    ("INF", 3, true),
    ("HASH", HASH_DIGITS, false),
    ("FLAGS", 0, false),
];

/// What a narrow terminal goes without, in this order: flags tell of the counts, and `show INDEX` of the rest.
const DISPENSABLE: [&str; 10] =
    ["HASH", "ROLE", "ZEROS", "DTYPE", "SHAPE", "INF", "NAN", "STD", "TASK", "MEAN"];

/// Counts for the foot.
#[derive(Default)]
struct Counts {
    shown: u64,
    flagged: u64,
    nan: u64,
    inf: u64,
    unmeasured: u64,
    recorded: u64,
}

/// Writes rows and foot.
pub fn write(
    out: &mut dyn Write,
    dump: &Dump,
    extent: &Extent,
    seen: &Seen,
    only_flagged: bool,
    source: impl Source,
) -> anyhow::Result<()> {
    let RunInfo { scene, platform, runtime, .. } = dump.info();
    writeln!(out, "{}: {scene} on {platform}, {runtime}\n", dump.dir().display())?;
    let fit = Fit::terminal(&DISPENSABLE);
    let mut table = StreamTable::new(COLUMNS, fit);
    let mut counts = Counts::default();
    source(&mut |measured| {
        counts.add(&measured);
        table.row(out, cells(dump, &measured, fit.width.is_some()))
    })?;
    table.finish(out)?;
    Ok(write!(out, "{}", counts.text(dump, extent, seen, only_flagged))?)
}

fn cells(dump: &Dump, measured: &Measured, short_tasks: bool) -> [String; 17] {
    let record = &measured.record;
    // Adding zero turns -0 into 0.
    let number = |value: fn(&Summary) -> f64| match &measured.summary {
        Some(summary) if measured.has_finite() => significant(value(summary) + 0.0, DIGITS),
        _ => "-".into(),
    };
    let count =
        |value: fn(&Summary) -> u64| measured.summary.as_ref().map_or("-".into(), |s| grouped(value(s)));
    let end = |value: fn(&Summary) -> f64, exact: fn((i128, i128)) -> i128| {
        match measured.summary.and_then(|summary| summary.exact_range) {
            // An integer that a float would round is shown whole.
            Some(range) => exact(range).to_string(),
            // Other integers are whole numbers, too.
            None if !record.dtype.is_float() => {
                measured.summary.as_ref().map_or("-".into(), |summary| format!("{:.0}", value(summary)))
            }
            None => number(value),
        }
    };
    [
        record.index.to_string(),
        if short_tasks { short_task(record.task_id) } else { TaskId(record.task_id).to_string() },
        kernel_label(record, dump.info()),
        stage_word(record.stage).into(),
        role_name(record.role).into(),
        record.arg_index.to_string(),
        record.dtype.name().into(),
        shape_text(record),
        end(|s| s.stats.min, |(min, _)| min),
        end(|s| s.stats.max, |(_, max)| max),
        number(|s| s.stats.mean),
        number(|s| s.stats.std),
        count(|s| s.stats.zeros),
        count(|s| s.stats.nan),
        count(|s| s.stats.inf),
        record.hash.map_or("-".into(), |hash| format!("{hash:032x}")[..HASH_DIGITS].into()),
        joined(&measured.flags().iter().map(|flag| flag.name()).collect::<Vec<_>>(), ","),
    ]
}

impl Counts {
    fn add(&mut self, measured: &Measured) {
        let flags = measured.flags();
        let has = |flag| u64::from(flags.contains(&flag));
        self.shown += 1;
        self.flagged += u64::from(measured.is_flagged());
        self.nan += has(Flag::Nan);
        self.inf += has(Flag::Inf);
        self.unmeasured += u64::from(measured.summary.is_none());
        self.recorded += u64::from(measured.summary.is_some() && !measured.from_payload);
    }

    fn text(&self, dump: &Dump, extent: &Extent, seen: &Seen, only_flagged: bool) -> String {
        let Counts { shown, flagged, nan, inf, unmeasured, recorded } = *self;
        let lead = if shown > 0 { "\n" } else { "" };
        let selected = if extent.records == dump.len() {
            counted(extent.records, "record")
        } else {
            format!("{} of {}", grouped(extent.records), counted(dump.len(), "record"))
        };
        let mut text =
            format!("{lead}{selected}, {} read: {} flagged", bytes(seen.bytes.get()), grouped(flagged));
        if nan + inf > 0 {
            text += &format!(", {} with NaN, {} with Inf", grouped(nan), grouped(inf));
        }
        text += "\n";
        if seen.is_cut(extent) {
            text += &format!(
                "{} of them looked at, {} shown (--limit).\n",
                grouped(seen.records.get()),
                grouped(shown)
            );
        }
        if recorded > 0 {
            text += &format!("{} as the device measured them.\n", counted(recorded, "record"));
        }
        if unmeasured > 0 && !only_flagged {
            text += &format!("{} without content to measure.\n", counted(unmeasured, "record"));
        }
        text
    }
}
