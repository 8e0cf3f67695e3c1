use std::fmt;
use std::time::Duration;

use tensortap_abi::{DeviceControl, FailureKind, KernelName, NO_CORE, TaskId};
use tensortap_platform::{DeathCause, PlatformError, SIGSYS, SanitizerReport, refused_call};
use tensortap_scene::{GraphError, KernelDef, SceneError};

use super::{InFlightTask, Progress};
use crate::overrun::Overrun;
use crate::whereabouts::Whereabouts;

/// Why a run could not begin or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The platform refused something.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The graph could not be built.
    #[error("the orchestration failed: {0}")]
    Graph(#[from] GraphError),
    /// The scene contradicts itself.
    #[error(transparent)]
    Scene(#[from] SceneError),
    /// An option is out of range.
    #[error("{option} cannot be {value}: {expected}")]
    BadOption {
        /// As on the command line.
        option: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        expected: String,
    },
    /// A kernel's name is too long to cross to the device.
    #[error("kernel name `{0}` is longer than {max} bytes", max = KernelName::MAX_BYTES)]
    KernelName(&'static str),
    /// Tasks that cannot be run as they are.
    #[error("{0}")]
    Tasks(String),
    /// More guard pages than a process may have.
    #[error(
        "{tensors} tensors are to be guarded, and {most} can be: vm.max_map_count is {allowed}, and each takes two; raise it \
         (sysctl vm.max_map_count={}), or run a smaller case", *allowed + 2 * (*tensors - *most)
    )]
    TooManyGuards {
        /// Tensors that the host placed.
        tensors: u64,
        /// Tensors that can be guarded.
        most: u64,
        /// Mappings that a process may have.
        allowed: u64,
    },
    /// The dump could not be begun.
    #[error("the dump could not be begun: {0}")]
    Dump(String),
    /// The run began and failed.
    #[error(transparent)]
    Failed(#[from] Box<RunFailure>),
}

/// A run that began and failed: what the device had to say.
#[derive(Debug, Clone, thiserror::Error)]
pub struct RunFailure {
    /// What kind; `None` when the device died without a word.
    pub kind: Option<FailureKind>,
    /// How the device ended, if it did.
    pub death: Option<DeathCause>,
    /// Whether the host ended the run because it was asked to.
    pub interrupted: bool,
    /// Task at fault.
    pub task: Option<TaskId>,
    /// Kernel at fault.
    pub kernel: Option<&'static str>,
    /// Core at fault.
    pub core: Option<u32>,
    /// Signal number of a crash.
    pub signal: Option<i32>,
    /// Faulting address of a crash.
    pub address: Option<u64>,
    /// The byte beside an argument that was touched, where tensors are guarded.
    pub overrun: Option<Overrun>,
    /// What a sanitizer said of the device, where one watched it.
    pub report: Option<SanitizerReport>,
    /// What the device said.
    pub message: String,
    /// Whether the device could be ended and the host goes on unharmed.
    pub contained: bool,
    /// How far the run had come.
    pub progress: Progress,
    /// Tasks that were running when the device died, as it left them.
    pub in_flight: Vec<InFlightTask>,
}

impl RunFailure {
    /// What the control area says about a failed launch.
    pub(super) fn read(
        control: &DeviceControl,
        death: Option<DeathCause>,
        kernels: &[KernelDef],
        progress: Progress,
    ) -> RunFailure {
        let kind = FailureKind::from_tag(control.failure);
        let on_core = kind.is_some() && control.failure_core != NO_CORE;
        let is_signal = kind == Some(FailureKind::Signal);
        let names_task = on_core || kind == Some(FailureKind::GraphDeadlock);
        let kernel = kernels.iter().find(|k| k.func_id == control.failure_func_id).map(|k| k.name);
        RunFailure {
            kind,
            death,
            interrupted: false,
            task: (names_task && control.failure_task != u64::MAX).then_some(TaskId(control.failure_task)),
            kernel: kernel.filter(|_| on_core),
            core: on_core.then_some(control.failure_core),
            signal: is_signal.then_some(control.failure_signal.cast_signed()),
            address: (is_signal || kind == Some(FailureKind::Overrun)).then_some(control.failure_addr),
            overrun: None,
            report: None,
            message: control.message().to_string(),
            contained: true,
            progress,
            in_flight: Vec::new(),
        }
    }

    /// A run that the user ended.
    pub fn interrupted(progress: Progress) -> RunFailure {
        RunFailure {
            kind: None,
            death: None,
            interrupted: true,
            task: None,
            kernel: None,
            core: None,
            signal: None,
            address: None,
            overrun: None,
            report: None,
            message: "the run was interrupted".into(),
            contained: true,
            progress,
            in_flight: Vec::new(),
        }
    }

    /// How the manifest and `--json` name this end of a run.
    pub fn status(&self) -> &'static str {
        match (self.kind, self.interrupted) {
            (_, true) => "interrupted",
            (Some(FailureKind::Stall | FailureKind::RingDeadlock | FailureKind::GraphDeadlock), _) => {
                "stalled"
            }
            (Some(_), _) => "crashed",
            (None, _) => "killed",
        }
    }

    /// The system call of a confined device that was refused.
    #[must_use]
    pub fn refused_call(&self) -> Option<&'static str> {
        self.signal.filter(|&signal| signal == SIGSYS)?;
        refused_call(self.address?)
    }

    fn whereabouts(&self) -> Whereabouts {
        Whereabouts { kernel: self.kernel, task: self.task, core: self.core }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whereabouts, message) = (self.whereabouts(), &self.message);
        match self.kind {
            _ if self.interrupted => write!(f, "{message}"),
            Some(FailureKind::Signal) if self.refused_call().is_some() => {
                let call = self.refused_call().unwrap_or_default();
                write!(
                    f,
                    "refused in {whereabouts}: the system call {call}, which a confined device may not make (--trust lifts that)"
                )
            }
            _ if self.report.is_some() => {
                let headline = self.report.as_ref().map(SanitizerReport::headline).unwrap_or_default();
                write!(f, "sanitizer report in {whereabouts}: {headline}")?;
                self.overrun.map_or(Ok(()), |overrun| write!(f, ", {overrun}"))
            }
            Some(FailureKind::Signal) => {
                let death = DeathCause { signal: self.signal, code: None };
                write!(f, "crash in {whereabouts}: the device {death}")?;
                // An abort has no address.
                self.address
                    .filter(|&a| a != 0)
                    .map_or(Ok(()), |address| write!(f, ", at address {address:#x}"))?;
                self.overrun.map_or(Ok(()), |overrun| write!(f, ", {overrun}"))
            }
            Some(FailureKind::Overrun) => write!(f, "overrun in {whereabouts}: {message}"),
            Some(FailureKind::Exit) => {
                write!(f, "exit in {whereabouts}: it ended the device instead of returning")?;
                let code = self.death.and_then(|death| death.code);
                code.map_or(Ok(()), |code| write!(f, ", with code {code}"))
            }
            Some(FailureKind::Panic) => write!(f, "panic in {whereabouts}: {message}"),
            Some(FailureKind::Stall) if self.core.is_none() => write!(f, "the run hangs: {message}"),
            Some(FailureKind::Stall) => write!(f, "hang in {whereabouts}: {message}"),
            Some(FailureKind::GraphDeadlock) => write!(f, "the graph can never finish: {message}"),
            Some(FailureKind::RingDeadlock) => write!(f, "{message}"),
            Some(FailureKind::Orchestration) => write!(f, "the orchestration failed: {message}"),
            Some(FailureKind::Launch) => write!(f, "the device refused the launch: {message}"),
            None => match self.death {
                // Whoever starts a process blocks signals first, so that nobody could store which call it was.
                Some(death) if death.signal == Some(SIGSYS) => write!(
                    f,
                    "the device {death}: a system call that a confined device may not make, most likely to start a process \
                     (--trust lifts that)"
                ),
                Some(death) => write!(f, "the device {death}"),
                None => write!(f, "the device ended without a reason"),
            },
        }?;
        if self.contained {
            Ok(())
        } else {
            write!(
                f,
                " (thread mode: the hanging kernel cannot be ended and stays behind; process mode ends it)"
            )
        }
    }
}

/// Stall limits are given in seconds and cross in milliseconds.
pub(super) fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}
