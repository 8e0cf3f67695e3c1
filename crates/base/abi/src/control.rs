use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{ARG_SLOTS, BlockContext, SubtaskContext, assert_layout};

/// Blocks a device may have.
pub const MAX_BLOCKS: usize = 64;
/// Scheduler threads a device may have.
pub const MAX_SCHEDULERS: usize = 32;
/// Device threads that publish a state: the orchestrator, the schedulers, then the monitor.
pub const MAX_DEVICE_THREADS: usize = MAX_SCHEDULERS + 2;

/// State of a run that the host can read at any time, even after the device died: status, failure, thread
/// states. In memory, the [`ThreadControl`]s and [`CoreControl`]s follow it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct DeviceControl {
    /// Zero.
    pub reserved: u64,
    /// [`DeviceStatus`] tag.
    pub status: u32,
    /// [`FailureKind`] tag; 0 for none. Stored after all other failure fields.
    pub failure: u32,
    /// Task that failed.
    pub failure_task: u64,
    /// Faulting address of a signal.
    pub failure_addr: u64,
    /// Core that failed; [`NO_CORE`] for none.
    pub failure_core: u32,
    /// Kernel that failed; [`crate::NO_KERNEL`] for none.
    pub failure_func_id: u32,
    /// Signal number of a crash.
    pub failure_signal: u32,
    /// Bytes of `message` in use.
    pub message_len: u32,
    /// Device time at launch. `started_ns` and `ended_ns` use one monotonic clock.
    pub started_ns: u64,
    /// Device time at the end.
    pub ended_ns: u64,
    /// UTF-8 explanation.
    pub message: [u8; DeviceControl::MAX_MESSAGE],
}
assert_layout!(DeviceControl, size 1024, align 64,
    reserved @ 0, status @ 8, failure @ 12, failure_task @ 16, failure_addr @ 24, failure_core @ 32,
    failure_func_id @ 36, failure_signal @ 40, message_len @ 44, started_ns @ 48, ended_ns @ 56, message @ 64);

impl DeviceControl {
    /// Maximum length of the explanation.
    pub const MAX_MESSAGE: usize = 960;

    /// The explanation. If it is damaged, its valid UTF-8 prefix.
    pub fn message(&self) -> &str {
        let len = usize::try_from(self.message_len).unwrap_or(usize::MAX).min(Self::MAX_MESSAGE);
        let bytes = &self.message[..len];
        match core::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }
}

/// Core number that means no core.
pub const NO_CORE: u32 = u32::MAX;

/// Progress of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DeviceStatus {
    /// Nothing launched.
    Idle = 0,
    /// Running.
    Running = 1,
    /// Every task is complete.
    Complete = 2,
    /// A failure ended it.
    Failed = 3,
}

/// Why a launch ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FailureKind {
    /// A signal hit a kernel.
    Signal = 1,
    /// A kernel panicked.
    Panic = 2,
    /// No progress for the stall limit.
    Stall = 3,
    /// The orchestration or the runtime returned an error.
    Orchestration = 4,
    /// A full ring can never drain.
    RingDeadlock = 5,
    /// Tasks remain that can never become ready.
    GraphDeadlock = 6,
    /// The launch arguments are not usable.
    Launch = 7,
    /// A kernel called `exit` instead of returning.
    Exit = 8,
    /// A kernel wrote outside its tensors.
    Overrun = 9,
}

impl FailureKind {
    /// The kind of a tag, `None` when there is no failure or the tag is damaged.
    pub const fn from_tag(tag: u32) -> Option<FailureKind> {
        match tag {
            1 => Some(FailureKind::Signal),
            2 => Some(FailureKind::Panic),
            3 => Some(FailureKind::Stall),
            4 => Some(FailureKind::Orchestration),
            5 => Some(FailureKind::RingDeadlock),
            6 => Some(FailureKind::GraphDeadlock),
            7 => Some(FailureKind::Launch),
            8 => Some(FailureKind::Exit),
            9 => Some(FailureKind::Overrun),
            _ => None,
        }
    }
}

/// State and progress that each device thread publishes. Each thread has its own cache line, so threads do
/// not share lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct ThreadControl {
    /// [`ThreadState`] tag.
    pub state: u32,
    /// Zero.
    pub reserved0: u32,
    /// Tasks this thread has submitted.
    pub submitted: u64,
    /// Tasks this thread has completed.
    pub completed: u64,
    /// Dispatches this thread has seen finished.
    pub dispatches: u64,
    /// How often this thread checked all of its cores and queues and found no work.
    pub idle_rounds: u64,
    /// Zero.
    pub reserved: [u64; 3],
}
assert_layout!(ThreadControl, size 64, align 64, state @ 0, submitted @ 8, completed @ 16, dispatches @ 24,
    idle_rounds @ 32);

/// What a device thread is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ThreadState {
    /// Not started, or ended.
    Idle = 0,
    /// Working.
    Running = 1,
    /// Blocked on a full ring.
    WaitingForRing = 2,
    /// Blocked on the dump. No time limit runs meanwhile.
    WaitingForDump = 3,
    /// Capturing for the dump. No time limit runs meanwhile.
    Capturing = 4,
}

impl ThreadState {
    /// Whether a thread in this state is held up by the dump.
    pub const fn is_held_up(tag: u32) -> bool {
        tag == ThreadState::WaitingForDump as u32 || tag == ThreadState::Capturing as u32
    }
}

/// Mailbox of one core: the scheduler's words, the core's words, and the message.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct CoreControl {
    /// Dispatches posted to this core; see the mailbox protocol.
    pub posted: u64,
    /// Task of the current dispatch.
    pub task_id: u64,
    /// Its slot.
    pub task_slot: u32,
    /// Its subtask slot.
    pub subtask: u32,
    /// Kernel to run.
    pub func_id: u32,
    /// Not used.
    pub reserved0: [u32; 9],

    /// Dispatches this core has finished.
    pub done: u64,
    /// Longest duration of a kernel on this core, if the launch requested timing.
    pub kernel_ns: u64,
    /// Device time at which the kernel of the last dispatch was called, if dispatches are recorded.
    pub started_ns: u64,
    /// Device time at which it returned.
    pub returned_ns: u64,
    /// Not used.
    pub reserved1: [u64; 4],

    /// The kernel's arguments.
    pub args: [u64; ARG_SLOTS],
    /// The context that `args[48]` points to.
    pub block: BlockContext,
    /// The context that `args[49]` points to.
    pub subtask_context: SubtaskContext,
    /// Not used.
    pub reserved2: [u64; 4],
}
assert_layout!(CoreControl, size 576, align 64,
    posted @ 0, task_id @ 8, task_slot @ 16, subtask @ 20, func_id @ 24, done @ 64, kernel_ns @ 72, started_ns @ 80,
    returned_ns @ 88, args @ 128, block @ 528,
    subtask_context @ 536);

/// Offsets of the parts of the control area, relative to its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlLayout {
    /// Cores of the device.
    pub cores: usize,
}

impl ControlLayout {
    /// Offset of a thread's [`ThreadControl`].
    pub const fn thread_offset(thread: usize) -> usize {
        size_of::<DeviceControl>() + thread * size_of::<ThreadControl>()
    }

    /// Offset of a core's [`CoreControl`].
    pub const fn core_offset(core: usize) -> usize {
        Self::thread_offset(MAX_DEVICE_THREADS) + core * size_of::<CoreControl>()
    }

    /// Size of the control area.
    pub const fn bytes(self) -> usize {
        Self::core_offset(self.cores)
    }
}
