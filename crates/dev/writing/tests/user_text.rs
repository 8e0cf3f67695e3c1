//! Text that users read contains no listed phrase.

use std::fmt::Write as _;
use std::path::Path;

use tensortap_writing::{Audience, Finding, Problem, check, passages, tree};

#[test]
fn text_that_users_read_has_no_listed_phrase() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let (mut read, mut complaints) = (0, String::new());
    for path in tree::files(&root).expect("the project's files are readable") {
        let Ok(text) = std::fs::read_to_string(root.join(&path)) else { continue };
        let passages = passages(&path.to_string_lossy(), &text);
        for passage in passages.iter().filter(|passage| passage.audience == Audience::Users) {
            read += 1;
            for finding in check(passage) {
                if let Problem::Phrase(phrase, instead) = finding.problem {
                    let place = format!("{}:{}", path.display(), passage.line);
                    let _ =
                        writeln!(complaints, "{place}: '{phrase}' (write: {instead})\n    {}", finding.text);
                }
            }
        }
    }
    assert!(read > 5_000, "only {read} passages were found: is {} the project's root?", root.display());
    assert!(complaints.is_empty(), "rewrite these sentences:\n{complaints}");
}

#[test]
fn finds_a_listed_phrase_in_pages_literals_and_snapshots() {
    let samples = [
        ("docs/a.md", "One copy follows.\n\n| a | the copy behind it |\n"),
        ("src/a.rs", "// fine\nreturn Err(\"the copy behind it failed\".into());\n"),
        ("src/b.rs", "const TEXT: &str = r#\"it is \"behind\" the copy\"#;\n"),
        ("assets/a.js", "label(`the copy behind ${name} failed`);\n"),
        ("a/help.snap", "---\nsource: a\n---\nOptions:\n  --all      every copy behind it\n"),
    ];
    for (path, text) in samples {
        let problems: Vec<_> =
            passages(path, text).iter().filter(|p| p.audience == Audience::Users).flat_map(check).collect();
        assert!(problems.iter().any(|found| matches!(found.problem, Problem::Phrase("behind", _))), "{path}");
    }
}

#[test]
fn finds_each_listed_phrase_of_several_meanings() {
    let samples = [
        "The host is told of it.",
        "Stream order alone makes this safe.",
        "The block lies at address 64.",
        "The wait was given up.",
        "A door loads the library.",
        "A launch of the program's may begin early.",
        "The buffer is one of the program's, as the task shows.",
        "A region without a name cannot be.",
        "Nothing wrong is before 3 further tasks either.",
        "Two bytes were looked at.",
    ];
    for text in samples {
        let found: Vec<_> = passages("docs/a.md", text).iter().flat_map(check).collect();
        assert!(matches!(found[..], [Finding { problem: Problem::Phrase(..), .. }]), "{text}: {found:?}");
    }
}

#[test]
fn allows_listed_words_in_other_meanings() {
    let samples = [
        "A stand-alone program, indoors, has an outdoor door-like shape.",
        "The kernel left it alone; it may leave the rest as it is.",
        "Reads the data of the program's calls, which cannot be read later.",
        "The letter stands for any character.",
    ];
    for text in samples {
        let found: Vec<_> = passages("docs/a.md", text).iter().flat_map(check).collect();
        assert!(found.is_empty(), "{text}: {found:?}");
    }
}

#[test]
fn ignores_code_test_modules_and_words_within_words() {
    let samples = [
        ("docs/a.md", "Run this:\n\n```sh\ntake behind it\n```\n\nand `a behind b`.\n"),
        (
            "src/a.rs",
            "fn a() {}\n#[cfg(test)]\nmod tests {\n    const A: &str = \"the copy behind it\";\n}\n",
        ),
        ("src/b.rs", "let quote = '\"'; // the rest\nlet behind = 'b';\n"),
        ("src/c.rs", "format!(\"the names are {told} and {alone:?}\");\n"),
        ("docs/b.md", "Grandstands are outstanding.\n"),
    ];
    for (path, text) in samples {
        let found: Vec<_> = passages(path, text).iter().flat_map(check).collect();
        assert!(found.is_empty(), "{path}: {found:?}");
    }
}

#[test]
fn reports_long_sentences_and_crowded_cells() {
    let long = format!("{} end.", "word ".repeat(40));
    let found: Vec<_> = passages("a.md", &long).iter().flat_map(check).collect();
    assert!(matches!(found[..], [Finding { problem: Problem::LongSentence(41), .. }]));
    let rows =
        format!("const HELP: &str = \"{}\\n\\n  --all  {}\\n\";\n", "word ".repeat(20), "word ".repeat(20));
    assert!(passages("a.rs", &rows).iter().flat_map(check).next().is_none(), "paragraphs of a literal");
    let row = format!("| a | {} |\n", "word ".repeat(30));
    let found: Vec<_> = passages("a.md", &row).iter().flat_map(check).collect();
    assert!(matches!(found[..], [Finding { problem: Problem::CrowdedCell(30), .. }]));
}
