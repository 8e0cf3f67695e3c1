//! Compiles sources to shared libraries with the host's compiler, in parallel, and caches the results.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tensortap_sync::parallel::map;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::FolderError;
use crate::raw::RawBuild;

/// The headers, embedded in this executable.
const HEADERS: [(&str, &str); 2] = [
    ("tensortap.h", include_str!("../../../../include/tensortap.h")),
    ("tensortap.hpp", include_str!("../../../../include/tensortap.hpp")),
];

/// The environment variable that sets the cache folder for libraries and headers.
const CACHE_VARIABLE: &str = "TENSORTAP_CACHE";

/// File extensions of C++ sources. All other sources are C.
const CPP_ENDINGS: [&str; 4] = ["cpp", "cc", "cxx", "C"];

/// The cache folder: `$TENSORTAP_CACHE`, or a folder in the user's cache, or a temporary one.
#[must_use]
pub fn cache_dir() -> PathBuf {
    let named =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    named(CACHE_VARIABLE)
        .or_else(|| named("XDG_CACHE_HOME").map(|dir| dir.join("tensortap")))
        .or_else(|| named("HOME").map(|dir| dir.join(".cache/tensortap")))
        .unwrap_or_else(|| std::env::temp_dir().join("tensortap-cache"))
}

/// The compiler command in an environment variable, split into words.
pub(crate) fn command_of(variable: &str, default: &str) -> Vec<String> {
    let named = std::env::var(variable).ok().filter(|named| !named.trim().is_empty());
    named.as_deref().unwrap_or(default).split_whitespace().map(str::to_owned).collect()
}

/// A compiler with the flags for all sources.
#[derive(Clone, Debug)]
struct Compiler {
    /// The environment variable that selects it.
    variable: &'static str,
    /// The command, as words.
    command: Vec<String>,
    /// The output of `--version`.
    version: String,
    flags: Vec<String>,
}

/// Compiles all sources of a scene. Returns the library of each source. `extra` are additional flags for all
/// sources.
///
/// # Errors
///
/// If there is no compiler, or a source does not compile.
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
        jobs.push(CompileJob { folder, source, include: &include, cache: &cache, compiler });
    }
    let compile = |job: &CompileJob<'_>| job.run().map(|library| (job.source.clone(), library));
    let libraries = map(jobs.len(), &jobs, compile)?;
    Ok(libraries.into_iter().collect())
}

/// Writes the headers to the cache and returns their folder.
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

/// Writes a file atomically: other processes see all of it or nothing.
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
        // Flags after `--` follow the source, where the linker expects libraries.
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

struct CompileJob<'j> {
    folder: &'j Path,
    source: &'j PathBuf,
    include: &'j Path,
    cache: &'j Path,
    compiler: Compiler,
}

impl CompileJob<'_> {
    fn run(&self) -> Result<PathBuf, FolderError> {
        let source = self.folder.join(self.source);
        let text = std::fs::read(&source).map_err(FolderError::io("read", &source))?;
        let dir = self.cache.join("build").join(format!("{:032x}", self.key(&source, &text)));
        // Included files are known only after compiling. A cached library is valid as long as those files are
        // unchanged.
        if let Some(library) = cached_library(&dir) {
            return Ok(library);
        }
        std::fs::create_dir_all(&dir).map_err(FolderError::io("create", &dir))?;
        let scratch = tempfile::tempdir_in(&dir).map_err(FolderError::io("create a folder in", &dir))?;
        let (built, rule_file) = (scratch.path().join("made.so"), scratch.path().join("made.d"));
        self.call(&source, &built, &rule_file)?;
        let included = std::fs::read_to_string(&rule_file).map_err(FolderError::io("read", &rule_file))?;
        let included = included_files(&included);
        let library = dir.join(library_name(&self.stem(), &included));
        std::fs::rename(&built, &library).map_err(FolderError::io("write", &library))?;
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

    fn call(&self, source: &Path, built: &Path, rule_file: &Path) -> Result<(), FolderError> {
        let (before, after) = self.compiler.split();
        let mut words: Vec<OsString> = self.compiler.command.iter().map(OsString::from).collect();
        words.extend(before.iter().map(OsString::from));
        for dir in [self.include, self.folder] {
            words.extend(["-I".into(), dir.into()]);
        }
        words.extend([
            "-MD".into(),
            "-MF".into(),
            rule_file.into(),
            "-o".into(),
            built.into(),
            source.into(),
        ]);
        words.extend(after.iter().map(OsString::from));
        let command = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        // Debug information contains the compiler's working directory. With a fixed one, the same source
        // always gives the same build.
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
        // Warnings go to the author of the kernel whenever it is compiled.
        eprint!("{messages}");
        Ok(())
    }
}

/// The file next to a library that lists the files it was built from.
const INCLUDED: &str = "included";

/// The library from an earlier build, if all files that it was built from are unchanged.
fn cached_library(dir: &Path) -> Option<PathBuf> {
    let list = std::fs::read_to_string(dir.join(INCLUDED)).ok()?;
    let (stem, list) = list.split_once('\n')?;
    let included: Vec<PathBuf> = list.lines().map(PathBuf::from).collect();
    let library = dir.join(library_name(stem, &included));
    library.is_file().then_some(library)
}

/// A library's name contains the hash of all files that it was built from, so a new build never replaces a
/// loaded library.
fn library_name(stem: &str, included: &[PathBuf]) -> String {
    let content =
        included.iter().map(|path| xxh3_128(&std::fs::read(path).unwrap_or_default()).to_le_bytes());
    format!("{stem}-{:032x}.so", xxh3_128(&content.collect::<Vec<_>>().concat()))
}

/// The prerequisites of a make rule. Spaces in names are escaped there.
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
    fn included_files_are_read_from_a_make_rule() {
        let rule = "made.so: /a/b.c /a/my\\ header.h \\\n /usr/include/x.h\n";
        let expected = ["/a/b.c", "/a/my header.h", "/usr/include/x.h"].map(PathBuf::from);
        assert_eq!(included_files(rule), expected);
        assert_eq!(included_files(""), Vec::<PathBuf>::new());
    }
}
