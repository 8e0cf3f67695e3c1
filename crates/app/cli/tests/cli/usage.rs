//! Invalid requests: exit status 2, a reason, a hint, and no result on standard output.

use crate::common;
use crate::dumps::Folder;
use crate::json::{document, keys};
use crate::{Outcome, tensortap};

/// Checks that a call is rejected with these words on standard error, and with --json in a document.
fn refused(line: &str, words: &[&str]) {
    let outcome = tensortap(line);
    assert_eq!(outcome.stdout, "", "{line}: {outcome:?}");
    assert_refused(line, &outcome, words);
    let line = format!("{line} --json");
    let outcome = tensortap(&line);
    assert_refused(&line, &outcome, words);
    let error = &document(&outcome)["error"];
    assert_eq!((keys(error), &error["exit_status"]), (vec!["exit_status", "hint", "message"], &2.into()));
    let message = error["message"].as_str().expect("a message");
    // Text may be wrapped.
    let said = common::unwrapped(&outcome.stderr);
    assert!(!message.is_empty() && said.starts_with(&format!("error: {message}")), "{line}: {outcome:?}");
    assert_eq!(error["hint"].is_null(), !said.contains(" hint: ") && !said.contains(" tip: "), "{outcome:?}");
}

fn assert_refused(line: &str, outcome: &Outcome, words: &[&str]) {
    assert_eq!(outcome.code, Some(2), "{line}: {outcome:?}");
    assert!(outcome.stderr.starts_with("error: "), "{line}: {outcome:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "{line}: no {word} in {}", outcome.stderr);
    }
}

#[test]
fn rejects_unknown_names_and_lists_valid_ones() {
    refused("run paged_atention", &["vector_example", "hint: did you mean `paged_attention`?"]);
    refused("scenes paged_atention", &["vector_example", "hint: did you mean `paged_attention`?"]);
    refused("run xyz", &["vector_example", "hint: `tensortap scenes`"]);
    refused("run bgemm --platform a5sin", &["a2a3sim, a5sim", "did you mean `a5sim`?"]);
    refused("run bgemm --runtime host_build", &["aicpu_build_graph", "did you mean `host_build_graph`?"]);
    refused("run bgemm --param tiles=3", &["batch, m, n", "did you mean `tile`?"]);
    refused("run bgemm --param zzz=3", &["batch, m, n", "`tensortap scenes bgemm`"]);
    refused("run bgemm --inject-fault tileadd=sign", &["gemm_tile", "did you mean `tile_add`?"]);
    refused("run bgemm --inject-fault tile_add=sing", &["overflow, race", "did you mean `sign`?"]);
    refused("bench dispatch --platform a6", &["a2a3sim, a5sim"]);
    refused("bench dispatch --runtime ring", &["tensormap_and_ringbuffer"]);
    refused("runn bgemm", &["similar", "run"]);
}

#[test]
fn rejects_values_out_of_range_with_the_range() {
    refused("run bgemm --param batch=0", &["from 1 to 64", "`tensortap scenes bgemm`"]);
    refused("run bgemm --param dtype=f8", &["f32, f16, i8"]);
    refused("run bgemm --param n=33", &["multiple of `tile`"]);
    refused("run bgemm --param tile=1", &["`tile`", "11796480 tasks", "may have 2000000"]);
    refused(
        "run bgemm --param tile=16 -p n=32 --param tile=8",
        &["`tile`", "as `16` and as `8`", "give it once"],
    );
    refused("run bgemm --blocks 0", &["--blocks", "1 to 64"]);
    refused("run bgemm --blocks 65", &["--blocks", "1 to 64"]);
    refused("run bgemm --schedulers 0", &["--schedulers", "1 to 32"]);
    refused("run bgemm --ring-slots 0", &["--ring-slots"]);
    refused("run bgemm --device-memory 64XB", &["64MiB", "1.5g"]);
    refused("run bgemm --ring-heap lots", &["64MiB", "1.5g"]);
    refused("run bgemm --stall-timeout soon", &["500ms", "0 means never"]);
    refused("run bgemm --device-mode fiber", &["process, thread"]);
    refused("run bgemm --build never", &["sequential, concurrent"]);
    refused("run bgemm --color red", &["auto, always, never"]);
    refused("run bgemm --poison 0x100", &["0xff"]);
    refused("bench dispatch --repeat 0", &["--repeat"]);
    refused("bench dispatch --tasks 131073", &["131072", "hint: ", "tensormap_and_ringbuffer"]);
}

#[test]
fn rejects_negative_numbers_with_the_accepted_form() {
    refused("run bgemm --param batch=-1", &["from 1 to 64"]);
    refused("run bgemm --param -1", &["KEY=VALUE"]);
    refused("run bgemm --blocks -1", &["--blocks", "from 1 to 64"]);
    refused("run bgemm --schedulers -1", &["--schedulers", "from 1 to 32"]);
    refused("run bgemm --ring-slots -1", &["--ring-slots", "from 1 to 1048576"]);
    refused("run bgemm --stall-timeout -1s", &["500ms", "0 means never"]);
    refused("run bgemm --device-memory -5M", &["64MiB", "1.5g"]);
    refused("run bgemm --dump-tensor --dump-buffers -1", &["from 2 to 1024"]);
    refused("run bgemm --dump-tensor --dump-arg -1", &["from 0 to 47"]);
    refused("diff a b --atol -1", &["--atol", "non-negative", "1e-3"]);
    refused("diff a b --rtol -1e-3", &["--rtol", "non-negative", "1e-3"]);
    refused("list --limit -1", &["at least 0"]);
    refused("stats --jobs -1", &["from 1 to 1024"]);
    refused("list --task -1", &["--task"]);
    refused("replay --set-arg -1=3", &["SLOT=VALUE"]);
    refused("bench dispatch --repeat -1", &["a whole number from 1 to 1000"]);
}

#[test]
fn a_missing_command_is_an_error_document_but_help_is_not() {
    let outcome = tensortap("bench --json");
    assert_eq!((outcome.code, &document(&outcome)["error"]["exit_status"]), (Some(2), &2.into()));
    let outcome = tensortap("bench --json --help");
    assert!(outcome.code == Some(0) && outcome.stdout.contains("Usage:"), "{outcome:?}");
}

#[test]
fn an_unreadable_dump_is_an_error_document() {
    for verb in [
        "list",
        "show",
        "stats",
        "verify",
        "repair",
        "export --format npy",
        "replay --all",
        "blame --reference",
    ] {
        let outcome = tensortap(&format!("{verb} no/such/dump --json"));
        assert_refused(verb, &outcome, &["no/such/dump"]);
        let error = &document(&outcome)["error"];
        assert!(error["message"].as_str().is_some_and(|said| said.contains("no/such/dump")), "{error}");
    }
}

#[test]
fn rejects_a_fault_without_effect_and_lists_valid_ones() {
    refused("run scalar_data --inject-fault write_signed=nan", &["write_signed", "sign, last, stale"]);
}

#[test]
fn rejects_invalid_dump_options() {
    refused("run bgemm --dump-tensor=ful", &["did you mean `full`?", "marked", "hash"]);
    refused("run bgemm --dump-tensor=5", &["off, marked, full, meta, hash"]);
    refused("run bgemm --dump-tensor --dump-func tileadd", &["gemm_tile", "did you mean `tile_add`?"]);
    refused("run bgemm --dump-tensor --dump-task 7-3", &["did you mean 3-7?"]);
    refused("run bgemm --dump-tensor --dump-task 1,,2", &["0x100000002"]);
    refused("run bgemm --dump-tensor --dump-arg 48", &["--dump-arg", "0 to 47"]);
    refused("run bgemm --dump-tensor --dump-stage during", &["before, after"]);
    refused("run bgemm --dump-tensor --dump-policy wait", &["block, drop"]);
    refused("run bgemm --dump-tensor --dump-collect never", &["live, batch"]);
    refused("run bgemm --dump-tensor --dump-arena 1k", &["--dump-arena", "64 KiB"]);
    refused("run bgemm --dump-tensor --dump-buffers 1", &["--dump-buffers", "2 to 1024"]);
    refused("run bgemm --dump-tensor --dump-records 0", &["--dump-records", "1 to 1048576"]);
    refused("run bgemm --dump-tensor --dump-max-bytes lots", &["64MiB"]);
    refused("run bgemm --dump-tensor --dump-liveness soon", &["500ms"]);
    refused("list --dtype float3", &["float32", "similar"]);
    refused("list --role through", &["input, output, inout"]);
    refused("list --kind pointer", &["tensor, scalar"]);
    refused("list --index x", &["decimal"]);
}

#[test]
fn suggests_the_equals_sign_of_a_level() {
    refused("run bgemm --dump-tensor full", &["'full'", "needs an equals sign: --dump-tensor=full"]);
    let other = tensortap("run bgemm full --dump-tensor");
    assert!(other.code == Some(2) && !other.stderr.contains("equals sign"), "{other:?}");
}

#[test]
fn rejects_dump_options_without_a_dump() {
    for option in [
        "--out d",
        "--dump-task 1",
        "--dump-func gemm_tile",
        "--dump-arg 0",
        "--dump-stage after",
        "--dump-first 1",
        "--dump-last 1",
        "--dump-max-bytes 1M",
        "--no-dedup",
        "--dump-policy drop",
        "--dump-collect batch",
        "--dump-liveness 1s",
        "--dump-sync",
        "--dump-arena 1M",
        "--dump-buffers 4",
        "--dump-records 4",
        "--dump-write direct",
        "--dump-writers 2",
    ] {
        let name = option.split(' ').next().unwrap();
        refused(
            &format!("run bgemm {option}"),
            &[name, "needs --dump-tensor or --dump-args", "hint: add --dump-tensor"],
        );
        refused(&format!("run bgemm --dump-tensor=off {option}"), &[name, "level off records nothing"]);
    }
}

#[test]
fn rejects_incomplete_pairs_with_the_expected_form() {
    refused("run bgemm --param tile", &["KEY=VALUE"]);
    refused("run bgemm --param =3", &["KEY=VALUE"]);
    refused("run bgemm --inject-fault sign", &["KERNEL=KIND"]);
}

#[test]
fn rejects_two_output_formats_in_a_document() {
    let outcome = tensortap("list --csv --json");
    assert_refused("list --csv --json", &outcome, &["cannot be used with"]);
    assert_eq!(document(&outcome)["error"]["message"], "the argument '--csv' cannot be used with '--json'");
}

#[test]
fn rejects_missing_and_extra_words() {
    refused("run", &["<SCENE>"]);
    refused("run bgemm --devce-memory 1G", &["--device-memory"]);
    refused("scenes bgemm stream", &["stream"]);
}

#[test]
fn an_uncreatable_folder_is_a_failure_and_a_used_one_bad_usage() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "d");
    std::fs::write(folder.path("file"), "not a folder").expect("writable");
    for verb in [
        "run vector_example --dump-tensor --quiet",
        "run vector_example --dump-args --quiet",
        "export d --format npy",
        "extract d --task 0",
    ] {
        for (out, code) in [("file/under", 3), ("d", 2)] {
            let outcome = folder.tensortap(&format!("{verb} --out {out}"));
            assert_eq!(outcome.code, Some(code), "{verb} --out {out}: {outcome:?}");
            // The folder itself, or a file in place of its parent.
            let named = out.split('/').next().unwrap_or(out);
            assert!(outcome.stderr.contains(named), "{verb} names the folder: {outcome:?}");
        }
    }
}

#[test]
fn an_unknown_name_is_bad_usage_but_an_empty_selection_is_not() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "d");
    for verb in ["list d", "stats d", "export d --format npy --out e --force"] {
        for (option, code) in [
            ("--func nosuch", 2),
            ("--task nosuch", 2),
            ("--func nosuch*", 0),
            ("--task nosuch*", 0),
            ("--task 90-99", 0),
            ("--shape 3x5", 0),
        ] {
            let outcome = folder.tensortap(&format!("{verb} {option}"));
            assert_eq!(outcome.code, Some(code), "{verb} {option}: {outcome:?}");
        }
    }
}

#[test]
fn diff_with_one_dump_explains_what_to_compare() {
    let folder = Folder::new();
    folder.record("vector_example --dump-tensor", "d");
    // There is no other dump.
    for line in ["diff d", "diff d --json"] {
        let refused = folder.tensortap(line);
        assert_refused(line, &refused, &["there is nothing to compare ", "`tensortap diff d right`"]);
        assert_refused(line, &refused, &["`tensortap diff d golden.npz`", "diff d --scene-golden"]);
    }
    assert_refused("diff", &folder.tensortap("diff"), &["name both", "`tensortap diff DUMP right`"]);
    // The named dump is the newest one: it must not be compared with itself.
    folder.good("run vector_example --dump-tensor --quiet");
    let newest = std::fs::read_dir(folder.path("outputs")).unwrap().next().unwrap().unwrap().path();
    let line = format!("diff outputs/{}", newest.file_name().unwrap().to_str().unwrap());
    assert_refused(&line, &folder.tensortap(&line), &["outputs/ has no other"]);
    folder.good("diff d");
}

#[test]
fn an_extra_word_after_a_dump_explains_task_selection() {
    for verb in ["list", "stats"] {
        refused(
            &format!("{verb} d mul"),
            &["'mul'", "tip: this verb reads one dump; choose a task with --task mul"],
        );
    }
}

#[test]
fn missing_names_have_the_same_wording_everywhere() {
    let folder = crate::dumps::Folder::new();
    folder.record("vector_example --dump-tensor=hash", "d");
    for (line, said) in [
        ("show d 99", "error: there is no record 99; records are 0 to 17\n"),
        ("show d -1", "error: there is no record -1; records are 0 to 17\n"),
        (
            "show d nosuch",
            "error: there is no task nosuch; there are: add, add_scalar, mul, t0, t1, t2, t3, t4\n",
        ),
        (
            "show d 0x77",
            "error: there is no task 0x77; tasks are 0x0, 0x100000000, 0x100000001, 0x100000002, 0x100000003\n",
        ),
        ("blame d --golden d --step 7", "error: d has none of the steps in --step\nhint: its steps are 0\n"),
        ("diff d d --rules no.toml", "hint: `tensortap help rules` explains rules files\n"),
        ("blame d --golden d --rules no.toml", "hint: `tensortap help rules` explains rules files\n"),
    ] {
        let refused = folder.tensortap(line);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{line}: {refused:?}");
        assert!(refused.stderr.contains(said), "{line}: {refused:?}");
    }
}
