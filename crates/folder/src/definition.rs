//! What a scene folder describes, checked: every name means something and every number can be.

mod check;
mod kernels;
mod tasks;

use std::ops::Range;
use std::path::{Path, PathBuf};

use tensortap_abi::{CoreType, DType, Role};
use tensortap_scene::{Case, FaultKind, KernelArg, ParamKind, ParamSpec, Params, ScalarArg, Tolerance};
use toml::Spanned;

use crate::Mistake;
use crate::expression::Expression;
use crate::raw::{RawBuild, RawScene, RawTolerance};

/// Parameter that seeds random inputs; every scene has it, declared or not.
pub(crate) const SEED: &str = "seed";

/// A scene as its folder describes it.
#[derive(Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// Runtimes by name; `None` for all.
    pub runtimes: Option<&'static [&'static str]>,
    /// Parameters.
    pub params: &'static [ParamSpec],
    /// Its own tensors and, behind them, intermediates of a static task list.
    pub tensors: Vec<TensorDef>,
    /// Its own scalars.
    pub scalars: Vec<(&'static str, ScalarArg)>,
    /// Kernels.
    pub kernels: Vec<KernelDecl>,
    /// What submits the tasks.
    pub graph: GraphDef,
    /// What the outputs should be.
    pub golden: GoldenDef,
    /// Cases for `tensortap test`.
    pub cases: Vec<Case>,
    /// Flags of the compiler.
    pub(crate) build: RawBuild,
}

/// A tensor.
#[derive(Debug)]
pub struct TensorDef {
    /// Name.
    pub name: &'static str,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<Expression>,
    /// Role in the scene; `None` for an intermediate.
    pub role: Option<Role>,
    /// What it holds before the run.
    pub fill: Fill,
    /// How far an output may be from the golden.
    pub tolerance: Option<Tolerance>,
    /// Line of its shape.
    pub line: usize,
}

/// What a tensor holds before the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// Zeros.
    Zero,
    /// One value.
    Constant(f64),
    /// `start`, then `step` more each time.
    Range(f64, f64),
    /// Random numbers of a range.
    Uniform(f64, f64, u64),
    /// Random numbers by mean and deviation.
    Normal(f64, f64, u64),
    /// An `.npy` file.
    File(PathBuf),
}

/// Where code is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeFile {
    /// A C or C++ source.
    Source(PathBuf),
    /// A library that somebody else builds.
    Library(PathBuf),
}

impl CodeFile {
    /// The file, as the description names it.
    pub fn path(&self) -> &Path {
        match self {
            CodeFile::Source(path) | CodeFile::Library(path) => path,
        }
    }
}

/// A function in a source or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where.
    pub file: CodeFile,
    /// Its name there.
    pub symbol: String,
    /// Line that names it.
    pub line: usize,
}

/// A kernel.
#[derive(Debug)]
pub struct KernelDecl {
    /// Name.
    pub name: &'static str,
    /// Number.
    pub func_id: u32,
    /// Type of core.
    pub core_type: CoreType,
    /// Arguments.
    pub signature: &'static [KernelArg],
    /// Element type of each argument, where it says one.
    pub dtypes: Vec<Option<DType>>,
    /// Its code.
    pub code: Function,
    /// What it should compute.
    pub reference: Option<Function>,
    /// How far outputs may be from the reference.
    pub tolerance: Option<Tolerance>,
    /// Faults that can be injected.
    pub faults: &'static [FaultKind],
}

/// What submits the tasks.
#[derive(Debug)]
pub enum GraphDef {
    /// Tasks one after the other, as the description lists them.
    Tasks(Vec<TaskDef>),
    /// A function.
    Code(Function),
}

/// A task of a static list.
#[derive(Debug)]
pub struct TaskDef {
    /// Kernels, by place.
    pub kernels: Vec<usize>,
    /// What people call it.
    pub name: Option<String>,
    /// Names of the scopes it lies in, outermost first.
    pub scope: Vec<String>,
    /// Tensors by place, with their roles.
    pub tensors: Vec<(usize, Role)>,
    /// Scalars.
    pub scalars: Vec<ScalarDef>,
    /// Blocks.
    pub blocks: Expression,
    /// Arguments that are marked for the dump.
    pub marks: u64,
    /// Its line.
    pub line: usize,
}

/// A scalar argument of a task.
#[derive(Debug)]
pub struct ScalarDef {
    /// Element type.
    pub dtype: DType,
    /// Value.
    pub value: ScalarValue,
}

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarValue {
    /// A number as it is.
    Float(f64),
    /// A whole number, computed from parameters.
    Whole(Expression),
}

/// What the outputs should be.
#[derive(Debug)]
pub enum GoldenDef {
    /// Nobody knows.
    None,
    /// Files, by output.
    Files(Vec<(&'static str, PathBuf, usize)>),
    /// A function over the scene's tensors.
    Code(Function),
    /// A command that writes files.
    Command(Vec<String>),
}

impl Definition {
    /// Reads a description. `path` is what messages call it; `runtimes` are those that exist, where that is known.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn parse(text: &str, path: &Path, runtimes: Option<&[&str]>) -> Result<Definition, Mistake> {
        let lines = Lines { path, text };
        let raw: RawScene = toml::from_str(text).map_err(|error| lines.syntax(&error))?;
        check::definition(&lines, raw, runtimes)
    }

    /// The scene's own tensors.
    pub fn args(&self) -> impl Iterator<Item = (&TensorDef, Role)> {
        self.tensors.iter().filter_map(|tensor| Some((tensor, tensor.role?)))
    }

    /// Every function that must be found, with what it is for.
    pub(crate) fn functions(&self) -> Vec<(&Function, String)> {
        let kernels = self.kernels.iter().map(|k| (&k.code, format!("kernel `{}`", k.name)));
        let references = self.kernels.iter().filter_map(|k| Some((k.reference.as_ref()?, k.name)));
        let references = references.map(|(code, name)| (code, format!("the reference of kernel `{name}`")));
        let mut functions: Vec<_> = kernels.chain(references).collect();
        if let GraphDef::Code(code) = &self.graph {
            functions.push((code, "the orchestration".into()));
        }
        if let GoldenDef::Code(code) = &self.golden {
            functions.push((code, "the golden".into()));
        }
        functions
    }
}

impl TensorDef {
    /// Sizes for these parameters.
    ///
    /// # Errors
    /// Why there is no such shape.
    pub fn sizes(&self, params: &dyn Fn(&str) -> Option<u64>) -> Result<Vec<u64>, String> {
        let size = |expression: &Expression| {
            let value = expression.value(params)?;
            let size = u64::try_from(value).ok().filter(|&size| size > 0 && size < 1 << 62);
            size.ok_or_else(|| format!("`{expression}` is {value}"))
        };
        let sizes: Vec<u64> = self.shape.iter().map(size).collect::<Result<_, String>>()?;
        let numel = sizes.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size));
        let bytes = numel.and_then(|numel| self.dtype.packed_bytes(numel)).filter(|&bytes| bytes < 1 << 62);
        bytes.map(|_| sizes).ok_or_else(|| "it has more bytes than there are addresses".into())
    }
}

/// Whole-number parameters by name.
pub(crate) fn whole(params: &Params) -> impl Fn(&str) -> Option<u64> + '_ {
    |name| params.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.parse().ok())
}

/// The same of defaults.
pub(crate) fn defaults(specs: &'static [ParamSpec]) -> impl Fn(&str) -> Option<u64> {
    move |name| {
        let spec = specs.iter().find(|spec| spec.name == name)?;
        matches!(spec.kind, ParamKind::Int { .. }).then(|| spec.default.parse().ok())?
    }
}

/// Text that lives as long as the process: scenes are few and never go away.
pub(crate) fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

pub(crate) fn tolerance(raw: RawTolerance) -> Tolerance {
    Tolerance { rtol: raw.rtol, atol: raw.atol }
}

/// Finds lines for messages.
pub(crate) struct Lines<'t> {
    path: &'t Path,
    text: &'t str,
}

impl Lines<'_> {
    pub fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text.bytes().take(span.start).filter(|&byte| byte == b'\n').count()
    }

    pub fn of<T>(&self, spanned: &Spanned<T>) -> usize {
        self.line(&spanned.span())
    }

    pub fn mistake(&self, line: usize, problem: String, remedy: impl Into<String>) -> Mistake {
        Mistake { path: self.path.to_owned(), line, problem, remedy: remedy.into() }
    }

    /// Something that is written there cannot be.
    pub fn at<T>(&self, spanned: &Spanned<T>, problem: String, remedy: impl Into<String>) -> Mistake {
        self.mistake(self.of(spanned), problem, remedy)
    }

    fn syntax(&self, error: &toml::de::Error) -> Mistake {
        let line = error.span().map_or(1, |span| self.line(&span));
        let problem = error.message().trim().replace('\n', ", ");
        let remedy = match problem.contains("unknown field") {
            true => "remove the key, or spell it as one of those",
            false => "write it as docs/scenes.md says",
        };
        self.mistake(line, problem, remedy)
    }
}
