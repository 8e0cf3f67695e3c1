//! The pages of the documentation as files: the generated command-line page, environment variables, links, the summary.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tensortap;

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the repository is there")
}

/// Every file below a folder, in a fixed order.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

/// Every Markdown page below a folder.
pub fn pages_below(folder: &Path) -> Vec<PathBuf> {
    let is_page = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    files_below(folder).into_iter().filter(is_page).collect()
}

/// The commands that a help text lists, without `help`.
fn listed_commands(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("Commands:\n") else { return Vec::new() };
    let list = list.split("\n\n").next().unwrap_or_default();
    let entries = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = entries.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(String::from).collect()
}

/// The command-line page, made from the help of every verb.
fn command_line_page() -> String {
    let mut page = String::from(
        "# Command line\n\n\
         This page is generated from the help of the command. To rewrite it, run\n\
         `TENSORTAP_BLESS=1 cargo test -p tensortap-cli --test cli docs_pages`.\n",
    );
    let mut add = |heading: &str, line: &str| {
        let outcome = tensortap(line);
        assert_eq!(outcome.code, Some(0), "{line}: {outcome:?}");
        let text: Vec<&str> = outcome.stdout.trim_end().lines().map(str::trim_end).collect();
        page += &format!("\n{heading}\n\n```text\n{}\n```\n", text.join("\n"));
        outcome.stdout
    };
    let help = add("## tensortap", "--help");
    for verb in listed_commands(&help) {
        let help = add(&format!("## tensortap {verb}"), &format!("{verb} --help"));
        for nested in listed_commands(&help) {
            add(&format!("### tensortap {verb} {nested}"), &format!("{verb} {nested} --help"));
        }
    }
    for topic in ["selectors", "faults", "rules"] {
        add(&format!("## tensortap help {topic}"), &format!("help {topic}"));
    }
    page
}

#[test]
fn the_command_line_page_shows_the_help_of_every_verb() {
    let path = repository().join("docs/reference/command-line.md");
    let page = command_line_page();
    if std::env::var_os("TENSORTAP_BLESS").is_some() {
        fs::write(&path, &page).expect("writable");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(written.lines()).find(|(made, kept)| made != kept);
    assert!(
        page == written,
        "docs/reference/command-line.md is not the help of the command; TENSORTAP_BLESS=1 rewrites it; first \
         difference: {differs:?}"
    );
}

/// Words of a text that name a variable of tensortap.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.split(move |c: char| !is_part(c)).filter(|word| word.len() > 10 && word.starts_with("TENSORTAP_"))
}

/// String literals of Rust or C code that are the name of a variable of tensortap. Tests at the end of a file do not count.
fn literals(code: &str) -> impl Iterator<Item = &str> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default();
    code.split('"').filter(|piece| variables(piece).next() == Some(*piece))
}

/// Whether two names are the same variable; a name with `_` at its end means all names that begin with it.
fn is_same(code: &str, page: &str) -> bool {
    code == page || (code.ends_with('_') && page.starts_with(code))
}

#[test]
fn the_page_of_environment_variables_has_exactly_the_variables_that_are_read() {
    let root = repository();
    let page = fs::read_to_string(root.join("docs/reference/environment-variables.md")).expect("readable");
    let on_page: BTreeSet<&str> = variables(&page).collect();
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
    let (mut read, mut mentioned) = (BTreeSet::new(), BTreeSet::new());
    for path in files_below(&root.join("crates")).into_iter().chain(files_below(&root.join("include"))) {
        let text = text(&path);
        mentioned.extend(variables(&text).map(String::from));
        let inside = path.strip_prefix(&root).expect("below the root");
        let is_test =
            inside.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs");
        if !is_test
            && path
                .extension()
                .is_some_and(|extension| ["rs", "h", "hpp", "c"].iter().any(|e| extension == *e))
        {
            read.extend(literals(&text).map(String::from));
        }
    }
    for place in ["scripts", "tests", ".ci"] {
        for path in files_below(&root.join(place)).iter().filter(|path| path.extension().is_none()) {
            read.extend(variables(&text(path)).map(String::from));
        }
    }
    assert!(read.len() > 20, "{read:?}");
    let missing: Vec<_> =
        read.iter().filter(|name| !on_page.iter().any(|page| is_same(name, page))).collect();
    assert!(missing.is_empty(), "environment-variables.md lacks {missing:?}");
    mentioned.extend(read);
    let stale: Vec<_> =
        on_page.iter().filter(|page| !mentioned.iter().any(|name| is_same(name, page))).collect();
    assert!(stale.is_empty(), "environment-variables.md has {stale:?}, which no code reads");
}

/// A page without its code: lines of fenced blocks and code spans are empty.
fn prose(page: &str) -> String {
    let mut prose = String::new();
    let mut in_block = false;
    for line in page.lines() {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        if !in_block && !is_fence {
            let outside =
                line.split('`').enumerate().map(|(at, piece)| if at % 2 == 0 { piece } else { "`" });
            outside.for_each(|piece| prose.push_str(piece));
        }
        prose.push('\n');
    }
    prose
}

/// The targets of a page's links and pictures.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(String::from).collect()
}

/// The anchors that GitHub and mdBook give to the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut in_block = false;
    for line in page.lines() {
        in_block ^= line.starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !in_block) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let repeated = (1..).map(|n| format!("{anchor}-{n}")).find(|name| !anchors.contains(name));
        let name = if anchors.contains(&anchor) { repeated.expect("numbers do not end") } else { anchor };
        anchors.insert(name);
    }
    anchors
}

/// Every page that a reader of the repository meets, relative to the root, with its text.
fn readable_pages() -> Vec<(PathBuf, String)> {
    let root = repository();
    let single = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "benches/RESULTS.md",
        "tests/gpu/README.md",
    ];
    let below = ["docs", "examples"].into_iter().flat_map(|folder| pages_below(&root.join(folder)));
    let pages = below.chain(single.map(|name| root.join(name)));
    pages
        .map(|page| {
            let text =
                fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
            (page.strip_prefix(&root).expect("below the root").to_owned(), text)
        })
        // What cargo builds in examples may bring pages of others.
        .filter(|(page, _)| !page.components().any(|part| part.as_os_str() == "target"))
        .collect()
}

#[test]
fn links_between_pages_lead_to_files_and_headings() {
    let root = repository();
    let mut broken = Vec::new();
    for (page, text) in readable_pages() {
        for link in links(&text).into_iter().filter(|link| !link.starts_with("http")) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { page.with_file_name("").join(file) };
            let target = root.join(target);
            let has_anchor = || fs::read_to_string(&target).is_ok_and(|text| anchors(&text).contains(anchor));
            if !target.exists() || !(anchor.is_empty() || has_anchor()) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

/// Paths of the repository that a text mentions.
fn mentioned_paths(text: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let words = text.split(move |c: char| !is_part(c)).map(|word| word.trim_matches(['/', '.']));
    words.filter(|word| {
        ["crates/", "scripts/", "include/tensortap"].iter().any(|start| word.starts_with(start))
    })
}

#[test]
fn pages_mention_only_paths_that_exist() {
    let root = repository();
    let pages = readable_pages();
    let mentioned = pages.iter().flat_map(|(page, text)| mentioned_paths(text).map(move |path| (page, path)));
    let gone: Vec<String> = mentioned
        .filter(|(_, path)| !root.join(path).exists())
        .map(|(page, path)| format!("{}: {path}", page.display()))
        .collect();
    assert!(gone.is_empty(), "these paths do not exist:\n{}", gone.join("\n"));
}

#[test]
fn the_summary_lists_every_page_once() {
    let docs = repository().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("readable");
    let mut listed = links(&summary);
    listed.sort();
    let pages = pages_below(&docs);
    let names = pages.iter().map(|page| page.strip_prefix(&docs).expect("below docs").display().to_string());
    let mut names: Vec<String> = names.filter(|name| name != "SUMMARY.md").collect();
    names.sort();
    assert_eq!(listed, names);
}

#[test]
fn anchors_and_links_are_read_as_they_are_shown() {
    let page = "# A page\n## `run.json`, and more\n## Twice\n## Twice\n```sh\n# no heading [a](b)\n```\n[x](y.md#z) `[n](o)`\n";
    let expected = ["a-page", "runjson-and-more", "twice", "twice-1"].map(String::from);
    assert_eq!(anchors(page), BTreeSet::from(expected));
    assert_eq!(links(page), ["y.md#z"]);
}
