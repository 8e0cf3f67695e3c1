use std::path::PathBuf;
use std::time::Duration;

use tensortap_abi::{DType, KernelAbi, Role, TaskId};
use tensortap_format::GoldenVerdict;
use tensortap_judge::Verdict;
use tensortap_platform::Confinement;

/// How true an argument is to the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// All of it as captured.
    Exact,
    /// Only a part was captured; the rest is zero, or not compared.
    Partial,
    /// Replaced by something else on purpose.
    Overridden,
    /// Nothing was captured; zeros in its place, or nothing to compare with.
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
    /// How true it is to the capture.
    pub grade: Grade,
    /// Why it is not exact.
    pub reason: Option<String>,
}

/// What outputs are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// What the task wrote when it was captured: to pass is to do the same again, right or wrong.
    Captured,
    /// What the references of its kernels make of the same inputs: to pass is to be right.
    Reference,
    /// The same, as a case keeps it.
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

/// An element that is not what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Place in row-major order.
    pub element: u64,
    /// The same, axis by axis.
    pub coordinate: Vec<u64>,
    /// Value here.
    pub here: String,
    /// What it should be, rounded to the element type.
    pub expected: String,
}

/// One output held against what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputReport {
    /// Position among the task's arguments.
    pub arg_index: u16,
    /// Element type.
    pub dtype: DType,
    /// Elements compared; of a single dispatch, those it wrote.
    pub compared: u64,
    /// Elements there are.
    pub elements: u64,
    /// Of the compared ones, those with other bits; a reference is rounded for that.
    pub different: u64,
    /// Of the compared ones, those outside the rule.
    pub outside: u64,
    /// Greatest absolute difference; NaN where only one of two values is finite, or both are not and differ.
    pub max_abs_err: f64,
    /// The first element with other bits than captured; the worst outside the rule of a reference.
    pub first: Option<Difference>,
}

impl OutputReport {
    /// Something was compared, unless there is nothing, and every bit is the same.
    pub fn bitexact(&self) -> bool {
        self.any_compared() && self.different == 0
    }

    /// Whether what was compared is within the rule; unknown when nothing was, although there is something.
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

/// What came of one task.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Every output has the captured bits.
    BitExact,
    /// Every output is within its rule, on another platform or of a reference.
    WithinRule,
    /// It ran, and there is nothing to hold its outputs against; why.
    Unchecked(String),
    /// It ran and came out otherwise, or did not come to its end; how.
    Failed(String),
    /// It was not run; why.
    Refused(String),
}

impl Outcome {
    /// One word.
    pub const fn name(&self) -> &'static str {
        match self {
            Outcome::BitExact => "bitexact",
            Outcome::WithinRule => "within_rule",
            Outcome::Unchecked(_) => "unchecked",
            Outcome::Failed(_) => "failed",
            Outcome::Refused(_) => "refused",
        }
    }

    /// Why it is not simply good.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Outcome::BitExact | Outcome::WithinRule => None,
            Outcome::Unchecked(reason) | Outcome::Failed(reason) | Outcome::Refused(reason) => Some(reason),
        }
    }

    /// Whether outputs were compared and found good.
    pub const fn passed(&self) -> bool {
        matches!(self, Outcome::BitExact | Outcome::WithinRule)
    }
}

/// Where the arguments lay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// At their captured addresses.
    Captured,
    /// Elsewhere; descriptors were changed to follow.
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

/// How long runs of a task took.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Timing {
    /// The longest kernel of each run, measured around its call.
    pub kernel: Vec<Duration>,
    /// Each launch, from the host's side.
    pub launch: Vec<Duration>,
}

/// What came of one task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport {
    /// The case it is from, when there are several.
    pub case: Option<String>,
    /// Step of the run, 0 where the dump knows none.
    pub step: u32,
    /// Identity.
    pub task_id: u64,
    /// Kernels, slot by slot.
    pub kernels: Vec<String>,
    /// Path of its scope, where it has one.
    pub scope: Option<String>,
    /// What its orchestration calls it.
    pub task_name: Option<String>,
    /// What its outputs were held against.
    pub check: Check,
    /// What came of it.
    pub outcome: Outcome,
    /// Where its arguments lay; `None` when it was not run.
    pub placement: Option<Placement>,
    /// Its arguments.
    pub args: Vec<ArgReport>,
    /// Its outputs, as far as they were compared; of the first run that was not good, or else the last.
    pub outputs: Vec<OutputReport>,
    /// Runs that came to their end.
    pub runs: u32,
    /// Different results among them: more than one is nondeterminism.
    pub distinct_results: u32,
    /// Times, when they were to be measured.
    pub timing: Option<Timing>,
    /// What a sanitizer said when it ended the task.
    pub sanitizer: Option<String>,
}

impl TaskReport {
    /// Nothing is known yet.
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

    /// How it is named in messages.
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

    /// Whether the same task gave different results.
    pub fn nondeterministic(&self) -> bool {
        self.distinct_results > 1
    }
}

/// A kernel that was taken from a library, which the user named or a case brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenReport {
    /// The kernel.
    pub name: String,
    /// The library.
    pub library: PathBuf,
    /// Its entry.
    pub symbol: String,
    /// Tells one build of the library from another.
    pub build_id: String,
    /// How it takes its arguments.
    pub abi: KernelAbi,
    /// Set when a case brought it: the build that the case names.
    pub of_case: Option<String>,
}

/// What came of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// What was replayed.
    pub source: String,
    /// Scenes whose kernels ran.
    pub scenes: Vec<String>,
    /// Platforms it was captured on.
    pub captured_on: Vec<String>,
    /// Platform it was replayed on; one per captured platform when none was asked for.
    pub replayed_on: Vec<String>,
    /// The fault that the captured run was given on purpose, `KERNEL=KIND`; of several cases, nothing is said.
    pub inject_fault: Option<String>,
    /// What the captured run's own golden says; `None` when that is not known.
    pub golden: Option<GoldenVerdict>,
    /// Whether a dump was replayed, which knows of its run's golden; not cases.
    pub of_dump: bool,
    /// Whether its kernels may have references, as those of scenes do; launches of programs have none.
    pub has_references: bool,
    /// Every task, in the order of the capture.
    pub tasks: Vec<TaskReport>,
    /// What the user should know: kernels whose code is not the captured one, say.
    pub notes: Vec<String>,
    /// Kernels that were taken from libraries the user named.
    pub given: Vec<GivenReport>,
    /// What the devices were kept from; `None` when nothing was run.
    pub confinement: Option<Confinement>,
    /// Whether inexact arguments were allowed.
    pub allow_inexact: bool,
    /// Whether it was ended before all tasks were replayed.
    pub interrupted: bool,
    /// All of it.
    pub wall: Duration,
}

impl ReplayReport {
    /// Tasks with an outcome.
    pub fn count(&self, is: impl Fn(&Outcome) -> bool) -> usize {
        self.tasks.iter().filter(|task| is(&task.outcome)).count()
    }

    /// Whether no task failed, was refused, or gave different results, and something was compared. Tasks that nothing
    /// could be compared of are let through when inexact arguments are allowed.
    pub fn passed(&self) -> bool {
        let good = |task: &TaskReport| match task.outcome {
            Outcome::BitExact | Outcome::WithinRule => !task.nondeterministic(),
            Outcome::Unchecked(_) => self.allow_inexact,
            Outcome::Failed(_) | Outcome::Refused(_) => false,
        };
        self.tasks.iter().all(good) && self.count(Outcome::passed) > 0
    }

    /// Whether nothing was compared, though nothing went wrong either: an empty selection, or tasks whose outputs are
    /// not known.
    pub fn nothing_compared(&self) -> bool {
        self.count(Outcome::passed) == 0
            && self
                .tasks
                .iter()
                .all(|task| matches!(task.outcome, Outcome::Unchecked(_)) && self.allow_inexact)
    }
}
