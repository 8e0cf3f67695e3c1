//! The code map of ARCHITECTURE.md agrees with the manifests, and crates depend only downwards.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn page() -> String {
    let path = root().join("ARCHITECTURE.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a page between a heading and the next one of the same level.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let after = page.split_once(heading).unwrap_or_else(|| panic!("the page has no heading {heading}")).1;
    after.split_once("\n## ").map_or(after, |(section, _)| section)
}

/// Texts between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A crate of the code map: its group and its folder's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    group: String,
    name: String,
}

impl Crate {
    fn folder(&self) -> PathBuf {
        root().join("crates").join(&self.group).join(&self.name)
    }

    /// Folder names of the crates that this crate's own code uses and that its tests use.
    fn dependencies(&self) -> (Vec<String>, Vec<String>) {
        let path = self.folder().join("Cargo.toml");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let manifest: toml::Table = text.parse().expect("a manifest");
        let own_crates = |table: &str| {
            let entries = manifest.get(table).and_then(toml::Value::as_table);
            let names =
                entries.into_iter().flat_map(toml::Table::keys).filter_map(|key| match key.as_str() {
                    "tensortap" => Some("tensortap"),
                    key => key.strip_prefix("tensortap-"),
                });
            // A package may name itself, to choose features for its tests.
            names.filter(|name| *name != self.name).map(String::from).collect::<Vec<_>>()
        };
        (own_crates("dependencies"), own_crates("dev-dependencies"))
    }
}

/// The crates in the order of the code map, lowest first.
fn code_map(page: &str) -> Vec<Crate> {
    let mut crates = Vec::new();
    let mut group = String::new();
    for line in section(page, "## Code map").lines() {
        if let Some(heading) = line.strip_prefix("### ") {
            group = heading.split(':').next().unwrap_or("").to_string();
        } else if let Some(name) = line.strip_prefix("| `").and_then(|row| row.split('`').next()) {
            crates.push(Crate { group: group.clone(), name: name.to_string() });
        }
    }
    crates
}

/// Every dependency that does not point to a crate above in the map.
fn upward_edges(map: &[Crate], dependencies: impl Fn(&Crate) -> Vec<String>) -> Vec<String> {
    let mut upward = Vec::new();
    for (position, user) in map.iter().enumerate() {
        for used in dependencies(user) {
            if !map[..position].iter().any(|below| below.name == used) {
                upward.push(format!("{}/{} uses {used}", user.group, user.name));
            }
        }
    }
    upward
}

#[test]
fn the_code_map_names_every_crate_in_its_folder() {
    let mut folders = BTreeSet::new();
    for group in std::fs::read_dir(root().join("crates")).expect("the folder of crates") {
        let group = group.expect("a readable entry");
        for member in std::fs::read_dir(group.path()).expect("a group is a folder") {
            let name = |entry: &std::fs::DirEntry| entry.file_name().into_string().expect("a UTF-8 name");
            folders.insert(Crate { group: name(&group), name: name(&member.expect("a readable entry")) });
        }
    }
    let map = code_map(&page());
    assert_eq!(map.iter().cloned().collect::<BTreeSet<_>>(), folders);
    assert_eq!(map.len(), folders.len(), "a crate is listed twice in {map:?}");
}

#[test]
fn crates_depend_only_downwards() {
    let map = code_map(&page());
    let all = |user: &Crate| {
        let (own, tests) = user.dependencies();
        own.into_iter().chain(tests).collect::<Vec<_>>()
    };
    assert_eq!(upward_edges(&map, all), Vec::<String>::new());
    let edges: usize = map.iter().map(|user| all(user).len()).sum();
    assert!(edges > 100, "only {edges} dependencies were found");
}

#[test]
fn an_upward_edge_is_found() {
    let named = |group: &str, name: &str| Crate { group: group.into(), name: name.into() };
    let map = [named("base", "abi"), named("base", "sync"), named("app", "cli")];
    let edges = |user: &Crate| match user.name.as_str() {
        "abi" => vec!["cli".to_string()],
        "cli" => vec!["sync".to_string()],
        _ => Vec::new(),
    };
    assert_eq!(upward_edges(&map, edges), ["base/abi uses cli"]);
}

#[test]
fn the_command_uses_only_the_public_library_query_and_what_it_serves() {
    let map = code_map(&page());
    let cli = map.iter().find(|member| member.name == "cli").expect("the command is a crate");
    let (used, by_tests) = cli.dependencies();
    assert_eq!(used, ["tensortap", "bench", "query", "test-scenes", "tui", "web"]);
    // Libraries of their own, which tests load into programs.
    assert!(by_tests.iter().all(|name| ["cuda", "opencl"].contains(&name.as_str())), "{by_tests:?}");
}

#[test]
fn files_named_under_what_a_change_touches_exist() {
    let page = page();
    let rows = section(&page, "## What a change touches").lines().filter(|line| line.starts_with('|'));
    let paths: Vec<&str> = rows.flat_map(quoted).filter(|name| name.contains('/')).collect();
    assert!(paths.len() > 20, "{paths:?}");
    for path in paths {
        assert!(root().join("crates").join(path).exists(), "{path} does not exist");
    }
}
