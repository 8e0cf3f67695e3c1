//! Requests that make no sense: exit status 2, a reason, a remedy, and nothing on standard output.

use crate::tensortap;

/// Refused with these words on standard error.
fn refused(line: &str, words: &[&str]) {
    for line in [line.to_string(), format!("{line} --json")] {
        let outcome = tensortap(&line);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{line}: {outcome:?}");
        assert!(outcome.stderr.starts_with("error: "), "{line}: {outcome:?}");
        for word in words {
            assert!(outcome.stderr.contains(word), "{line}: no {word} in {}", outcome.stderr);
        }
    }
}

#[test]
fn unknown_names_are_answered_with_those_there_are_and_the_nearest() {
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
fn values_out_of_range_are_answered_with_the_range() {
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
fn a_fault_that_cannot_show_is_refused_with_those_that_can() {
    refused("run scalar_data --inject-fault write_signed=nan", &["write_signed", "sign, last, stale"]);
}

#[test]
fn dump_options_that_make_no_sense_are_refused() {
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
fn dump_options_without_a_dump_are_refused_by_name() {
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
fn half_a_pair_is_refused_with_its_form() {
    refused("run bgemm --param tile", &["KEY=VALUE"]);
    refused("run bgemm --param =3", &["KEY=VALUE"]);
    refused("run bgemm --inject-fault sign", &["KERNEL=KIND"]);
}

#[test]
fn what_is_missing_or_too_much_is_refused() {
    refused("run", &["<SCENE>"]);
    refused("run bgemm --devce-memory 1G", &["--device-memory"]);
    refused("scenes bgemm stream", &["stream"]);
}
