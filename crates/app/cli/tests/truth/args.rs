//! Compares the files of `--dump-args` with what kernels really received and with the tensor dump, using only
//! a JSON parser.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};
use tensortap::{DType, DeviceMode, DumpConfig, DumpLevel, RunConfig, RunReport};

use crate::common::{Venue, share, smaller};
use crate::manifest::{Manifest, hex, key};
use crate::times::times_are_true;
use crate::{config, listed_scenes, run, venues};

/// Words of a row of the scene `trace_args`; its module documents them.
const TRACE_WORDS: usize = 1 + 50 + 4 + 16 * 20;
const TRACE_ROWS: usize = 15;

/// A configuration that dumps arguments, at a level of the tensor dump.
fn args_config(scene: &str, level: DumpLevel, out: &Path) -> RunConfig {
    let mut config = config(scene, level, out);
    config.dump = Some(DumpConfig { dump_args: true, ..DumpConfig::new(level) });
    config
}

fn placed(mut config: RunConfig, venue: Venue) -> RunConfig {
    venue.set(&mut config);
    config
}

pub fn read(dir: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    serde_json::from_str(&text).expect("it is JSON")
}

pub fn dispatches(dir: &Path) -> Vec<Value> {
    let json = read(dir, "kernel_args_dump.json");
    let all = json["dispatches"].as_array().expect("dispatches[]").clone();
    let args: usize = all.iter().map(|d| list(&d["args"]).len()).sum();
    assert_eq!(
        (number(&json["total_dispatches"]), number(&json["total_args"])),
        (all.len() as u64, args as u64)
    );
    all
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("a list: {value}"))
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

/// The dispatches that a kernel recorded by itself.
fn trace(report: &RunReport) -> Vec<Vec<u64>> {
    let tensor = report.results.iter().find(|r| r.name == "trace").expect("the scene traces");
    let words: Vec<u64> = tensor.get();
    words.chunks_exact(TRACE_WORDS).map(<[u64]>::to_vec).collect()
}

/// Position of a task in submission order: the trace has a row per task.
fn submission(task_id: u64, runtime: &str) -> usize {
    if runtime != "tensormap_and_ringbuffer" {
        return usize::try_from(task_id).unwrap();
    }
    // Tasks 1 to 3 were submitted in a scope, which has its own ring.
    let (ring, local) = (task_id >> 32, usize::try_from(task_id & 0xffff_ffff).unwrap());
    if ring == 1 { 1 + local } else { [0, 4, 5, 6][local] }
}

/// Compares an entry with a row of the trace.
fn check_against_trace(dispatch: &Value, row: &[u64], label: &str) {
    let label = format!("{label}: {}", dispatch["dispatch_id"]);
    let (words, context, tensors) = (&row[1..51], &row[51..55], &row[55..]);
    let args = list(&dispatch["args"]);
    for (slot, arg) in args.iter().enumerate() {
        assert_eq!(number(&arg["arg_index"]), slot as u64, "{label}");
        if arg["kind"] == "scalar" {
            assert_eq!(hex(&arg["bits"]), words[slot], "{label}, slot {slot}");
            continue;
        }
        assert_eq!(hex(&arg["desc_ptr"]), words[slot], "{label}, slot {slot}");
        let seen = &tensors[slot * 20..][..20];
        let ndims = usize::try_from(seen[2]).unwrap();
        let strides: Vec<i64> = seen[12..][..ndims].iter().map(|s| s.cast_signed()).collect();
        let dtype = DType::from_tag(u8::try_from(seen[1]).unwrap()).expect("a dtype").name();
        let expected = json!({
            "data_ptr": format!("{:#018x}", seen[0]), "dtype": dtype, "ndims": ndims, "start_offset": seen[3],
            "shape": &seen[4..][..ndims], "strides": strides,
        });
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&arg[key], value, "{label}, slot {slot}, {key}");
        }
    }
    let fields = [("block_idx", 48), ("block_num", 48), ("subtask_id", 49), ("subtask_count", 49)];
    let contexts = list(&dispatch["context"]);
    assert_eq!(contexts.len(), 2, "{label}");
    for ((name, slot), &seen) in fields.into_iter().zip(context) {
        let of_slot = &contexts[slot - 48];
        assert_eq!((number(&of_slot["arg_index"]), number(&of_slot[name])), (slot as u64, seen), "{label}");
        assert_eq!(hex(&of_slot["data_ptr"]), words[slot], "{label}");
    }
    assert_eq!(number(&dispatch["block_idx"]), context[0], "{label}");
    assert_eq!(number(&dispatch["block_num"]), context[1], "{label}");
    assert_eq!(number(&dispatch["subtask_id"]), context[2], "{label}");
}

#[test]
fn every_dispatch_equals_what_its_kernel_received() {
    for venue in venues("trace_args") {
        for (schedulers, blocks) in [(1, None), (3, Some(3))] {
            let folder = tempfile::tempdir().expect("a folder");
            let mut config = args_config("trace_args", DumpLevel::Full, folder.path());
            (config.schedulers, config.blocks) = (schedulers, blocks);
            let report = run(&placed(config, venue));
            let label = format!("{venue}, {schedulers} schedulers");
            assert_eq!(report.status(), "complete", "{label}: {:?}", report.dump);
            let mut rows = trace(&report);
            let dump = report.dump.expect("dumped");
            let all = dispatches(&dump.dir);
            assert_eq!((dump.counters.dispatches, report.dispatches), (all.len() as u64, 24), "{label}");
            for dispatch in &all {
                let task = submission(hex(&dispatch["task_id"]), venue.runtime);
                let place = number(&dispatch["block_idx"]) * 3 + number(&dispatch["subtask_id"]);
                let row = &mut rows[task * TRACE_ROWS + usize::try_from(place).unwrap()];
                assert_eq!(row[0], 1, "{label}: {dispatch} never ran, or appears twice");
                check_against_trace(dispatch, row, &label);
                row[0] = 0;
            }
            assert!(rows.iter().all(|row| row[0] == 0), "{label}: a dispatch is missing");
            cores_are_true(&all, &label);
            times_are_true(&dump.dir, &label);
            let ids: BTreeSet<u64> = all.iter().map(|d| hex(&d["dispatch_id"])).collect();
            assert_eq!(ids.len(), all.len(), "{label}: ids are unique");
            agrees_with_tensors(&dump.dir, &label);
        }
    }
}

/// Checks the cores: each has its contexts at its own address, with a constant distance between cores, and
/// the first of three is an AIC.
fn cores_are_true(all: &[Value], label: &str) {
    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    for dispatch in all {
        let (core, context) = (number(&dispatch["core_id"]), hex(&dispatch["context"][0]["data_ptr"]));
        assert_eq!(*places.entry(core).or_insert(context), context, "{label}: core {core} has two addresses");
        let is_aic = dispatch["core_type"] == "AIC";
        assert_eq!(is_aic, core % 3 == 0, "{label}: {dispatch}");
        assert_eq!(is_aic, number(&dispatch["subtask_id"]) == 0, "{label}: {dispatch}");
    }
    let steps: BTreeSet<u64> = places
        .iter()
        .zip(places.iter().skip(1))
        .map(|((core, place), (next_core, next_place))| (next_place - place) / (next_core - core))
        .collect();
    assert_eq!(steps.len(), 1, "{label}: {places:x?}");
}

/// Checks that each argument of each dispatch has a record of that task and position, and each record an
/// argument.
fn agrees_with_tensors(dir: &Path, label: &str) {
    let manifest = Manifest::read(dir);
    let mut records: BTreeMap<(u64, u64), Vec<&Value>> = BTreeMap::new();
    for record in manifest.records() {
        let key = key(record);
        records.entry((key.task_id, key.arg_index)).or_default().push(record);
    }
    let mut met = BTreeSet::new();
    for dispatch in dispatches(dir) {
        let task = hex(&dispatch["task_id"]);
        for arg in list(&dispatch["args"]) {
            let name = (task, number(&arg["arg_index"]));
            let of_arg = records.get(&name).unwrap_or_else(|| panic!("{label}: no record of {name:x?}"));
            for record in of_arg {
                let pairs: &[(&str, &str)] = if arg["kind"] == "scalar" {
                    &[("bits", "scalar_value"), ("value", "value")]
                } else {
                    let view = [("shape", "shape"), ("strides", "strides"), ("start_offset", "start_offset")];
                    &[view[0], view[1], view[2], ("ndims", "ndims"), ("data_ptr", "address")]
                };
                for (ours, theirs) in pairs.iter().chain(&[("kind", "kind"), ("dtype", "dtype")]) {
                    assert_eq!(arg[ours], record[theirs], "{label}: {name:x?}");
                }
                let kernels = list(&record["func_id"]);
                assert!(kernels.contains(&dispatch["func_id"]), "{label}: {kernels:?}");
            }
            met.insert(name);
        }
    }
    assert_eq!(met.len(), records.len(), "{label}: a record belongs to no argument of any dispatch");
    assert!(!met.is_empty(), "{label}");
}

/// Checks that every task of the graph has one entry per slot and block.
fn has_every_slot_and_block(dir: &Path, label: &str) {
    let graph = read(dir, "graph.json");
    let mut expected = BTreeSet::new();
    for task in list(&graph["tasks"]) {
        for (subtask, core_type) in list(&task["subtask_id"]).iter().zip(list(&task["core_type"])) {
            for block in 0..number(&task["block_num"]) {
                let core_type = core_type.as_str().expect("a name").to_owned();
                expected.insert((hex(&task["task_id"]), number(subtask), block, core_type));
            }
        }
    }
    let found: Vec<_> = dispatches(dir)
        .iter()
        .map(|d| {
            let core_type = d["core_type"].as_str().expect("a name").to_owned();
            (hex(&d["task_id"]), number(&d["subtask_id"]), number(&d["block_idx"]), core_type)
        })
        .collect();
    assert_eq!(found.len(), expected.len(), "{label}");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected, "{label}");
}

#[test]
fn every_scene_has_one_entry_per_slot_and_block_that_agrees_with_its_tensors() {
    for (turn, scene) in listed_scenes().into_iter().enumerate() {
        for venue in share(scene, turn, 3) {
            let folder = tempfile::tempdir().expect("a folder");
            let config = smaller(args_config(scene, DumpLevel::Meta, folder.path()));
            let report = run(&placed(config, venue));
            let label = format!("{scene}: {venue}");
            assert_eq!(report.status(), "complete", "{label}");
            let dump = report.dump.expect("dumped");
            assert_eq!(dump.counters.dispatches, report.dispatches, "{label}");
            has_every_slot_and_block(&dump.dir, &label);
            agrees_with_tensors(&dump.dir, &label);
        }
    }
}

#[test]
fn orchestration_arguments_are_those_that_tasks_use() {
    for venue in venues("vector_example") {
        let folder = tempfile::tempdir().expect("a folder");
        let report = run(&placed(args_config("vector_example", DumpLevel::Off, folder.path()), venue));
        let dir = report.dump.expect("dumped").dir;
        let json = read(&dir, "args_dump.json");
        assert_eq!(
            (&json["stage"], &json["runtime"]),
            (&json!("args_dump"), &json!(venue.runtime)),
            "{venue:?}"
        );
        assert!(json.get("task_id").is_none() && json.get("dispatches").is_none());
        let args = list(&json["args"]);
        let named: Vec<_> =
            args.iter().map(|a| (a["name"].as_str().unwrap(), a["role"].as_str().unwrap())).collect();
        assert_eq!(named, [("a", "input"), ("b", "input"), ("f", "output")], "{venue:?}");
        assert_eq!(number(&json["total_args"]), 3);
        // The first task adds a and b; the last one writes f.
        let all = dispatches(&dir);
        let used = |dispatch: &Value, slot: usize| hex(&dispatch["args"][slot]["data_ptr"]);
        assert_eq!([0, 1].map(|slot| used(&all[0], slot)), [0, 1].map(|arg| hex(&args[arg]["data_ptr"])));
        assert_eq!(used(&all[4], 2), hex(&args[2]["data_ptr"]), "{venue:?}");
        for arg in args {
            assert_eq!((&arg["shape"], &arg["strides"]), (&json!([16_384]), &json!([1])));
            assert_eq!((&arg["dtype"], &arg["kind"]), (&json!("float32"), &json!("tensor")));
        }
    }
}

#[test]
fn orchestration_scalars_come_after_tensors_and_equal_those_of_tasks() {
    for venue in venues("dump_tensor_example") {
        let folder = tempfile::tempdir().expect("a folder");
        let report = run(&placed(args_config("dump_tensor_example", DumpLevel::Off, folder.path()), venue));
        assert_eq!(report.golden, tensortap::GoldenVerdict::Pass, "{venue:?}");
        let dir = report.dump.expect("dumped").dir;
        let json = read(&dir, "args_dump.json");
        let args = list(&json["args"]);
        assert_eq!((number(&json["total_args"]), args.len()), (4, 4), "{venue:?}");
        let scalar = json!({"arg_index": 3, "kind": "scalar", "dtype": "float32", "bits": "0x000000003f800000", "value": 1.0,
            "name": "increment", "role": "input"});
        assert_eq!(args[3], scalar, "{venue:?}");
        let all = dispatches(&dir);
        let handed: Vec<&Value> =
            all.iter().flat_map(|d| list(&d["args"])).filter(|arg| arg["kind"] == "scalar").collect();
        assert!(!handed.is_empty() && handed.iter().all(|arg| arg["bits"] == scalar["bits"]), "{venue:?}");
        let dump = tensortap::format::Dump::open(&dir).expect("it opens");
        let scalars = dump.orchestration_scalars();
        assert_eq!((scalars.len(), scalars[0].bits), (1, u64::from(1.0_f32.to_bits())));
        assert!(tensortap::format::verify(&dump).expect("readable").is_ok(), "{venue:?}");
    }
}

/// The bits of a JSON value, by its dtype.
fn bits_of(arg: &Value) -> u64 {
    let value = &arg["value"];
    let float = || match value.as_str() {
        Some("-Infinity") => f64::NEG_INFINITY,
        Some(other) => panic!("{other}"),
        None => value.as_f64().expect("a number"),
    };
    let text = || value.as_str().expect("64-bit integers are strings");
    match arg["dtype"].as_str().expect("a dtype") {
        #[expect(clippy::cast_possible_truncation, reason = "the value is a float32")]
        "float32" => u64::from((float() as f32).to_bits()),
        "float64" => float().to_bits(),
        "int64" => text().parse::<i64>().expect("an i64").cast_unsigned(),
        "uint64" => text().parse().expect("a u64"),
        "bool" => value.as_bool().expect("a truth value").into(),
        _ => hex(&arg["bits"]),
    }
}

#[test]
fn scalar_bits_survive_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = run(&args_config("trace_args", DumpLevel::Off, folder.path()));
    let all = dispatches(&report.dump.expect("dumped").dir);
    let first = all.iter().find(|d| d["kernel"] == "trace_aiv_3").expect("the first task");
    let scalars: Vec<&Value> = list(&first["args"]).iter().filter(|a| a["kind"] == "scalar").collect();
    let submitted = [
        ("float32", u64::from(0.1_f32.to_bits())),
        ("float64", (0.1_f64 + 0.2).to_bits()),
        ("int64", (-9_007_199_254_740_993_i64).cast_unsigned()),
        ("uint64", u64::MAX),
        ("int64", i64::MIN.cast_unsigned()),
        ("float32", u64::from(f32::MIN_POSITIVE.to_bits())),
        ("float64", f64::NEG_INFINITY.to_bits()),
    ];
    for ((dtype, bits), arg) in submitted.into_iter().zip(&scalars) {
        assert_eq!((arg["dtype"].as_str(), hex(&arg["bits"])), (Some(dtype), bits), "{arg}");
    }
    assert_eq!(scalars.len(), 10);
    let all_scalars = all.iter().flat_map(|d| list(&d["args"])).filter(|a| a["kind"] == "scalar");
    for arg in all_scalars {
        assert_eq!(bits_of(arg), hex(&arg["bits"]), "{arg}");
    }
}

#[test]
fn dumping_only_arguments_creates_no_payload_file_and_no_manifest() {
    for venue in venues("mixed_example") {
        let folder = tempfile::tempdir().expect("a folder");
        let report = run(&placed(args_config("mixed_example", DumpLevel::Off, folder.path()), venue));
        assert_eq!(report.golden, tensortap::GoldenVerdict::Pass, "{venue:?}");
        let dump = report.dump.expect("dumped");
        let mut names: Vec<_> = std::fs::read_dir(&dump.dir)
            .expect("readable")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("ASCII"))
            .collect();
        names.sort();
        let expected = ["args_dump.json", "graph.json", "kernel_args_dump.json", "tensor_dump.idx"];
        assert_eq!(names, expected, "{venue:?}");
        has_every_slot_and_block(&dump.dir, &format!("{venue:?}"));
        assert_eq!(
            (dump.counters.records, dump.counters.bytes_captured, dump.counters.bytes_written),
            (0, 0, 0)
        );
    }
}

#[test]
fn a_configuration_that_records_nothing_creates_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = args_config("vector_example", DumpLevel::Off, folder.path());
    config.dump.as_mut().unwrap().dump_args = false;
    assert!(run(&config).dump.is_none());
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 0);
}

/// Runs with a filter; returns the tasks of the dispatches, the number of records kept, and the number
/// filtered out.
fn filtered(set: impl Fn(&mut DumpConfig)) -> (BTreeSet<u64>, u64, u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = args_config("mixed_example", DumpLevel::Off, folder.path());
    set(config.dump.as_mut().unwrap());
    let dump = run(&config).dump.expect("dumped");
    has_every_slot_and_block(&dump.dir, "filtered");
    let tasks = dispatches(&dump.dir).iter().map(|d| hex(&d["task_id"])).collect();
    (tasks, dump.counters.dispatches, dump.counters.filtered_records)
}

#[test]
fn filters_by_task_kernel_and_order_narrow_dispatches_too() {
    // 20 tasks, 100 dispatches: a round of five tasks has 3 + 4 + 12 + 2 + 4 of them.
    let id = |task: u64| 1 << 32 | task;
    let (tasks, kept, out) = filtered(|dump| dump.tasks = vec![(id(2), id(3))]);
    assert_eq!((tasks, kept, out), (BTreeSet::from([id(2), id(3)]), 14, 86));
    // A mix task is kept whole, including kernels that were not named.
    let (tasks, kept, out) = filtered(|dump| dump.funcs = vec!["fold".into()]);
    assert_eq!((tasks, kept, out), ([2, 7, 12, 17].map(id).into(), 48, 52));
    let (tasks, kept, out) = filtered(|dump| dump.first = Some(5));
    assert_eq!((tasks, kept, out), ((0..5).map(id).collect(), 25, 75));
    // The scheduler decides which five tasks are dispatched last; with two blocks, rounds may overlap.
    let (tasks, kept, out) = filtered(|dump| dump.last = Some(5));
    assert_eq!((tasks.len(), kept + out), (5, 100), "discarded dispatches are counted");
    assert!(kept < 50, "{kept} dispatches of five tasks");
}

#[test]
fn dispatches_that_do_not_fit_are_counted_like_tensors() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = args_config("tiny_llm", DumpLevel::Off, folder.path());
    let dump = config.dump.as_mut().unwrap();
    dump.collect = tensortap::DumpCollect::Batch;
    (dump.arena_bytes, dump.records) = (64 << 10, 1 << 16);
    let report = run(&config);
    let dump = report.dump.expect("dumped");
    let json = read(&dump.dir, "kernel_args_dump.json");
    let all = dispatches(&dump.dir);
    let of = |state: &str| all.iter().filter(|d| d["payload"] == state).count() as u64;
    assert_eq!(all.len() as u64, report.dispatches, "every dispatch is there");
    assert!(
        of("overwritten") > 0 && of("stored") > 0 && of("overwritten") + of("stored") == all.len() as u64
    );
    assert_eq!(number(&json["dropped_overwrite"]), of("overwritten"));
    assert_eq!((dump.counters.dropped_overwrite, dump.counters.dropped_records), (of("overwritten"), 0));
    assert!(all.iter().all(|d| list(&d["args"]).is_empty() == (d["payload"] == "overwritten")));

    let folder = tempfile::tempdir().expect("a folder");
    let mut config = args_config("tiny_llm", DumpLevel::Off, folder.path());
    let dump = config.dump.as_mut().unwrap();
    dump.policy = tensortap::DumpPolicy::Drop;
    (dump.arena_bytes, dump.buffers, dump.records) = (64 << 10, 2, 8);
    config.disk = Some(crate::loss::slow_disk(std::time::Duration::from_millis(5)));
    let report = run(&config);
    let dump = report.dump.expect("dumped");
    let json = read(&dump.dir, "kernel_args_dump.json");
    assert!(dump.counters.dropped_records > 0 && report.golden == tensortap::GoldenVerdict::Pass);
    assert_eq!(number(&json["dropped_records"]), dump.counters.dropped_records);
    let by_reason: u64 = list(&json["losses"]).iter().map(|loss| number(&loss["records"])).sum();
    assert_eq!(by_reason, dump.counters.dropped_records);
}

#[test]
fn a_small_arena_slows_the_device_and_loses_nothing() {
    for platform in ["a2a3sim", "a5sim"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = args_config("tiny_llm", DumpLevel::Off, folder.path());
        config.platform = platform.into();
        let dump = config.dump.as_mut().unwrap();
        (dump.arena_bytes, dump.buffers, dump.records) = (64 << 10, 2, 4);
        let report = run(&config);
        let dump = report.dump.expect("dumped");
        assert_eq!(
            (dump.counters.dispatches, dump.counters.dropped_records),
            (report.dispatches, 0),
            "{platform}"
        );
        assert!(dispatches(&dump.dir).iter().all(|d| d["payload"] == "stored"), "{platform}");
    }
}

#[test]
fn the_arguments_of_a_crashed_run_include_the_crashed_dispatch() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = run(&args_config("crash_segv", DumpLevel::Off, folder.path()));
    assert_eq!(report.status(), "crashed");
    let dir = report.dump.expect("dumped").dir;
    let json = read(&dir, "kernel_args_dump.json");
    assert_eq!(json["status"], "crashed");
    let crashed = dispatches(&dir).into_iter().filter(|d| d["kernel"] == "segv").count();
    assert!(crashed >= 1);
    assert!(!dir.join("tensor_dump.bin").exists() && !dir.join("tensor_dump.json").exists());
}

#[test]
fn kernels_are_identified_by_name_version_and_executable() {
    let build_id = |executable: Option<&Path>, mode| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = args_config("vector_example", DumpLevel::Hash, folder.path());
        config.device_mode = mode;
        if let Some(executable) = executable {
            config.device_executable = Some(executable.to_owned());
        }
        let dir = run(&config).dump.expect("dumped").dir;
        let kernels = Manifest::read(&dir).json["kernels"].clone();
        assert_eq!(kernels, read(&dir, "kernel_args_dump.json")["kernels"]);
        let dump = tensortap::format::Dump::open(&dir).expect("it opens");
        let mul = dump.info().kernels.iter().find(|k| k.name == "mul").expect("a kernel").clone();
        assert_eq!((mul.func_id, mul.core_type.as_str(), mul.signature.len()), (2, "AIV", 4));
        assert_eq!(mul.code, format!("builtin mul {} {}", mul.version, mul.build_id));
        let said = list(&kernels).iter().find(|k| k["name"] == "mul").expect("a kernel");
        assert_eq!(
            (said["build_id"].as_str(), said["version"].as_str()),
            (Some(&*mul.build_id), Some(&*mul.version))
        );
        mul.build_id
    };
    let device = build_id(None, DeviceMode::Process);
    // In thread mode the kernels are those of this test binary, whatever executable was named.
    let thread = build_id(None, DeviceMode::Thread);
    assert!(!device.is_empty() && !thread.is_empty() && device != thread, "{device} {thread}");
    // Another file with the same build is the same code; a different one is not.
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("copy");
    std::fs::copy(crate::common::executable(), &copy).expect("copied");
    assert_eq!(build_id(Some(&copy), DeviceMode::Process), device);
}
