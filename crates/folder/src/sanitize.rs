//! The sanitizers of the compiler: what it must be told, and what processes must load first that load its kernels.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tensortap_platform::Sanitizer;

use crate::FolderError;

/// What can be looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sanitize {
    /// Memory that is touched and should not be.
    Address,
    /// Operations that C gives no meaning.
    Undefined,
}

impl Sanitize {
    /// All there are.
    pub const ALL: [Sanitize; 2] = [Sanitize::Address, Sanitize::Undefined];

    /// As the compiler spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Sanitize::Address => "address",
            Sanitize::Undefined => "undefined",
        }
    }

    /// The one spelled so.
    #[must_use]
    pub fn parse(text: &str) -> Option<Sanitize> {
        Sanitize::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// Options for every sanitizer: the process dies of a signal, which names the task, and signals stay with those who handle them here.
const OPTIONS: &str = "abort_on_error=1:detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0:\
                       handle_abort=0:use_sigaltstack=0:print_stacktrace=1:color=never";

/// The two compilers that have sanitizers of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Gcc,
    Clang,
}

/// Finds the sanitizers of `$CC`. Sources in C++ must be compiled with a compiler of the same family.
///
/// # Errors
/// There is no such compiler, or it has no library for them.
pub fn find_sanitizer(kinds: &BTreeSet<Sanitize>) -> Result<Sanitizer, FolderError> {
    let compiler = crate::compile::command_of("CC", "cc");
    let family = family(&compiler, "CC")?;
    let cpp = crate::compile::command_of("CXX", "c++");
    // Without a compiler for C++ nothing is compiled with it.
    if let Ok(other) = self::family(&cpp, "CXX")
        && other != family
    {
        let problem = format!("$CC is {family:?} and $CXX is {other:?}; let both be of one");
        return Err(FolderError::Sanitizer { compiler: compiler.join(" "), problem });
    }
    let address = kinds.contains(&Sanitize::Address);
    let preload = runtime_library(&compiler, family, address)?;
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let mut flags = vec![
        format!("-fsanitize={}", names.join(",")),
        "-fno-sanitize-recover=all".to_owned(),
        "-fno-omit-frame-pointer".to_owned(),
    ];
    if family == Family::Clang {
        flags.push("-shared-libsan".to_owned());
    }
    Ok(Sanitizer { address, flags, environment: environment(preload.as_deref(), family) })
}

fn family(compiler: &[String], variable: &'static str) -> Result<Family, FolderError> {
    // What it defines says what it is, whatever it is called.
    let said = ask(compiler, variable, &["-dM", "-E", "-x", "c", "/dev/null"])?;
    let defines = |name: &str| said.lines().any(|line| line.split_whitespace().nth(1) == Some(name));
    match said {
        _ if defines("__clang__") => Ok(Family::Clang),
        _ if defines("__GNUC__") => Ok(Family::Gcc),
        _ => Err(FolderError::Sanitizer {
            compiler: compiler.join(" "),
            problem: format!("it is neither gcc nor clang; name one of them in ${variable}"),
        }),
    }
}

/// The library that must be loaded first. Kernels bring that of gcc for undefined operations along.
fn runtime_library(
    compiler: &[String],
    family: Family,
    address: bool,
) -> Result<Option<PathBuf>, FolderError> {
    let arch = std::env::consts::ARCH;
    let name = match (family, address) {
        (Family::Gcc, true) => "libasan.so".to_owned(),
        (Family::Gcc, false) => return Ok(None),
        (Family::Clang, true) => format!("libclang_rt.asan-{arch}.so"),
        (Family::Clang, false) => format!("libclang_rt.ubsan_standalone-{arch}.so"),
    };
    let said = ask(compiler, "CC", &[&format!("-print-file-name={name}")])?;
    // What it does not have it says as it was asked.
    let path = PathBuf::from(said.trim());
    let library = if path.is_absolute() { loadable(&path) } else { None };
    library.map(Some).ok_or_else(|| FolderError::Sanitizer {
        compiler: compiler.join(" "),
        problem: format!("it has no {name}; install its sanitizer libraries"),
    })
}

/// The library itself: some systems have a file for the linker there that names it.
fn loadable(path: &Path) -> Option<PathBuf> {
    let bytes = std::fs::read(path).ok()?;
    if bytes.starts_with(b"\x7fELF") {
        return Some(path.to_owned());
    }
    let text = String::from_utf8(bytes).ok()?;
    text.split([' ', '(', ')', '\n'])
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .find(|p| p.is_file())
}

/// What the user has set stays, as far as it is not about how a process ends.
fn environment(preload: Option<&Path>, family: Family) -> Vec<(String, OsString)> {
    let joined = |variable: &str, separator: &str, ours: OsString, first: bool| {
        let set = std::env::var_os(variable).filter(|set| !set.is_empty());
        let mut words: Vec<OsString> = set.into_iter().collect();
        words.insert(if first { 0 } else { words.len() }, ours);
        (variable.to_owned(), words.join(separator.as_ref()))
    };
    // The symbolizer of clang is a program, which a confined process may not start: then there are no names, and all else.
    let symbolize = if family == Family::Clang { ":allow_addr2line=0" } else { "" };
    let options = OsString::from(format!("{OPTIONS}{symbolize}"));
    let preload = preload.map(|library| joined("LD_PRELOAD", ":", library.into(), true));
    let own = ["ASAN_OPTIONS", "UBSAN_OPTIONS"].map(|name| joined(name, ":", options.clone(), false));
    preload.into_iter().chain(own).collect()
}

fn ask(compiler: &[String], variable: &'static str, words: &[&str]) -> Result<String, FolderError> {
    let asked = Command::new(&compiler[0]).args(&compiler[1..]).args(words).output();
    let asked =
        asked.map_err(|source| FolderError::NoCompiler { compiler: compiler.join(" "), variable, source })?;
    Ok(String::from_utf8_lossy(&asked.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_for_the_linker_leads_to_the_library_it_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let (library, script) = (folder.path().join("libasan.so.8"), folder.path().join("libasan.so"));
        std::fs::write(&library, b"\x7fELF").expect("written");
        std::fs::write(&script, format!("/* for ld */\nINPUT ( {} )\n", library.display())).expect("written");
        assert_eq!(loadable(&script), Some(library.clone()));
        assert_eq!(loadable(&library), Some(library));
        assert_eq!(loadable(&folder.path().join("none")), None);
        std::fs::write(&script, "INPUT ( /no/such/library )").expect("written");
        assert_eq!(loadable(&script), None);
    }

    #[test]
    fn our_options_come_last_and_the_library_first() {
        let environment = environment(Some(Path::new("/lib/libasan.so")), Family::Gcc);
        let of = |name: &str| {
            environment.iter().find(|(n, _)| n == name).expect(name).1.to_string_lossy().into_owned()
        };
        assert!(of("LD_PRELOAD").starts_with("/lib/libasan.so"));
        assert!(
            of("ASAN_OPTIONS").ends_with("color=never") && of("UBSAN_OPTIONS").contains("abort_on_error=1")
        );
    }
}
