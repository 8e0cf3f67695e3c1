//! The code map of ARCHITECTURE.md is what the manifests and sources say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first cells of the table below a heading, without the table's head.
fn first_cells(page: &str, heading: &str) -> Vec<String> {
    let section = page.split_once(heading).expect("there is such a heading").1;
    let rows = section.lines().skip_while(|line| !line.starts_with('|')).skip(2);
    let cells = rows.map_while(|line| line.strip_prefix('|')?.split('|').next());
    cells.map(|cell| cell.trim().to_string()).collect()
}

/// What stands between backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Crates in the order of the code map.
fn code_map() -> Vec<String> {
    let page = read(&root().join("ARCHITECTURE.md"));
    first_cells(&page, "## Code map").iter().flat_map(|cell| quoted(cell)).map(String::from).collect()
}

/// The folders under `crates` that a crate's own code uses, and those that its tests use.
fn dependencies(name: &str) -> (Vec<String>, Vec<String>) {
    let manifest: toml::Table =
        read(&root().join("crates").join(name).join("Cargo.toml")).parse().expect("a manifest");
    let ours = |table: &str| {
        let entries =
            manifest.get(table).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
        let names = entries.filter_map(|key| match key.as_str() {
            "tensortap" => Some("tensortap"),
            key => key.strip_prefix("tensortap-"),
        });
        names.map(String::from).collect::<Vec<_>>()
    };
    (ours("dependencies"), ours("dev-dependencies"))
}

#[test]
fn the_code_map_names_every_crate_once() {
    let folders = std::fs::read_dir(root().join("crates")).expect("there are crates");
    let folders: BTreeSet<_> =
        folders.map(|entry| entry.expect("readable").file_name().into_string().expect("a name")).collect();
    let map = code_map();
    assert_eq!(map.iter().cloned().collect::<BTreeSet<_>>(), folders);
    assert_eq!(map.len(), folders.len(), "a crate stands twice in {map:?}");
}

#[test]
fn a_crate_uses_only_those_above_it_in_the_code_map() {
    let map = code_map();
    let mut edges = 0;
    for (place, name) in map.iter().enumerate() {
        let (own, tests) = dependencies(name);
        for used in own.iter().chain(&tests) {
            assert!(map[..place].contains(used), "`{name}` uses `{used}`, which is not above it");
            edges += 1;
        }
    }
    assert!(edges > 30, "only {edges} dependencies were found");
}

#[test]
fn the_command_line_uses_the_public_crate_its_questions_and_what_only_a_binary_serves() {
    let allowed = ["tensortap", "bench", "query", "test-scenes", "tui", "web"].map(String::from).to_vec();
    let (used, by_tests) = dependencies("cli");
    assert_eq!(used, allowed);
    // Libraries of their own, which tests let programs load.
    assert!(by_tests.iter().all(|name| ["cuda", "opencl"].contains(&name.as_str())), "{by_tests:?}");
}

/// Sources under a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Whether a file does something unsafe, apart from its tests.
fn is_unsafe(path: &Path) -> bool {
    // Model checks are tests, too.
    let is_test = ["tests.rs", "model.rs"].iter().any(|name| path.ends_with(name));
    let text = read(path);
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    let mut lines = code.lines().map(|line| line.split("//").next().unwrap_or(""));
    !is_test
        && lines.any(|line| ["unsafe {", "unsafe impl", "unsafe("].iter().any(|word| line.contains(word)))
}

#[test]
fn unsafe_code_lives_where_the_page_says() {
    let crates = root().join("crates");
    let page = read(&root().join("ARCHITECTURE.md"));
    let mut said = BTreeSet::new();
    for cell in first_cells(&page, "## Where `unsafe` lives") {
        let mut folder = PathBuf::new();
        for name in quoted(&cell) {
            // A name without a folder is beside the one before it.
            let path = if name.contains('/') { PathBuf::from(name) } else { folder.join(name) };
            folder = path.parent().expect("a file has a folder").into();
            said.insert(path.with_extension(""));
        }
    }
    let mut found = BTreeSet::new();
    for name in code_map() {
        let mut files = Vec::new();
        sources(&crates.join(&name).join("src"), &mut files);
        for path in files.iter().filter(|path| is_unsafe(path)) {
            let path = path.strip_prefix(&crates).expect("below crates").with_extension("");
            let covering = said.iter().find(|said| path.starts_with(said));
            found
                .insert(covering.unwrap_or_else(|| panic!("{} is not in the table", path.display())).clone());
        }
    }
    assert_eq!(found, said, "the table names what is no longer unsafe");
}

#[test]
fn files_that_a_change_touches_are_there() {
    let page = read(&root().join("ARCHITECTURE.md"));
    let section = page.split_once("## What a change touches").expect("there is such a heading").1;
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let paths: Vec<&str> = rows.flat_map(quoted).filter(|name| name.contains('/')).collect();
    assert!(paths.len() > 10, "{paths:?}");
    for path in paths {
        assert!(root().join("crates").join(path).exists(), "{path} is not there");
    }
}
