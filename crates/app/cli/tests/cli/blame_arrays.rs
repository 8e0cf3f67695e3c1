//! `blame --golden` and `diff` with array files, named after records, arguments, or outputs of the run.

use std::fs;

use serde_json::{Value, json};
use tensortap::scene::Params;

use crate::dumps::Folder;

const MUL_IS_WRONG: &str = "FAIL: task 0x100000002 (inner / t3: mul) is wrong here\n";

fn wrong(folder: &Folder, line: &str) {
    let outcome = folder.tensortap(line);
    assert_eq!(outcome.code, Some(1), "{line}: {outcome:?}");
}

fn document(folder: &Folder, line: &str, code: i32) -> Value {
    let outcome = folder.tensortap(line);
    assert_eq!(outcome.code, Some(code), "{line}: {outcome:?}");
    serde_json::from_str(&outcome.stdout).expect("one JSON document")
}

/// Task ids and labels, sorted by id, because tasks of equal depth are listed in the order in which they ran.
fn labels(document: &Value) -> Vec<(&str, &str)> {
    let tasks = document["tasks"].as_array().unwrap().iter();
    let mut labels: Vec<_> =
        tasks.map(|task| (task["task_id"].as_str().unwrap(), task["label"].as_str().unwrap())).collect();
    labels.sort_unstable();
    labels
}

/// A `.npy` file as numpy writes it.
fn npy(descr: &str, shape: &[u64], content: &[u8]) -> Vec<u8> {
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).expect("short").to_le_bytes();
    [b"\x93NUMPY\x01\x00".as_slice(), &length, header.as_bytes(), content].concat()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn put(folder: &Folder, golden: &str, name: &str, bytes: &[u8]) {
    fs::create_dir_all(folder.path(golden)).unwrap();
    fs::write(folder.path(golden).join(format!("{name}.npy")), bytes).unwrap();
}

/// The correct values c, d, e, g and f of `vector_example` for the inputs of the scene.
fn computed() -> [Vec<f32>; 5] {
    let registry = tensortap::builtin();
    let scene = registry.find("vector_example").unwrap();
    let inputs = scene.host_args(&Params::resolve("vector_example", scene.params(), []).unwrap());
    let values = |name: &str| -> Vec<f32> {
        let bytes = &inputs.0.iter().find(|tensor| tensor.name == name).unwrap().bytes;
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let c: Vec<f32> = values("a").iter().zip(values("b")).map(|(a, b)| a + b).collect();
    let [d, e] = [1.0, 2.0].map(|addend| c.iter().map(|c| c + addend).collect::<Vec<f32>>());
    let g: Vec<f32> = d.iter().zip(&e).map(|(d, e)| d * e).collect();
    let f = g.iter().zip(&c).map(|(g, c)| g + c).collect();
    [c, d, e, g, f]
}

#[test]
fn arrays_of_a_correct_run_find_the_wrong_task_in_every_format() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    folder.record_wrong("vector_example --dump-tensor --inject-fault mul=last", "wrong");
    for format in ["npy", "npz", "safetensors"] {
        folder.good(&format!("export right --format {format} --out {format}"));
        let outcome = folder.tensortap(&format!("blame wrong --golden {format}"));
        assert!(outcome.code == Some(1) && outcome.stdout.starts_with(MUL_IS_WRONG), "{format}: {outcome:?}");
        assert!(outcome.stdout.contains("compared 18 of 18 records"), "{format}: {outcome:?}");
        assert!(outcome.stdout.contains("5 tasks: 1 wrong_here, 1 inherited, 3 ok"), "{format}: {outcome:?}");
        assert!(outcome.stdout.contains("worst at [16383]"), "{format}: {outcome:?}");
        let passed = folder.good(&format!("blame right --golden {format}"));
        assert!(passed.stdout.starts_with("PASS: no task is wrong; judged "), "{format}: {passed:?}");
    }
}

#[test]
fn arrays_can_be_named_after_arguments_and_outputs() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "right");
    folder.record_wrong("vector_example --dump-tensor --inject-fault mul=last", "wrong");
    let [_, d, e, g, f] = computed();
    let size = [d.len() as u64];
    for (name, values) in [("mul.left", &d), ("t3.right", &e), ("mul.product", &g), ("f", &f)] {
        put(&folder, "some", name, &npy("<f4", &size, &f32s(values)));
    }
    put(&folder, "some", "mul.count", &npy("<u4", &[], &16384_u32.to_le_bytes()));
    let found = document(&folder, "blame wrong --golden some --json", 1);
    assert_eq!(
        labels(&found),
        [
            ("0x0000000000000000", "unknown"),
            ("0x0000000100000000", "unknown"),
            ("0x0000000100000001", "unknown"),
            ("0x0000000100000002", "wrong_here"),
            ("0x0000000100000003", "inherited"),
        ],
        "{found}"
    );
    // The input of the last task is not in the golden. It is the wrong output of `mul`.
    assert_eq!(
        (&found["tasks"][4]["rests_on"], &found["tasks"][3]["rests_on"]),
        (&json!("producers"), &Value::Null)
    );
    assert_eq!((&found["compared"], found["unmatched"].as_array().unwrap().len()), (&json!(5), 3));
    let text = folder.tensortap("blame wrong --golden some").stdout;
    assert!(text.starts_with(MUL_IS_WRONG), "{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("1 label is based on what the producers of inputs wrote"), "{text}");
    let left = "3 tasks have no array; --strict makes this fail, --all lists them";
    assert!(words.ends_with(left), "{text}");
    let passed = folder.good("blame right --golden some");
    assert!(passed.stdout.starts_with("PASS: no judged task is wrong; judged 2 of 5 tasks\n"), "{passed:?}");
    wrong(&folder, "blame right --golden some --strict");
    let passed = folder.good("blame right --golden some --strict --allow-unmatched");
    assert!(passed.stdout.contains("3 tasks have no array, which is allowed"), "{passed:?}");
    wrong(&folder, "blame wrong --golden some --allow-unmatched");
    let diff = folder.good("diff right some --allow-unmatched");
    assert!(diff.stdout.contains("compared 5 of 18 records"), "{diff:?}");
    let diff = document(&folder, "diff wrong some --allow-unmatched --json", 1);
    let failing = diff["records"].as_array().unwrap().iter().filter(|r| r["verdict"] == "fail").count();
    assert_eq!(failing, 2, "{diff}");
}

#[test]
fn a_wrong_task_is_unknown_if_the_golden_lacks_its_inputs() {
    let folder = Folder::new();
    folder.record_wrong("vector_example --dump-tensor --inject-fault mul=last", "wrong");
    let [_, _, _, g, f] = computed();
    put(&folder, "one", "mul.product", &npy("<f4", &[g.len() as u64], &f32s(&g)));
    let found = document(&folder, "blame wrong --golden one --json --allow-unmatched", 1);
    assert_eq!(labels(&found)[3], ("0x0000000100000002", "unknown"), "{found}");
    let reason = found["tasks"][3]["reason"].as_str().unwrap();
    assert!(reason.contains("before the task: the golden has no array for this record"), "{reason}");
    // Two tasks have `add.sum`; the second name matches nothing; the array of the output has a different shape.
    put(&folder, "one", "add.sum", &npy("<f4", &[f.len() as u64], &f32s(&f)));
    put(&folder, "one", "weights", &npy("<f4", &[1], &f32s(&[1.0])));
    put(&folder, "one", "f", &npy("<f4", &[1], &f32s(&[1.0])));
    let text = folder.tensortap("blame wrong --golden one").stdout;
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(
        words.join(" ").contains("3 arrays of the golden match no record, 4 tasks have no array; "),
        "{text}"
    );
    assert!(!text.contains("weights"), "{text}");
    let all = folder.tensortap("blame wrong --golden one --all").stdout;
    for part in [
        "array add.sum: 2 records have this name",
        "array weights: the dump has no such record",
        "array f: the run's output of this name has shape [16384], not [1]",
    ] {
        assert!(all.contains(part), "no {part} in {all}");
    }
    put(&folder, "none", "weights", &npy("<f4", &[1], &f32s(&[1.0])));
    let refused = folder.tensortap("blame wrong --golden none");
    assert!(refused.code == Some(2) && refused.stderr.contains("softmax.scores"), "{refused:?}");
}

#[test]
fn an_output_of_the_run_judges_the_last_writers_of_its_parts() {
    let folder = Folder::new();
    folder.record("bgemm --dump-tensor", "right");
    folder.record_wrong("bgemm --dump-tensor --inject-fault tile_add=last", "wrong");
    let registry = tensortap::builtin();
    let scene = registry.find("bgemm").unwrap();
    let params = Params::resolve("bgemm", scene.params(), []).unwrap();
    let golden = scene.golden(&params, &scene.host_args(&params)).unwrap();
    put(&folder, "whole", "c", &npy("<f4", &golden[0].shape, &golden[0].bytes));
    let tolerance = "--rtol 1e-4 --atol 1e-4 --allow-unmatched";
    folder.good(&format!("blame right --golden whole {tolerance}"));
    let good = document(&folder, &format!("diff right whole {tolerance} --json"), 0);
    // 36 tiles of 32x32, each with one last writer.
    assert_eq!(good["compared"], json!(36), "{}", good["compared"]);
    let bad = document(&folder, &format!("diff wrong whole {tolerance} --json"), 1);
    let failing: Vec<&Value> =
        bad["records"].as_array().unwrap().iter().filter(|r| r["verdict"] == "fail").collect();
    assert_eq!(failing.len(), 36);
    // The fault damages the last element of every tile.
    assert!(
        failing.iter().all(|r| r["failing"] == 1 && r["worst"]["coordinate"] == json!([31, 31])),
        "{failing:?}"
    );
    let found = document(&folder, &format!("blame wrong --golden whole {tolerance} --json"), 1);
    let judged = found["tasks"].as_array().unwrap().iter().filter(|t| t["outside"] != json!([])).count();
    assert_eq!((judged, &found["compared"]), (36, &json!(36)));
}
