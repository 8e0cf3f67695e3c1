use serde_json::Value;

use crate::json::document;
use crate::{command, outcome, tensortap};

const SHAPES: [&str; 3] = ["independent", "chain", "fanout"];

#[test]
fn dispatch_measures_every_shape_platform_and_runtime() {
    let outcome = tensortap("bench dispatch --all --tasks 200 --repeat 2 --json");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let bench = document(&outcome);
    assert!(bench["machine"]["cpus"].as_u64() >= Some(1), "{bench}");
    assert_eq!((&bench["tasks"], &bench["repeat"]), (&200.into(), &2.into()));
    let loops = bench["call_loop"].as_array().unwrap();
    assert_eq!(loops.iter().map(|l| l["shape"].as_str().unwrap()).collect::<Vec<_>>(), SHAPES);
    let cases = bench["cases"].as_array().unwrap();
    for shape in SHAPES {
        for platform in ["a2a3sim", "a5sim"] {
            for runtime in ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"] {
                let found = |case: &&Value| {
                    case["shape"] == shape && case["platform"] == platform && case["runtime"] == runtime
                };
                let size = |case: &Value| [&case["blocks"], &case["schedulers"]].map(Value::as_u64);
                let sizes: Vec<_> = cases.iter().filter(found).map(size).collect();
                assert_eq!(sizes[0], [Some(1), Some(1)], "{shape} {platform} {runtime}");
                assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]), "{sizes:?}");
                assert!(sizes.iter().any(|[_, schedulers]| *schedulers == Some(2)), "{sizes:?}");
            }
        }
    }
    cases.iter().chain(loops).for_each(assert_rates_in_order);
    for case in cases {
        let shape = loops.iter().find(|l| l["shape"] == case["shape"]).unwrap();
        let ratio = case["tasks_per_s"].as_f64().unwrap() / shape["tasks_per_s"].as_f64().unwrap();
        assert!((case["ratio"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9, "{case}");
    }
}

fn assert_rates_in_order(rates: &Value) {
    let rate = |key: &str| rates[key].as_f64().unwrap();
    let (min, median, max) = (rate("tasks_per_s_min"), rate("tasks_per_s"), rate("tasks_per_s_max"));
    assert!(0.0 < min && min <= median && median <= max, "{rates}");
}

#[test]
fn options_choose_platform_runtime_and_schedulers() {
    let outcome = tensortap(
        "bench dispatch --tasks 100 --repeat 1 --json --platform a5sim --runtime aicpu_build_graph --schedulers 2",
    );
    let bench = document(&outcome);
    let cases = bench["cases"].as_array().unwrap();
    assert!(cases.iter().all(|c| c["platform"] == "a5sim" && c["runtime"] == "aicpu_build_graph"), "{bench}");
    let chain: Vec<&Value> = cases.iter().filter(|case| case["shape"] == "chain").collect();
    assert!(
        chain.iter().any(|case| case["schedulers"] == 1) && chain.iter().any(|case| case["schedulers"] == 2)
    );
    assert!(chain.iter().all(|case| case["blocks"].as_u64() >= case["schedulers"].as_u64()), "{chain:?}");
}

#[test]
fn text_has_the_machine_and_a_short_table_for_each_runtime() {
    let outcome = tensortap("bench dispatch --tasks 100 --repeat 1");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines[0].contains("CPU"), "{}", lines[0]);
    assert!(lines[1].contains("100 empty tasks"), "{}", lines[1]);
    for runtime in ["tensormap_and_ringbuffer", "aicpu_build_graph", "host_build_graph"] {
        let at = lines.iter().position(|line| *line == runtime).expect(runtime);
        assert!(lines[at + 1].contains("SHAPE") && lines[at + 1].contains("TASKS/S"), "{outcome:?}");
        let rows: Vec<&str> = lines[at + 2..].iter().take_while(|line| !line.is_empty()).copied().collect();
        assert_eq!(rows.len(), SHAPES.len() * 2, "{outcome:?}");
        assert!(rows[0].starts_with("  independent  a2a3sim        1           1 "), "{outcome:?}");
    }
    assert!(outcome.stdout.contains("host_build_graph: the host builds the graph before the clock starts"));
}

#[test]
fn capture_compares_every_size_dtype_and_view_with_the_limit() {
    let outcome = tensortap("bench capture --repeat 2 --json");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let bench = document(&outcome);
    let cases = array(&bench["cases"]);
    let named = |case: &Value| {
        let bytes = case["bytes"].as_u64().unwrap();
        format!("{} {} {bytes}", case["view"].as_str().unwrap(), case["dtype"].as_str().unwrap())
    };
    let names: Vec<String> = cases.iter().map(named).collect();
    for expected in [
        "contiguous float32 16",
        "contiguous float32 1048576",
        "contiguous int4 256",
        "transposed float32 65536",
    ] {
        assert!(names.iter().any(|name| name == expected), "{expected} is not among {names:?}");
    }
    for case in cases {
        ["record_ns", "copy_ns", "limit_ns", "of_the_limit"]
            .iter()
            .for_each(|key| assert_spread_in_order(&case[key]));
        let (bytes, ns) = (case["bytes"].as_f64().unwrap(), case["record_ns"]["median"].as_f64().unwrap());
        assert!((case["bytes_per_s"].as_f64().unwrap() * ns / 1e9 / bytes - 1.0).abs() < 1e-9, "{case}");
    }
}

#[test]
fn record_measures_calls_in_a_c_program_and_leaves_no_file() {
    if std::process::Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no compiler `cc`");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let outputs = dir.path().join("outputs");
    let line = ["bench", "record", "--repeat", "2", "--json", "--dir", outputs.to_str().unwrap()];
    let run = outcome(command(&line));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    assert!(!outputs.exists(), "what was written is removed");
    let bench = document(&run);
    let programs: Vec<&str> =
        array(&bench["off"]).iter().map(|off| off["program"].as_str().unwrap()).collect();
    assert_eq!(programs, ["header", "linked"]);
    for off in array(&bench["off"]) {
        assert_spread_in_order(&off["call_ns"]);
        assert_eq!(off["met"], off["call_ns"]["median"].as_f64() <= off["goal_ns"].as_f64(), "{off}");
    }
    let sizes: Vec<u64> = array(&bench["cases"]).iter().map(|case| case["bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [16, 256, 4096, 65_536]);
    for case in array(&bench["cases"]) {
        ["alone_ns", "among_four_ns", "copy_ns", "limit_ns"]
            .iter()
            .for_each(|key| assert_spread_in_order(&case[key]));
    }
    let absent = outcome(command(&["bench", "record", "--library", "/no/such/library.so"]));
    assert_eq!(absent.code, Some(3), "{absent:?}");
    assert!(absent.stderr.contains("/no/such/library.so"), "{absent:?}");
}

#[test]
fn dump_measures_payloads_run_times_and_small_records_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = dir.path().join("outputs");
    let line = ["bench", "dump", "--bytes", "4MiB", "--pairs", "2", "--tasks", "300", "--json", "--dir"];
    let outcome = outcome(command(&[&line[..], &[outputs.to_str().unwrap()]].concat()));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    assert!(!outputs.exists(), "what was written is removed");
    let bench = document(&outcome);
    assert_eq!((&bench["bytes"], &bench["pairs"]), (&(4 << 20).into(), &2.into()));
    let cases = [("a2a3sim", 1, 0.9), ("a2a3sim", 4, 0.9), ("a5sim", 1, 0.8), ("a5sim", 4, 0.8)];
    assert_eq!(array(&bench["throughput"]).len(), cases.len());
    for (case, (platform, files, target)) in array(&bench["throughput"]).iter().zip(cases) {
        assert_eq!((&case["platform"], &case["target_ratio"]), (&platform.into(), &target.into()));
        assert_eq!(case["files"], files);
        assert_eq!(case["met"], case["ratio"]["median"].as_f64() >= Some(target), "{case}");
        let pairs = array(&case["pairs"]);
        assert_eq!(pairs.len(), 2, "the warm-up does not count");
        for pair in pairs {
            let [plain, dump, ratio, sync] =
                ["plain_s", "dump_s", "ratio", "sync_s"].map(|key| pair[key].as_f64().unwrap());
            assert!((ratio - plain / dump).abs() < 1e-9 && sync <= dump, "{pair}");
        }
        for key in ["plain_bytes_per_s", "dump_bytes_per_s", "ratio", "held_up_s"] {
            assert_spread_in_order(&case[key]);
        }
    }
    let overheads = array(&bench["overhead"]);
    let named = overheads.iter().map(|o| (o["scene"].as_str().unwrap(), o["platform"].as_str().unwrap()));
    let scenes = ["paged_attention", "tiny_llm"];
    let expected = scenes.iter().flat_map(|&scene| ["a2a3sim", "a5sim"].map(|platform| (scene, platform)));
    assert_eq!(named.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    overheads.iter().for_each(|case| assert_spread_in_order(&case["ratio"]));
    for case in array(&bench["small"]) {
        assert_spread_in_order(&case["records_per_s"]);
        assert!(case["bound"].as_str().unwrap().contains("takes"), "{case}");
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

fn assert_spread_in_order(spread: &Value) {
    let [min, median, max] = ["min", "median", "max"].map(|key| spread[key].as_f64().unwrap());
    assert!(0.0 < min && min <= median && median <= max, "{spread}");
}

#[test]
fn rejects_a_dump_larger_than_the_disk_and_suggests_a_size() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["bench", "dump", "--bytes", "1000000TiB", "--dir", dir.path().to_str().unwrap()];
    let outcome = outcome(command(&line));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("free") && outcome.stderr.contains("--bytes of at most"), "{outcome:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn diff_measures_both_sets_with_all_threads_and_with_one() {
    let python = std::env::var("TENSORTAP_PYTHON").unwrap_or("python3".into());
    let line = ["bench", "diff", "--bytes", "1MiB", "--repeat", "2", "--threads", "2", "--json", "--quiet"];
    let outcome = outcome(command(&[&line[..], &["--python", &python]].concat()));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let bench = document(&outcome);
    assert_eq!((&bench["bytes_per_side"], &bench["repeat"]), (&(1 << 20).into(), &2.into()));
    let cases = array(&bench["cases"]);
    let named: Vec<_> =
        cases.iter().map(|case| (case["set"].as_str().unwrap(), case["threads"].as_u64())).collect();
    assert_eq!(named, [("quick", Some(2)), ("full", Some(2)), ("quick", Some(1)), ("full", Some(1))]);
    for case in cases {
        for key in ["seconds", "bytes_per_s", "read_bytes_per_s"] {
            assert_spread_in_order(&case[key]);
        }
        assert!(case["share_of_reading"].as_f64() > Some(0.0), "{case}");
        assert_eq!(case["numpy_ratio"].is_null(), bench["numpy"].is_null(), "{case}");
    }
    assert_eq!(cases[0]["target_ratio"], 10.0);
    if bench["numpy"].is_null() {
        println!("{python} has no numpy: ratios were not checked");
        return;
    }
    assert_spread_in_order(&bench["numpy"]["seconds"]);
    let [ratio, per_core] = [&cases[0]["numpy_ratio"]["median"], &cases[0]["numpy_ratio_per_core"]]
        .map(|ratio| ratio.as_f64().unwrap());
    assert!((ratio / 2.0 - per_core).abs() < 1e-9, "{}", cases[0]);
    assert_eq!(cases[0]["met"], ratio >= 10.0);
}

#[test]
fn diff_without_numpy_prints_a_note_and_measures_the_rest() {
    let outcome = tensortap("bench diff --bytes 64KiB --repeat 1 --python no-such-python");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("no-such-python has no numpy"), "{outcome:?}");
    assert!(outcome.stdout.contains("quick") && outcome.stdout.contains("OF LIMIT"), "{outcome:?}");
}

#[test]
fn diff_rejects_an_empty_tensor() {
    let outcome = tensortap("bench diff --bytes 0");
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("from 4 bytes"), "{outcome:?}");
}

#[test]
fn read_measures_lists_statistics_and_exports_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = dir.path().join("outputs");
    let line = ["bench", "read", "--records", "3000", "--bytes", "4MiB", "--pairs", "2", "--json", "--dir"];
    let outcome = outcome(command(&[&line[..], &[outputs.to_str().unwrap()]].concat()));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    assert!(!outputs.exists(), "what was written is removed");
    let bench = document(&outcome);
    assert_eq!((&bench["list"]["records"], &bench["list"]["target_s"]), (&3000.into(), &0.5.into()));
    assert_spread_in_order(&bench["list"]["seconds"]);
    let stats = array(&bench["stats"]);
    let dtypes: Vec<&str> = stats.iter().map(|row| row["dtype"].as_str().unwrap()).collect();
    assert_eq!(dtypes, ["float32", "bfloat16", "float8_e4m3fn"]);
    for row in stats.iter().chain([&bench["export"]]) {
        let target = if row["dtype"].is_null() { 0.5 } else { 0.7 };
        assert_eq!((&row["bytes"], &row["target_ratio"]), (&(4 << 20).into(), &target.into()));
        ["plain_s", "tensortap_s", "ratio"].iter().for_each(|key| assert_spread_in_order(&row[key]));
        assert_eq!(row["met"], row["ratio"]["median"].as_f64() >= Some(target), "{row}");
    }
}

#[test]
fn serve_measures_every_kind_of_request_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = dir.path().join("outputs");
    let line = ["bench", "serve", "--records", "2000", "--asks", "3", "--json", "--dir"];
    let outcome = outcome(command(&[&line[..], &[outputs.to_str().unwrap()]].concat()));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    assert!(!outputs.exists(), "what was written is removed");
    let bench = document(&outcome);
    let seconds = |key: &str| bench["start"][key].as_f64().unwrap();
    assert!(seconds("address_s") <= seconds("first_rows_s") && seconds("first_rows_s") <= seconds("tasks_s"));
    let cases = array(&bench["cases"]);
    let kinds: Vec<&str> =
        cases.iter().map(|row| row["what"].as_str().unwrap().split(',').next().unwrap()).collect();
    assert_eq!(kinds, ["records", "search", "search", "sorted", "tasks", "one task"]);
    for row in cases {
        assert_eq!((&row["asked"], &row["target_s"]), (&3.into(), &0.1.into()));
        assert!(row["median_s"].as_f64() <= row["p99_s"].as_f64(), "{row}");
        assert_eq!(row["met"], row["median_s"].as_f64() < Some(0.1), "{row}");
    }
    assert!(bench["memory"]["anonymous_bytes"].as_u64() > Some(1 << 20));
}
