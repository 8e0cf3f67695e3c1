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
