//! Statistics for spreadsheets and scripts.

use std::io::Write;

use tensortap::TaskId;
use tensortap::format::{Dump, role_name};
use tensortap::values::Summary;

use super::{Source, joined, kernels, write_csv_line};
use tensortap::Measured;

const HEAD: &str = "index,task_id,kernels,stage,role,arg_index,kind,dtype,shape,numel,min,max,mean,std,zeros,nan,inf,\
                    f16_overflow,hash,flags";

/// Writes a line of names, then one for each record. What is not known is empty.
pub fn write(out: &mut dyn Write, dump: &Dump, source: impl Source) -> anyhow::Result<()> {
    writeln!(out, "{HEAD}")?;
    source(&mut |measured| write_csv_line(out, &cells(dump, &measured)))
}

fn cells(dump: &Dump, measured: &Measured) -> Vec<String> {
    let Measured { record, summary, .. } = measured;
    let number = |value: fn(&Summary) -> f64| match summary {
        Some(summary) if measured.has_finite() => format!("{:?}", value(summary)),
        _ => String::new(),
    };
    let end = |value: fn(&Summary) -> f64, exact: fn((i128, i128)) -> i128| {
        summary.and_then(|s| s.exact_range).map_or_else(|| number(value), |range| exact(range).to_string())
    };
    let count =
        |value: fn(&Summary) -> u64| summary.as_ref().map(|s| value(s).to_string()).unwrap_or_default();
    vec![
        record.index.to_string(),
        TaskId(record.task_id).to_string(),
        kernels(dump, record).join("+"),
        record.stage.name().into(),
        role_name(record.role).into(),
        record.arg_index.to_string(),
        record.kind.name().into(),
        record.dtype.name().into(),
        joined(record.shape(), "x"),
        record.numel.to_string(),
        end(|s| s.stats.min, |(min, _)| min),
        end(|s| s.stats.max, |(_, max)| max),
        number(|s| s.stats.mean),
        number(|s| s.stats.std),
        count(|s| s.stats.zeros),
        count(|s| s.stats.nan),
        count(|s| s.stats.inf),
        count(|s| s.f16_overflow),
        record.hash.map(|hash| format!("0x{hash:032x}")).unwrap_or_default(),
        joined(&measured.flags().iter().map(|flag| flag.name()).collect::<Vec<_>>(), "+"),
    ]
}
