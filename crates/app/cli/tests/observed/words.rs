//! How `list`, `show` and `summary` report observations.

use std::path::{Path, PathBuf};

use tensortap::abi::MemorySpace;

use crate::common;
use crate::program::{Launch, Program, Range, on};
use crate::{call, document};

const N: usize = 32;

/// Two queues on one buffer, a kernel that leaves another buffer unchanged, host memory, and a stray write.
fn run(folder: &Path) -> PathBuf {
    let mut program = Program::new(folder);
    let [shared, own] = [0; 2].map(|_| program.buffer(&[0; N], MemorySpace::Host));
    let pinned = program.buffer(&[0; N], MemorySpace::Pinned);
    let (left, right) = (Range(shared, 0, N / 2), Range(shared, N / 2, N / 2));
    let whole = Range(shared, 0, N);
    let set = |buffer: usize, at: usize, to: u8| move |memory: &mut [Box<[u8]>]| memory[buffer][at] = to;
    let one = program.launch("left", on("one"), &[left, Range(own, 0, N)], set(shared, 1, 7));
    let two = program.launch("right", on("two"), &[right], set(shared, N - 1, 8));
    program.launch("both", on("three"), &[whole], set(shared, 2, 9));
    program.launch("host", on("one"), &[Range(pinned, 0, N)], set(pinned, 0, 1));
    program.memory[own][3] = 5;
    let waits = &[one, two];
    program.launch("found", Launch { waits, ..on("one") }, &[Range(own, 0, N / 2)], set(own, 4, 5));
    program.end()
}

#[test]
fn every_view_shows_the_observation_in_place_of_an_unknown_role() {
    let dir = tempfile::tempdir().unwrap();
    let dump = run(&dir.path().join("dump"));
    let dump = dump.to_str().unwrap();
    let listed = |role: &str| {
        let document = document(dir.path(), &["list", dump, "--role", role, "--stage", "after"]);
        let records = document["records"].as_array().unwrap().clone();
        let one = |record: &serde_json::Value| {
            assert_eq!((&record["role"], &record["role_known"]), (&"inout".into(), &false.into()));
            assert_eq!(record["observed"], role);
            format!("{} {}", record["kernels"][0].as_str().unwrap(), record["arg_index"])
        };
        records.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(listed("ambiguous"), ["left 0", "right 0", "both 0", "host 0"]);
    assert_eq!((listed("same"), listed("changed")), (vec!["left 1".into()], vec!["found 0".to_owned()]));
    let (_, table) = call(dir.path(), &["list", dump, "--columns", "kernel,role,stage"]);
    assert_eq!(table.matches("ambiguous").count(), 8, "{table}");
    let words = |kernel: &str| {
        let text = call(dir.path(), &["show", dump, kernel]).1;
        common::unwrapped(&text)
    };
    let left = words("left");
    assert!(left.contains("argument 0, ambiguous, uint8"), "{left}");
    let why = "ambiguous: unordered with it and using the same memory: task 0x3 (both)";
    assert!(left.contains(why) && left.contains("argument 1, same"), "{left}");
    assert!(words("host").contains("ambiguous: the host may change this memory at any time"));
    let found = words("found");
    let change = "an unattributed change: it differs from what task 0x1 (left) left in its argument 1, and no task in between had access to it";
    assert!(found.contains(change), "{found}");
    let page = document(dir.path(), &["show", dump, "found"]);
    let end = &page["arguments"][0]["unattributed_change"]["left_by"];
    assert_eq!((&end["task_id"], &end["arg_index"]), (&"0x0000000000000001".into(), &1.into()));
    let summary = document(dir.path(), &["summary", dump]);
    let observed = &summary["observed"];
    let counts = ["same", "changed", "ambiguous", "unobserved", "unattributed_count"];
    assert_eq!(counts.map(|key| observed[key].as_u64().unwrap()), [1, 1, 4, 0, 1]);
    let text = call(dir.path(), &["summary", dump]).1;
    assert!(text.contains("6 arguments have no known role: 1 same, 1 changed, 4 ambiguous"), "{text}");
    assert!(text.contains("1 unattributed change, the first found by task 0x5 (found)"), "{text}");
}

#[test]
fn observations_are_the_same_without_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let dump = run(&dir.path().join("dump"));
    let of = |dump: &Path| {
        let document = document(dir.path(), &["list", dump.to_str().unwrap()]);
        let records = document["records"].as_array().unwrap().clone();
        let key = |record: &serde_json::Value| {
            ["task_id", "arg_index", "stage", "observed", "role_known", "dtype_known"]
                .map(|key| record[key].clone())
        };
        records.iter().map(key).map(|key| format!("{key:?}")).collect::<Vec<_>>()
    };
    let with = of(&dump);
    std::fs::remove_file(dump.join("tensor_dump.idx")).unwrap();
    assert_eq!(of(&dump), with);
}

#[test]
fn kernels_have_short_names_in_tables_and_full_names_on_their_page() {
    const SYMBOL: &str =
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIbEESt5arrayIPcLm1EEEEviT0_T1_";
    const FULL: &str = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<bool>, \
                        std::array<char*, (unsigned long)1> >(int, at::native::FillFunctor<bool>, \
                        std::array<char*, (unsigned long)1>)";
    let dir = tempfile::tempdir().unwrap();
    let recorded = |name: &str, value: u8| {
        let mut program = Program::new(&dir.path().join(name));
        let buffer = program.buffer(&[0; N], MemorySpace::Host);
        program.write(on("one"), Range(buffer, 0, N), &[0; N]);
        program.launch(SYMBOL, on("one"), &[Range(buffer, 0, N)], |memory| memory[buffer].fill(value));
        program.end()
    };
    let (dump, golden) = (recorded("dump", 1), recorded("golden", 2));
    let (dump, golden) = (dump.to_str().unwrap(), golden.to_str().unwrap());
    for selector in ["FillFunctor<bool>", "*Fill*", SYMBOL] {
        let (_, table) = call(dir.path(), &["list", dump, "--func", selector]);
        assert!(table.contains("FillFunctor<bool>") && !table.contains("_ZN"), "{table}");
    }
    let (_, page) = call(dir.path(), &["show", dump, "FillFunctor<bool>"]);
    assert!(page.contains(FULL), "{page}");
    let page = document(dir.path(), &["show", dump, SYMBOL]);
    assert_eq!((&page["kernels"][0], &page["full_names"][0]), (&SYMBOL.into(), &FULL.into()), "{page:#}");
    let (_, blamed) = call(dir.path(), &["blame", dump, "--golden", golden]);
    let blamed = common::unwrapped(&blamed);
    assert!(blamed.contains("(FillFunctor<bool>) is wrong here"), "{blamed}");
    assert!(!blamed.contains("_ZN"), "{blamed}");
    let document = document(dir.path(), &["blame", dump, "--golden", golden]);
    let wrong = document["tasks"].as_array().unwrap().iter().find(|task| task["label"] == "wrong_here");
    assert_eq!(wrong.unwrap()["full_names"][0], FULL);
}
