use crate::json::document;
use crate::{assert_snapshot, command, outcome, tensortap};

#[test]
fn summarizes_a_correct_run() {
    let outcome = tensortap("run mixed_example --blocks 2");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    assert_snapshot("run_pass", &outcome.stdout);
}

#[test]
fn shows_the_first_wrong_element_of_an_output() {
    let outcome = tensortap("run bgemm --blocks 2 --inject-fault tile_add=last --param batch=1");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""), "{outcome:?}");
    assert_snapshot("run_fail", &outcome.stdout);
}

#[test]
fn text_and_json_agree() {
    const LINE: &str = "run bgemm --inject-fault tile_add=last";
    let first = &document(&tensortap(&format!("{LINE} --json")))["outputs"][0]["first_outside"];
    let (index, actual, expected) =
        (first["index"].as_u64(), first["actual"].as_f64(), first["expected"].as_f64());
    // The last element of the first tile of 32 by 32, in rows of 96.
    assert_eq!(index, Some(31 * 96 + 31), "{first}");
    let said =
        format!("first wrong: c[0, 31, 31] is {:?}, expected {:?}", actual.unwrap(), expected.unwrap());
    let text = tensortap(LINE).stdout;
    assert!(text.contains(&said), "no {said} in {text}");
}

#[test]
fn options_configure_the_run() {
    let outcome = tensortap(
        "run paged_attention --platform a5sim --runtime aicpu_build_graph --build sequential --blocks 3 \
         --schedulers 2 --device-memory 256MiB -p batch=1 --stall-timeout 2min --poison 0xa5",
    );
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    for part in ["on a5sim", "aicpu_build_graph, 3 blocks, 2 schedulers", "32 tasks"] {
        assert!(outcome.stdout.contains(part), "{part}: {outcome:?}");
    }
}

#[test]
fn respects_a_small_ring_and_reports_its_limit() {
    assert_eq!(tensortap("run vector_example --ring-slots 4 --ring-heap 512KiB").code, Some(0));
    let outcome = tensortap("run vector_example --ring-heap 4KiB");
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stderr.contains("--ring-heap"), "{outcome:?}");
}

#[test]
fn notes_options_without_effect_unless_quiet() {
    for (options, part) in [
        ("--runtime host_build_graph --build sequential", "--build has no effect with host_build_graph"),
        ("--runtime aicpu_build_graph --ring-slots 64", "--ring-slots has no effect with aicpu_build_graph"),
        ("--runtime host_build_graph --ring-heap 1MiB", "--ring-heap has no effect with host_build_graph"),
        ("--blocks 1 --schedulers 3", "2 schedulers will be idle"),
        ("--device-mode thread", "crashes or hangs"),
    ] {
        let line = format!("run vector_example {options}");
        let outcome = tensortap(&line);
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert!(outcome.stderr.starts_with("note: ") && outcome.stderr.contains(part), "{outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
        assert_eq!(tensortap(&format!("{line} --quiet")).stderr, "", "{line}");
    }
}

#[test]
fn prints_no_note_for_options_with_effect() {
    for options in [
        "--runtime aicpu_build_graph --build sequential",
        "--ring-slots 64 --ring-heap 1MiB",
        "--schedulers 4",
    ] {
        assert_eq!(tensortap(&format!("run vector_example {options}")).stderr, "", "{options}");
    }
}

#[test]
fn colors_only_verdicts_and_only_on_request() {
    const ESCAPE: &str = "\u{1b}[";
    let plain = tensortap("run vector_example").stdout;
    assert!(!plain.contains(ESCAPE), "{plain}");
    let colored = tensortap("run vector_example --color always").stdout;
    let lines: Vec<&str> = colored.lines().filter(|line| line.contains(ESCAPE)).collect();
    assert_eq!(lines.len(), 2, "{colored:?}");
    assert!(lines.iter().all(|line| line.to_lowercase().contains("pass")), "{colored:?}");
    let mut forced = command(&["run", "vector_example", "--color", "never"]);
    forced.env("CLICOLOR_FORCE", "1");
    assert!(!outcome(forced).stdout.contains(ESCAPE));
    let mut unwanted = command(&["run", "vector_example"]);
    unwanted.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1");
    assert!(!outcome(unwanted).stdout.contains(ESCAPE));
}
