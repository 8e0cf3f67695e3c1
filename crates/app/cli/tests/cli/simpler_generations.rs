//! Replays of whole graphs of the first two generations of the public project `simpler`.

use std::fs;

use serde_json::Value;

use crate::folders::{WorkFolder, has_compilers};
use crate::given_kernels::{failed, library};
use crate::simpler_dumps::{KERNELS, OlderFormat, six_tasks, source};

/// A dump of an older generation, the kernels, and those with one wrong instruction in `from`.
fn shop(older: OlderFormat, from: &str, to: &str) -> Option<WorkFolder> {
    if !has_compilers() {
        return None;
    }
    let shop = WorkFolder::new();
    six_tasks().write_older(&shop, older);
    library(&shop, "k", &source(KERNELS));
    let wrong = KERNELS.replace(from, to);
    assert_ne!(wrong, KERNELS);
    library(&shop, "wrong", &source(&wrong));
    Some(shop)
}

/// Replays with kernels, each `NAME=LIB:SYMBOL`.
fn replay(shop: &WorkFolder, kernels: &str, options: &str) -> (Option<i32>, Value) {
    let mut words = vec!["replay", "g", "--abi", "simpler"];
    kernels.split(' ').for_each(|kernel| words.extend(["--kernel", kernel]));
    words.extend(options.split_whitespace());
    shop.json(&words)
}

fn passes(shop: &WorkFolder, kernels: &str, options: &str, bitexact: u64) {
    let (code, said) = replay(shop, kernels, options);
    assert_eq!(
        (code, &said["bitexact"], &said["tasks"]),
        (Some(0), &bitexact.into(), &bitexact.into()),
        "{said}"
    );
}

const SCALED: [&str; 2] = ["0x0000000100000000", "0x0000000100000001"];

#[test]
fn replays_a_second_generation_graph_and_finds_a_wrong_instruction() {
    let Some(shop) = shop(OlderFormat::Second, "* as_float(args[2])", "/ as_float(args[2])") else { return };
    let others = "ADD=k.so:add func_2=k.so:more 3=k.so:product HALVES=k.so:halves";
    passes(&shop, &format!("{others} SCALE=k.so:scale"), "--all", 6);
    let (code, said) = replay(&shop, &format!("{others} SCALE=wrong.so:scale"), "--all");
    assert_eq!((code, &said["bitexact"], failed(&said)), (Some(1), &4.into(), SCALED.to_vec()), "{said}");
    // Without the graph file, kernels are given by task, and blocks by option.
    fs::remove_file(shop.path("g/deps.json")).expect("removed");
    let by_task = |scale: &str| format!("0x0=k.so:add 1:0={scale}:scale 1:1={scale}:scale 1:2=k.so:more");
    passes(&shop, &by_task("k.so"), "--block-num 1", 4);
    passes(&shop, "1:3=k.so:product", "--block-num 4", 1);
    let (code, said) = replay(&shop, &by_task("wrong.so"), "--block-num 1");
    assert_eq!((code, &said["bitexact"], failed(&said)), (Some(1), &2.into(), SCALED.to_vec()), "{said}");
    let (code, said) = replay(&shop, &by_task("k.so"), "");
    assert_eq!((code, said["refused"].as_array().map(Vec::len)), (Some(1), Some(4)), "blocks: {said}");
}

#[test]
fn replays_a_first_generation_graph_without_its_scalars() {
    let Some(shop) = shop(OlderFormat::First, "+= 1", "+= 2") else { return };
    fs::remove_file(shop.path("g/deps.json")).expect("removed");
    let no_scalars = "ADD=k.so:add func_2=k.so:more HALVES=k.so:halves";
    let (code, said) = replay(&shop, no_scalars, "--block-num 1");
    assert_eq!((code, said["refused"].as_array().map(Vec::len)), (Some(1), Some(3)), "{said}");
    assert!(said["refused"].to_string().contains("the first generation have no scalars"), "{said}");
    // The records of a mix task name its kernels by slot.
    passes(&shop, no_scalars, "--block-num 1 --allow-inexact", 3);
    passes(&shop, "3=k.so:product", "--block-num 4 --allow-inexact", 1);
    let wrong = no_scalars.replace("k.so:more", "wrong.so:more");
    let (code, said) = replay(&shop, &wrong, "--block-num 1 --allow-inexact");
    assert_eq!((code, failed(&said)), (Some(1), vec!["0x0000000100000002"]), "{said}");
    // Scalars are replaced by zeros, and every task reports that.
    let (code, said) = replay(&shop, "SCALE=k.so:scale", "--block-num 1 --allow-inexact");
    assert_eq!((code, failed(&said)), (Some(1), SCALED.to_vec()), "{said}");
    assert_eq!(said["fidelity"]["zero"], 2, "{said}");
}
