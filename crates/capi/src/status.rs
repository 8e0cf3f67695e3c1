//! What a call answers with, in numbers and in words.

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

        /// What a status means.
        pub(crate) fn text_of(status: c_int) -> &'static CStr {
            match status {
                $($value => $text,)+
                _ => c"no status of this library",
            }
        }

        /// Every status by its name in the header, which begins with `TT_`.
        pub const STATUSES: &[(&str, c_int)] = &[$((stringify!($name), $value)),+];
    };
}

statuses! {
    OK = 0, c"done";
    OFF = 1, c"nothing records this program";
    NOT_WANTED = 2, c"the level does not want it";
    FILTERED = 3, c"a filter kept it out";
    DROPPED = -1, c"dropped and counted: the recorder is gone, its files are full, or the wait took too long";
    FORKED = -2, c"the handle is that of the process from which this one was forked: attach anew";
    CLOSED = -3, c"the session is closed, or the handle";
    NO_LANE = -4, c"as many threads record as there is memory for";
    BAD_ARGUMENT = -5, c"an argument makes no sense";
    COMMIT_FIRST = -6, c"there is no room before an earlier reservation is committed";
    TOO_LARGE = -7, c"nothing that large can be reserved at a time";
    NOT_ATTACHED = -8, c"the recorder cannot be reached, or the folder cannot be written";
    NOT_FLUSHED = -9, c"not everything is in files: the recorder is gone, or not done in time";
    INTERNAL = -10, c"a fault of the library";
}

thread_local! {
    static LAST_ERROR: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
}

/// What went wrong last in this thread; valid until the next failure of this thread.
pub(crate) fn last_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

fn remember(text: Cow<'static, CStr>) {
    // A thread that ends tells nobody.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text);
}

/// Remembers why a record was lost, or content is not in files. Copies nothing: a program may lose all that it records.
pub(crate) fn lost(status: c_int, is_recorder_gone: bool) {
    remember(Cow::Borrowed(match status {
        _ if is_recorder_gone => c"the recorder is gone: nothing more is recorded of this process",
        other => text_of(other),
    }));
}

/// The answer of a call that has one, and no panic.
pub(crate) fn answer(call: impl FnOnce() -> Result<c_int, RecordError>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            remember(Cow::Owned(CString::new(error.to_string().replace('\0', " ")).unwrap_or_default()));
            status_of(&error)
        }
        Err(_) => {
            remember(Cow::Borrowed(c"a fault of the library, which standard error tells; please report it"));
            INTERNAL
        }
    }
}

/// What a call gives, or what stands for nothing.
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
