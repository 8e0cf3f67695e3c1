//! Runs every command that the documentation shows and compares its exit status with the documented one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::common::{OPENCL, python};
use crate::docs_pages::{pages_below, repository};
use crate::{command, tensortap};

/// A documented command line with its exit status: `# exit N`, or 0 without this comment.
#[derive(Debug, PartialEq, Eq)]
struct Example {
    words: Vec<String>,
    exit: i32,
}

/// The commands of one `sh` block, and lines that the last of them prints: a `text` block that follows at once.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    examples: Vec<Example>,
    output: Vec<String>,
}

/// The start of an HTML comment with the commands that a block needs before its own: `<!-- setup: COMMANDS -->`, also over
/// several lines. It is right before the block. Readers of the page do not see it.
const SETUP: &str = "<!-- setup:";

/// The `sh` blocks of a page with the commands that start our binary, hidden setup first. Other commands are not run.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut setup: Vec<Example> = Vec::new();
    let (mut in_setup, mut in_commands, mut in_output, mut may_have_output) = (false, false, false, false);
    for line in page.lines() {
        match line.trim() {
            comment if !in_commands && !in_output && (in_setup || comment.starts_with(SETUP)) => {
                let command = comment.trim_start_matches(SETUP).trim_end_matches("-->");
                setup.extend(example(command.trim()));
                (in_setup, may_have_output) = (!comment.ends_with("-->"), false);
            }
            "```sh" => {
                in_commands = true;
                blocks.push(Block { examples: std::mem::take(&mut setup), output: Vec::new() });
            }
            "```text" if may_have_output => in_output = true,
            "```" => {
                may_have_output = in_commands;
                (in_commands, in_output) = (false, false);
            }
            command if in_commands => {
                blocks.last_mut().expect("a block is open").examples.extend(example(command));
            }
            "…" | "" => {}
            _ if in_output => blocks.last_mut().expect("commands came first").output.push(line.to_owned()),
            _ => may_have_output = false,
        }
    }
    blocks
}

fn example(line: &str) -> Option<Example> {
    let (command, comment) = line.split_once('#').unwrap_or((line, ""));
    let words = command
        .trim()
        .strip_prefix("cargo run --release -- ")
        .or(command.trim().strip_prefix("tensortap "))?;
    let exit = comment.trim().strip_prefix("exit ").map_or(0, |n| n.trim().parse().expect("a number"));
    Some(Example { words: words.split_whitespace().map(String::from).collect(), exit })
}

/// Groups of blocks that share a folder. A reader follows a tutorial from its first block to its last, so its blocks are one
/// group. Every block of another page works without the others.
fn groups(page: &Path, blocks: Vec<Block>) -> Vec<Vec<Block>> {
    match page.starts_with(repository().join("docs/tutorial")) {
        true => vec![blocks],
        false => blocks.into_iter().map(|block| vec![block]).collect(),
    }
}

fn pages() -> Vec<PathBuf> {
    let mut pages = pages_below(&repository().join("docs"));
    pages.push(repository().join("README.md"));
    pages
}

#[test]
fn every_documented_command_exits_as_documented() {
    let mut work = Vec::new();
    for page in pages() {
        let text: Arc<str> = std::fs::read_to_string(&page).expect("readable").into();
        // All commands of a page that shows a program with OpenCL are about that program.
        let uses_opencl = text.contains("import pyopencl");
        if uses_opencl && python(OPENCL, &format!("{}", page.display())).is_none() {
            continue;
        }
        let groups = groups(&page, blocks(&text));
        work.extend(groups.into_iter().map(|group| (page.clone(), Arc::clone(&text), group)));
    }
    let count: usize = work.iter().flat_map(|(.., group)| group).map(|block| block.examples.len()).sum();
    assert!(count >= 150, "only {count} commands were found");
    // Groups are independent of one another, so they run in parallel.
    let next = Mutex::new(work.into_iter());
    let take = || next.lock().expect("no holder of the lock panics").next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((page, text, group)) = take() {
                    run_group(&page, &group, |folder| build_programs(&text, folder));
                }
            });
        }
    });
}

/// Writes and compiles the programs that a page shows into the folder where its commands run. The first C block is a
/// program, the second a library of kernels, and the first C++ block a program, if the page has the matching compiler
/// commands.
fn build_programs(page: &str, folder: &Path) {
    if let Some((_, program)) = page.split_once("```python\n") {
        let program = program.split("```").next().unwrap_or_default();
        std::fs::write(folder.join("program.py"), program).expect("writable");
    }
    let include = repository().join("include");
    let builds = [("program.c", "-o program"), ("kernels.c", "-shared -fPIC -o kernels.so")];
    if let Some((_, source)) = page.split_once("```cpp\n").filter(|_| page.contains("program.cpp -o ")) {
        let source = source.split("```").next().unwrap_or_default();
        std::fs::write(folder.join("program.cpp"), source).expect("writable");
        let mut compiler = Command::new("c++");
        compiler.current_dir(folder).args([
            "-std=c++17",
            "-pthread",
            "program.cpp",
            "-o",
            "program-cpp",
            "-I",
        ]);
        let status = compiler.arg(&include).status().expect("a C++ compiler");
        assert!(status.success(), "program.cpp does not compile");
    }
    let sources = page.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    for (source, (file, options)) in sources.zip(builds) {
        if !page.contains(&format!("{file} -o ")) {
            return;
        }
        std::fs::write(folder.join(file), source).expect("writable");
        let mut compiler = Command::new("cc");
        compiler.current_dir(folder).args(["-std=c11", file, "-I"]).arg(&include).args(options.split(' '));
        let status = compiler.status().expect("a C compiler; scene folders need one, too");
        assert!(status.success(), "{file} does not compile");
    }
}

/// Runs the commands of a README, each block in a folder of its own, which `prepare` fills.
pub fn run_page(page: &str, prepare: impl Fn(&Path)) {
    for block in blocks(page) {
        run_group(Path::new("README.md"), &[block], &prepare);
    }
}

/// Runs blocks in order, in one new folder, so that later commands find the files of earlier ones.
fn run_group(page: &Path, blocks: &[Block], prepare: impl Fn(&Path)) {
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path());
    for block in blocks {
        run_block(page, block, folder.path());
    }
}

fn run_block(page: &Path, block: &Block, folder: &Path) {
    let mut printed = String::new();
    for Example { words, exit } in &block.examples {
        let named = std::env::var("TENSORTAP_PYTHON");
        let python = named.as_deref().unwrap_or("python3");
        let words = words.iter().map(|word| if word == "python3" { python } else { word.as_str() });
        let words: Vec<&str> = words.collect();
        let output = command(&words).current_dir(folder).output().expect("it starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let line = words.join(" ");
        assert_eq!(output.status.code(), Some(*exit), "{}: tensortap {line}: {stderr}", page.display());
        printed = String::from_utf8_lossy(&output.stdout).into_owned();
    }
    for line in &block.output {
        let is_printed = printed.lines().any(|printed| printed == line);
        assert!(is_printed, "{} shows a line that is not printed: {line:?}\n{printed}", page.display());
    }
}

#[test]
fn every_verb_has_a_rust_call_in_the_guide() {
    let help = tensortap("--help").stdout;
    let (_, verbs) = help.split_once("Commands:\n").expect("verbs are listed");
    let (verbs, _) = verbs.split_once("\n\n").expect("the list ends");
    let verbs: Vec<&str> = verbs.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.contains(&"run") && verbs.len() > 10, "{verbs:?}");
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../answer/tensortap/src/guide.rs");
    let guide = std::fs::read_to_string(guide).expect("readable");
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        assert!(guide.contains(&format!("//! | `{verb}` | ")), "no call for `{verb}`");
    }
}

fn expected(line: &str, exit: i32) -> Example {
    Example { words: line.split(' ').map(String::from).collect(), exit }
}

#[test]
fn examples_are_read_from_shell_blocks_only() {
    let page = "tensortap nothing\n```sh\ntensortap run x --json   # exit 3\nls\ncargo run --release -- scenes\n```\n\
                ```json\ntensortap no\n```\n```sh\ntensortap list\n```\n\n```text\nFAIL\n…\n  c\n```\nAnd\n```text\nd\n```\n";
    let first = vec![expected("run x --json", 3), expected("scenes", 0)];
    let output = ["FAIL", "  c"].map(String::from).to_vec();
    let second = Block { examples: vec![expected("list", 0)], output };
    assert_eq!(blocks(page), [Block { examples: first, output: Vec::new() }, second]);
}

#[test]
fn hidden_setup_runs_before_the_next_block() {
    let page = "<!-- a comment -->\n<!-- setup: tensortap run a   # exit 1 -->\n```sh\ntensortap list\n```\n\
                <!-- setup:\ntensortap run b\ntensortap run c\n-->\n```sh\ntensortap blame   # exit 1\n```\n";
    let first = vec![expected("run a", 1), expected("list", 0)];
    let second = vec![expected("run b", 0), expected("run c", 0), expected("blame", 1)];
    assert_eq!(blocks(page), [first, second].map(|examples| Block { examples, output: Vec::new() }));
}

#[test]
fn only_the_blocks_of_a_tutorial_share_a_folder() {
    let two = || vec![Block::default(), Block::default()];
    let docs = repository().join("docs");
    assert_eq!(groups(&docs.join("tutorial/write-a-scene.md"), two()).len(), 1);
    assert_eq!(groups(&docs.join("how-to/check-memory.md"), two()).len(), 2);
}
