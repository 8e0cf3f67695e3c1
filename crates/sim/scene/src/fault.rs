use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

/// A way to damage a kernel on purpose, for tests and tutorials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FaultKind {
    /// Negates its output.
    Sign = 1,
    /// Makes the last element of its output wrong.
    Last = 2,
    /// Writes nothing.
    Stale = 3,
    /// Writes NaN.
    Nan = 4,
    /// Reads its inputs one element off.
    Shift = 5,
    /// Writes infinities, or integers that wrap by half of their range.
    Overflow = 6,
    /// A successor starts before the kernel has finished.
    Race = 7,
}

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 7] = [
        FaultKind::Sign,
        FaultKind::Last,
        FaultKind::Stale,
        FaultKind::Nan,
        FaultKind::Shift,
        FaultKind::Overflow,
        FaultKind::Race,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            FaultKind::Sign => "sign",
            FaultKind::Last => "last",
            FaultKind::Stale => "stale",
            FaultKind::Nan => "nan",
            FaultKind::Shift => "shift",
            FaultKind::Overflow => "overflow",
            FaultKind::Race => "race",
        }
    }

    /// A short description.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            FaultKind::Sign => "negates its output",
            FaultKind::Last => "makes the last element of its output wrong",
            FaultKind::Stale => "writes nothing, so its output keeps the old content",
            FaultKind::Nan => "writes NaN",
            FaultKind::Shift => "reads its inputs one element off",
            FaultKind::Overflow => "writes infinities, or integers that wrap",
            FaultKind::Race => "a task that depends on it starts before it has finished",
        }
    }

    /// The tag in the launch arguments.
    pub const fn tag(self) -> u32 {
        self as u32
    }

    /// The kind with this tag, or `None` for no fault.
    pub fn from_tag(tag: u32) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|k| k.tag() == tag)
    }

    /// Runs `kernel` on this thread with damaged loads and stores. [`FaultKind::Race`] damages nothing here,
    /// because the scheduler injects it.
    pub fn damage<R>(self, kernel: impl FnOnce() -> R) -> R {
        struct Reset;
        impl Drop for Reset {
            fn drop(&mut self) {
                ACTIVE.set(None);
            }
        }
        ACTIVE.set(Some(self));
        let _reset = Reset;
        kernel()
    }

    /// The fault of the kernel that runs on this thread.
    pub(crate) fn active() -> Option<FaultKind> {
        ACTIVE.get()
    }
}

thread_local! {
    static ACTIVE: Cell<Option<FaultKind>> = const { Cell::new(None) };
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An unknown fault name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown fault kind `{0}`; the kinds are sign, last, stale, nan, shift, overflow, race")]
pub struct UnknownFault(pub String);

impl FromStr for FaultKind {
    type Err = UnknownFault;
    fn from_str(name: &str) -> Result<FaultKind, UnknownFault> {
        FaultKind::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| UnknownFault(name.into()))
    }
}
