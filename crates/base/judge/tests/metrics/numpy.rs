//! Compares the metrics with those that numpy computes in `f64`.
//!
//! `reference.py` computes them. If python3 with numpy is available (`TENSORTAP_PYTHON` names another
//! interpreter), it runs. The answers of one run are stored in `numpy.json`, so that every machine compares
//! with numpy. `TENSORTAP_UPDATE=1` stores new answers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tensortap_abi::DType;
use tensortap_judge::{Metrics, Predicate, Rule, SpecialCounts};

use crate::flat;
use crate::naive::near;
use crate::sample::pair;

const NUMEL: usize = 20_011;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metrics").join(name)
}

fn python() -> String {
    std::env::var("TENSORTAP_PYTHON").unwrap_or("python3".into())
}

fn seed(dtype: DType) -> u64 {
    1000 + u64::from(dtype.tag())
}

/// The rule of a test. numpy cannot count representable values, so small floats get a tolerance.
fn rule(dtype: DType) -> Rule {
    match Rule::for_dtype(dtype).predicate {
        Predicate::Close { .. } => Rule::for_dtype(dtype),
        Predicate::Ulps(_) | Predicate::BitExact => Rule::close(dtype, 0.125, 1e-5),
    }
}

/// The answers of numpy for every dtype it has; `None` without numpy.
fn ask_numpy() -> Option<Value> {
    let start =
        Command::new(python()).arg(file("reference.py")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut python = start.ok()?;
    let mut stdin = python.stdin.take()?;
    let feeder = std::thread::spawn(move || {
        for dtype in DType::ALL {
            let Predicate::Close { rtol, atol } = rule(dtype).predicate else { unreachable!() };
            let (dump, golden) = pair(dtype, NUMEL, seed(dtype));
            let head = json!({"dtype": dtype.name(), "numel": NUMEL, "bytes": dump.len(),
                              "rtol": rtol, "atol": atol, "small": rule(dtype).small});
            // An interpreter without numpy ends early.
            let sent = writeln!(stdin, "{head}")
                .and_then(|()| stdin.write_all(&dump))
                .and_then(|()| stdin.write_all(&golden));
            if sent.is_err() {
                return;
            }
        }
    });
    let output = python.wait_with_output().ok()?;
    feeder.join().expect("the feeder does not panic");
    match output.status.code() {
        Some(0) => Some(serde_json::from_slice(&output.stdout).expect("a document")),
        // The exit status of the script without numpy.
        Some(3) => None,
        code => panic!("reference.py ended with {code:?}"),
    }
}

#[test]
fn metrics_equal_those_of_numpy() {
    let asked = ask_numpy();
    if let (Some(asked), Ok(_)) = (&asked, std::env::var("TENSORTAP_UPDATE")) {
        std::fs::write(file("numpy.json"), serde_json::to_string_pretty(asked).unwrap() + "\n").unwrap();
    }
    if asked.is_none() {
        println!("{} has no numpy: compared with stored answers only", python());
    }
    let stored = std::fs::read_to_string(file("numpy.json")).expect("it is part of the repository");
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert_eq!(compare_all(&stored), DType::ALL.len(), "every dtype is stored");
    if let Some(asked) = asked {
        assert!(compare_all(&asked) >= 14, "numpy without extensions has fourteen of the dtypes");
    }
}

/// Compares all answers and returns the number of dtypes.
fn compare_all(answers: &Value) -> usize {
    let answers = answers["dtypes"].as_object().expect("an answer per dtype");
    for (name, answer) in answers {
        let dtype = DType::parse(name).expect("a dtype of tensortap");
        let (dump, golden) = pair(dtype, NUMEL, seed(dtype));
        let metrics = flat(dtype, NUMEL, rule(dtype)).full(&dump, &golden, 2).unwrap();
        agree(name, &metrics, answer);
    }
    answers.len()
}

fn agree(name: &str, metrics: &Metrics, answer: &Value) {
    let count = |key: &str| answer[key].as_u64().unwrap_or_else(|| panic!("{name}: {key}"));
    let specials = |side: &str| {
        let counts = &answer[side];
        let count = |key: &str| counts[key].as_u64().expect("a count");
        SpecialCounts {
            nan: count("nan"),
            positive_infinity: count("positive_infinity"),
            negative_infinity: count("negative_infinity"),
            zeros: count("zeros"),
        }
    };
    assert_eq!((metrics.dump, metrics.golden), (specials("dump"), specials("golden")), "{name}");
    for (key, ours) in [
        ("measured", metrics.measured),
        ("mismatched", metrics.mismatched),
        ("failing", metrics.failing),
        ("differing", metrics.differing.unwrap()),
        ("relative_count", metrics.relative_count),
        ("worst", metrics.worst.as_ref().unwrap().index),
    ] {
        assert_eq!(ours, count(key), "{name}: {key}");
    }
    let nan = f64::NAN;
    for (key, ours) in [
        ("max_abs", metrics.max_abs),
        ("mean_abs", metrics.mean_abs.unwrap_or(nan)),
        ("rmse", metrics.rmse.unwrap_or(nan)),
        ("max_relative", metrics.max_relative),
        ("mean_relative", metrics.mean_relative.unwrap_or(nan)),
        ("dump_norm", metrics.dump_norm),
        ("golden_norm", metrics.golden_norm),
        ("cosine", metrics.cosine.unwrap_or(nan)),
    ] {
        near(&format!("{name}: {key}"), ours, answer[key].as_f64().unwrap());
    }
}
