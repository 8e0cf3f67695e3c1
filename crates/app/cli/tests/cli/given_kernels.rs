//! `replay --kernel`: runs captured tasks with a different build of a kernel.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::folders::{WEIGH, WorkFolder, halves, has_compilers};

/// Compiles a source into a library of the workshop.
pub fn library(shop: &WorkFolder, name: &str, source: &str) {
    shop.write(&format!("{name}.c"), source);
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-ffp-contract=off", "-I"]).arg(include);
    cc.arg("-o").arg(shop.path(&format!("{name}.so"))).arg(shop.path(&format!("{name}.c")));
    let compiled = cc.output().expect("it starts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// Tasks that failed.
pub fn failed(said: &Value) -> Vec<&str> {
    let failed = said["failed"].as_array().expect("a list");
    failed.iter().map(|task| task["task_id"].as_str().expect("an id")).collect()
}

/// The product of `vector_example`: correct, wrong, and correct with data addresses instead of descriptors.
const MUL: &str = r"
#include <tensortap.h>
static void over(float *out, const float *x, const float *y, uint32_t n, int product)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = product ? x[i] * y[i] : x[i] + y[i];
}
void kernel_entry(uint64_t *args) { over(tt_f32(args, 2), tt_f32(args, 0), tt_f32(args, 1), tt_scalar_u32(args, 3), 1); }
void wrong(uint64_t *args) { over(tt_f32(args, 2), tt_f32(args, 0), tt_f32(args, 1), tt_scalar_u32(args, 3), 0); }
void with_addresses(uint64_t *args)
{
    over((float *)args[2], (const float *)args[0], (const float *)args[1], (uint32_t)args[3], 1);
}
";

const MUL_TASK: &str = "0x0000000100000002";

#[test]
fn a_correct_build_passes_and_a_wrong_one_fails() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    library(&shop, "mul", MUL);
    shop.json(&["run", "vector_example", "--dump-tensor", "--out", "good"]);
    let (code, _) =
        shop.json(&["run", "vector_example", "--dump-tensor", "--inject-fault", "mul=sign", "--out", "bad"]);
    assert_eq!(code, Some(1));
    for (dump, kernel, options, passes) in [
        ("good", "mul=mul.so", "", true),
        ("good", "mul=mul.so:wrong", "", false),
        ("bad", "mul=mul.so", "--reference", true),
        ("bad", "mul=mul.so:wrong", "--reference", false),
        ("bad", "mul=mul.so", "", false),
        ("good", "mul=./mul.so:with_addresses", "--abi raw", true),
        ("good", "mul=mul.so", "--device-mode thread --trust", true),
        ("good", "mul=mul.so", "--platform a5sim", true),
    ] {
        let options: Vec<&str> = options.split_whitespace().collect();
        let (code, said) = shop.json(&[&["replay", dump, "--kernel", kernel], options.as_slice()].concat());
        assert_eq!((code, &said["tasks"]), (Some(i32::from(!passes)), &1.into()), "{kernel}: {said}");
        assert_eq!(failed(&said), if passes { &[][..] } else { &[MUL_TASK] }, "{said}");
        let given = &said["given"][0];
        let build_id = given["build_id"].as_str().expect("a build id");
        assert!(build_id.starts_with("gnu:") || build_id.starts_with("xxh3_128:"), "{given}");
        assert!(given["kernel"] == "mul" && said["notes"].to_string().contains(build_id), "{said}");
        assert_eq!(said["confinement"]["no_new_privileges"], !options.contains(&"--trust"), "{said}");
    }
    let (code, said) = shop.json(&["replay", "good", "--all", "--kernel", "mul=mul.so:wrong"]);
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(1), &5.into(), &4.into()), "{said}");
    assert_eq!(failed(&said), [MUL_TASK]);
    let text = shop.call(&["replay", "good", "--kernel", "mul=mul.so"]);
    assert!(text.stdout.contains("  kernel     mul from ") && text.stdout.contains("mul.so"), "{text:?}");
}

#[test]
fn a_case_accepts_another_build_and_can_contain_it() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    library(&shop, "mul", MUL);
    shop.json(&["run", "vector_example", "--dump-tensor", "--out", "good"]);
    shop.json(&["extract", "good", "--task", "mul", "--out", "cases/own"]);
    for (kernel, code) in [("mul=mul.so", 0), ("mul=mul.so:wrong", 1)] {
        let (exit, said) = shop.json(&["replay", "cases/own", "--kernel", kernel]);
        assert_eq!((exit, said["tasks"].as_u64()), (Some(code), Some(1)), "{said}");
        assert_eq!(failed(&said).len(), usize::try_from(code).expect("0 or 1"), "{said}");
    }
    let bring = |kernel: &str, out: &str| {
        shop.json(&["extract", "good", "--task", "mul", "--kernel", kernel, "--out", out])
    };
    assert_eq!(bring("mul=mul.so", "cases/right").0, Some(0));
    assert_eq!(bring("mul=mul.so:wrong", "cases/wrong").0, Some(0));
    // Several cases in one folder, each with its own kernel.
    let (code, said) = shop.json(&["replay", "cases"]);
    assert_eq!((code, &said["tasks"], &said["bitexact"]), (Some(1), &3.into(), &2.into()), "{said}");
    assert_eq!(said["failed"][0]["case"], "cases/wrong", "{said}");
    let (code, said) = shop.json(&["replay", "cases", "--kernel", "mul=mul.so"]);
    assert_eq!((code, &said["bitexact"]), (Some(0), &3.into()), "the user's library is taken first: {said}");
    // The scene has this kernel but no case runs it: the others stay the same, and one note is printed.
    let (code, said) = shop.json(&["replay", "cases", "--kernel", "add=mul.so", "--all"]);
    assert_eq!(
        (code, &said["bitexact"], said["notes"].as_array().map(Vec::len)),
        (Some(1), &2.into(), Some(1)),
        "{said}"
    );
}

#[test]
fn replaces_a_kernel_of_a_scene_folder() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    let (code, _) = shop.json(&["run", "halves", "--dump-tensor", "--out", "dump"]);
    assert_eq!(code, Some(0));
    library(&shop, "same", WEIGH);
    library(&shop, "other", &WEIGH.replace("factor * tt_f32(args, 0)[i] +", "factor * tt_f32(args, 0)[i] -"));
    let (code, said) = shop.json(&["replay", "dump", "--all", "--kernel", "weigh=same.so"]);
    assert_eq!((code, &said["bitexact"]), (Some(0), &2.into()), "{said}");
    let (code, said) = shop.json(&["replay", "dump", "--all", "--kernel", "weigh=other.so"]);
    assert_eq!((code, &said["bitexact"], failed(&said).len()), (Some(1), &1.into(), 1), "{said}");
    let (code, said) = shop.json(&["replay", "dump", "--kernel", "weigh=other.so", "--reference"]);
    assert_eq!((code, failed(&said).len()), (Some(1), 1), "the folder's reference judges it: {said}");
}

#[test]
fn rejects_invalid_kernels_before_the_replay() {
    if !has_compilers() {
        return;
    }
    let shop = WorkFolder::new();
    library(&shop, "mul", MUL);
    library(&shop, "old", "int tensortap_abi_99; void kernel_entry(unsigned long *args) { (void)args; }");
    library(
        &shop,
        "hooked",
        "void kernel_entry(long *args) { (void)args; } void pto_sim_register_hooks(void *a, void *b) { (void)a; (void)b; }",
    );
    shop.json(&["run", "vector_example", "--dump-tensor", "--out", "good"]);
    for (line, why) in [
        ("--kernel nul=mul.so", "there is no kernel `nul`; there are: add, add_scalar, mul"),
        ("--kernel mul=none.so", "none.so"),
        ("--kernel mul=mul.c", "it is not a shared library"),
        ("--kernel mul=mul.so:absent", "the function `absent`, which it does not export"),
        ("--kernel mul=old.so", "version 99 of tensortap.h"),
        ("--abi simpler --kernel mul=hooked.so", "exports `pto_sim_register_hooks`"),
        ("--kernel mul", "NAME=LIB"),
        ("--kernel mul=mul.so --kernel mul=old.so", "`mul` was passed twice"),
        ("--kernel mul=mul.so --inject-fault mul=sign", "comes from --kernel"),
        ("--kernel mul=mul.so --block-num 2", "only to dumps without block counts"),
        ("--kernel mul=mul.so --abi other", "possible values"),
        ("--all --abi raw", "--kernel"),
        ("--all --device 0", "choose a platform with --platform NAME"),
        ("--kernel mul=mul.so --device-mode thread", "--trust"),
    ] {
        let words: Vec<&str> = ["replay", "good"].into_iter().chain(line.split_whitespace()).collect();
        let refused = shop.call(&words);
        assert!(refused.code == Some(2) && refused.stderr.contains(why), "{line}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
    }
}

#[test]
fn rejects_a_library_with_an_unresolved_function() {
    if !has_compilers() {
        return;
    }
    let shop = halves();
    let lacking = "void nowhere(void);\nvoid kernel_entry(unsigned long *args) { (void)args; nowhere(); }\n";
    library(&shop, "lacking", lacking);
    assert_eq!(shop.json(&["run", "vector_example", "--dump-tensor", "--out", "d"]).0, Some(0));
    shop.write(
        "halves/weigh.c",
        &WEIGH
            .replace("void kernel_entry", "void nowhere(void);\nvoid kernel_entry")
            .replace("float factor", "nowhere(); float factor"),
    );
    for words in [
        &["replay", "d", "--kernel", "mul=lacking.so"][..],
        &["run", "halves"],
        &["run", "halves", "--device-mode", "thread"],
    ] {
        let refused = shop.call(words);
        let said = "undefined symbol: nowhere; link the library that defines this symbol";
        assert!(refused.code == Some(2) && refused.stderr.contains(said), "{words:?}: {refused:?}");
    }
}
