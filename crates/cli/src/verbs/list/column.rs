//! What can stand in a column, for people and for machines.

use std::collections::HashMap;
use std::fmt::Write;

use tensortap::abi::{SLOTS_PER_TASK, TensorStats};
use tensortap::format::{ArgumentKind, Record, RunInfo, role_name};

use tensortap_query::number::grouped;
use tensortap_query::stage_word;
use tensortap_query::words::{flag_words, kernel_label, record_name, scalar_text, shape_text};

/// Digits of a hash that tell records apart at a glance.
const HASH_DIGITS: usize = 8;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    Index,
    Task,
    Kernel,
    Stage,
    Role,
    Arg,
    Kind,
    Dtype,
    Shape,
    Bytes,
    Hash,
    Flags,
    Name,
    Value,
    Payload,
    Numel,
    Strides,
    StartOffset,
    Address,
    BinOffset,
    BinSize,
    Thread,
    Min,
    Max,
    Mean,
    Std,
    Zeros,
    Nan,
    Inf,
}

use Column::*;

/// Every column, as they are named in help.
pub const ALL: [Column; 29] = [
    Index,
    Task,
    Kernel,
    Stage,
    Role,
    Arg,
    Kind,
    Dtype,
    Shape,
    Bytes,
    Hash,
    Flags,
    Name,
    Value,
    Payload,
    Numel,
    Strides,
    StartOffset,
    Address,
    BinOffset,
    BinSize,
    Thread,
    Min,
    Max,
    Mean,
    Std,
    Zeros,
    Nan,
    Inf,
];

/// What a table shows when nobody chooses.
pub const FOR_PEOPLE: [Column; 12] =
    [Index, Task, Kernel, Stage, Role, Arg, Kind, Dtype, Shape, Bytes, Hash, Flags];

/// What CSV has when nobody chooses.
pub const FOR_MACHINES: [Column; 14] =
    [Index, Task, Kernel, Stage, Role, Arg, Kind, Dtype, Shape, Bytes, Payload, Hash, Value, Flags];

impl Column {
    /// As it is chosen, and as CSV heads it.
    pub const fn name(self) -> &'static str {
        match self {
            Index => "index",
            Task => "task",
            Kernel => "kernel",
            Stage => "stage",
            Role => "role",
            Arg => "arg",
            Kind => "kind",
            Dtype => "dtype",
            Shape => "shape",
            Bytes => "bytes",
            Hash => "hash",
            Flags => "flags",
            Name => "name",
            Value => "value",
            Payload => "payload",
            Numel => "numel",
            Strides => "strides",
            StartOffset => "start_offset",
            Address => "address",
            BinOffset => "bin_offset",
            BinSize => "bin_size",
            Thread => "thread",
            Min => "min",
            Max => "max",
            Mean => "mean",
            Std => "std",
            Zeros => "zeros",
            Nan => "nan",
            Inf => "inf",
        }
    }

    /// As a table heads it.
    pub fn heading(self) -> String {
        match self {
            Hash => "HASH OR VALUE".into(),
            other => other.name().to_ascii_uppercase().replace('_', " "),
        }
    }

    /// Whether cells end under one another.
    pub const fn is_number(self) -> bool {
        matches!(
            self,
            Index
                | Arg
                | Bytes
                | Numel
                | StartOffset
                | BinOffset
                | BinSize
                | Thread
                | Min
                | Max
                | Mean
                | Std
                | Zeros
                | Nan
                | Inf
        )
    }

    /// Width that cells of this type ask for, whatever the first records have.
    pub const fn least_width(self) -> usize {
        match self {
            Index => 5,
            Stage | Role | Kind | Kernel => 6,
            Arg => 3,
            Dtype | Shape => 8,
            Bytes => 9,
            Hash => 13,
            _ => 0,
        }
    }

    /// The cell of a table.
    pub fn write_for_people(self, cells: &mut Cells<'_>, record: &Record, out: &mut String) {
        match self {
            Task if cells.short_tasks => put(out, format_args!("{:#x}", record.task_id)),
            Bytes => *out += &grouped(record.content_bytes()),
            Numel => *out += &grouped(record.numel),
            Hash => match (record.value(), record.hash) {
                (Some(value), _) => put(out, format_args!("= {}", scalar_text(value))),
                (None, Some(hash)) => push_hex(out, hash, HASH_DIGITS),
                (None, None) => out.push('-'),
            },
            Kernel => *out += cells.kernels(record),
            Shape => match (record.kind, record.shape()) {
                (ArgumentKind::Tensor, [_, ..]) => push_shape(out, record.shape()),
                _ => *out += &shape_text(record),
            },
            Min | Max | Mean | Std => {
                if let Some(value) = self.statistic(record) {
                    *out += &tensortap_query::words::short_float(value);
                }
            }
            other => other.write_for_machines(cells, record, out),
        }
    }

    /// The cell of a CSV file: nothing is shortened or grouped.
    pub fn write_for_machines(self, cells: &mut Cells<'_>, record: &Record, out: &mut String) {
        match self {
            Index => push_number(out, record.index),
            Task => {
                *out += "0x";
                push_hex(out, u128::from(record.task_id) << 64, 16);
            }
            Kernel => *out += cells.kernels(record),
            Stage => *out += stage_word(record.stage),
            Role => *out += role_name(record.role),
            Arg => push_number(out, record.arg_index.into()),
            Kind => *out += record.kind.name(),
            Dtype => *out += record.dtype.name(),
            Shape => match record.kind {
                ArgumentKind::Tensor => push_shape(out, record.shape()),
                ArgumentKind::Scalar => {}
            },
            Bytes => push_number(out, record.content_bytes()),
            Hash => {
                if let Some(hash) = record.hash {
                    *out += "0x";
                    push_hex(out, hash, 32);
                }
            }
            Flags => push_flags(out, record),
            Name => *out += &record_name(record),
            Value => push_value(out, record),
            Payload => *out += record.payload.name(),
            Numel => push_number(out, record.numel),
            Strides => {
                let strides: Vec<String> = record.strides().iter().map(i64::to_string).collect();
                *out += &strides.join("x");
            }
            StartOffset => push_number(out, record.start_offset),
            Address => put(out, format_args!("{:#x}", record.address)),
            BinOffset => push_number(out, record.bin_offset),
            BinSize => push_number(out, record.bin_size),
            Thread => push_number(out, record.thread.into()),
            Min | Max | Mean | Std | Zeros | Nan | Inf => {
                if let Some(value) = self.statistic(record) {
                    put(out, format_args!("{value}"));
                }
            }
        }
    }

    /// A recorded statistic; counts are exact below 2^53, which tensors stay below.
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub fn statistic(self, record: &Record) -> Option<f64> {
        let TensorStats { min, max, mean, std, zeros, nan, inf, numel: _ } = record.stats?;
        match self {
            Min => Some(min),
            Max => Some(max),
            Mean => Some(mean),
            Std => Some(std),
            Zeros => Some(zeros as f64),
            Nan => Some(nan as f64),
            Inf => Some(inf as f64),
            _ => None,
        }
    }
}

/// What cells need beside their record.
pub struct Cells<'d> {
    info: &'d RunInfo,
    /// Whether tasks go without leading zeros.
    pub short_tasks: bool,
    /// A dump has few sets of kernels and many records.
    labels: HashMap<[u32; SLOTS_PER_TASK], String>,
}

impl<'d> Cells<'d> {
    /// For records of one dump.
    pub fn new(info: &'d RunInfo) -> Cells<'d> {
        Cells { info, short_tasks: false, labels: HashMap::new() }
    }

    /// The record's kernels as one word.
    pub fn kernels(&mut self, record: &Record) -> &str {
        let info = self.info;
        self.labels.entry(record.func_id).or_insert_with(|| kernel_label(record, info))
    }
}

/// Writing to a text cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// Numbers and hashes stand in every row; the formatting machinery would take most of the time of a long list.
fn push_number(out: &mut String, mut number: u64) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend(digits[first..].iter().map(|&digit| char::from(digit)));
}

/// The highest `digits` of 32.
fn push_hex(out: &mut String, number: u128, digits: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes = number.to_be_bytes();
    out.extend((0..digits).map(|place| {
        let byte = bytes[place / 2];
        char::from(DIGITS[usize::from(if place % 2 == 0 { byte >> 4 } else { byte & 15 })])
    }));
}

fn push_shape(out: &mut String, shape: &[u64]) {
    for (place, &size) in shape.iter().enumerate() {
        if place > 0 {
            out.push('x');
        }
        push_number(out, size);
    }
}

fn push_flags(out: &mut String, record: &Record) {
    let start = out.len();
    for word in flag_words(record).into_iter().filter(|word| !word.is_empty()) {
        if out.len() > start {
            out.push(',');
        }
        *out += word;
    }
}

/// As the manifest has it, so that nothing is lost.
fn push_value(out: &mut String, record: &Record) {
    if let Some(value) = record.value() {
        let text = serde_json::to_string(&value).unwrap_or_default();
        *out += text.trim_matches('"');
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_column_is_listed_once_under_its_own_name() {
        let mut names: Vec<&str> = ALL.iter().map(|column| column.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(FOR_PEOPLE.iter().chain(&FOR_MACHINES).all(|column| ALL.contains(column)));
    }

    proptest! {
        #[test]
        fn numbers_and_hashes_are_written_as_the_standard_would(number: u64, hash: u128) {
            let mut text = String::new();
            push_number(&mut text, number);
            push_hex(&mut text, hash, 32);
            prop_assert_eq!(text, format!("{number}{hash:032x}"));
        }
    }
}
