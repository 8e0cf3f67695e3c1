//! The fields of record rows: name, text, sort order and layout. Tables, CSV files, JSON documents and sort
//! keys all use this one table, so that a field has the same name everywhere: that of the manifest. A new
//! column of `list` is one more entry of [`FIELDS`].

mod cells;
mod columns;
mod row;

use tensortap::format::{ArgumentKind, Names};

pub use cells::{Cells, csv_head, quote};
pub use columns::*;
pub use row::Row;
pub(crate) use row::flags;

use crate::compare_words::{outside_or_why, rule_text};
use crate::document::{evidence_word, outcome_reason, verdict_word};
use crate::number::push_grouped;
use crate::words::{flag_words, printable, record_name, scalar_text, shape_text, task_title};
use cells::{
    NO_KERNELS, count, ending, push_end, push_float, push_hex, push_number, push_optional, push_plain,
    push_shape, push_task, push_value, push_words, put, show_count, show_end, show_float, show_name,
};
use row::as_float;

/// Digits of a hash in tables.
const HASH_DIGITS: usize = 8;
/// Digits of a statistic.
const STATISTIC_DIGITS: usize = 5;
/// Digits of an error.
const ERROR_DIGITS: usize = 4;

/// Which data a field needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSource {
    /// Only the record.
    Record,
    /// Its measured content.
    Content,
    /// Its comparison.
    Comparison,
}

/// How rows are sorted by a field.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    /// Not sortable.
    None,
    /// By a whole number; rows without one come last.
    Number(fn(&Row<'_>) -> Option<u64>),
    /// By a float.
    Float(fn(&Row<'_>) -> Option<f64>),
    /// By the text of the CSV cell.
    Text,
}

type Cell = fn(&mut Cells<'_>, &Row<'_>, &mut String);

/// One field.
pub struct Field {
    /// Its name: JSON key, CSV column, and value of `--columns` and `--sort`.
    pub key: &'static str,
    /// A shorter name that users may type.
    pub short: Option<&'static str>,
    /// The object in a row's JSON that contains it; `None` for the row itself.
    pub inside: Option<&'static str>,
    /// Heading of its table column.
    pub heading: &'static str,
    /// Minimum width of its column.
    pub width: usize,
    /// Whether cells are right-aligned.
    pub is_number: bool,
    /// Which data it needs.
    pub of: FieldSource,
    pub(crate) order: Order,
    machines: Cell,
    people: Cell,
}

impl std::fmt::Debug for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.key)
    }
}

impl PartialEq for Field {
    fn eq(&self, other: &Field) -> bool {
        self.key == other.key
    }
}

impl Eq for Field {}

impl Field {
    /// Finds a field by its name or short name. Case is ignored.
    ///
    /// ```
    /// use tensortap_query::fields::Field;
    /// assert_eq!(Field::named("arg_index"), Field::named("arg"));
    /// assert!(Field::named("size").is_none());
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.names().any(|known| known.eq_ignore_ascii_case(name)))
    }

    /// Its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.key).chain(self.short)
    }

    /// Whether rows can be sorted by this field.
    #[must_use]
    pub fn is_sortable(&self) -> bool {
        !matches!(self.order, Order::None)
    }

    /// Writes the cell of a CSV file: nothing is shortened or grouped, and unknown values are empty.
    pub fn write_for_machines(&self, cells: &mut Cells<'_>, row: &Row<'_>, out: &mut String) {
        (self.machines)(cells, row, out);
    }

    /// Writes the cell of a table.
    pub fn write_for_people(&self, cells: &mut Cells<'_>, row: &Row<'_>, out: &mut String) {
        (self.people)(cells, row, out);
    }

    const fn new(key: &'static str, heading: &'static str, cell: Cell) -> Field {
        Field {
            key,
            short: None,
            inside: None,
            heading,
            width: 0,
            is_number: false,
            of: FieldSource::Record,
            order: Order::None,
            machines: cell,
            people: cell,
        }
    }

    const fn people(self, cell: Cell) -> Field {
        Field { people: cell, ..self }
    }

    const fn short(self, word: &'static str) -> Field {
        Field { short: Some(word), ..self }
    }

    const fn width(self, width: usize) -> Field {
        Field { width, ..self }
    }

    const fn number(self) -> Field {
        Field { is_number: true, ..self }
    }

    const fn of(self, of: FieldSource) -> Field {
        Field { of, ..self }
    }

    const fn by(self, order: Order) -> Field {
        Field { order, ..self }
    }

    /// Sorted by a whole number.
    const fn sorted(self, number: fn(&Row<'_>) -> Option<u64>) -> Field {
        self.by(Order::Number(number))
    }

    /// A statistic, in the row's `stats` object.
    const fn statistic(self, number: fn(&Row<'_>) -> Option<f64>) -> Field {
        Field { inside: Some("stats"), ..self }.number().by(Order::Float(number))
    }
}

/// All fields.
pub static FIELDS: [Field; 55] = [
    Field::new("index", "INDEX", |_, row, out| push_number(out, row.record.index))
        .number()
        .width(5)
        .sorted(|row| Some(row.record.index)),
    Field::new("rank", "RANK", |cells, _, out| push_optional(out, cells.rank)).number(),
    Field::new("pid", "PID", |cells, _, out| push_optional(out, cells.pid)).number(),
    Field::new("step", "STEP", |_, row, out| push_number(out, row.record.step.into()))
        .number()
        .sorted(|row| Some(row.record.step.into())),
    Field::new("step_name", "STEP NAME", |cells, row, out| {
        let details = cells.details(row);
        *out += &printable(details.step_name.unwrap_or_default());
    })
    .people(|cells, row, out| show_name(out, cells.details(row).step_name))
    .by(Order::Text),
    Field::new("queue", "QUEUE", |cells, row, out| {
        let details = cells.details(row);
        *out += &printable(details.queue.unwrap_or_default());
    })
    .people(|cells, row, out| show_name(out, cells.details(row).queue))
    .by(Order::Text),
    Field::new("module", "MODULE", |cells, row, out| {
        if let Some(module) = cells.module(row) {
            put(out, format_args!("{module}"));
        }
    })
    .number(),
    Field::new("source", "SOURCE", |cells, row, out| {
        if let Some((file, line)) = cells.details(row).source {
            put(out, format_args!("{}:{line}", printable(file)));
        }
    })
    .by(Order::Text),
    Field::new("task_id", "TASK", |_, row, out| push_task(out, row.record.task_id))
        .short("task")
        .people(|cells, row, out| match cells.short_tasks {
            true => put(out, format_args!("{:#x}", row.record.task_id)),
            false => push_task(out, row.record.task_id),
        })
        .sorted(|row| Some(row.record.task_id)),
    Field::new("scope", "SCOPE", |cells, row, out| {
        *out += &printable(cells.names(row).scope.unwrap_or_default())
    })
    .people(|cells, row, out| show_name(out, cells.names(row).scope))
    .by(Order::Text),
    Field::new("task_name", "NAME", |cells, row, out| {
        *out += &printable(cells.names(row).task_name.unwrap_or_default())
    })
    .people(|cells, row, out| {
        let Names { scope, task_name, .. } = cells.names(row);
        show_name(out, task_title(scope, task_name).map(|title| ending(&title)).as_deref());
    })
    .by(Order::Text),
    Field::new("kernels", "KERNEL", |cells, row, out| {
        *out += Some(cells.kernels(row)).filter(|kernels| *kernels != NO_KERNELS).unwrap_or_default();
    })
    .short("kernel")
    .people(|cells, row, out| *out += cells.kernels(row))
    .width(6)
    .by(Order::Text),
    Field::new("stage", "STAGE", |_, row, out| *out += row.record.stage.name())
        .people(|_, row, out| *out += row.record.stage.word())
        .width(6)
        .sorted(|row| Some(row.record.stage as u64)),
    Field::new("role", "ROLE", |cells, row, out| *out += cells.role(row))
        .width(6)
        .sorted(|row| Some(row.record.role.tag().into())),
    Field::new("arg_index", "ARG", |_, row, out| push_number(out, row.record.arg_index.into()))
        .short("arg")
        .people(|cells, row, out| {
            push_number(out, row.record.arg_index.into());
            if let Some(name) = cells.arg_name(row) {
                put(out, format_args!(" {}", printable(name)));
            }
        })
        .width(3)
        .sorted(|row| Some(row.record.arg_index.into())),
    Field::new("arg_name", "ARG NAME", |cells, row, out| {
        *out += &printable(cells.arg_name(row).unwrap_or_default())
    })
    .people(|cells, row, out| show_name(out, cells.arg_name(row)))
    .by(Order::Text),
    Field::new("kind", "KIND", |_, row, out| *out += row.record.kind.name())
        .people(|_, row, out| *out += if row.record.is_local { "local" } else { row.record.kind.name() })
        .width(6)
        .sorted(|row| Some((row.record.kind == ArgumentKind::Scalar).into())),
    Field::new("dtype", "DTYPE", |_, row, out| *out += row.record.dtype.name())
        .width(8)
        .sorted(|row| Some(row.record.dtype.tag().into())),
    Field::new("shape", "SHAPE", |_, row, out| push_shape(out, row.record.shape()))
        .people(|_, row, out| match (row.record.kind, row.record.shape()) {
            (ArgumentKind::Tensor, shape @ [_, ..]) => push_shape(out, shape),
            _ => *out += &shape_text(row.record),
        })
        .width(8)
        .sorted(|row| Some(row.record.numel)),
    Field::new("bytes", "BYTES", |_, row, out| push_number(out, row.record.content_bytes()))
        .people(|_, row, out| push_grouped(out, row.record.content_bytes()))
        .number()
        .width(9)
        .sorted(|row| Some(row.record.content_bytes())),
    Field::new("hash", "HASH", |_, row, out| {
        if let Some(hash) = row.record.hash {
            *out += "0x";
            push_hex::<32>(out, hash);
        }
    })
    .people(|cells, row, out| {
        match (row.record.value().filter(|_| cells.values_for_hashes), row.record.hash) {
            (Some(value), _) if row.record.is_local => put(out, format_args!("{} bytes", scalar_text(value))),
            (Some(value), _) => put(out, format_args!("= {}", scalar_text(value))),
            (None, Some(hash)) => push_hex::<HASH_DIGITS>(out, hash),
            (None, None) => out.push('-'),
        }
    })
    .width(HASH_DIGITS)
    .sorted(|row| row.record.hash.and_then(|hash| u64::try_from(hash >> 64).ok())),
    Field::new("flags", "FLAGS", |_, row, out| push_words(out, flags(row), '+'))
        .people(|_, row, out| push_words(out, flags(row), ','))
        .sorted(|row| {
            Some(flag_words(row.record).iter().fold(0, |bits, word| bits * 2 + u64::from(!word.is_empty())))
        }),
    Field::new("name", "RECORD", |_, row, out| *out += &record_name(row.record)),
    Field::new("value", "VALUE", |_, row, out| push_value(out, row.record))
        .by(Order::Float(|row| row.record.value().map(as_float))),
    Field::new("payload", "PAYLOAD", |_, row, out| *out += row.record.payload.name())
        .sorted(|row| Some(row.record.payload as u64)),
    Field::new("numel", "NUMEL", |_, row, out| push_number(out, row.record.numel))
        .people(|_, row, out| push_grouped(out, row.record.numel))
        .number()
        .sorted(|row| Some(row.record.numel)),
    Field::new("strides", "STRIDES", |_, row, out| {
        let strides: Vec<String> = row.record.strides().iter().map(i64::to_string).collect();
        *out += &strides.join("x");
    }),
    Field::new("start_offset", "START OFFSET", |_, row, out| push_number(out, row.record.start_offset))
        .number()
        .sorted(|row| Some(row.record.start_offset)),
    Field::new("address", "ADDRESS", |_, row, out| put(out, format_args!("{:#x}", row.record.address)))
        .sorted(|row| Some(row.record.address)),
    Field::new("bin_offset", "BIN OFFSET", |_, row, out| push_number(out, row.record.bin_offset))
        .number()
        .sorted(|row| Some(row.record.bin_offset)),
    Field::new("bin_size", "BIN SIZE", |_, row, out| push_number(out, row.record.bin_size))
        .number()
        .sorted(|row| Some(row.record.bin_size)),
    Field::new("thread", "THREAD", |_, row, out| push_number(out, row.record.thread.into()))
        .number()
        .sorted(|row| Some(row.record.thread.into())),
    Field::new("dispatch_id", "DISPATCH", |_, row, out| {
        if let Some(id) = row.record.dispatch_id() {
            put(out, format_args!("{id:#018x}"));
        }
    })
    .short("dispatch")
    .people(|_, row, out| match row.record.dispatch_id() {
        Some(id) => put(out, format_args!("{id:#x}")),
        None => out.push('-'),
    })
    .sorted(|row| row.record.dispatch_id()),
    Field::new("core_id", "CORE", |_, row, out| {
        push_optional(out, row.record.dispatch.map(|of| of.core_id.into()));
    })
    .short("core")
    .number()
    .sorted(|row| row.record.dispatch.map(|of| of.core_id.into())),
    Field::new("block_idx", "BLOCK", |_, row, out| {
        push_optional(out, row.record.dispatch.map(|of| of.block_idx.into()));
    })
    .short("block")
    .number()
    .sorted(|row| row.record.dispatch.map(|of| of.block_idx.into())),
    Field::new("min", "MIN", |_, row, out| push_end(out, row, |s| s.min, |(min, _)| min))
        .people(|_, row, out| show_end(out, row, |s| s.min, |(min, _)| min))
        .width(8)
        .statistic(|row| row.finite_stats().map(|stats| stats.min)),
    Field::new("max", "MAX", |_, row, out| push_end(out, row, |s| s.max, |(_, max)| max))
        .people(|_, row, out| show_end(out, row, |s| s.max, |(_, max)| max))
        .width(8)
        .statistic(|row| row.finite_stats().map(|stats| stats.max)),
    Field::new("mean", "MEAN", |_, row, out| push_float(out, row.value_stats().map(|stats| stats.mean)))
        .people(|_, row, out| show_float(out, row.value_stats().map(|stats| stats.mean), STATISTIC_DIGITS))
        .width(8)
        .statistic(|row| row.finite_stats().map(|stats| stats.mean)),
    Field::new("std", "STD", |_, row, out| push_float(out, row.value_stats().map(|stats| stats.std)))
        .people(|_, row, out| show_float(out, row.value_stats().map(|stats| stats.std), STATISTIC_DIGITS))
        .width(8)
        .statistic(|row| row.finite_stats().map(|stats| stats.std)),
    Field::new("zeros", "ZEROS", |_, row, out| push_optional(out, row.stats().map(|stats| stats.zeros)))
        .people(|_, row, out| show_count(out, row.stats().map(|stats| stats.zeros)))
        .width(5)
        .statistic(|row| row.stats().map(|stats| count(stats.zeros))),
    Field::new("nan", "NAN", |_, row, out| push_optional(out, row.stats().map(|stats| stats.nan)))
        .people(|_, row, out| show_count(out, row.stats().map(|stats| stats.nan)))
        .width(3)
        .statistic(|row| row.stats().map(|stats| count(stats.nan))),
    Field::new("inf", "INF", |_, row, out| push_optional(out, row.stats().map(|stats| stats.inf)))
        .people(|_, row, out| show_count(out, row.stats().map(|stats| stats.inf)))
        .width(3)
        .statistic(|row| row.stats().map(|stats| count(stats.inf))),
    Field::new("f16_overflow", "F16 OVERFLOW", |_, row, out| {
        push_optional(out, row.summary().map(|summary| summary.f16_overflow));
    })
    .number()
    .of(FieldSource::Content),
    Field::new("verdict", "VERDICT", |_, row, out| {
        *out += row.compared.map_or("", |compared| verdict_word(compared.outcome.verdict));
    })
    .of(FieldSource::Comparison),
    Field::new("max_abs_err", "MAX ABS", |_, row, out| {
        push_plain(out, row.compared.and_then(|compared| compared.outcome.max_abs()));
    })
    .people(|_, row, out| {
        show_float(out, row.compared.and_then(|compared| compared.outcome.max_abs()), ERROR_DIGITS);
    })
    .number()
    .of(FieldSource::Comparison),
    Field::new("max_finite_err", "MAX FINITE", |_, row, out| {
        push_plain(out, row.compared.and_then(|compared| compared.outcome.max_finite()));
    })
    .people(|_, row, out| {
        show_float(out, row.compared.and_then(|compared| compared.outcome.max_finite()), ERROR_DIGITS);
    })
    .number()
    .of(FieldSource::Comparison),
    Field::new("unmatched_nan", "NAN", |_, row, out| {
        push_optional(out, row.compared.and_then(|compared| compared.outcome.unmatched_nan()));
    })
    .people(|_, row, out| {
        show_count(out, row.compared.and_then(|compared| compared.outcome.unmatched_nan()));
    })
    .number()
    .of(FieldSource::Comparison),
    Field::new("max_rel_err", "MAX REL", |_, row, out| push_plain(out, row.error(|m| Some(m.max_rel_err()))))
        .people(|_, row, out| show_float(out, row.error(|m| Some(m.max_rel_err())), ERROR_DIGITS))
        .number()
        .of(FieldSource::Comparison),
    Field::new("rmse", "RMSE", |_, row, out| push_plain(out, row.error(|m| m.rmse)))
        .people(|_, row, out| show_float(out, row.error(|m| m.rmse), ERROR_DIGITS))
        .number()
        .of(FieldSource::Comparison),
    Field::new("max_ulps", "MAX ULP", |_, row, out| push_optional(out, row.max_ulps()))
        .people(|_, row, out| show_count(out, row.compared.and_then(crate::diff::ulps)))
        .number()
        .of(FieldSource::Comparison),
    Field::new("failing", "OUTSIDE", |_, row, out| push_optional(out, row.failing()))
        .number()
        .of(FieldSource::Comparison),
    Field::new("elements", "ELEMENTS", |_, row, out| push_optional(out, row.metrics().map(|m| m.elements)))
        .number()
        .of(FieldSource::Comparison),
    Field::new("evidence", "OUTSIDE, OR WHY", |_, row, out| {
        *out += row.compared.map_or("", |compared| evidence_word(&compared.outcome));
    })
    .people(|_, row, out| *out += &row.compared.map(|c| outside_or_why(&c.outcome)).unwrap_or_default())
    .of(FieldSource::Comparison),
    Field::new("reason", "WHY", |_, row, out| {
        let reason = row.compared.and_then(|compared| outcome_reason(&compared.outcome));
        *out += &printable(&reason.unwrap_or_default());
    })
    .of(FieldSource::Comparison),
    Field::new("rule", "RULE", |_, row, out| {
        *out += &row.compared.map(|c| rule_text(&c.rule)).unwrap_or_default()
    })
    .of(FieldSource::Comparison),
];

/// The fields of these names.
///
/// # Panics
///
/// If there is no such field. Names must be keys of [`FIELDS`].
#[must_use]
pub fn fields<const N: usize>(names: [&str; N]) -> [&'static Field; N] {
    names.map(|name| Field::named(name).expect("a field of the table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_are_unique() {
        let mut names: Vec<&str> = FIELDS.iter().flat_map(Field::names).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    }

    #[test]
    fn columns_of_verbs_are_known_fields() {
        let known =
            |names: &[&str]| names.iter().all(|name| Field::named(name).is_some_and(|f| f.key == *name));
        for names in [&LIST[..], &LIST_CSV, &STATS, &STATS_CSV, &DIFF, &DIFF_CSV] {
            assert!(known(names), "{names:?}");
        }
        let needs = |names: &[&str], of: &[FieldSource]| {
            names.iter().all(|name| of.contains(&Field::named(name).expect("a field").of))
        };
        assert!(needs(&LIST, &[FieldSource::Record]) && needs(&LIST_CSV, &[FieldSource::Record]));
        assert!(
            needs(&STATS_CSV, &[FieldSource::Record, FieldSource::Content])
                && needs(&DIFF_CSV, &[FieldSource::Record, FieldSource::Comparison])
        );
    }
}
