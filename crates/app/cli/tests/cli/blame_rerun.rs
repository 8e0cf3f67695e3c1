//! `blame --rerun`: finds captured outputs that kernels do not reproduce, without a golden.

use std::fs;

use serde_json::{Value, json};

use crate::assert_snapshot;
use crate::common;
use crate::folders::{WorkFolder, has_compilers};
use crate::given_kernels::library;
use crate::peers::peer_dumps;
use crate::simpler_dumps::{KERNELS, graph, source};

/// Tasks with a label, in the order of the document.
fn tasks_with_label<'a>(said: &'a Value, label: &str) -> Vec<&'a str> {
    let tasks = said["tasks"].as_array().expect("a list").iter();
    tasks.filter(|task| task["label"] == label).map(|task| task["task_id"].as_str().expect("an id")).collect()
}

#[test]
fn rerun_finds_the_task_whose_output_is_not_reproduced() {
    let shop = WorkFolder::new();
    shop.json(&["run", "vector_example", "--dump-tensor", "--inject-fault", "mul=sign", "--out", "wrong"]);
    let text = shop.call(&["blame", "wrong", "--rerun"]);
    assert_eq!(text.code, Some(1), "{text:?}");
    assert_snapshot("blame_rerun", &text.stdout);
    let (code, said) = shop.json(&["blame", "wrong", "--rerun"]);
    assert_eq!((code, &said["against"], &said["compared"]), (Some(1), &json!("rerun"), &json!(5)), "{said}");
    assert_eq!(
        (tasks_with_label(&said, "wrong_here"), tasks_with_label(&said, "ok").len()),
        (vec!["0x0000000100000002"], 4)
    );
    // The replay runs without the fault, so it fails.
    assert_eq!(said["culprits"][0]["replay"], "tensortap replay wrong --task 0x0000000100000002", "{said}");
    assert_eq!(shop.json(&["replay", "wrong", "--task", "0x100000002"]).0, Some(1));
    let (code, said) = shop.json(&["blame", "wrong", "--rerun", "--rtol", "10"]);
    assert_eq!(
        (code, tasks_with_label(&said, "ok").len()),
        (Some(0), 5),
        "a rule of one's own decides: {said}"
    );
}

#[test]
fn rerun_uses_the_kernels_of_the_user() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    let mul = |sign: &str| {
        format!(
            "#include <tensortap.h>\nvoid kernel_entry(uint64_t *args) {{ for (uint32_t i = 0; i < tt_scalar_u32(args, 3); i++) \
             tt_f32(args, 2)[i] = {sign}tt_f32(args, 0)[i] * tt_f32(args, 1)[i]; }}"
        )
    };
    library(&shop, "right", &mul(""));
    library(&shop, "negated", &mul("-"));
    shop.json(&["run", "vector_example", "--dump-tensor", "--out", "good"]);
    let with = |kernel: &str| shop.json(&["blame", "good", "--rerun", "--kernel", kernel]);
    let (code, said) = with("mul=right.so");
    assert_eq!(
        (code, tasks_with_label(&said, "ok").len(), &said["given"][0]["kernel"]),
        (Some(0), 5, &json!("mul")),
        "{said}"
    );
    let (code, said) = with("mul=negated.so");
    assert_eq!(
        (code, tasks_with_label(&said, "wrong_here")),
        (Some(1), vec!["0x0000000100000002"]),
        "{said}"
    );
    let replay = said["culprits"][0]["replay"].as_str().expect("a command");
    assert!(replay.ends_with("--kernel 'mul=negated.so:kernel_entry'"), "{replay}");
    for (line, why) in [
        ("--reference --kernel mul=right.so", "add --rerun"),
        ("--rerun --reference", "cannot be used with"),
        ("--rerun --kernel nul=right.so", "no kernel `nul`"),
        ("--reference --allow-inexact", "--allow-inexact has no effect without --rerun"),
    ] {
        let words: Vec<&str> = ["blame", "good"].into_iter().chain(line.split_whitespace()).collect();
        let refused = shop.call(&words);
        assert!(refused.code == Some(2) && refused.stderr.contains(why), "{line}: {refused:?}");
    }
}

#[test]
fn kernels_of_the_user_are_compared_by_rule_and_the_others_by_bits() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    // Every product is one unit in the last place too great, which is within the tolerance of floats.
    let near = "#include <math.h>\n#include <tensortap.h>\nvoid kernel_entry(uint64_t *args) { \
        for (uint32_t i = 0; i < tt_scalar_u32(args, 3); i++) \
        tt_f32(args, 2)[i] = nextafterf(tt_f32(args, 0)[i] * tt_f32(args, 1)[i], INFINITY); }";
    library(&shop, "near", near);
    shop.json(&["run", "vector_example", "--dump-tensor", "--out", "good"]);
    let rerun = ["blame", "good", "--rerun", "--kernel", "mul=near.so"];
    let (code, said) = shop.json(&rerun);
    assert_eq!((code, tasks_with_label(&said, "ok").len()), (Some(0), 5), "{said}");
    let (code, said) = shop.json(&[&rerun[..], &["--profile", "bitexact"]].concat());
    assert_eq!(
        (code, tasks_with_label(&said, "wrong_here")),
        (Some(1), vec!["0x0000000100000002"]),
        "{said}"
    );
    // A kernel that was not replaced must reproduce its bits.
    let (_, said) = shop.json(&["blame", "good", "--rerun", "--all", "--kernel", "mul=near.so"]);
    assert_eq!((&said["failure"], &said["judged"], &said["judged_of"]), (&Value::Null, &json!(5), &json!(5)));
}

/// Options that take all kernels of the graph except one from `k.so`.
fn kernel_options<'a>(but: &str, more: &[&'a str]) -> Vec<&'a str> {
    let all =
        ["ADD=k.so:add", "SCALE=k.so:scale", "func_2=k.so:more", "3=k.so:product", "HALVES=k.so:halves"];
    let mut words = vec!["blame", "g", "--rerun", "--abi", "simpler"];
    all.into_iter()
        .filter(|one| but.is_empty() || !one.starts_with(but))
        .for_each(|one| words.extend(["--kernel", one]));
    words.extend(more);
    words
}

#[test]
fn user_kernels_find_wrong_outputs_in_a_simpler_dump() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    graph(&shop);
    library(&shop, "k", &source(KERNELS));
    library(&shop, "wrong", &source(&KERNELS.replace("* as_float(args[2])", "/ as_float(args[2])")));
    library(&shop, "crash", "void kernel_entry(long *args) { (void)args; *(volatile int *)8 = 1; }");
    let (code, said) = shop.json(&kernel_options("", &[]));
    assert_eq!(
        (code, tasks_with_label(&said, "ok").len(), &said["compared"]),
        (Some(0), 6, &json!(6)),
        "{said}"
    );
    let (code, said) = shop.json(&kernel_options("SCALE", &["--kernel", "SCALE=wrong.so:scale"]));
    assert_eq!(
        (code, tasks_with_label(&said, "wrong_here")),
        (Some(1), vec!["0x0000000100000000", "0x0000000100000001"])
    );
    assert_eq!(tasks_with_label(&said, "ok").len(), 4, "captured inputs are used as they are: {said}");
    // A missing kernel is allowed.
    let text = shop.call(&kernel_options("SCALE", &[]));
    let headline = "PASS: every output is reproduced (this does not show that they are right); 2 tasks have no kernel from a library: SCALE 2; judged 4 of 6 tasks";
    assert!(text.code == Some(0) && common::unwrapped(&text.stdout).starts_with(headline), "{text:?}");
    let (code, said) = shop.json(&kernel_options("SCALE", &[]));
    assert_eq!(
        (code, tasks_with_label(&said, "unknown").len(), tasks_with_label(&said, "ok").len()),
        (Some(0), 2, 4),
        "{said}"
    );
    // A kernel that crashes makes its tasks unknown, and the comparison fails.
    let (code, said) = shop.json(&kernel_options("ADD", &["--kernel", "ADD=crash.so"]));
    assert_eq!(
        (code, tasks_with_label(&said, "unknown"), tasks_with_label(&said, "ok").len()),
        (Some(1), vec!["0x0000000000000000"], 5)
    );
    assert!(said["tasks"].to_string().contains("SIGSEGV"), "{said}");
    assert_eq!(
        (&said["failure"], &said["stopped"][0]["how"]),
        (&json!("stopped"), &json!("failed_again")),
        "{said}"
    );
    assert!(
        said["headline"].as_str().expect("text").starts_with("task 0x0 (ADD) failed when it ran again: "),
        "{said}"
    );
    // Values that the dump does not record are not guessed.
    fs::remove_file(shop.path("g/deps.json")).expect("removed");
    let (code, said) = shop.json(&kernel_options("", &[]));
    assert_eq!(
        (code, tasks_with_label(&said, "unknown").len(), &said["compared"]),
        (Some(1), 6, &json!(0)),
        "{said}"
    );
    assert!(said["tasks"].to_string().contains("pass it with --block-num N"), "{said}");
    let (code, said) = shop.json(&kernel_options("3", &["--allow-inexact"]));
    assert_eq!(
        (code, tasks_with_label(&said, "ok").len(), tasks_with_label(&said, "unknown").len()),
        (Some(0), 5, 1),
        "{said}"
    );
}

#[test]
fn finds_a_wrong_kernel_of_a_real_dump_without_a_golden() {
    let Some(peers) = peer_dumps() else { return };
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    let more = "void plus(int64_t *args) { for (int i = 0; i < 16384; i++) data(args, 1)[i] = data(args, 0)[i] + as_float(args[2]); }
        void times(int64_t *args) { for (int i = 0; i < 16384; i++) data(args, 2)[i] = data(args, 0)[i] * data(args, 1)[i]; }";
    library(&shop, "k", &source(&format!("{KERNELS}{more}")));
    for (dump, code, wrong) in
        [("blame-vector-good", 0, &[][..]), ("blame-vector-fault_mul", 1, &["0x0000000100000002"])]
    {
        let path = peers.join(dump).join("args_dump");
        let words = ["blame", path.to_str().expect("UTF-8"), "--rerun", "--abi", "simpler"];
        let kernels = ["--kernel", "0=k.so:add", "--kernel", "1=k.so:plus", "--kernel", "2=k.so:times"];
        let (exit, said) = shop.json(&[&words[..], &kernels].concat());
        assert_eq!(
            (exit, tasks_with_label(&said, "wrong_here")),
            (Some(code), wrong.to_vec()),
            "{dump}: {said}"
        );
    }
}
