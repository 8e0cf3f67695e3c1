//! Sources become libraries: compiled with the host's compiler, in parallel, and kept for the next time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::FolderError;
use crate::raw::RawBuild;

/// The headers, as they are in this executable.
const HEADERS: [(&str, &str); 2] = [
    ("tensortap.h", include_str!("../../../include/tensortap.h")),
    ("tensortap.hpp", include_str!("../../../include/tensortap.hpp")),
];

/// Names the folder for libraries and headers.
const CACHE_VARIABLE: &str = "TENSORTAP_CACHE";

/// Endings of C++ sources; everything else is C.
const CPP_ENDINGS: [&str; 4] = ["cpp", "cc", "cxx", "C"];

/// Where compiled libraries are kept: `$TENSORTAP_CACHE`, or the user's cache folder, or a temporary one.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named(CACHE_VARIABLE)
        .or_else(|| named("XDG_CACHE_HOME").map(|dir| dir.join("tensortap")))
        .or_else(|| named("HOME").map(|dir| dir.join(".cache/tensortap")))
        .unwrap_or_else(|| std::env::temp_dir().join("tensortap-cache"))
}

/// The words of the compiler that a variable names.
pub(crate) fn command_of(variable: &str, default: &str) -> Vec<String> {
    let named = std::env::var(variable).ok().filter(|named| !named.trim().is_empty());
    named.as_deref().unwrap_or(default).split_whitespace().map(str::to_owned).collect()
}

/// A compiler and what it is told for every source.
#[derive(Clone, Debug)]
struct Compiler {
    /// The variable that names it.
    variable: &'static str,
    /// Its words.
    command: Vec<String>,
    /// What it says of itself.
    version: String,
    flags: Vec<String>,
}

/// Compiles every source of a scene; gives the library of each. `extra` are flags for all of them.
///
/// # Errors
/// There is no compiler, or a source does not compile.
pub(crate) fn compile(
    folder: &Path,
    sources: &[PathBuf],
    build: &RawBuild,
    extra: &[String],
) -> Result<BTreeMap<PathBuf, PathBuf>, FolderError> {
    let cache = cache_dir();
    let include = write_headers(&cache)?;
    let mut compilers: [Option<Compiler>; 2] = [None, None];
    let mut jobs = Vec::new();
    for source in sources {
        let is_cpp = source.extension().is_some_and(|ending| CPP_ENDINGS.iter().any(|cpp| ending == *cpp));
        let slot = &mut compilers[usize::from(is_cpp)];
        if slot.is_none() {
            *slot = Some(Compiler::find(is_cpp, build, extra)?);
        }
        let compiler = slot.clone().expect("just found");
        jobs.push(Job { folder, source, include: &include, cache: &cache, compiler });
    }
    let libraries = std::thread::scope(|scope| {
        let started: Vec<_> = jobs.iter().map(|job| (job, scope.spawn(|| job.run()))).collect();
        let ended = started.into_iter().map(|(job, thread)| (job.source.clone(), thread.join()));
        ended.collect::<Vec<_>>()
    });
    let library = |(source, ended): (PathBuf, std::thread::Result<Result<PathBuf, FolderError>>)| match ended
    {
        Ok(made) => made.map(|library| (source, library)),
        Err(panic) => std::panic::resume_unwind(panic),
    };
    libraries.into_iter().map(library).collect()
}

/// The folder that has the headers of this executable.
fn write_headers(cache: &Path) -> Result<PathBuf, FolderError> {
    let key = xxh3_64(HEADERS.map(|(_, text)| text).concat().as_bytes());
    let include = cache.join(format!("include-{key:016x}"));
    for (name, text) in HEADERS {
        let path = include.join(name);
        if std::fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        std::fs::create_dir_all(&include).map_err(FolderError::io("create", &include))?;
        put(&path, text.as_bytes())?;
    }
    Ok(include)
}

/// Writes a file that others see whole or not at all.
fn put(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let write = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(FolderError::io("write", path))
}

impl Compiler {
    fn find(is_cpp: bool, build: &RawBuild, extra: &[String]) -> Result<Compiler, FolderError> {
        let (variable, default) = if is_cpp { ("CXX", "c++") } else { ("CC", "cc") };
        let command = command_of(variable, default);
        let asked = Command::new(&command[0]).args(&command[1..]).arg("--version").output();
        let asked = asked.map_err(|source| FolderError::NoCompiler {
            compiler: command.join(" "),
            variable,
            source,
        })?;
        let own = if is_cpp { &["-std=c++17", "-fno-gnu-unique"][..] } else { &["-std=gnu11"][..] };
        let flags =
            ["-shared", "-fPIC", "-O2", "-g", "-Wall"].iter().chain(own).map(|flag| (*flag).to_owned());
        let given = if is_cpp { &build.cxxflags } else { &build.cflags };
        let flags = flags.chain(given.iter().cloned()).chain(extra.iter().cloned()).collect();
        let version = String::from_utf8_lossy(&asked.stdout).into_owned();
        let mut compiler = Compiler { variable, command, version, flags };
        // Behind the source, where the linker wants libraries.
        compiler.flags.push("--".into());
        compiler.flags.extend(["-Wl,--build-id", "-lm"].map(str::to_owned));
        compiler.flags.extend(build.ldflags.iter().cloned());
        Ok(compiler)
    }

    fn split(&self) -> (&[String], &[String]) {
        let at = self.flags.iter().position(|flag| flag == "--").unwrap_or(self.flags.len());
        (&self.flags[..at], self.flags.get(at + 1..).unwrap_or_default())
    }
}

struct Job<'j> {
    folder: &'j Path,
    source: &'j PathBuf,
    include: &'j Path,
    cache: &'j Path,
    compiler: Compiler,
}

impl Job<'_> {
    fn run(&self) -> Result<PathBuf, FolderError> {
        let source = self.folder.join(self.source);
        let text = std::fs::read(&source).map_err(FolderError::io("read", &source))?;
        let dir = self.cache.join("build").join(format!("{:032x}", self.key(&source, &text)));
        // What the source includes is known once it was compiled: then the library is as good as those files are unchanged.
        if let Some(library) = kept(&dir) {
            return Ok(library);
        }
        std::fs::create_dir_all(&dir).map_err(FolderError::io("create", &dir))?;
        let scratch = tempfile::tempdir_in(&dir).map_err(FolderError::io("create a folder in", &dir))?;
        let (made, listed) = (scratch.path().join("made.so"), scratch.path().join("made.d"));
        self.call(&source, &made, &listed)?;
        let included = std::fs::read_to_string(&listed).map_err(FolderError::io("read", &listed))?;
        let included = included_files(&included);
        let library = dir.join(library_name(&self.stem(), &included));
        std::fs::rename(&made, &library).map_err(FolderError::io("write", &library))?;
        let mut list = String::new();
        for path in &included {
            let _ = writeln!(list, "{}", path.display());
        }
        put(&dir.join(INCLUDED), format!("{}\n{list}", self.stem()).as_bytes())?;
        Ok(library)
    }

    fn stem(&self) -> String {
        self.source.file_stem().map_or_else(|| "kernel".into(), |stem| stem.to_string_lossy().into_owned())
    }

    fn key(&self, source: &Path, text: &[u8]) -> u128 {
        let Compiler { variable, command, version, flags } = &self.compiler;
        let include = self.include.display();
        let head =
            format!("{variable}\n{command:?}\n{version}\n{flags:?}\n{include}\n{}\n", source.display());
        xxh3_128(&[head.as_bytes(), text].concat())
    }

    fn call(&self, source: &Path, made: &Path, listed: &Path) -> Result<(), FolderError> {
        let (before, behind) = self.compiler.split();
        let mut words: Vec<OsString> = self.compiler.command.iter().map(OsString::from).collect();
        words.extend(before.iter().map(OsString::from));
        for dir in [self.include, self.folder] {
            words.extend(["-I".into(), dir.into()]);
        }
        words.extend(["-MD".into(), "-MF".into(), listed.into(), "-o".into(), made.into(), source.into()]);
        words.extend(behind.iter().map(OsString::from));
        let command = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        // Debug information names the folder that the compiler runs in; the same source gives the same build, wherever it is asked for.
        let ran = Command::new(&words[0]).args(&words[1..]).current_dir(self.folder).output();
        let output = ran.map_err(|source| {
            let compiler = self.compiler.command.join(" ");
            FolderError::NoCompiler { compiler, variable: self.compiler.variable, source }
        })?;
        let messages = [output.stdout, output.stderr].concat();
        let mut messages = String::from_utf8_lossy(&messages).into_owned();
        if !messages.is_empty() && !messages.ends_with('\n') {
            messages.push('\n');
        }
        if !output.status.success() {
            return Err(FolderError::Compile { source_file: source.into(), command, messages });
        }
        // Warnings are for the author of the kernel, each time it is compiled.
        eprint!("{messages}");
        Ok(())
    }
}

/// Beside a library: what it was made of.
const INCLUDED: &str = "included";

/// The library that was made before, if what it was made of is still the same.
fn kept(dir: &Path) -> Option<PathBuf> {
    let list = std::fs::read_to_string(dir.join(INCLUDED)).ok()?;
    let (stem, list) = list.split_once('\n')?;
    let included: Vec<PathBuf> = list.lines().map(PathBuf::from).collect();
    let library = dir.join(library_name(stem, &included));
    library.is_file().then_some(library)
}

/// Libraries are named by the content of all that they were made of: a newer one never replaces one that is loaded.
fn library_name(stem: &str, included: &[PathBuf]) -> String {
    let content =
        included.iter().map(|path| xxh3_128(&std::fs::read(path).unwrap_or_default()).to_le_bytes());
    format!("{stem}-{:032x}.so", xxh3_128(&content.collect::<Vec<_>>().concat()))
}

/// The files of a make rule, in which a space in a name is escaped.
fn included_files(rule: &str) -> Vec<PathBuf> {
    let files = rule.split_once(": ").map_or("", |(_, files)| files).replace("\\\n", " ");
    let mut paths = Vec::new();
    let mut word = String::new();
    let mut letters = files.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.peek() == Some(&' ') => word.extend(letters.next()),
            letter if letter.is_whitespace() => {
                if !word.is_empty() {
                    paths.push(PathBuf::from(std::mem::take(&mut word)));
                }
            }
            letter => word.push(letter),
        }
    }
    paths.extend((!word.is_empty()).then(|| PathBuf::from(word)));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_make_rule_names_what_was_included() {
        let rule = "made.so: /a/b.c /a/my\\ header.h \\\n /usr/include/x.h\n";
        let expected = ["/a/b.c", "/a/my header.h", "/usr/include/x.h"].map(PathBuf::from);
        assert_eq!(included_files(rule), expected);
        assert_eq!(included_files(""), Vec::<PathBuf>::new());
    }
}
