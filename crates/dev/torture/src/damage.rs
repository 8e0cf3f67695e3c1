//! Damages dumps, cases and files of arrays, and runs every reading verb on them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::mutate::damage as damage_file;
use crate::tally::{Failure, Outcome, Violation};
use crate::{Round, words};

/// Command lines for damaged dumps. `@` is the damaged dump, `%` an intact dump of the same run.
const DUMP: [&str; 26] = [
    "verify @",
    "verify @ --json",
    "list @",
    "list @ --json",
    "list @ --csv --all",
    "list @ --sort -bytes --nan",
    "list @ --func add* --stage after --shape 16x*",
    "show @ 0",
    "show @ 3 --hex",
    "show @ 5 --json",
    "show @ 1 --full",
    "show @ 0/after/1 --delta",
    "stats @",
    "stats @ --json",
    "stats @ --csv",
    "diff @ %",
    "diff % @ --json",
    "diff @ --scene-golden",
    "blame @ --golden %",
    "blame % --golden @ --json",
    "blame @ --reference --json",
    "extract @ --task 0 --out out --allow-inexact",
    "replay @ --task 0 --device-memory 64MiB --stall-timeout 3 --allow-inexact --json",
    "replay @ --all --reference --device-memory 64MiB --stall-timeout 3 --max-device-failures 2 --json",
    "repair @ --json",
    "diff @ % --rules rules.toml",
];
const CASE: [&str; 8] = [
    "list @ --json",
    "show @ 0 --json",
    "stats @ --json",
    "verify @ --json",
    "replay @ --all --device-memory 64MiB --stall-timeout 3 --max-device-failures 2 --allow-inexact --json",
    "replay @ --all --device-memory 64MiB --stall-timeout 3 --max-device-failures 2 --allow-inexact --set-arg 0=1",
    "extract @ --out out --redact --allow-inexact",
    "extract @ --out out.safetensors --expect reference --allow-inexact",
];
const ARRAYS: [&str; 3] = ["diff % @", "diff % @ --golden-dtype --json", "diff % @ --allow-unmatched"];
const EXPORTS: [&str; 6] = ["npy", "npz", "safetensors", "csv", "txt", "raw"];

/// Kind of files to damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// A dump.
    Dump,
    /// A case, as a folder or a file.
    Case,
    /// Files of arrays, as a golden.
    Arrays,
}

/// Intact files to damage.
#[derive(Clone)]
pub struct Base {
    /// Their kind.
    pub what: DamageKind,
    /// Their name in the report.
    pub name: String,
    /// Their path.
    pub path: PathBuf,
    /// The dump they were created from.
    pub dump: PathBuf,
}

/// Damages a copy of some files and reads it with several verbs.
pub fn damage(round: &mut Round<'_>) -> Outcome {
    let bases = &round.ctx.bases;
    let base = bases[round.rng.usize(0..bases.len())].clone();
    let name =
        base.path.file_name().map_or_else(|| "dump".into(), |name| name.to_string_lossy().into_owned());
    let (target, outside) = (round.folder.join(&name), round.folder.join("outside"));
    copy(&base.path, &target);
    fs::create_dir_all(&outside).map_err(|error| Failure::new(Violation::Promise, error.to_string()))?;
    let _ = fs::copy(base.dump.join("tensor_dump.idx"), outside.join("victim"));
    copy(&base.dump, &round.folder.join("good"));
    let _ = fs::write(round.folder.join("rules.toml"), "[[rule]]\nfunc = \".*\"\nrtol = 1e-3\n");
    let files = files(&target);
    let mut done: Vec<(String, u64)> = Vec::new();
    for _ in 0..[1, 1, 2, 4][round.rng.usize(0..4)] {
        let file = &files[round.rng.usize(0..files.len())];
        if file.is_file() {
            let how = damage_file(file, &outside, &mut round.rng);
            let file = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
            done.push((format!("{file}: {how}"), 1));
        }
    }
    let damages = done.iter().map(|(what, _)| what.as_str()).collect::<Vec<_>>().join(", ");
    let read = read(round, base.what, &name);
    let verbs = read.map_err(|failure| {
        Failure::new(failure.broken, format!("{}: {damages}: {}", base.name, failure.what))
    })?;
    // One table line per way of damage and file would be too many.
    Ok(vec![(format!("damaged: {}", base.name), done.len() as u64), ("verbs that read it".into(), verbs)])
}

/// Reads it with some verbs, or with all if there are few; repairs it last.
fn read(round: &mut Round<'_>, what: DamageKind, name: &str) -> Result<u64, Failure> {
    let mut lines: Vec<String> = match what {
        DamageKind::Dump => DUMP.map(String::from).to_vec(),
        DamageKind::Case => CASE.map(String::from).to_vec(),
        DamageKind::Arrays => ARRAYS.map(String::from).to_vec(),
    };
    if what == DamageKind::Dump {
        lines.extend(EXPORTS.map(|format| format!("export @ --format {format} --out out")));
        round.rng.shuffle(&mut lines);
        lines.truncate(8);
    }
    // A repair changes the dump, which is then read again.
    lines.sort_by_key(|line| line.starts_with("repair"));
    let mut count = 0;
    for line in &lines {
        one(round, line, name)?;
        count += 1;
        if line.starts_with("repair") {
            one(round, "list @", name)?;
        }
    }
    Ok(count)
}

fn one(round: &Round<'_>, line: &str, name: &str) -> Result<(), Failure> {
    for left in ["out", "out.safetensors"] {
        let path = round.folder.join(left);
        let _ = fs::remove_dir_all(&path);
        let _ = fs::remove_file(&path);
    }
    let line = line.replace('@', name).replace('%', "good");
    let all = words(&line);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let before = snapshot(&round.folder);
    let (code, _) = round.tensortap(&all, &[0, 1, 2, 3])?;
    let may_change = |path: &Path| {
        path.starts_with("out")
            || path == Path::new("out.safetensors")
            || (line.starts_with("repair") && path.starts_with(name))
    };
    let after = snapshot(&round.folder);
    let changed = before.iter().find(|(path, state)| after.get(*path) != Some(*state) && !may_change(path));
    let made = after.keys().find(|path| !before.contains_key(*path) && !may_change(path));
    if let Some(path) = changed.map(|(path, _)| path).or(made) {
        return Err(Failure::new(Violation::WriteOutside, format!("`{line}` changes {}", path.display())));
    }
    if line.starts_with("repair") && code == 0 {
        let (verdict, _) = round.tensortap(&["verify", name, "--json"], &[0, 1, 2])?;
        if verdict != 0 {
            return Err(Failure::new(
                Violation::Promise,
                "`repair` reports a complete dump, but `verify` does not".to_string(),
            ));
        }
    }
    Ok(())
}

/// Every file below a folder with its size, time and inode number.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, u64)> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(data) = fs::symlink_metadata(&path) else { continue };
            let name = path.strip_prefix(folder).unwrap_or(&path).to_path_buf();
            if data.is_dir() {
                found.insert(name, (0, 0, 0, data.ino()));
                left.push(path);
            } else {
                found.insert(name, (data.len(), data.mtime(), data.mtime_nsec(), data.ino()));
            }
        }
    }
    found
}

/// Every file of a folder, or the file itself.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_path_buf()];
    }
    let mut all: Vec<_> =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.is_file());
    all.sort();
    all
}

/// Copies a file or a folder.
pub fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        let _ = fs::copy(from, to);
        return;
    }
    let _ = fs::create_dir_all(to);
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        copy(&entry.path(), &to.join(entry.file_name()));
    }
}
