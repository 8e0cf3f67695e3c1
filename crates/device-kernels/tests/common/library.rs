//! Libraries that are looked for at run time.

use std::ffi::{CStr, CString, c_void};

/// A library that stays loaded.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    handle: *mut c_void,
}

impl Library {
    /// By path, or by a name that the system's loader knows.
    pub fn open(name: &str) -> Result<Library, String> {
        let path = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the path ends with a zero. Loading runs the library's initialisers: it is the one that the user has installed.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() { Err(last_error(name)) } else { Ok(Library { handle }) }
    }

    /// A function of it.
    ///
    /// # Safety
    /// `F` is the type of a C function pointer, that of the function of this name.
    pub unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let symbol = CString::new(name).map_err(|error| error.to_string())?;
        // SAFETY: the library is never closed; the name ends with a zero.
        let found = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        if found.is_null() {
            return Err(format!("the library has no function `{name}`"));
        }
        // SAFETY: a function pointer has the size of this one, and the caller vouches for its type.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}

fn last_error(name: &str) -> String {
    // SAFETY: takes nothing; the text is valid until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    // SAFETY: not null, and then a text that ends with a zero.
    if text.is_null() { name.into() } else { unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned() }
}

/// Declares a table of a library's functions, each with its type, and how they are all found.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident: fn($($arg:ty),* $(,)?) -> $result:ty = $symbol:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $table {
            $($name: unsafe extern "C" fn($($arg),*) -> $result,)+
        }

        impl $table {
            fn find(library: super::library::Library) -> Result<$table, String> {
                // SAFETY: types and names are those of the library's public header.
                unsafe { Ok($table { $($name: library.function($symbol)?,)+ }) }
            }
        }
    };
}
pub(crate) use functions;
