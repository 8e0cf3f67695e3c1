use std::fmt;

use tensortap_abi::{CoreType, SLOTS_PER_TASK, TaskId};

/// Where a run went wrong, as far as it is known. Displaying it allocates nothing: a signal handler does it, too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whereabouts {
    /// Kernel that ran.
    pub kernel: Option<&'static str>,
    /// Task it ran for.
    pub task: Option<TaskId>,
    /// Core it ran on.
    pub core: Option<u32>,
}

impl fmt::Display for Whereabouts {
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
    fn what_is_known_is_named() {
        let all = Whereabouts { kernel: Some("mul"), task: Some(TaskId(3)), core: Some(5) };
        assert_eq!(all.to_string(), "kernel `mul`, task 0x0000000000000003, core 5 (AIV of block 1)");
        assert_eq!(
            Whereabouts { kernel: None, ..all }.to_string(),
            "task 0x0000000000000003, core 5 (AIV of block 1)"
        );
        assert_eq!(Whereabouts { core: None, ..all }.to_string(), "kernel `mul`, task 0x0000000000000003");
        assert_eq!(Whereabouts::default().to_string(), "a device thread");
    }
}
