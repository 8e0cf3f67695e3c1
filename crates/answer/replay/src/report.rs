use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tensortap_abi::{DType, KernelAbi, Role, TaskId};
use tensortap_format::GoldenVerdict;
use tensortap_judge::Verdict;
use tensortap_platform::Confinement;

/// Fidelity of an argument to the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// Completely as captured.
    Exact,
    /// Captured only partly. The rest is zero or not compared.
    Partial,
    /// Replaced on purpose.
    Overridden,
    /// Not captured. Zeros are passed, or nothing is compared.
    Zero,
}

impl Grade {
    /// Every grade, best first.
    pub const ALL: [Grade; 4] = [Grade::Exact, Grade::Partial, Grade::Overridden, Grade::Zero];

    /// Spelled as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Grade::Exact => "exact",
            Grade::Partial => "partial",
            Grade::Overridden => "overridden",
            Grade::Zero => "zero",
        }
    }
}

/// One argument of a replayed task.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgReport {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Direction; `None` for a scalar.
    pub role: Option<Role>,
    /// Fidelity grade.
    pub grade: Grade,
    /// Why it is not exact.
    pub reason: Option<String>,
}

/// What outputs are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The captured outputs. Passing means that the task reproduces them, right or wrong.
    Captured,
    /// The references of its kernels, run on the same inputs. Passing means that the task is right.
    Reference,
    /// The reference outputs stored in a case.
    CaseReference,
}

impl Check {
    /// Spelled as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Check::Captured => "captured",
            Check::Reference => "reference",
            Check::CaseReference => "case_reference",
        }
    }
}

/// A differing element.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Index in row-major order.
    pub element: u64,
    /// Index along each axis.
    pub coordinate: Vec<u64>,
    /// Value in the replay.
    pub here: String,
    /// Expected value, rounded to the element type.
    pub expected: String,
}

/// Comparison of one output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputReport {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Element type.
    pub dtype: DType,
    /// Number of compared elements. For a single dispatch: those it changed.
    pub compared: u64,
    /// Number of elements.
    pub elements: u64,
    /// Number of compared elements with different bits. A reference is rounded first.
    pub different: u64,
    /// Number of compared elements outside the rule.
    pub outside: u64,
    /// Largest absolute difference. NaN if only one of two values is finite, or if both are non-finite and
    /// differ.
    pub max_abs_err: f64,
    /// The first element that differs from the captured one, or the worst element outside the rule of a
    /// reference.
    pub first: Option<Difference>,
}

impl OutputReport {
    /// Whether something was compared and every bit is equal. An empty output counts as compared.
    pub fn bitexact(&self) -> bool {
        self.any_compared() && self.different == 0
    }

    /// Whether the compared elements are within the rule. Unknown if nothing was compared although there are
    /// elements.
    pub fn verdict(&self) -> Verdict {
        match self.outside {
            0 if self.any_compared() => Verdict::Within,
            0 => Verdict::Unknown,
            _ => Verdict::Outside,
        }
    }

    fn any_compared(&self) -> bool {
        self.compared > 0 || self.elements == 0
    }
}

/// Outcome of one task.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Every output equals the captured one bit by bit.
    BitExact,
    /// Every output is within its rule: on another platform, or against references.
    WithinRule,
    /// It ran, but its outputs cannot be checked, with the reason.
    Unchecked(String),
    /// It produced different outputs or did not complete, with a description.
    Failed(String),
    /// It was not run, with the reason.
    Refused(String),
}

impl Outcome {
    /// Spelled as in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Outcome::BitExact => "bitexact",
            Outcome::WithinRule => "within_rule",
            Outcome::Unchecked(_) => "unchecked",
            Outcome::Failed(_) => "failed",
            Outcome::Refused(_) => "refused",
        }
    }

    /// The reason or description, if there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::BitExact | Outcome::WithinRule => None,
            Outcome::Unchecked(reason) | Outcome::Failed(reason) | Outcome::Refused(reason) => Some(reason),
        }
    }

    /// Whether outputs were compared and matched.
    pub const fn passed(&self) -> bool {
        matches!(self, Outcome::BitExact | Outcome::WithinRule)
    }
}

/// Where the arguments were placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// At their captured addresses.
    Captured,
    /// At other addresses, with adjusted descriptors.
    Relocated,
}

impl Placement {
    /// Spelled as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Placement::Captured => "captured",
            Placement::Relocated => "relocated",
        }
    }
}

/// Times of the runs of a task.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Timing {
    /// Time of the longest kernel in each run, measured around its call.
    pub kernel: Vec<Duration>,
    /// Time of each launch, measured on the host.
    pub launch: Vec<Duration>,
}

/// Report of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport {
    /// The case, if several are replayed.
    pub case: Option<String>,
    /// Step of the run; 0 if the dump has no steps.
    pub step: u32,
    /// The task id.
    pub task_id: u64,
    /// Kernel names by slot.
    pub kernels: Vec<String>,
    /// Path of its scope, if it has one.
    pub scope: Option<String>,
    /// Name given by the orchestration.
    pub task_name: Option<String>,
    /// What its outputs were compared with.
    pub check: Check,
    /// The outcome.
    pub outcome: Outcome,
    /// Where its arguments were placed; `None` if it was not run.
    pub placement: Option<Placement>,
    /// Its arguments.
    pub args: Vec<ArgReport>,
    /// Comparison of its outputs, from the first failing run or else the last run.
    pub outputs: Vec<OutputReport>,
    /// Number of completed runs.
    pub runs: u32,
    /// Number of distinct results. More than one means nondeterminism.
    pub distinct_results: u32,
    /// Times, with `--bench`.
    pub timing: Option<Timing>,
    /// Report of the sanitizer that ended the task.
    pub sanitizer: Option<String>,
}

impl TaskReport {
    /// An empty report.
    pub(crate) fn unknown(case: Option<String>, check: Check) -> TaskReport {
        TaskReport {
            case,
            check,
            step: 0,
            task_id: 0,
            kernels: Vec::new(),
            scope: None,
            task_name: None,
            outcome: Outcome::Refused("it was not run".into()),
            placement: None,
            args: Vec::new(),
            outputs: Vec::new(),
            runs: 0,
            distinct_results: 0,
            timing: None,
            sanitizer: None,
        }
    }

    /// Name for messages.
    pub fn name(&self) -> String {
        let step = if self.step == 0 { String::new() } else { format!("step {}, ", self.step) };
        let task = format!("{step}task {}", TaskId(self.task_id));
        let task = self.case.as_ref().map_or(task.clone(), |case| format!("{case} ({task})"));
        format!("{task}, {}", self.kernels.join("+"))
    }

    /// The worst grade of its arguments.
    pub fn grade(&self) -> Grade {
        self.args.iter().map(|arg| arg.grade).max().unwrap_or(Grade::Exact)
    }

    /// Whether runs of the task gave different results.
    pub fn nondeterministic(&self) -> bool {
        self.distinct_results > 1
    }
}

/// A kernel from a library that the user or a case named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryKernel {
    /// The kernel.
    pub name: String,
    /// The library.
    pub library: PathBuf,
    /// Symbol of its entry.
    pub symbol: String,
    /// Identifies the build of the library.
    pub build_id: String,
    /// ABI of its arguments.
    pub abi: KernelAbi,
    /// Set if it comes from a case: the build id in the case.
    pub of_case: Option<String>,
}

/// Report of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// Path of the dump or case.
    pub source: String,
    /// Scenes of the kernels that ran.
    pub scenes: Vec<String>,
    /// Platforms of the captures.
    pub captured_on: Vec<String>,
    /// Platforms of the replay: the requested one, or else one per captured platform.
    pub replayed_on: Vec<String>,
    /// The fault injected in the captured run, `KERNEL=KIND`; `None` for several cases.
    pub inject_fault: Option<String>,
    /// Verdict of the captured run's own golden; `None` if unknown.
    pub golden: Option<GoldenVerdict>,
    /// Whether a dump was replayed. Cases do not have the golden's verdict.
    pub of_dump: bool,
    /// Whether its kernels can have references. Kernels of scenes can; launches of programs cannot.
    pub has_references: bool,
    /// Every task, in capture order.
    pub tasks: Vec<TaskReport>,
    /// Notes for the user, such as kernels built from different code.
    pub notes: Vec<String>,
    /// Kernels from libraries.
    pub library_kernels: Vec<LibraryKernel>,
    /// Confinement of the devices; `None` if nothing ran.
    pub confinement: Option<Confinement>,
    /// Whether inexact arguments were allowed.
    pub allow_inexact: bool,
    /// Whether it was canceled before all tasks were replayed.
    pub interrupted: bool,
    /// Total time.
    pub wall: Duration,
}

impl ReplayReport {
    /// Counts the tasks with a matching outcome.
    pub fn count(&self, is: impl Fn(&Outcome) -> bool) -> usize {
        self.tasks.iter().filter(|task| is(&task.outcome)).count()
    }

    /// Whether something was compared and no task failed, was refused or was nondeterministic. Unchecked
    /// tasks pass if inexact arguments are allowed.
    pub fn passed(&self) -> bool {
        let good = |task: &TaskReport| match task.outcome {
            Outcome::BitExact | Outcome::WithinRule => !task.nondeterministic(),
            Outcome::Unchecked(_) => self.allow_inexact,
            Outcome::Failed(_) | Outcome::Refused(_) => false,
        };
        self.tasks.iter().all(good) && self.count(Outcome::passed) > 0
    }

    /// Whether nothing was compared although nothing failed: an empty selection, or tasks with unknown
    /// outputs.
    pub fn nothing_compared(&self) -> bool {
        self.count(Outcome::passed) == 0
            && self
                .tasks
                .iter()
                .all(|task| matches!(task.outcome, Outcome::Unchecked(_)) && self.allow_inexact)
    }
}
