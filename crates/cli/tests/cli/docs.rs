//! Every command in the documentation is run, and exits as the documentation says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::common::{OPENCL, python};
use crate::{command, tensortap};

/// A command line and the exit status promised for it (`# exit N`, 0 when nothing is said).
#[derive(Debug, PartialEq, Eq)]
struct Promise {
    words: Vec<String>,
    exit: i32,
}

/// The commands that start our binary, block by block of the page's `sh` blocks; others are left to whoever reads.
fn blocks(page: &str) -> Vec<Vec<Promise>> {
    let mut in_block = false;
    let mut found: Vec<Vec<Promise>> = Vec::new();
    for line in page.lines() {
        match line.trim() {
            "```sh" => {
                in_block = true;
                found.push(Vec::new());
            }
            "```" => in_block = false,
            line if in_block => found.last_mut().expect("the block was begun").extend(promise(line)),
            _ => {}
        }
    }
    found
}

fn promise(line: &str) -> Option<Promise> {
    let (command, comment) = line.split_once('#').unwrap_or((line, ""));
    let words = command
        .trim()
        .strip_prefix("cargo run --release -- ")
        .or(command.trim().strip_prefix("tensortap "))?;
    let exit = comment.trim().strip_prefix("exit ").map_or(0, |n| n.trim().parse().expect("a number"));
    Some(Promise { words: words.split_whitespace().map(String::from).collect(), exit })
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs =
        std::fs::read_dir(root.join("docs")).expect("there are docs").map(|e| e.expect("readable").path());
    docs.chain([root.join("README.md")]).filter(|p| p.extension().is_some_and(|e| e == "md")).collect()
}

#[test]
fn every_command_in_the_documentation_does_what_it_says() {
    let mut promised = Vec::new();
    for page in pages() {
        let text: Arc<str> = std::fs::read_to_string(&page).expect("readable").into();
        // A page about programs in Python shows one, which all of its commands are about.
        let uses_opencl = text.contains("import pyopencl");
        if uses_opencl && python(OPENCL, &format!("{}", page.display())).is_none() {
            continue;
        }
        promised.extend(blocks(&text).into_iter().map(|block| (page.clone(), Arc::clone(&text), block)));
    }
    let count: usize = promised.iter().map(|(.., block)| block.len()).sum();
    assert!(count >= 25, "only {count} commands were found");
    // Blocks know nothing of one another, and there are many.
    let next = Mutex::new(promised.into_iter());
    let take = || next.lock().expect("nobody panics while it is held").next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((page, text, block)) = take() {
                    keep(&page, &block, |folder| make_program(&text, folder));
                }
            });
        }
    });
}

/// Compiles what a page shows in C, as the page says, into the folder where its commands find it: first the program, then kernels for it.
/// A page about anything else shows neither.
fn make_program(page: &str, folder: &Path) {
    if let Some((_, program)) = page.split_once("```python\n") {
        let program = program.split("```").next().unwrap_or_default();
        std::fs::write(folder.join("program.py"), program).expect("writable");
    }
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let builds = [("program.c", "-o program"), ("kernels.c", "-shared -fPIC -o kernels.so")];
    let sources = page.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    for (source, (file, options)) in sources.zip(builds) {
        if !page.contains(&format!("{file} -o ")) {
            return;
        }
        std::fs::write(folder.join(file), source).expect("writable");
        let mut compiler = Command::new("cc");
        compiler.current_dir(folder).args(["-std=c11", file, "-I"]).arg(&include).args(options.split(' '));
        assert!(compiler.status().expect("a C compiler, which scene folders need, too").success());
    }
}

/// Runs the commands of one page; each block finds what `prepare` puts into its folder.
pub fn run_page(page: &str, prepare: impl Fn(&Path)) {
    for block in blocks(page) {
        keep(Path::new("README.md"), &block, &prepare);
    }
}

/// Runs the commands of a block, one after the other, in a folder of their own: what one leaves, the next finds.
fn keep(page: &Path, block: &[Promise], prepare: impl Fn(&Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path());
    for Promise { words, exit } in block {
        let named = std::env::var("TENSORTAP_PYTHON");
        let python = named.as_deref().unwrap_or("python3");
        let words = words.iter().map(|word| if word == "python3" { python } else { word.as_str() });
        let words: Vec<&str> = words.collect();
        let output = command(&words).current_dir(folder.path()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let line = words.join(" ");
        assert_eq!(output.status.code(), Some(*exit), "{}: tensortap {line}: {said}", page.display());
    }
}

#[test]
fn every_verb_has_a_rust_call_in_the_guide() {
    let help = tensortap("--help").stdout;
    let (_, verbs) = help.split_once("Commands:\n").expect("verbs are listed");
    let (verbs, _) = verbs.split_once("\n\n").expect("the list ends");
    let verbs: Vec<&str> = verbs.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.contains(&"run") && verbs.len() > 10, "{verbs:?}");
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tensortap/src/guide.rs");
    let guide = std::fs::read_to_string(guide).expect("readable");
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        assert!(guide.contains(&format!("//! | `{verb}` | ")), "no call for `{verb}`");
    }
}

#[test]
fn promises_are_read_from_shell_blocks_only() {
    let page = "tensortap nothing\n```sh\ntensortap run x --json   # exit 3\nls\ncargo run --release -- scenes\n```\n\
                ```json\ntensortap no\n```\n```sh\ntensortap list\n```\n";
    let promise = |line: &str, exit| Promise { words: line.split(' ').map(String::from).collect(), exit };
    assert_eq!(
        blocks(page),
        [vec![promise("run x --json", 3), promise("scenes", 0)], vec![promise("list", 0)]]
    );
}
