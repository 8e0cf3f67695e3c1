//! The code map of ARCHITECTURE.md and the page of dependencies agree with the manifests, and crates depend only downwards.

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

    /// Folder names of the crates that this crate's own code and build script use, and of those that its tests use.
    fn dependencies(&self) -> (Vec<String>, Vec<String>) {
        let manifest = manifest(&self.folder().join("Cargo.toml"));
        let own_crates = |kinds: &[&str]| {
            let packages = packages(&manifest, kinds);
            let names = packages.iter().filter_map(|package| folder_name(package));
            // A package may name itself, to choose features for its tests.
            names.filter(|name| *name != self.name).map(String::from).collect::<Vec<_>>()
        };
        (own_crates(&["dependencies", "build-dependencies"]), own_crates(&["dev-dependencies"]))
    }
}

fn manifest(path: &Path) -> toml::Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The folder's name of a package of this workspace. None for a package of others.
fn folder_name(package: &str) -> Option<&str> {
    if package == "tensortap" { Some(package) } else { package.strip_prefix("tensortap-") }
}

/// Packages in tables of a manifest, such as `dependencies`, for all targets. A dependency with another name than its package
/// counts as its package.
fn packages(manifest: &toml::Table, kinds: &[&str]) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(toml::Table::values).filter_map(toml::Value::as_table);
    let parts: Vec<&toml::Table> = [manifest].into_iter().chain(targets).collect();
    let tables = kinds.iter().flat_map(|kind| parts.iter().filter_map(|part| part.get(*kind)?.as_table()));
    let package = |(name, value): (&String, &toml::Value)| {
        value.get("package").and_then(toml::Value::as_str).unwrap_or(name).to_owned()
    };
    tables.flatten().map(package).collect()
}

/// Crates that a crate's own code is built with if it is built without others. Optional ones count only if a crate of the
/// result turns on their feature.
fn built_with(map: &[Crate], name: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![(name.to_string(), Vec::<String>::new())];
    while let Some((name, features)) = open.pop() {
        let member = map.iter().find(|member| member.name == name).expect("a crate of the code map");
        let manifest = manifest(&member.folder().join("Cargo.toml"));
        let texts = |value: Option<&toml::Value>| -> Vec<String> {
            let list = value.and_then(toml::Value::as_array);
            list.into_iter().flatten().filter_map(|text| text.as_str().map(String::from)).collect()
        };
        let enabled = |feature: &String| texts(manifest.get("features").and_then(|all| all.get(feature)));
        let enabled: BTreeSet<String> = features.iter().flat_map(enabled).collect();
        for (package, value) in manifest["dependencies"].as_table().expect("a table") {
            let is_optional = value.get("optional").and_then(toml::Value::as_bool) == Some(true);
            let Some(used) = folder_name(package) else { continue };
            if !is_optional || enabled.contains(&format!("dep:{package}")) {
                let features = texts(value.get("features"));
                if found.insert(used.to_string()) || !features.is_empty() {
                    open.push((used.to_string(), features));
                }
            }
        }
    }
    found
}

/// The manifest of every crate, of the fuzz targets and of the examples.
fn manifests() -> Vec<toml::Table> {
    let map = code_map(&page());
    let crates = map.iter().map(|member| member.folder().join("Cargo.toml"));
    let outside = ["fuzz/Cargo.toml", "examples/own-scenes/Cargo.toml"].map(|path| root().join(path));
    crates.chain(outside).map(|path| manifest(&path)).collect()
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
fn packages_of_all_tables_and_targets_are_found() {
    let manifest = r#"
        dependencies.tensortap-abi.workspace = true
        dependencies.capi = { package = "tensortap-capi", path = "../capi" }
        build-dependencies.tensortap = "1"
        dev-dependencies.proptest = "1"
        target.'cfg(unix)'.dependencies.libc = "0.2"
        target.'cfg(loom)'.dev-dependencies.loom = "0.7"
    "#;
    let manifest = manifest.parse().expect("a manifest");
    let found = packages(&manifest, &["dependencies", "build-dependencies"]);
    assert_eq!(found, ["tensortap-capi", "tensortap-abi", "libc", "tensortap"]);
    assert_eq!(packages(&manifest, &["dev-dependencies"]), ["proptest", "loom"]);
    assert_eq!(
        ["tensortap", "tensortap-capi", "libc"].map(folder_name),
        [Some("tensortap"), Some("capi"), None]
    );
}

#[test]
fn the_page_of_dependencies_has_exactly_the_packages_of_others() {
    let path = root().join("docs/reference/dependencies.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let first_cells = page.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    let on_page: Vec<&str> = first_cells.flat_map(quoted).collect();
    let kinds = ["dependencies", "build-dependencies", "dev-dependencies"];
    let used: BTreeSet<String> = manifests().iter().flat_map(|manifest| packages(manifest, &kinds)).collect();
    let others: BTreeSet<&str> =
        used.iter().map(String::as_str).filter(|package| folder_name(package).is_none()).collect();
    assert_eq!(on_page.iter().copied().collect::<BTreeSet<_>>(), others, "{}", path.display());
    assert_eq!(on_page.len(), others.len(), "a package is listed twice in {on_page:?}");
    let workspace = manifest(&root().join("Cargo.toml"));
    let workspace = workspace["workspace"].as_table().expect("a table");
    let offered = packages(workspace, &["dependencies"]);
    let names: Vec<&String> = workspace["dependencies"].as_table().expect("a table").keys().collect();
    assert_eq!(offered.iter().collect::<Vec<_>>(), names, "members see only the name of a package");
    let unused: Vec<_> = offered.iter().filter(|package| !used.contains(*package)).collect();
    assert!(unused.is_empty(), "no crate uses {unused:?} of the workspace's dependencies");
}

#[test]
fn the_command_uses_only_the_public_library_query_and_what_it_serves() {
    let map = code_map(&page());
    let cli = map.iter().find(|member| member.name == "cli").expect("the command is a crate");
    let (used, by_tests) = cli.dependencies();
    assert_eq!(used, ["tensortap", "bench", "query", "test-scenes", "tui", "web"]);
    // Libraries that tests load into programs, and the protocol that a hostile program speaks.
    assert_eq!(by_tests, ["capi", "cuda", "opencl", "platform"]);
}

#[test]
fn libraries_that_are_injected_into_programs_have_no_collector() {
    let map = code_map(&page());
    for injected in ["opencl", "cuda"] {
        let used = built_with(&map, injected);
        assert!(used.contains("recorder"), "{injected}: {used:?}");
        assert!(!used.contains("collector"), "{injected} is built with the collector: {used:?}");
    }
    assert!(built_with(&map, "capi").contains("collector"), "a session of the C API can write a dump itself");
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
