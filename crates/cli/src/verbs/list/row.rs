//! One record in a row of cells.

use tensortap::format::{ArgumentKind, PayloadState, Record, RunInfo, ScalarValue};
use tensortap::{DumpStage, TaskId};

use crate::number::{grouped, significant};

/// Cells of a row.
pub const COLUMNS: usize = 12;
/// Digits of a hash that tell records apart at a glance.
const HASH_DIGITS: usize = 8;

/// Names of the columns.
pub const HEAD: [&str; COLUMNS] = [
    "INDEX",
    "TASK",
    "KERNEL",
    "STAGE",
    "ROLE",
    "ARG",
    "KIND",
    "DTYPE",
    "SHAPE",
    "BYTES",
    "HASH OR VALUE",
    "FLAGS",
];

/// The cells of a record.
pub fn cells(record: &Record, info: &RunInfo) -> [String; COLUMNS] {
    [
        record.index.to_string(),
        TaskId(record.task_id).to_string(),
        kernels(record, info),
        stage(record.stage).into(),
        tensortap::format::role_name(record.role).into(),
        record.arg_index.to_string(),
        record.kind.name().into(),
        record.dtype.name().into(),
        shape(record),
        grouped(record.content_bytes()),
        content(record),
        flags(record),
    ]
}

/// The kernels of a mix task run together.
fn kernels(record: &Record, info: &RunInfo) -> String {
    let names: Vec<String> = record.func_ids().map(|id| info.kernel_name(id)).collect();
    if names.is_empty() { "-".into() } else { names.join("+") }
}

fn stage(stage: DumpStage) -> &'static str {
    match stage {
        DumpStage::BeforeDispatch => "before",
        DumpStage::AfterCompletion => "after",
    }
}

fn shape(record: &Record) -> String {
    match (record.kind, record.shape()) {
        (ArgumentKind::Scalar, _) => "-".into(),
        (ArgumentKind::Tensor, []) => "[]".into(),
        (ArgumentKind::Tensor, shape) => shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x"),
    }
}

fn content(record: &Record) -> String {
    match (record.value(), record.hash) {
        (Some(value), _) => format!("= {}", scalar(value)),
        (None, Some(hash)) => format!("{hash:032x}")[..HASH_DIGITS].into(),
        (None, None) => "-".into(),
    }
}

fn scalar(value: ScalarValue) -> String {
    match value {
        ScalarValue::Float(value) => significant_float(value),
        ScalarValue::Int(value) | ScalarValue::Int64(value) => value.to_string(),
        ScalarValue::UInt(value) | ScalarValue::UInt64(value) => value.to_string(),
        ScalarValue::Bool(value) => value.to_string(),
    }
}

/// Whole where it is short, else to six digits.
fn significant_float(value: f64) -> String {
    const DIGITS: usize = 6;
    let exact = format!("{value:?}");
    if exact.len() <= DIGITS + 2 { exact } else { significant(value, DIGITS) }
}

/// What sets the record apart from one that was captured whole, in one piece and on time.
fn flags(record: &Record) -> String {
    let tensor = record.kind == ArgumentKind::Tensor;
    let payload = match record.payload {
        PayloadState::Stored => "",
        PayloadState::None if !tensor => "",
        PayloadState::None => "no_payload",
        other => other.name(),
    };
    let strided = if tensor && !record.is_contiguous() { "strided" } else { "" };
    let in_flight = if record.in_flight { "in_flight" } else { "" };
    let words = [payload, strided, in_flight];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_shown_short() {
        for (value, text) in [
            (ScalarValue::Float(1.0), "1.0"),
            (ScalarValue::Float(f64::from(0.1_f32)), "0.100000"),
            (ScalarValue::Float(f64::MAX), "1.79769e308"),
            (ScalarValue::Float(f64::NEG_INFINITY), "-inf"),
            (ScalarValue::Int64(i64::MIN), "-9223372036854775808"),
            (ScalarValue::UInt64(u64::MAX), "18446744073709551615"),
            (ScalarValue::Bool(true), "true"),
        ] {
            assert_eq!(scalar(value), text);
        }
    }
}
