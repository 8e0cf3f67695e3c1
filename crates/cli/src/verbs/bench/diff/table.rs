use std::time::Duration;

use super::{Case, Document};
use crate::fit::{Fit, Line};
use tensortap_query::number::{byte_rate, bytes, counted, significant, time};

/// Everything for people.
pub fn text(document: &Document) -> String {
    let Document { machine, instructions, bytes_per_side, repeat, numpy, cases, notes, .. } = document;
    let load = document.load_average_before.map_or(String::new(), |load| format!(", load average {load:.2}"));
    let rounds = counted((*repeat).into(), "round");
    let size = bytes(*bytes_per_side);
    let mut text = format!(
        "{}\nfloat32, {size} on each side, {instructions}, median of {rounds}{load}\n\n",
        machine.describe()
    );
    let table = table();
    text += &table.left_out();
    text += &table.head();
    cases.iter().for_each(|case| text += &table.row(&row(case)));
    if let Some(numpy) = numpy {
        let name = format!("numpy {}", numpy.version);
        let (took, rate) = (seconds(numpy.seconds.median), byte_rate(numpy.bytes_per_s.median));
        text += &table.row(&[&name, "1", &took, &rate, "", "1", "", "1", ""]);
    }
    text += "\n";
    notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

fn row(case: &Case) -> [String; 9] {
    let none = || "-".to_string();
    let ratio = case.numpy_ratio.map_or_else(none, |ratio| significant(ratio.median, 3));
    let ends = |low, high| format!("{} – {}", significant(low, 3), significant(high, 3));
    let target = match (case.target_ratio, case.met) {
        (Some(target), Some(met)) => format!("{target} {}", if met { "met" } else { "missed" }),
        _ => String::new(),
    };
    [
        case.set.into(),
        case.threads.to_string(),
        seconds(case.seconds.median),
        byte_rate(case.bytes_per_s.median),
        significant(case.share_of_reading, 2),
        ratio,
        case.numpy_ratio.map_or_else(none, |ratio| ends(ratio.min, ratio.max)),
        case.numpy_ratio_per_core.map_or_else(none, |ratio| significant(ratio, 3)),
        target,
    ]
}

fn table() -> Line<9> {
    let columns = [
        ("SET", 13, false),
        ("THREADS", 7, true),
        ("TIME", 7, true),
        ("BOTH SIDES", 10, true),
        ("OF READING", 10, true),
        ("NUMPY / OURS", 12, true),
        ("MIN – MAX", 13, true),
        ("PER CORE", 8, true),
        ("TARGET", 9, false),
    ];
    Line::of(columns, Fit::terminal(&["MIN – MAX", "OF READING", "PER CORE"]).indented(2))
}

fn seconds(seconds: f64) -> String {
    time(Duration::from_secs_f64(seconds))
}
