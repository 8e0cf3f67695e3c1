//! Passes the commit that the program is built from to the compiler, if it is known.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TENSORTAP_COMMIT");
    // Packages without a git history can set the variable.
    let commit = std::env::var("TENSORTAP_COMMIT").ok().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=TENSORTAP_COMMIT={}", commit.unwrap_or_default());
    // Files that change with every commit. Cargo would rebuild every time because of a file that does not exist.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        path.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    }
}

/// The output of git; `None` without git or outside a repository.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
