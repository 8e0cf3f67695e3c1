//! NaN and infinities are never reported as an error or a statistic of zero.

use serde_json::Value;

use crate::dumps::Folder;

fn document(folder: &Folder, line: &str, code: i32) -> Value {
    let outcome = folder.tensortap(line);
    assert_eq!(outcome.code, Some(code), "{line}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).expect("one JSON document")
}

/// The dumps of a correct run and of one whose `mul` writes only NaN, which `add` passes on.
fn right_and_nan(options: &str) -> Folder {
    let folder = Folder::new();
    folder.good(&format!("run vector_example {options} --out right"));
    let wrong = folder.tensortap(&format!("run vector_example {options} --out wrong --inject-fault mul=nan"));
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    folder
}

#[test]
fn unmatched_nan_is_the_largest_error_in_run_and_diff() {
    let folder = right_and_nan("--dump-tensor");
    let run = document(&folder, "run vector_example --json --inject-fault mul=nan", 1);
    let output = &run["outputs"][0];
    assert_eq!(
        (&output["max_abs_err"], &output["max_finite_err"]),
        (&"NaN".into(), &Value::Null),
        "{output}"
    );
    assert_eq!(output["unmatched_nan"], 16_384, "{output}");

    for sort in ["order", "error", "share", "ulps"] {
        let diff = document(&folder, &format!("diff wrong right --sort {sort} --json"), 1);
        let first = &diff["records"][0];
        assert_eq!((&first["verdict"], &first["max_abs_err"]), (&"fail".into(), &"NaN".into()), "{first}");
        assert_eq!(
            (&first["max_finite_err"], &first["max_rel_err"]),
            (&Value::Null, &"NaN".into()),
            "{first}"
        );
        assert_eq!((&first["worst"]["coordinate"], &first["worst"]["dump"]), (&[0].into(), &"NaN".into()));
        assert!(first["worst"]["golden"].is_f64() && first["worst"]["error"].is_null(), "{first}");
        assert_eq!(first["unmatched_nan"], 16_384, "{first}");
    }
    let table = folder.tensortap("diff wrong right --limit 1 --sort error").stdout;
    let line =
        |start: &str| table.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{table}"));
    assert!(line("RECORD").contains("MAX ABS") && line("RECORD").contains(" NAN "), "{table}");
    let row = table.lines().skip_while(|line| !line.starts_with("RECORD")).nth(1).unwrap();
    assert!(row.contains(" NaN ") && row.contains(" 16,384 "), "{table}");
    let csv = folder.tensortap("diff wrong right --csv --limit 1 --sort error").stdout;
    assert!(csv.lines().next().unwrap().contains(",max_abs_err,max_finite_err,unmatched_nan,"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().contains(",NaN,,16384,NaN,"), "{csv}");
}

#[test]
fn an_unmatched_infinity_is_an_infinite_error() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    let text = folder.tensortap("run vector_example --dump-tensor --out wrong --inject-fault mul=overflow");
    assert!(text.stdout.contains("max error inf") && text.stdout.contains("by infinities"), "{text:?}");
    let first = &document(&folder, "diff wrong right --sort error --json", 1)["records"][0];
    assert_eq!((&first["max_abs_err"], &first["unmatched_nan"]), (&"Infinity".into(), &0.into()), "{first}");
    assert!(first["worst"]["dump"].is_string() && first["max_finite_err"].is_null(), "{first}");
}

#[test]
fn statistics_without_finite_values_are_nan_from_payloads_and_from_the_device() {
    for options in ["--dump-tensor", "--dump-tensor=hash"] {
        let folder = right_and_nan(options);
        let stats = document(&folder, "stats wrong --func mul --stage after --json", 0);
        let stats = &stats["records"][0]["stats"];
        for name in ["min", "max", "mean", "std"] {
            assert_eq!(stats[name], "NaN", "{options}: {stats}");
        }
        assert_eq!((&stats["nan"], &stats["zeros"]), (&16_384.into(), &0.into()), "{options}: {stats}");
        let csv = folder.good("stats wrong --func mul --stage after --csv").stdout;
        assert!(csv.lines().nth(1).unwrap().contains(",NaN,NaN,NaN,NaN,"), "{options}: {csv}");
    }
}
