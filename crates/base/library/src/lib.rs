//! Loads shared libraries at run time, so that they are needed neither to build nor to run without them.
//!
//! An open library stays loaded: its functions can be called until the process ends.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;

/// A loaded library, which is never unloaded.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    handle: *mut c_void,
}

// SAFETY: the handle names a library of the whole process, and every thread may use it.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// Why a library could not be loaded: the loader's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(pub String);

impl std::fmt::Display for LoadError {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for LoadError {}

impl Library {
    /// Opens a library by path, or by a name that the system's loader finds. Its initializers run.
    ///
    /// # Errors
    /// The loader's message.
    pub fn open(name: impl AsRef<OsStr>) -> Result<Library, LoadError> {
        let name = name.as_ref();
        let text = CString::new(name.as_bytes()).map_err(|error| LoadError(error.to_string()))?;
        // SAFETY: the name ends with a zero.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(LoadError(last_error(name))) } else { Ok(Library { handle }) }
    }

    /// A library that this process has already loaded; `None` otherwise.
    #[must_use]
    pub fn loaded(name: &CStr) -> Option<Library> {
        // SAFETY: the name ends with a zero, and nothing is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Library { handle })
    }

    /// The address of a symbol; `None` if the library lacks it.
    #[must_use]
    pub fn find(self, symbol: &str) -> Option<*mut c_void> {
        let name = CString::new(symbol).ok()?;
        // SAFETY: the library is never closed; the name ends with a zero.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    /// A function; `None` if the library lacks it.
    ///
    /// # Safety
    /// `F` is the type of a pointer to this C function.
    #[must_use]
    pub unsafe fn function<F: Copy>(self, symbol: &str) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the sizes are equal, and the caller promises the type.
        self.find(symbol).map(|found| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}

fn last_error(name: &OsStr) -> String {
    // SAFETY: takes no arguments; the text is valid until the thread's next call.
    let text = unsafe { libc::dlerror() };
    match text.is_null() {
        true => name.display().to_string(),
        // SAFETY: not null, and it ends with a zero.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    }
}

/// Declares a table of functions that a library must have. `Table::find(library)` looks up all of them; its
/// error is the name of the first missing function.
///
/// The declared types must be those of the library's header.
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
            /// Looks up all functions. The error is the name of a missing one.
            $vis fn find(library: $crate::Library) -> Result<$table, &'static str> {
                Ok($table {
                    // SAFETY: the declaration of the table promises the types.
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
        #[expect(dead_code, reason = "it does not exist")]
        struct Missing {
            nothing = "tensortap_no_such_function": fn();
        }
    }

    #[test]
    fn finds_functions_and_names_a_missing_one() {
        let library = Library::open("libc.so.6").unwrap();
        let strings = Strings::find(library).unwrap();
        // SAFETY: the text ends with a zero.
        assert_eq!(unsafe { (strings.length)(c"four".as_ptr()) }, 4);
        assert_eq!(Missing::find(library).err(), Some("tensortap_no_such_function"));
        assert!(Library::loaded(c"libc.so.6").is_some());
        assert!(Library::loaded(c"libtensortap-no-such-library.so").is_none());
        let why = Library::open("libtensortap-no-such-library.so").unwrap_err().to_string();
        assert!(why.contains("libtensortap-no-such-library.so"), "{why}");
        assert!(Library::open("a\0b").is_err());
    }
}
