//! Joins several modules into one script.
//!
//! Modules are concatenated without their `import` lines and `export ` words. The result means the same under
//! three conditions: top-level names are unique over all modules, imports rename nothing, and each module
//! follows the modules it uses. A test over the real modules (`tests/assets.rs`) checks the conditions.

use crate::assets::Asset;

/// Joins the modules in this order.
#[must_use]
pub fn script<'a>(modules: impl IntoIterator<Item = &'a Asset>) -> String {
    let mut script = String::new();
    for module in modules {
        for line in without_imports(module.text) {
            script += line.strip_prefix("export ").unwrap_or(line);
            script.push('\n');
        }
    }
    script
}

/// The lines of a module without its imports, which may span several lines.
fn without_imports(module: &str) -> impl Iterator<Item = &str> {
    let mut in_import = false;
    module.lines().filter(move |line| {
        let begins = line.starts_with("import ");
        let is_import = begins || in_import;
        in_import = is_import && !line.trim_end().ends_with(';');
        !is_import
    })
}

/// Top-level names that a module declares.
#[must_use]
pub fn top_names(module: &str) -> Vec<&str> {
    let declared = module.lines().filter_map(|line| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let line = line.strip_prefix("async ").unwrap_or(line);
        let kinds = ["function* ", "function ", "const ", "let ", "class "];
        let rest = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
        rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$').next()
    });
    declared.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: Asset = Asset { path: "a.js", text: "// One.\nexport function one() {\n  return 1;\n}\n" };
    const USING: Asset = Asset {
        path: "b.js",
        text: "import { one } from './a.js';\nimport {\n  two,\n} from './c.js';\n\nexport const three = one() + two;\nlet own = 'import x';\n",
    };

    #[test]
    fn removes_imports_and_exports_and_keeps_everything_else() {
        assert_eq!(
            script([&USED, &USING]),
            "// One.\nfunction one() {\n  return 1;\n}\n\nconst three = one() + two;\nlet own = 'import x';\n"
        );
    }

    #[test]
    fn finds_top_level_names() {
        assert_eq!(top_names(USED.text), ["one"]);
        assert_eq!(top_names(USING.text), ["three", "own"]);
        assert_eq!(top_names("export async function f() {\n  const inner = 1;\n}\nclass K {}\n"), ["f", "K"]);
    }
}
