use std::fmt;
use std::time::Duration;

use tensortap_abi::{DeviceControl, FailureKind, KernelName, NO_CORE, TaskId};
use tensortap_platform::{DeathCause, PlatformError, SIGSYS, SanitizerReport, refused_call};
use tensortap_scene::{GraphError, KernelDef, SceneError};

use super::{InFlightTask, Progress};
use crate::failure_site::FailureSite;
use crate::overrun::Overrun;

/// Why a run could not start or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A platform operation failed.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// The orchestration failed.
    #[error("the orchestration failed: {0}")]
    Graph(#[from] GraphError),
    /// The scene is inconsistent.
    #[error(transparent)]
    Scene(#[from] SceneError),
    /// An option is out of range.
    #[error("{option} cannot be {value}: {expected}")]
    BadOption {
        /// The option on the command line.
        option: &'static str,
        /// The given value.
        value: String,
        /// Valid values.
        expected: String,
    },
    /// A kernel's name is too long to cross to the device.
    #[error("the kernel name `{0}` is longer than {max} bytes; use a shorter one", max = KernelName::MAX_BYTES)]
    KernelName(&'static str),
    /// Tasks cannot be run as they are.
    #[error("{0}")]
    Tasks(String),
    /// More guard pages than a process can have.
    #[error(
        "cannot guard {tensors} tensors: vm.max_map_count is {allowed}, which allows {most} of them at two mappings each; \
         raise the limit (sysctl vm.max_map_count={}), or run a smaller case", *allowed + 2 * (*tensors - *most)
    )]
    TooManyGuards {
        /// Tensors that the host placed.
        tensors: u64,
        /// Tensors that can be guarded.
        most: u64,
        /// Mappings that a process can have.
        allowed: u64,
    },
    /// The dump could not be started.
    #[error("the dump could not be started: {0}")]
    Dump(String),
    /// The run started and failed.
    #[error(transparent)]
    Failed(#[from] Box<RunFailure>),
}

/// The report of a run that started and failed.
#[derive(Debug, Clone, thiserror::Error)]
pub struct RunFailure {
    /// The kind of failure. `None` if the device died without reporting one.
    pub kind: Option<FailureKind>,
    /// How the device ended, if it did.
    pub death: Option<DeathCause>,
    /// Whether the user interrupted the run.
    pub interrupted: bool,
    /// The task at fault.
    pub task: Option<TaskId>,
    /// The kernel at fault.
    pub kernel: Option<&'static str>,
    /// The core at fault.
    pub core: Option<u32>,
    /// The signal of a crash.
    pub signal: Option<i32>,
    /// The faulting address of a crash.
    pub address: Option<u64>,
    /// The touched byte outside of an argument, if tensors are guarded.
    pub overrun: Option<Overrun>,
    /// The report of the sanitizer, if one watched the device.
    pub report: Option<SanitizerReport>,
    /// The message of the device.
    pub message: String,
    /// Whether the device was stopped and the host is unaffected.
    pub contained: bool,
    /// The progress of the run until then.
    pub progress: Progress,
    /// Tasks that were running when the device died, as it left them.
    pub in_flight: Vec<InFlightTask>,
}

impl RunFailure {
    /// Reads the failure from the control area.
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

    /// A run that the user interrupted.
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

    /// The name of this end in the manifest and in `--json`.
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

    /// The system call that confinement refused.
    #[must_use]
    pub fn refused_call(&self) -> Option<&'static str> {
        self.signal.filter(|&signal| signal == SIGSYS)?;
        refused_call(self.address?)
    }

    fn site(&self) -> FailureSite {
        FailureSite { kernel: self.kernel, task: self.task, core: self.core }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (site, message) = (self.site(), &self.message);
        match self.kind {
            _ if self.interrupted => write!(f, "{message}"),
            Some(FailureKind::Signal) if self.refused_call().is_some() => {
                let call = self.refused_call().unwrap_or_default();
                write!(
                    f,
                    "refused in {site}: confinement forbids the system call {call}, which the kernel made; --trust turns confinement off"
                )
            }
            _ if self.report.is_some() => {
                let headline = self.report.as_ref().map(SanitizerReport::headline).unwrap_or_default();
                write!(f, "sanitizer report in {site}: {headline}")?;
                self.overrun.map_or(Ok(()), |overrun| write!(f, ", {overrun}"))
            }
            Some(FailureKind::Signal) => {
                let death = DeathCause { signal: self.signal, code: None };
                write!(f, "crash in {site}: the device {death}")?;
                // An abort has no address.
                self.address
                    .filter(|&a| a != 0)
                    .map_or(Ok(()), |address| write!(f, ", at address {address:#x}"))?;
                self.overrun.map_or(Ok(()), |overrun| write!(f, ", {overrun}"))
            }
            Some(FailureKind::Overrun) => write!(f, "overrun in {site}: {message}"),
            Some(FailureKind::Exit) => {
                write!(f, "exit in {site}: it ended the device instead of returning")?;
                let code = self.death.and_then(|death| death.code);
                code.map_or(Ok(()), |code| write!(f, ", with code {code}"))
            }
            Some(FailureKind::Panic) => write!(f, "failure in {site}: {message}"),
            Some(FailureKind::Stall) if self.core.is_none() => write!(f, "the run hangs: {message}"),
            Some(FailureKind::Stall) => write!(f, "hang in {site}: {message}"),
            Some(FailureKind::GraphDeadlock) => write!(f, "the graph can never finish: {message}"),
            Some(FailureKind::RingDeadlock) => write!(f, "{message}"),
            Some(FailureKind::Orchestration) => write!(f, "the orchestration failed: {message}"),
            Some(FailureKind::Launch) => write!(f, "the device refused the launch: {message}"),
            None => match self.death {
                // The C library blocks signals before it starts a process, so the crash handler could not
                // record the call.
                Some(death) if death.signal == Some(SIGSYS) => write!(
                    f,
                    "the device {death}: it made a system call that confinement forbids, most likely to start a process; \
                     --trust turns confinement off"
                ),
                Some(death) => write!(f, "the device {death}"),
                None => write!(f, "the device ended for an unknown reason"),
            },
        }?;
        if self.contained {
            Ok(())
        } else {
            write!(
                f,
                " (in thread mode a hanging kernel cannot be stopped and keeps running; process mode stops it)"
            )
        }
    }
}

/// Converts a stall limit for the launch arguments, which hold milliseconds.
pub(super) fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}
