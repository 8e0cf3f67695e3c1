use crate::dumps::Folder;
use crate::{assert_snapshot, tensortap};

#[test]
fn without_a_verb_there_is_help_and_a_first_step() {
    let outcome = tensortap("");
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stdout.contains("tensortap run paged_attention"));
    assert_snapshot("help", &outcome.stdout);
}

#[test]
fn every_verb_has_help_with_an_example() {
    for verb in [
        "scenes",
        "run",
        "list",
        "show",
        "stats",
        "export",
        "diff",
        "blame",
        "replay",
        "extract",
        "verify",
        "repair",
        "bench",
        "bench dispatch",
        "bench dump",
        "bench read",
        "bench diff",
    ] {
        let outcome = tensortap(&format!("{verb} --help"));
        assert_eq!(outcome.code, Some(0), "{verb}: {outcome:?}");
        let (_, examples) = outcome.stdout.split_once("Example").expect(verb);
        assert!(examples.contains(&format!("tensortap {verb}")), "{verb}: {examples}");
        assert_snapshot(&format!("help {verb}").replace(' ', "_"), &outcome.stdout);
    }
}

#[test]
fn selectors_have_a_page_that_verbs_refer_to_and_a_narrow_terminal_takes() {
    let page = tensortap("help selectors");
    assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""), "{page:?}");
    assert_eq!(tensortap("selectors").stdout.trim_end(), page.stdout.trim_end());
    assert!(page.stdout.lines().all(|line| line.chars().count() <= 80), "{page:?}");
    let help = tensortap("list --help").stdout;
    assert!(help.contains("`tensortap help selectors`"), "{help}");
    let (_, options) = help.split_once("Selecting records").expect("selectors");
    let (options, _) = options.split_once("Common options").expect("common options");
    for option in options.split_whitespace().filter(|word| word.starts_with("--")) {
        assert!(page.stdout.contains(&format!("  {option} ")), "no {option} in {page:?}");
    }
}

#[test]
fn faults_have_a_page_with_a_line_for_each_kind() {
    let page = tensortap("help faults");
    assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""), "{page:?}");
    assert_eq!(tensortap("faults").stdout.trim_end(), page.stdout.trim_end());
    assert!(page.stdout.lines().all(|line| line.chars().count() <= 80), "{page:?}");
    for kind in tensortap::scene::FaultKind::ALL {
        let line = format!("\n  {:8}  {}\n", kind.name(), kind.about());
        assert!(page.stdout.contains(&line), "no {kind} in {page:?}");
    }
}

#[test]
fn examples_in_the_help_of_run_work() {
    let help = tensortap("run --help").stdout;
    let (_, examples) = help.split_once("Examples:\n").expect("examples");
    let examples: Vec<&str> = examples.lines().take_while(|line| !line.is_empty()).collect();
    assert!(examples.len() >= 3, "{examples:?}");
    for example in examples {
        let outcome = Folder::new().tensortap(example.trim().strip_prefix("tensortap ").expect("a call"));
        let expected = if example.contains("--inject-fault") { 1 } else { 0 };
        assert_eq!(outcome.code, Some(expected), "{example}: {outcome:?}");
    }
}
