//! Tells the program which commit it was built from, where that can be known.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TENSORTAP_COMMIT");
    // A package without its history may be told.
    let commit = std::env::var("TENSORTAP_COMMIT").ok().or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo::rustc-env=TENSORTAP_COMMIT={}", commit.unwrap_or_default());
    // What a commit changes. A file that is not there would be looked for, and the program built, every time.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        path.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
    }
}

/// What git says; nothing where there is no git, or no repository.
fn git(words: &[&str]) -> Option<String> {
    let said = Command::new("git").args(words).output().ok().filter(|said| said.status.success())?;
    let text = String::from_utf8(said.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}
