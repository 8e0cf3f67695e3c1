//! A C++ program with nested regions, attributes of every type, collectives and re-allocated memory. Every fact that
//! it records is shown, and a wrong kernel inside of regions is named itself.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::examples::{good, root, tensortap};

/// Recordings of the program, compiled here.
struct Recordings {
    folder: tempfile::TempDir,
}

impl Recordings {
    /// Records a run for each name; the name `wrong` is a wrong run.
    fn of(names: &[&str]) -> Recordings {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/facts.cpp");
        let program = folder.path().join("facts");
        let flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"];
        let mut compile = Command::new("c++");
        good(compile.args(flags).arg(root().join("include")).arg(&source).arg("-o").arg(&program));
        for name in names {
            let said = good(&mut tensortap(folder.path(), &format!("record --out {name} -- ./facts {name}")));
            assert_eq!(said, if *name == "wrong" { "108\n" } else { "9\n" });
        }
        Recordings { folder }
    }

    fn said(&self, line: &str) -> String {
        good(&mut tensortap(self.folder.path(), line))
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.said(&format!("{line} --json"))).unwrap()
    }

    /// The folder of the only process of a run.
    fn dump(&self, run: &str) -> std::path::PathBuf {
        let entries = std::fs::read_dir(self.folder.path().join(run)).unwrap().flatten();
        entries.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap()
    }

    fn graph(&self, run: &str) -> Value {
        serde_json::from_slice(&std::fs::read(self.dump(run).join("graph.json")).unwrap()).unwrap()
    }
}

/// Ids of tasks in the order of their begins: `run`, the region without arguments, then for each step `step`, `layer`,
/// `scale`, `add`, `copy`, and the collective.
const RUN: u64 = 1;
const SETUP: u64 = 2;
fn step(number: u64) -> u64 {
    3 + 6 * number
}

fn id(task: u64) -> String {
    format!("{task:#018x}")
}

/// The attributes that the program gives to its kernels.
fn attributes(factor: f64, inplace: bool) -> Value {
    json!([
        {"name": "axis", "type": "int", "value": "-1"},
        {"name": "factor", "type": "float", "value": factor},
        {"name": "inplace", "type": "bool", "value": inplace},
        {"name": "mask", "type": "none", "value": null},
        {"name": "accumulate", "type": "dtype", "value": "float64"},
        {"name": "sizes", "type": "list", "value": [
            {"type": "int", "value": "4"}, {"type": "none", "value": null}, {"type": "text", "value": "last"}]},
        {"name": "generator", "type": "uncaptured", "value": "Generator"},
    ])
}

#[test]
fn every_fact_of_a_program_is_shown_and_verified() {
    let recordings = Recordings::of(&["right"]);
    let (layer, scale, add, reduce) = (step(1) + 1, step(1) + 2, step(1) + 3, step(1) + 5);

    let page = recordings.json(&format!("show right {scale:#x}"));
    assert_eq!((&page["attributes"], &page["parent"]), (&attributes(2.0, false), &json!(id(layer))));
    let page = recordings.json(&format!("show right {layer:#x}"));
    assert_eq!(page["children"], json!([format!("{scale:#x}"), format!("{add:#x}")]));
    assert_eq!((&page["region"], &page["parent"]), (&json!(true), &json!(id(step(1)))));
    let page = recordings.json(&format!("show right {reduce:#x}"));
    assert_eq!(page["collective"], json!({"group": "dp", "sequence": "1", "kind": "all_reduce"}));

    // The memory of `h` was allocated for the second time, and `scale` wrote it since.
    let page = recordings.json(&format!("show right {add:#x} --memory"));
    let [memory] = &page["memory"].as_array().unwrap()[..] else { panic!("{page}") };
    let allocated = (&memory["allocated"]["storage"], &memory["allocated"]["pool"]);
    assert_eq!(allocated, (&json!(id(8)), &json!("cache")));
    let found = [&memory["generation"], &memory["bytes"], &memory["freed"], &memory["writers"]];
    assert_eq!(found, [&json!(2), &json!(16), &Value::Null, &json!([format!("{scale:#x}")])]);
    let text = recordings.said(&format!("show right {scale:#x} --memory"));
    for expected in [
        "memory of argument 0\n  not known: the dump has no allocations of it",
        "generation 2, allocated from cache (storage 0x8); no recorded task wrote it since",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let refused = tensortap(recordings.folder.path(), "show right 0 --memory").output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let text = recordings.said(&format!("show right {add:#x}"));
    assert!(!text.contains("generation"), "{text}");
    for expected in [
        "inside of     0xa layer, in 0x9 step 1, in 0x1 run",
        "axis = -1",
        "factor = 1",
        "inplace = true",
        "mask = none",
        "accumulate = dtype float64",
        "sizes = [4, none, \"last\"]",
        "generator = not captured: Generator",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let text = recordings.said(&format!("show right {layer:#x}"));
    assert!(text.contains("contains      2 tasks: 0xb, 0xc"), "{text}");
    let text = recordings.said(&format!("show right {reduce:#x}"));
    assert!(text.contains("collective    all_reduce, number 1 of group dp"), "{text}");

    let list = recordings.json("list right");
    let records = list["records"].as_array().unwrap();
    let of =
        |task: u64| records.iter().filter(move |record| record["task_id"] == id(task)).collect::<Vec<_>>();
    assert!(of(scale).iter().all(|record| record["attributes"] == attributes(2.0, false)), "{list}");
    assert!(of(scale).iter().all(|record| record["parent"] == id(layer) && record["region"].is_null()));
    assert!(of(layer).iter().all(|record| record["parent"] == id(step(1)) && record["region"] == true));
    assert!(of(RUN).iter().all(|record| record["parent"].is_null() && record["region"] == true));
    assert_eq!(of(reduce)[0]["collective"], json!({"group": "dp", "sequence": "1", "kind": "all_reduce"}));
    let setup = json!([{"rank": null, "task_id": id(SETUP), "kernels": [], "task_name": "setup", "scope": null, "step": 0,
        "parent": id(RUN), "region": true}]);
    assert_eq!((of(SETUP).len(), &list["without_records"]), (0, &setup));
    for (selector, expected) in
        [("--task setup", &setup), ("--task 0x3", &json!([])), ("--stage before", &json!([]))]
    {
        assert_eq!(
            &recordings.json(&format!("list right {selector}"))["without_records"],
            expected,
            "{selector}"
        );
    }

    let graph = recordings.graph("right");
    let mut listed = list["allocations"].clone();
    let rankless = |event: &mut Value| event.as_object_mut().unwrap().remove("rank") == Some(Value::Null);
    assert!(listed.as_array_mut().unwrap().iter_mut().all(rankless));
    assert_eq!(listed, graph["allocations"]);
    let tasks = graph["tasks"].as_array().unwrap();
    assert_eq!((tasks.len(), &graph["schema_version"]), (14, &json!(2)));
    for (task, parent) in
        [(step(0), RUN), (step(1), RUN), (layer, step(1)), (scale, layer), (reduce, step(1))]
    {
        let task = tasks.iter().find(|one| one["task_id"] == id(task)).unwrap();
        assert_eq!(task["parent"], id(parent), "{task}");
    }
    assert_eq!(tasks.iter().filter(|task| task["region"] == true).count(), 6);
    assert_eq!(graph["attributes"].as_array().unwrap().len(), 5 + 6 * 7);
    let collectives = [step(0) + 5, reduce].into_iter().zip(["0", "1"]);
    let collectives = collectives.map(|(task, sequence)| {
        json!({"task_id": id(task), "group": "dp", "sequence": sequence, "kind": "all_reduce"})
    });
    assert_eq!(graph["collectives"], Value::from_iter(collectives));
    let allocations = graph["allocations"].as_array().unwrap();
    let events: Vec<_> =
        allocations.iter().map(|one| (&one["freed"], one["storage"].as_str().unwrap())).collect();
    let [first, second] = [id(7), id(8)];
    let (allocated, freed) = (json!(false), json!(true));
    assert_eq!(events, [(&allocated, &*first), (&freed, &first), (&allocated, &second), (&freed, &second)]);
    assert!(
        allocations.iter().all(|one| one["pool"] == "cache" && one["bytes"] == 16 && one["space"] == "host")
    );

    assert!(recordings.said("verify right").contains("OK"));
}

/// The kernels `add` and `sum of ranks` of the program, with the addresses of their arguments.
const KERNELS: &str = "
#include <stdint.h>
void add(uint64_t *args) { for (int i = 0; i < 4; i++) ((float *)args[0])[i] += 1; }
void sum(uint64_t *args) { (void)args; }
";

#[test]
fn a_case_keeps_the_facts_about_its_task() {
    let recordings = Recordings::of(&["right"]);
    let path = |name: &str| recordings.folder.path().join(name);
    std::fs::write(path("kernels.c"), KERNELS).unwrap();
    good(Command::new("cc").args(["-shared", "-fPIC"]).arg(path("kernels.c")).arg("-o").arg(path("k.so")));
    let (layer, add, reduce) = (step(1) + 1, step(1) + 3, step(1) + 5);
    let extract = |task: u64, kernel: &str, case: &str| {
        let mut command = tensortap(
            recordings.folder.path(),
            &format!("extract right --task {task:#x} --out {case} --kernel"),
        );
        good(command.arg(format!("{kernel}=k.so:{}", &kernel[..3])).args(["--abi", "raw"]));
    };
    extract(add, "add", "case");
    let page = recordings.json(&format!("show case {add:#x}"));
    assert_eq!((&page["attributes"], &page["parent"]), (&attributes(1.0, true), &json!(id(layer))));
    let page = recordings.json(&format!("show case {layer:#x}"));
    assert_eq!((&page["task_name"], &page["region"]), (&json!("layer"), &json!(true)), "{page}");
    assert_eq!(page["children"], json!([format!("{add:#x}")]));
    let graph: Value = serde_json::from_slice(&std::fs::read(path("case/graph.json")).unwrap()).unwrap();
    let events = graph["allocations"].as_array().unwrap().iter();
    let events: Vec<_> = events.map(|event| (&event["freed"], &event["pool"], &event["storage"])).collect();
    let (no, yes, pool, [first, second]) =
        (json!(false), json!(true), json!("cache"), [json!(id(7)), json!(id(8))]);
    let expected =
        [(&no, &pool, &first), (&yes, &pool, &first), (&no, &pool, &second), (&yes, &pool, &second)];
    assert_eq!(events, expected);
    assert!(recordings.said("verify case").contains("OK"));
    // The regions in the case are not replayed.
    let replay = recordings.json("replay case --trust");
    assert_eq!(
        (&replay["verdict"], &replay["tasks"], &replay["bitexact"]),
        (&json!("pass"), &json!(1), &json!(1)),
        "{replay}"
    );
    extract(reduce, "sum of ranks", "reduce");
    let page = recordings.json(&format!("show reduce {reduce:#x}"));
    assert_eq!(page["collective"], json!({"group": "dp", "sequence": "1", "kind": "all_reduce"}));
}

#[test]
fn damaged_facts_do_not_verify() {
    let recordings = Recordings::of(&["right"]);
    let verify = |what: &str| {
        let output = tensortap(recordings.folder.path(), "verify right").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{what}");
        String::from_utf8(output.stdout).unwrap()
    };
    let file = recordings.dump("right").join("graph.json");
    let whole = std::fs::read_to_string(&file).unwrap();
    for (from, to) in [
        ("\"value\":\"-1\"", "\"value\":\"-2\""),
        ("\"parent\":\"0x000000000000000a\"", "\"parent\":\"0x0000000000000009\""),
        ("\"group\":\"dp\"", "\"group\":\"tp\""),
        ("\"pool\":\"cache\"", "\"pool\":\"other\""),
    ] {
        assert!(whole.contains(from), "{from} in {whole}");
        std::fs::write(&file, whole.replacen(from, to, 1)).unwrap();
        assert!(verify(to).contains("graph.json differs from the index"), "{to}");
    }
    std::fs::write(&file, &whole).unwrap();
    assert!(recordings.said("verify right").contains("OK"));
    // A byte in the middle of the index, among the records.
    let index = recordings.dump("right").join("tensor_dump.idx");
    let mut bytes = std::fs::read(&index).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&index, bytes).unwrap();
    verify("a flipped bit");
}

#[test]
fn right_runs_with_regions_pass_and_a_wrong_kernel_in_a_region_is_named_itself() {
    let recordings = Recordings::of(&["right", "again", "wrong"]);
    let blame = |run: &str, code: i32| -> Value {
        let line = format!("blame {run} --golden right --json");
        let output = tensortap(recordings.folder.path(), &line).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let labels = |blame: &Value| -> Vec<(u64, String)> {
        let task = |task: &Value| {
            let id = task["task_id"].as_str().unwrap().trim_start_matches("0x");
            (u64::from_str_radix(id, 16).unwrap(), task["label"].as_str().unwrap().to_owned())
        };
        let mut labels: Vec<_> = blame["tasks"].as_array().unwrap().iter().map(task).collect();
        labels.sort_unstable();
        labels
    };
    let again = blame("again", 0);
    assert_eq!(again["verdict"], "pass");
    assert!(labels(&again).iter().all(|(_, label)| label == "ok"), "{again}");

    let wrong = blame("wrong", 1);
    let add = step(1) + 3;
    assert_eq!((&wrong["verdict"], &wrong["first_wrong"]), (&json!("fail"), &json!([id(add)])));
    let expected = (1..=14).map(|task| {
        let label = match task {
            _ if task == add => "wrong_here",
            // The regions around it, and the tasks after it.
            RUN => "inherited",
            _ if task == step(1) || task == step(1) + 1 || task > add => "inherited",
            _ => "ok",
        };
        (task, label.to_owned())
    });
    assert_eq!(labels(&wrong), expected.collect::<Vec<_>>(), "{wrong}");
}
