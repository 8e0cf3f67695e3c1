use crate::dumps::Folder;
use crate::{assert_snapshot, tensortap};

#[test]
fn prints_help_without_a_verb() {
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
        "new-scene",
        "record",
        "list",
        "show",
        "report",
        "stats",
        "trace",
        "tui",
        "export",
        "diff",
        "blame",
        "replay",
        "extract",
        "verify",
        "repair",
        "serve",
        "bench",
        "bench dispatch",
        "bench capture",
        "bench record",
        "bench dump",
        "bench read",
        "bench diff",
        "bench serve",
        "completions",
        "man",
    ] {
        let outcome = tensortap(&format!("{verb} --help"));
        assert_eq!(outcome.code, Some(0), "{verb}: {outcome:?}");
        let (_, examples) = outcome.stdout.split_once("Example").expect(verb);
        assert!(examples.contains(&format!("tensortap {verb}")), "{verb}: {examples}");
        assert_snapshot(&format!("help {verb}").replace(' ', "_"), &outcome.stdout);
    }
}

#[test]
fn selectors_have_a_page_that_fits_eighty_columns() {
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
fn help_lists_the_topics_and_each_has_a_page() {
    let help = tensortap("help").stdout;
    let (_, topics) = help.split_once("Topics:\n").expect("topics");
    let topics: Vec<&str> = topics.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(topics, ["selectors", "faults", "rules"]);
    for topic in topics {
        let page = tensortap(&format!("help {topic}"));
        assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""), "{page:?}");
        assert_eq!(tensortap(topic).stdout.trim_end(), page.stdout.trim_end());
        assert!(page.stdout.lines().all(|line| line.chars().count() <= 80), "{page:?}");
        assert!(page.stdout.to_lowercase().starts_with(topic), "{page:?}");
    }
}

/// The verbs that help lists.
fn verbs() -> Vec<String> {
    let help = tensortap("help").stdout;
    let (_, verbs) = help.split_once("Commands:\n").expect("verbs");
    let (verbs, _) = verbs.split_once("\n\n").expect("their end");
    let verbs = verbs.lines().filter_map(|line| line.split_whitespace().next().map(String::from));
    verbs.filter(|verb| verb != "help").collect()
}

/// The completions of bash for `tensortap VERB --` with a script.
fn completed_by_bash(script: &str, verb: &str) -> Vec<String> {
    let press_tab = format!(
        "{script}\nCOMP_WORDS=(tensortap {verb} --); COMP_CWORD=2; _tensortap tensortap -- {verb}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let bash = std::process::Command::new("bash").args(["-c", &press_tab]).output().expect("bash runs");
    assert!(bash.status.success() && bash.stderr.is_empty(), "{bash:?}");
    String::from_utf8(bash.stdout).expect("UTF-8").lines().map(String::from).collect()
}

#[test]
fn completions_contain_every_verb_and_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = tensortap(&format!("completions {shell}"));
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""), "{script:?}");
        for word in verbs().iter().map(String::as_str).chain(["dump-tensor", "allow-inexact"]) {
            assert!(script.stdout.contains(word), "{shell} does not know {word}");
        }
    }
    let script = tensortap("completions bash").stdout;
    for verb in verbs() {
        let offered = completed_by_bash(&script, &verb);
        let help = tensortap(&format!("{verb} --help")).stdout;
        let options = help.lines().filter_map(|line| line.trim_start().split(", ").last());
        let options = options.filter_map(|option| option.split([' ', '[']).next());
        for option in options.filter(|option| option.starts_with("--")) {
            assert!(offered.iter().any(|word| word == option), "{verb} {option}: {offered:?}");
        }
    }
    let unknown = tensortap("completions csh");
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("bash, elvish, fish, powershell, zsh"), "{unknown:?}");
}

#[test]
fn man_has_a_page_for_the_command_and_each_verb() {
    let folder = Folder::new();
    let page = folder.good("man").stdout;
    assert!(page.contains(".TH tensortap 1") && page.contains("Topics:"), "{page}");
    let wrote = folder.good("man pages/man1");
    let names: std::collections::BTreeSet<String> = std::fs::read_dir(folder.path("pages/man1"))
        .expect("it is there")
        .map(|file| file.expect("a file").file_name().into_string().expect("UTF-8"))
        .collect();
    let mut expected: std::collections::BTreeSet<String> =
        verbs().iter().map(|verb| format!("tensortap-{verb}.1")).collect();
    expected.insert("tensortap.1".into());
    expected.extend(
        ["dispatch", "capture", "record", "dump", "read", "serve", "diff"]
            .map(|what| format!("tensortap-bench-{what}.1")),
    );
    assert_eq!(names, expected);
    assert!(wrote.stdout.contains(&format!("{} pages in pages/man1", names.len())), "{wrote:?}");
    let list = std::fs::read_to_string(folder.path("pages/man1/tensortap-list.1")).expect("a page");
    assert!(list.contains(".TH tensortap-list 1") && list.contains("\\-\\-sort"), "{list}");
    std::fs::write(folder.path("taken"), "").expect("a file");
    let refused = folder.tensortap("man taken");
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.stderr.starts_with("error: cannot create the folder taken"), "{refused:?}");
}

#[test]
fn version_prints_the_commit_and_the_build() {
    let git = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = git
        .ok()
        .filter(|said| said.status.success())
        .map(|said| String::from_utf8(said.stdout).expect("hex"));
    let version = tensortap("--version");
    assert_eq!((version.code, version.stderr.as_str()), (Some(0), ""), "{version:?}");
    let first = version.stdout.lines().next().expect("a line");
    assert_eq!(tensortap("-V").stdout.trim_end(), first);
    match commit {
        // The binary may be older than the last commit.
        Some(commit) => {
            let (_, named) = first.split_once('(').expect("a commit");
            assert_eq!(named.trim_end_matches(')').len(), commit.trim().len(), "{first}");
        }
        None => assert!(first.starts_with(concat!("tensortap ", env!("CARGO_PKG_VERSION"))), "{first}"),
    }
    for word in [
        "platforms  a2a3sim, a5sim",
        "tensormap_and_ringbuffer",
        "safetensors",
        "manifest 2 or 3, index 3 or 4",
    ] {
        assert!(version.stdout.contains(word), "no {word} in {version:?}");
    }
}

#[test]
fn examples_in_the_help_of_run_work() {
    let help = tensortap("run --help").stdout;
    let (_, examples) = help.split_once("Examples:\n").expect("examples");
    let examples: Vec<&str> = examples.lines().take_while(|line| !line.is_empty()).collect();
    assert!(examples.len() >= 3, "{examples:?}");
    for example in examples {
        let folder = Folder::new();
        if example.contains("my_scene") {
            if !crate::folders::has_compilers() {
                continue;
            }
            assert_eq!(folder.tensortap("new-scene my_scene").code, Some(0));
        }
        let outcome = folder.tensortap(example.trim().strip_prefix("tensortap ").expect("a call"));
        let expected = if example.contains("--inject-fault") { 1 } else { 0 };
        assert_eq!(outcome.code, Some(expected), "{example}: {outcome:?}");
    }
}
