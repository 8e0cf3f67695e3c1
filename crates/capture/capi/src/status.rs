//! Status codes and error messages.

use std::{
    borrow::Cow,
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_int},
    panic::{AssertUnwindSafe, catch_unwind},
};

use tensortap_record::{Outcome, RecordError};

macro_rules! statuses {
    ($($name:ident = $value:literal, $text:literal;)+) => {
        $(pub(crate) const $name: c_int = $value;)+

        /// The text of a status.
        pub(crate) fn text_of(status: c_int) -> &'static CStr {
            match status {
                $($value => $text,)+
                _ => c"unknown status",
            }
        }

        /// Every status with its name in the header, without the prefix `TT_`.
        pub const STATUSES: &[(&str, c_int)] = &[$((stringify!($name), $name)),+];
    };
}

statuses! {
    OK = 0, c"done";
    OFF = 1, c"this program is not being recorded";
    NOT_WANTED = 2, c"not recorded at this dump level";
    FILTERED = 3, c"filtered out";
    TOO_OLD = 4, c"not recorded: the library is older than this call";
    DROPPED = -1, c"dropped and counted: the recorder has exited, its files are full, or the wait limit was reached";
    FORKED = -2, c"the handle belongs to the parent process; attach again after fork";
    CLOSED = -3, c"the session or the handle is closed";
    NO_LANE = -4, c"all lanes are in use, one per recording thread";
    BAD_ARGUMENT = -5, c"invalid argument";
    COMMIT_FIRST = -6, c"no space until an earlier reservation is committed";
    TOO_LARGE = -7, c"the reservation is too large";
    NOT_ATTACHED = -8, c"the recorder cannot be reached, or the folder cannot be written";
    NOT_FLUSHED = -9, c"not all records are in files: the recorder has exited, or the wait limit was reached";
    INTERNAL = -10, c"internal error of the library";
}

thread_local! {
    static LAST_ERROR: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
}

/// The last error of this thread; valid until the thread's next error.
pub(crate) fn last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

fn remember(text: Cow<'static, CStr>) {
    // A thread that is ending has no last error.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text);
}

/// Remembers why a record was lost or not flushed. Copies nothing, because a program may lose all its
/// records.
pub(crate) fn lost(status: c_int, is_recorder_gone: bool) {
    remember(Cow::Borrowed(match status {
        _ if is_recorder_gone => c"the recorder has exited: this process is no longer recorded",
        other => text_of(other),
    }));
}

/// Runs a call, catches panics and converts its result to a status.
pub(crate) fn answer(call: impl FnOnce() -> Result<c_int, RecordError>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            remember(Cow::Owned(CString::new(error.to_string().replace('\0', " ")).unwrap_or_default()));
            status_of(&error)
        }
        Err(_) => {
            remember(Cow::Borrowed(c"internal error, see standard error; please report it"));
            INTERNAL
        }
    }
}

/// Runs a call and returns its value, or `nothing` after an error.
pub(crate) fn give<T: Copy>(nothing: T, call: impl FnOnce() -> Result<T, RecordError>) -> T {
    let mut given = nothing;
    answer(|| {
        given = call()?;
        Ok(OK)
    });
    given
}

pub(crate) fn of_outcome(outcome: Outcome) -> c_int {
    match outcome {
        Outcome::Recorded => OK,
        Outcome::Uncaptured => BAD_ARGUMENT,
        Outcome::NotWanted => NOT_WANTED,
        Outcome::Filtered => FILTERED,
        Outcome::Dropped(_) => DROPPED,
    }
}

fn status_of(error: &RecordError) -> c_int {
    match error {
        RecordError::NoLane { .. } => NO_LANE,
        RecordError::Forked => FORKED,
        RecordError::Closed | RecordError::ThreadEnds => CLOSED,
        RecordError::RecorderGone => NOT_FLUSHED,
        RecordError::CommitFirst => COMMIT_FIRST,
        RecordError::Lost => DROPPED,
        RecordError::TooLarge { .. } => TOO_LARGE,
        RecordError::NotReserved { .. }
        | RecordError::BadArgument { .. }
        | RecordError::BadView { .. }
        | RecordError::Setup(_) => BAD_ARGUMENT,
        _ => NOT_ATTACHED,
    }
}
