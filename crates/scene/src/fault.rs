use std::cell::Cell;
use std::fmt;
use std::str::FromStr;

/// A way to damage a kernel on purpose, for tests and tutorials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FaultKind {
    /// Negates what it writes.
    Sign = 1,
    /// One wrong element, the last of its output.
    Last = 2,
    /// Writes nothing.
    Stale = 3,
    /// Writes NaN.
    Nan = 4,
    /// Reads its views one element off.
    Shift = 5,
    /// Leaves the range of its dtype: infinities, or integers wrapped by half their range.
    Overflow = 6,
    /// A successor starts before it has finished.
    Race = 7,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [FaultKind; 7] = [
        FaultKind::Sign,
        FaultKind::Last,
        FaultKind::Stale,
        FaultKind::Nan,
        FaultKind::Shift,
        FaultKind::Overflow,
        FaultKind::Race,
    ];

    /// Spelled as on the command line.
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

    /// What it does to the kernel, in a few words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            FaultKind::Sign => "negates what it writes",
            FaultKind::Last => "writes one wrong element, the last of its output",
            FaultKind::Stale => "writes nothing: its output keeps what was there before",
            FaultKind::Nan => "writes NaN",
            FaultKind::Shift => "reads its inputs one element off",
            FaultKind::Overflow => "leaves the range of its dtype: infinities, or integers that wrap",
            FaultKind::Race => "a task that waits for it starts before it has finished",
        }
    }

    /// Tag in the launch arguments.
    pub const fn tag(self) -> u32 {
        self as u32
    }

    /// The kind of a tag, `None` for no fault.
    pub fn from_tag(tag: u32) -> Option<FaultKind> {
        FaultKind::ALL.into_iter().find(|k| k.tag() == tag)
    }

    /// Runs `kernel` on this thread with its loads and stores damaged. [`FaultKind::Race`] is the scheduler's
    /// business and damages nothing here.
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

    /// The damage done to the kernel that runs on this thread.
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

/// A fault name nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault kind `{0}`; there are: sign, last, stale, nan, shift, overflow, race")]
pub struct UnknownFault(pub String);

impl FromStr for FaultKind {
    type Err = UnknownFault;
    fn from_str(name: &str) -> Result<FaultKind, UnknownFault> {
        FaultKind::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| UnknownFault(name.into()))
    }
}
