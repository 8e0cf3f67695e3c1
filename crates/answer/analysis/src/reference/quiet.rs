//! Catches panics of code that runs on untrusted input without printing them.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Calls `body`; if it panics, returns the message without printing it. Panics of other threads are printed
/// as usual.
pub(super) fn run<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                before(panic);
            }
        }));
    });
    QUIET.set(true);
    let ran = catch_unwind(AssertUnwindSafe(body));
    QUIET.set(false);
    ran.map_err(|payload| text(&*payload))
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn a_panic_becomes_an_error_message() {
        let values = [1, 2, 3];
        let index = std::hint::black_box(7);
        let why = run(|| assert_eq!(values[index], 0)).unwrap_err();
        assert!(why.contains("index out of bounds"), "{why}");
        assert_eq!(run(|| panic!("{}", "in words")), Err("in words".into()));
        assert_eq!(run(|| ()), Ok(()));
    }
}
