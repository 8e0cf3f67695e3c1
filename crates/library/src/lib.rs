//! Libraries that are found at run time: nothing of them is needed to build, or to run where they are not used.
//!
//! A library that was opened stays loaded: what was found in it may be called until the process ends.

use std::ffi::{CStr, CString, OsStr, OsString, c_void};
use std::os::unix::ffi::OsStrExt;

/// A library that stays loaded.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    handle: *mut c_void,
}

// SAFETY: a handle names a library of the whole process; the calls made with it are allowed from every thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Why a library is not there, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLoaded(pub String);

impl std::fmt::Display for NotLoaded {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for NotLoaded {}

impl Library {
    /// By path, or by a name that the system's loader knows. Its initialisers run: it is one that the user or the system names.
    ///
    /// # Errors
    /// What the loader says.
    pub fn open(name: impl AsRef<OsStr>) -> Result<Library, NotLoaded> {
        let name = name.as_ref();
        let text = CString::new(name.as_bytes()).map_err(|error| NotLoaded(error.to_string()))?;
        // SAFETY: the name ends with a zero.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(NotLoaded(last_error(name))) } else { Ok(Library { handle }) }
    }

    /// The one that this process has loaded already; none is loaded for it.
    #[must_use]
    pub fn loaded(name: &CStr) -> Option<Library> {
        // SAFETY: the name ends with a zero, and nothing runs.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Library { handle })
    }

    /// Where something of this name lies; none where the library has nothing of it.
    #[must_use]
    pub fn find(self, symbol: &str) -> Option<*mut c_void> {
        let name = CString::new(symbol).ok()?;
        // SAFETY: the library is never closed; the name ends with a zero.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    /// A function of this name; none where the library has none.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a C function: of that one.
    #[must_use]
    pub unsafe fn function<F: Copy>(self, symbol: &str) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: a function pointer has the size of this one, and the caller vouches for its type.
        self.find(symbol).map(|found| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}

/// The library that a variable of the environment names, and otherwise the system's.
#[must_use]
pub fn named_or(variable: &str, system: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| system.into())
}

fn last_error(name: &OsStr) -> String {
    // SAFETY: takes nothing; the text is valid until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    match text.is_null() {
        true => name.display().to_string(),
        // SAFETY: not null, and then a text that ends with a zero.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}

/// Declares a table of functions that a library has to have, each with its type, and how they are all found: `Table::find(library)`, whose error is the name of
/// the first function that the library lacks.
///
/// Whoever uses it vouches, for each, that the library declares the function of this name with these types.
#[macro_export]
macro_rules! functions {
    ($(#[$of:meta])* $vis:vis struct $table:ident {
        $($field:ident = $symbol:literal: fn($($arg:ty),* $(,)?) $(-> $result:ty)?;)+
    }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $table {
            $($vis $field: unsafe extern "C" fn($($arg),*) $(-> $result)?,)+
        }

        impl $table {
            /// Finds all of them; the error is the name of one that is not there.
            $vis fn find(library: $crate::Library) -> Result<$table, &'static str> {
                Ok($table {
                    // SAFETY: as whoever declares the table vouches for.
                    $($field: unsafe {
                        library.function::<unsafe extern "C" fn($($arg),*) $(-> $result)?>($symbol)
                    }.ok_or($symbol)?,)+
                })
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    functions! {
        struct Strings {
            length = "strlen": fn(*const std::ffi::c_char) -> usize;
        }
    }

    functions! {
        #[expect(dead_code, reason = "it is never found")]
        struct Missing {
            nothing = "tensortap_nobody_has_this": fn();
        }
    }

    #[test]
    fn functions_are_found_and_what_is_not_there_is_named() {
        let library = Library::open("libc.so.6").unwrap();
        let strings = Strings::find(library).unwrap();
        // SAFETY: a text that ends with a zero.
        assert_eq!(unsafe { (strings.length)(c"four".as_ptr()) }, 4);
        assert_eq!(Missing::find(library).err(), Some("tensortap_nobody_has_this"));
        assert!(Library::loaded(c"libc.so.6").is_some());
        assert!(Library::loaded(c"libtensortap-nobody.so").is_none());
        let why = Library::open("libtensortap-nobody.so").unwrap_err().to_string();
        assert!(why.contains("libtensortap-nobody.so"), "{why}");
        assert!(Library::open("a\0b").is_err());
    }

    #[test]
    fn a_variable_names_another_library_than_the_system_s() {
        assert_eq!(named_or("TENSORTAP_NOBODY_SETS_THIS", "libx.so.1"), "libx.so.1");
        assert_eq!(named_or("PATH", "libx.so.1"), std::env::var_os("PATH").unwrap());
    }
}
