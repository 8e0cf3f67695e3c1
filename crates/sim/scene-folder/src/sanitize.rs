//! The compiler's sanitizers: the flags for kernels, and the environment for processes that load them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use tensortap_platform::Sanitizer;

use crate::FolderError;

/// A kind of sanitizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SanitizerKind {
    /// Detects invalid memory accesses.
    Address,
    /// Detects undefined behavior.
    Undefined,
}

impl SanitizerKind {
    /// All kinds.
    pub const ALL: [SanitizerKind; 2] = [SanitizerKind::Address, SanitizerKind::Undefined];

    /// The compiler's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SanitizerKind::Address => "address",
            SanitizerKind::Undefined => "undefined",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<SanitizerKind> {
        SanitizerKind::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// Options for every sanitizer: end the process with a signal, so that the task is reported, and leave
/// signals to our own handlers.
const OPTIONS: &str = "abort_on_error=1:detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigill=0:handle_sigfpe=0:\
                       handle_abort=0:use_sigaltstack=0:print_stacktrace=1:color=never";

/// The compilers that have these sanitizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Gcc,
    Clang,
}

/// Finds the sanitizers of `$CC`. C++ sources must be compiled with a compiler of the same family.
///
/// # Errors
///
/// If there is no such compiler, or it lacks the runtime library.
pub fn find_sanitizer(kinds: &BTreeSet<SanitizerKind>) -> Result<Sanitizer, FolderError> {
    let compiler = crate::compile::command_of("CC", "cc");
    let family = family(&compiler, "CC")?;
    let cpp = crate::compile::command_of("CXX", "c++");
    // Without a C++ compiler, no C++ source is compiled.
    if let Ok(other) = self::family(&cpp, "CXX")
        && other != family
    {
        let problem =
            format!("$CC is {family:?} but $CXX is {other:?}; use the same compiler family for both");
        return Err(FolderError::Sanitizer { compiler: compiler.join(" "), problem });
    }
    let address = kinds.contains(&SanitizerKind::Address);
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
    // The predefined macros identify the compiler, whatever its name is.
    let output = ask(compiler, variable, &["-dM", "-E", "-x", "c", "/dev/null"])?;
    let defines = |name: &str| output.lines().any(|line| line.split_whitespace().nth(1) == Some(name));
    match output {
        _ if defines("__clang__") => Ok(Family::Clang),
        _ if defines("__GNUC__") => Ok(Family::Gcc),
        _ => Err(FolderError::Sanitizer {
            compiler: compiler.join(" "),
            problem: format!("it is neither gcc nor clang; set ${variable} to one of them"),
        }),
    }
}

/// The runtime library that must be loaded first. For undefined behavior, gcc links its library into the
/// kernels.
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
    let output = ask(compiler, "CC", &[&format!("-print-file-name={name}")])?;
    // For a missing library, the compiler prints the name without a path.
    let path = PathBuf::from(output.trim());
    let library = if path.is_absolute() { loadable(&path) } else { None };
    library.map(Some).ok_or_else(|| FolderError::Sanitizer {
        compiler: compiler.join(" "),
        problem: format!("it has no {name}; install the sanitizer libraries of the compiler"),
    })
}

/// The library itself. On some systems the path is a linker script that names it.
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

/// The environment. Options of the user are kept, except those about how a process ends.
fn environment(preload: Option<&Path>, family: Family) -> Vec<(String, OsString)> {
    let joined = |variable: &str, separator: &str, own: OsString, first: bool| {
        let set = std::env::var_os(variable).filter(|set| !set.is_empty());
        let mut words: Vec<OsString> = set.into_iter().collect();
        words.insert(if first { 0 } else { words.len() }, own);
        (variable.to_owned(), words.join(separator.as_ref()))
    };
    // Clang's symbolizer is a separate program, which a confined process cannot start. Its reports then lack
    // function names.
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
    fn a_linker_script_leads_to_the_library_that_it_names() {
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
