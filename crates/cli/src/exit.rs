use std::process::ExitCode;

/// What the process says with its exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Good,
    /// A check found a difference.
    Difference,
    /// The request makes no sense.
    Usage,
    /// The run failed.
    Failed,
    /// The user ended it.
    Interrupted,
}

impl Exit {
    /// The status.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Good => 0,
            Exit::Difference => 1,
            Exit::Usage => 2,
            Exit::Failed => 3,
            // As a shell reports the end by SIGINT: 128 + 2.
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
