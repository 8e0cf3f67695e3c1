//! Checks of the page modules: they can be joined into one script, and they never turn text into markup or
//! code.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use tensortap_web::assets::{Asset, PARTS, REPORT, STYLE};
use tensortap_web::bundle::{script, top_names};

/// All files below `assets/`, including those not listed in `assets.rs`.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn assets() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets")
}

fn modules() -> impl Iterator<Item = &'static Asset> {
    PARTS.iter().chain(REPORT)
}

#[test]
fn top_level_names_are_unique_over_joined_modules() {
    let mut owners: HashMap<&str, &str> = HashMap::new();
    for module in modules() {
        for name in top_names(module.text) {
            if let Some(other) = owners.insert(name, module.path) {
                panic!("`{name}` is declared in {other} and in {}", module.path);
            }
        }
    }
    assert!(owners.len() > 20, "{owners:?}");
}

#[test]
fn modules_import_only_earlier_modules_and_rename_nothing() {
    let mut known: HashMap<&str, Vec<&str>> = HashMap::new();
    for module in modules() {
        let heads = module.text.split("\nimport ").skip(1).map(|rest| rest.split(';').next().unwrap_or(""));
        for import in heads {
            let (names, from) = import.split_once(" from ").expect("names and a file");
            assert!(!names.contains(" as ") && !names.contains('*'), "{}: {import}", module.path);
            let file = from.trim_matches('\'').rsplit('/').next().expect("a name");
            let given = known.get(file).unwrap_or_else(|| panic!("{} comes after {}", file, module.path));
            for name in names.trim_matches(|c| "{} \n".contains(c)).split(',').map(str::trim) {
                assert!(name.is_empty() || given.contains(&name), "{} has no {name}", from);
            }
        }
        let file = module.path.rsplit('/').next().expect("a name");
        let is_export = |name: &&str| {
            ["function", "const", "let", "class"]
                .iter()
                .any(|kind| module.text.contains(&format!("export {kind} {name}")))
                || module.text.contains(&format!("export async function {name}"))
        };
        assert!(known.insert(file, top_names(module.text).into_iter().filter(is_export).collect()).is_none());
    }
    let bundled = script(modules());
    assert!(!bundled.contains("\nimport ") && !bundled.contains("\nexport "), "{bundled}");
    assert!(!bundled.contains("</script") && !bundled.contains("<!--"), "the script cannot end its element");
}

#[test]
fn modules_never_turn_text_into_markup_or_code_or_load_other_files() {
    const FORBIDDEN: [&str; 14] = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "setTimeout('",
        "DOMParser",
        "createContextualFragment",
        "srcdoc",
        "javascript:",
        "http://",
        "https://",
        "import(",
    ];
    let mut found = Vec::new();
    files(&assets(), &mut found);
    assert!(found.len() > 6, "{found:?}");
    for path in found {
        let text = std::fs::read_to_string(&path).expect("text");
        // An XML namespace, which browsers do not load.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for word in FORBIDDEN {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
    assert!(!STYLE.contains("url(") && !STYLE.contains("@import"), "the style sheet needs no other file");
}
