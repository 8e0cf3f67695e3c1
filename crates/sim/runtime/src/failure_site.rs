use std::fmt;

use tensortap_abi::{CoreType, SLOTS_PER_TASK, TaskId};

/// Where a run failed, as far as it is known. Printing it allocates nothing, because a signal handler does
/// it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FailureSite {
    /// The kernel that ran.
    pub kernel: Option<&'static str>,
    /// The task of the kernel.
    pub task: Option<TaskId>,
    /// The core that ran the kernel.
    pub core: Option<u32>,
}

impl fmt::Display for FailureSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if let Some(kernel) = self.kernel {
            write!(f, "kernel `{kernel}`")?;
            separator = ", ";
        }
        if let Some(task) = self.task {
            write!(f, "{separator}task {task}")?;
            separator = ", ";
        }
        match self.core {
            Some(core) => {
                let place = usize::try_from(core).unwrap_or(0) % SLOTS_PER_TASK;
                write!(f, "{separator}core {core} ({} of block {})", CoreType::of_slot(place), core / 3)
            }
            None if separator.is_empty() => f.write_str("a device thread"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parts_are_displayed() {
        let all = FailureSite { kernel: Some("mul"), task: Some(TaskId(3)), core: Some(5) };
        assert_eq!(all.to_string(), "kernel `mul`, task 0x0000000000000003, core 5 (AIV of block 1)");
        assert_eq!(
            FailureSite { kernel: None, ..all }.to_string(),
            "task 0x0000000000000003, core 5 (AIV of block 1)"
        );
        assert_eq!(FailureSite { core: None, ..all }.to_string(), "kernel `mul`, task 0x0000000000000003");
        assert_eq!(FailureSite::default().to_string(), "a device thread");
    }
}
