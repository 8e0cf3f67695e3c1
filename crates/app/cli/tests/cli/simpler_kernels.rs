//! Kernels for the ABI of the public project `simpler`, with dumps in its format.

use std::fs;

use serde_json::{Value, json};

use crate::folders::{WorkFolder, has_compilers};
use crate::given_kernels::{failed, library};
use crate::peers::peer_dumps;
use crate::simpler_dumps::{KERNELS, SimplerDump, graph, source};

const GIVEN: [&str; 12] = [
    "replay",
    "g",
    "--abi",
    "simpler",
    "--kernel",
    "ADD=k.so:add",
    "--kernel",
    "func_2=k.so:more",
    "--kernel",
    "3=k.so:product",
    "--kernel",
    "HALVES=k.so:halves",
];

#[test]
fn replays_a_simpler_graph_and_finds_a_wrong_instruction() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    graph(&shop);
    library(&shop, "k", &source(KERNELS));
    library(&shop, "wrong", &source(&KERNELS.replace("* as_float(args[2])", "/ as_float(args[2])")));
    let all =
        |scale: &str, more: &[&str]| shop.json(&[&GIVEN[..], &["--kernel", scale, "--all"], more].concat());
    let (code, said) = all("SCALE=k.so:scale", &[]);
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(0), &6.into(), &6.into()), "{said}");
    let (code, said) = all("1=wrong.so:scale", &[]);
    assert_eq!((code, &said["bitexact"]), (Some(1), &4.into()), "{said}");
    assert_eq!(failed(&said), ["0x0000000100000000", "0x0000000100000001"]);
    // A name that is longer than the device accepts.
    let long = format!("K{}", "x".repeat(80));
    shop.write("g/name_map.json", &json!({"0": "ADD", "1": "SCALE", "2": long, "4": "HALVES"}).to_string());
    let (code, said) =
        shop.json(&["replay", "g", "--abi", "simpler", "--kernel", &format!("{long}=k.so:more")]);
    assert_eq!((code, &said["bitexact"], &said["tasks"]), (Some(0), &1.into(), &1.into()), "{said}");
    // With one kernel, only its tasks run; with --all, tasks without a library are refused by name.
    let (code, said) = shop.json(&["replay", "g", "--abi", "simpler", "--kernel", "SCALE=k.so:scale"]);
    assert_eq!((code, &said["bitexact"], &said["tasks"]), (Some(0), &2.into(), &2.into()), "{said}");
    let refused = shop.call(&["replay", "g", "--all", "--abi", "simpler", "--kernel", "SCALE=k.so:scale"]);
    assert!(
        refused.code == Some(1) && refused.stdout.contains("pass one with --kernel ADD=LIB"),
        "{refused:?}"
    );
    let unknown = shop.call(&["replay", "g", "--abi", "simpler", "--kernel", "QK=k.so:scale"]);
    assert!(
        unknown.code == Some(2) && unknown.stderr.contains("no kernel `QK`; there are: ADD, SCALE, K"),
        "{unknown:?}"
    );
    // Missing information is assumed only with --allow-inexact.
    fs::remove_file(shop.path("g/deps.json")).expect("removed");
    let scale = ["replay", "g", "--abi", "simpler", "--kernel", "SCALE=k.so:scale"];
    let refused = shop.call(&scale);
    assert!(refused.code == Some(1) && refused.stdout.contains("pass it with --block-num N"), "{refused:?}");
    for more in ["--block-num=1", "--allow-inexact"] {
        let (code, said) = shop.json(&[&scale[..], &[more]].concat());
        assert_eq!((code, &said["bitexact"]), (Some(0), &2.into()), "{said}");
        assert_eq!(said["fidelity"]["partial"], if more == "--allow-inexact" { 2 } else { 0 }, "{said}");
    }
    let manifest = fs::read_to_string(shop.path("g/args_dump.json")).expect("there");
    let mut doubted: Value = serde_json::from_str(&manifest).expect("JSON");
    let scalar =
        doubted["args"].as_array_mut().expect("a list").iter_mut().find(|arg| arg["kind"] == "scalar");
    scalar.expect("a scalar")["arg_index_ambiguous"] = json!(true);
    shop.write("g/args_dump.json", &doubted.to_string());
    let (code, said) = shop.json(&[&scale[..], &["--block-num=1"]].concat());
    assert_eq!((code, &said["bitexact"]), (Some(1), &1.into()), "{said}");
    assert!(said["refused"].to_string().contains("position as ambiguous"), "{said}");
    let (code, said) =
        shop.json(&["replay", "g", "--abi", "simpler", "--kernel", "3=k.so:product", "--block-num", "2"]);
    assert_eq!((code, failed(&said).len()), (Some(1), 1), "blocks reach the kernel: {said}");
}

/// The cases of `folder` that their own libraries replay.
fn cases(shop: &WorkFolder, more: &[&str]) -> (Option<i32>, Value) {
    shop.json(&[&["replay", "cases"], more].concat())
}

#[test]
fn extracts_a_simpler_task_with_its_kernel() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    graph(&shop);
    library(&shop, "k", &source(KERNELS));
    library(&shop, "wrong", &source(&KERNELS.replace("* as_float(args[2])", "/ as_float(args[2])")));
    let extract = |task: &str, kernel: &str, out: &str| {
        shop.json(&["extract", "g", "--task", task, "--abi", "simpler", "--kernel", kernel, "--out", out])
    };
    for (task, kernel, out) in [
        ("1:0", "SCALE=k.so:scale", "cases/scale"),
        // The same kernel from another library: each case has its own.
        ("1:1", "SCALE=wrong.so:scale", "cases/wrong"),
        ("1:4", "HALVES=k.so:halves", "cases/halves"),
        ("1:3", "3=k.so:product", "cases/product"),
    ] {
        let (code, said) = extract(task, kernel, out);
        assert_eq!((code, said["libraries"].as_array().map(Vec::len)), (Some(0), Some(1)), "{said}");
    }
    let described = fs::read_to_string(shop.path("cases/scale/tensor_dump.json")).expect("there");
    let described: Value = serde_json::from_str(&described).expect("JSON");
    assert_eq!(
        (&described["case"]["captured_by"], &described["case"]["libraries"][0]["abi"]),
        (&json!("simpler"), &json!("simpler"))
    );
    // The cases need neither the dump nor the libraries.
    for gone in ["k.so", "wrong.so", "g/args_dump.json"] {
        fs::remove_file(shop.path(gone)).expect("removed");
    }
    let (code, said) = cases(&shop, &[]);
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(1), &4.into(), &3.into()), "{said}");
    assert_eq!(failed(&said), ["0x0000000100000001"], "{said}");
    assert_eq!(
        (&said["given"][0]["named_by"], &said["given"][0]["abi"]),
        (&json!("case"), &json!("simpler")),
        "{said}"
    );
    assert_eq!(said["confinement"]["no_new_privileges"], true, "{said}");
    // Another build of it is tried with the ABI that the case names.
    library(&shop, "fixed", &source(KERNELS));
    let (code, said) = shop.json(&["replay", "cases/wrong", "--kernel", "SCALE=fixed.so:scale"]);
    assert_eq!(
        (code, &said["bitexact"], &said["given"][0]["abi"]),
        (Some(0), &1.into(), &json!("simpler")),
        "{said}"
    );
    let unknown = shop.call(&["replay", "cases/wrong", "--kernel", "ADD=fixed.so:add"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("no kernel `ADD`"), "{unknown:?}");
    let (code, said) = shop.json(&["extract", "cases/scale", "--out", "again"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = shop.json(&["replay", "again"]);
    assert_eq!((code, &said["bitexact"]), (Some(0), &1.into()), "{said}");
}

#[test]
fn code_of_a_case_runs_only_with_consent() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    graph(&shop);
    library(&shop, "k", &source(KERNELS));
    let one = ["--task", "1:0", "--abi", "simpler", "--kernel", "SCALE=k.so:scale"];
    let refused = shop.call(&[&["extract", "g", "--out", "one.safetensors"], &one[..]].concat());
    assert!(refused.code == Some(2) && refused.stderr.contains("cannot contain a library"), "{refused:?}");
    let (code, said) = shop.json(&[&["extract", "g", "--out", "case"], &one[..]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(shop.json(&["replay", "case"]).0, Some(0));
    // As if the case came from elsewhere: the cache of this user does not know it.
    fs::remove_dir_all(shop.path("cache")).expect("removed");
    let refused = shop.call(&["replay", "case"]);
    let remedy = "--kernel SCALE=case/kernels/k.so:scale to run it";
    assert!(refused.code == Some(2) && refused.stderr.contains(remedy), "{refused:?}");
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let (code, said) = shop.json(&["replay", "case", "--kernel", "SCALE=case/kernels/k.so:scale"]);
    assert_eq!((code, &said["bitexact"]), (Some(0), &1.into()), "{said}");
    assert_eq!(shop.json(&["replay", "case"]).0, Some(0), "it was named");
    // A file that replaced it was not named.
    library(&shop, "case/kernels/k", &source(KERNELS).replace("data(args, 0)[i] * ", "1 + "));
    let refused = shop.call(&["replay", "case"]);
    assert!(refused.code == Some(2) && refused.stderr.contains(remedy), "{refused:?}");
    // A case may only name its own files.
    let described = fs::read_to_string(shop.path("case/tensor_dump.json")).expect("there");
    fs::remove_file(shop.path("case/tensor_dump.idx")).expect("removed");
    for elsewhere in ["../../k.so", "/lib/libm.so.6", "..", ""] {
        shop.write("case/tensor_dump.json", &described.replace("\"k.so\"", &format!("\"{elsewhere}\"")));
        let refused = shop.call(&["replay", "case"]);
        assert!(refused.code == Some(2) && refused.stderr.contains("not a plain file name"), "{refused:?}");
    }
    shop.write("case/tensor_dump.json", &described);
    fs::remove_file(shop.path("case/kernels/k.so")).expect("removed");
    std::os::unix::fs::symlink(shop.path("k.so"), shop.path("case/kernels/k.so")).expect("linked");
    let refused = shop.call(&["replay", "case"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("other users can change"), "{refused:?}");
    // The case records what the dump does not contain.
    fs::remove_file(shop.path("g/deps.json")).expect("removed");
    let refused = shop.call(&[&["extract", "g", "--out", "other"], &one[..]].concat());
    assert!(refused.code == Some(2) && refused.stderr.contains("pass it with --block-num N"), "{refused:?}");
    let (code, said) =
        shop.json(&[&["extract", "g", "--out", "other", "--allow-inexact"], &one[..]].concat());
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = shop.json(&["replay", "other"]);
    assert_eq!((code, said["refused"].as_array().map(Vec::len)), (Some(1), Some(1)), "{said}");
    let (code, said) = shop.json(&["replay", "other", "--allow-inexact"]);
    assert_eq!((code, &said["fidelity"]["partial"]), (Some(0), &1.into()), "{said}");
}

/// Kernels: shift by one element within a buffer, which needs input and output in one buffer; sum of 31 tensors and 16
/// scalars.
const WIDE: &str = r"
void slide(int64_t *args)
{
    for (uint32_t i = 0; i < t(args, 0)->shapes[0]; i++) data(args, 1)[i] = data(args, 0)[i];
}
void sum(int64_t *args)
{
    for (uint32_t i = 0; i < t(args, 31)->shapes[0]; i++) {
        float sum = 0;
        for (int tensor = 0; tensor < 31; tensor++) sum += data(args, tensor)[i];
        for (int scalar = 32; scalar < 48; scalar++) sum += (float)(int32_t)args[scalar];
        data(args, 31)[i] = sum;
    }
}
";

#[test]
fn arguments_share_buffers_up_to_the_limit_of_simpler() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    library(&shop, "k", &source(WIDE));
    let mut dump = SimplerDump::default();
    let x: Vec<f32> = (1..33_u16).map(f32::from).collect();
    dump.task(0, [-1, 0, -1], 1, 2);
    dump.input(&x);
    dump.content("output", "after_completion", &[32], &[1], 1, &[1.0; 32]);
    // Two names of one buffer.
    dump.tasks[0]["args"] = json!([{"idx": 0, "type": "INPUT", "tensor_id": "7"}, {"idx": 1, "type": "OUTPUT_EXISTING", "tensor_id": "8"}]);
    dump.task(1, [-1, 1, -1], 1, 32);
    (0..31).for_each(|_| dump.input(&x));
    dump.output(&x.iter().map(|x| 31.0 * x + 136.0).collect::<Vec<_>>());
    (1..=16).for_each(|scalar| dump.scalar("INT32", &json!(scalar)));
    dump.write(&shop);
    let deps: Value =
        serde_json::from_str(&fs::read_to_string(shop.path("g/deps.json")).expect("there")).expect("JSON");
    let shift_at = |addresses: [&str; 2]| {
        let tensor = |id: &str, at: &str| json!({"tensor_id": id, "buffer_addr": at});
        let tensors = [tensor("7", addresses[0]), tensor("8", addresses[1])];
        shop.write(
            "g/deps.json",
            &json!({"tensors": tensors, "tasks": deps["tasks"], "edges": []}).to_string(),
        );
        let kernels = ["--kernel", "0=k.so:slide", "--kernel", "1=k.so:sum"];
        shop.json(&[&["replay", "g", "--all", "--abi", "simpler"], &kernels[..]].concat())
    };
    let (code, said) = shift_at(["4096", "4096"]);
    assert_eq!((code, &said["bitexact"]), (Some(0), &2.into()), "{said}");
    let (code, said) = shift_at(["4096", "8192"]);
    assert_eq!((code, failed(&said)), (Some(1), vec!["0x0000000000000000"]), "apart: {said}");
    // The case keeps the buffer and all arguments.
    shift_at(["4096", "4096"]);
    for (task, kernel) in [("0", "0=k.so:slide"), ("1", "1=k.so:sum")] {
        let out = format!("cases/{task}");
        let words = ["extract", "g", "--task", task, "--abi", "simpler", "--kernel", kernel, "--out", &out];
        assert_eq!(shop.json(&words).0, Some(0));
    }
    let (code, said) = cases(&shop, &[]);
    assert_eq!((code, &said["bitexact"]), (Some(0), &2.into()), "{said}");
    // More than can be passed.
    let many = fs::read_to_string(shop.path("g/deps.json")).expect("there");
    let mut many: Value = serde_json::from_str(&many).expect("JSON");
    many["tasks"][1]["args"].as_array_mut().expect("a list").push(json!({"idx": 32, "type": "INPUT"}));
    shop.write("g/deps.json", &many.to_string());
    let refused = shop.call(&["replay", "g", "--abi", "simpler", "--kernel", "1=k.so:sum"]);
    assert!(refused.code == Some(1) && refused.stdout.contains("33 tensors"), "{refused:?}");
}

#[test]
fn replays_real_dumps_of_every_generation() {
    let Some(peers) = peer_dumps() else { return };
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    let by_one = "void plus(int64_t *args) { for (int i = 0; i < 16384; i++) data(args, 1)[i] = data(args, 0)[i] + as_float(args[2]); }
        void times(int64_t *args) { for (int i = 0; i < 16384; i++) data(args, 2)[i] = data(args, 0)[i] * data(args, 1)[i]; }";
    library(&shop, "k", &source(&format!("{KERNELS}{by_one}")));
    let by_func = "0=k.so:add 1=k.so:plus 2=k.so:times";
    let by_task = "0x0=k.so:add 1:0=k.so:plus 1:1=k.so:plus 1:2=k.so:times 1:3=k.so:add";
    for (dump, kernels, options, code, bitexact, failures) in [
        ("gen3-vector-full", by_func, "--block-num 1", 0, 5, &[][..]),
        ("gen2-vector", by_task, "--block-num 1", 0, 5, &[]),
        ("blame-vector-good/args_dump", by_func, "--all", 0, 5, &[]),
        ("blame-vector-fault_mul/args_dump", by_func, "--all", 1, 4, &["0x0000000100000002"]),
        // The dump has no scalars, which only one kernel needs.
        ("gen1-vector", "0=k.so:add 2=k.so:times", "--block-num 1", 1, 0, &[]),
        ("gen1-vector", "0=k.so:add 2=k.so:times", "--block-num 1 --allow-inexact", 0, 3, &[]),
        ("gen3-vector-meta", by_func, "--block-num 1", 1, 0, &[]),
    ] {
        let path = peers.join(dump);
        let mut words = vec!["replay", path.to_str().expect("UTF-8"), "--abi", "simpler"];
        kernels.split(' ').for_each(|kernel| words.extend(["--kernel", kernel]));
        words.extend(options.split(' '));
        let (exit, said) = shop.json(&words);
        assert_eq!((exit, &said["bitexact"]), (Some(code), &bitexact.into()), "{dump}: {said}");
        assert_eq!(failed(&said), failures, "{dump}");
    }
    let path = peers.join("gen2-vector");
    let unknown =
        shop.call(&["replay", path.to_str().expect("UTF-8"), "--abi", "simpler", "--kernel", "9=k.so:add"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("--kernel takes TASK=LIB"), "{unknown:?}");
}
