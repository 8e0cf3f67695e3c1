//! The checked content of `scene.toml`: all names are resolved and all numbers are valid.

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

/// The parameter that seeds random inputs. Every scene has it, even if it is not declared.
pub(crate) const SEED: &str = "seed";

/// A scene as described by its folder.
#[derive(Debug)]
pub struct Definition {
    /// The name.
    pub name: &'static str,
    /// One line of description.
    pub about: &'static str,
    /// Names of the supported runtimes, or `None` for all.
    pub runtimes: Option<&'static [&'static str]>,
    /// The parameters.
    pub params: &'static [ParamSpec],
    /// The tensors of the scene, followed by the intermediates of a task list.
    pub tensors: Vec<TensorDef>,
    /// The scalar arguments of the scene.
    pub scalars: Vec<(&'static str, ScalarArg)>,
    /// The kernels.
    pub kernels: Vec<KernelDecl>,
    /// The tasks, or the function that submits them.
    pub graph: GraphDef,
    /// The source of the expected outputs.
    pub golden: GoldenDef,
    /// The cases for `tensortap test`.
    pub cases: Vec<Case>,
    /// Compiler flags.
    pub(crate) build: RawBuild,
}

/// A tensor.
#[derive(Debug)]
pub struct TensorDef {
    /// The name.
    pub name: &'static str,
    /// The element type.
    pub dtype: DType,
    /// The sizes of all dimensions.
    pub shape: Vec<Expression>,
    /// The role in the scene, or `None` for an intermediate.
    pub role: Option<Role>,
    /// The content before the run.
    pub fill: Fill,
    /// The allowed difference of an output from the golden.
    pub tolerance: Option<Tolerance>,
    /// Line of its shape in the file.
    pub line: usize,
}

/// The content of a tensor before the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// Zeros.
    Zero,
    /// One value.
    Constant(f64),
    /// Start and step of a sequence.
    Range(f64, f64),
    /// Uniform random numbers: from, to, seed.
    Uniform(f64, f64, u64),
    /// Normal random numbers: mean, deviation, seed.
    Normal(f64, f64, u64),
    /// A `.npy` file.
    File(PathBuf),
}

/// A file with code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CodeFile {
    /// A C or C++ source.
    Source(PathBuf),
    /// A library that is built elsewhere.
    Library(PathBuf),
}

impl CodeFile {
    /// The path in the description.
    pub fn path(&self) -> &Path {
        match self {
            CodeFile::Source(path) | CodeFile::Library(path) => path,
        }
    }
}

/// A function in a source or library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The file.
    pub file: CodeFile,
    /// The symbol name.
    pub symbol: String,
    /// The line in the description that names it.
    pub line: usize,
}

/// A kernel.
#[derive(Debug)]
pub struct KernelDecl {
    /// The name.
    pub name: &'static str,
    /// The number.
    pub func_id: u32,
    /// The core type.
    pub core_type: CoreType,
    /// The arguments.
    pub signature: &'static [KernelArg],
    /// The declared element type of each argument, if any.
    pub dtypes: Vec<Option<DType>>,
    /// The code.
    pub code: Function,
    /// The reference function.
    pub reference: Option<Function>,
    /// The allowed difference of outputs from the reference.
    pub tolerance: Option<Tolerance>,
    /// The faults that can be injected.
    pub faults: &'static [FaultKind],
}

/// The source of the graph.
#[derive(Debug)]
pub enum GraphDef {
    /// A list of tasks.
    Tasks(Vec<TaskDef>),
    /// An orchestration function.
    Code(Function),
}

/// A task of a list.
#[derive(Debug)]
pub struct TaskDef {
    /// Indices of its kernels.
    pub kernels: Vec<usize>,
    /// The name of the task.
    pub name: Option<String>,
    /// Names of the enclosing scopes, outermost first.
    pub scope: Vec<String>,
    /// Indices of its tensors, with their roles.
    pub tensors: Vec<(usize, Role)>,
    /// Its scalars.
    pub scalars: Vec<ScalarDef>,
    /// Number of blocks.
    pub blocks: Expression,
    /// Mask of the arguments that are marked for the dump.
    pub marks: u64,
    /// Its line in the file.
    pub line: usize,
}

/// A scalar argument of a task.
#[derive(Debug)]
pub struct ScalarDef {
    /// The element type.
    pub dtype: DType,
    /// The value.
    pub value: ScalarValue,
}

/// The value of a scalar.
#[derive(Clone, Debug, PartialEq)]
pub enum ScalarValue {
    /// A floating-point number.
    Float(f64),
    /// A whole number, computed from parameters.
    Whole(Expression),
}

/// The source of the expected outputs.
#[derive(Debug)]
pub enum GoldenDef {
    /// There is no golden.
    None,
    /// A file for each output: name, path, line.
    Files(Vec<(&'static str, PathBuf, usize)>),
    /// A function over the scene's tensors.
    Code(Function),
    /// A command that writes files.
    Command(Vec<String>),
}

impl Definition {
    /// Reads a description. `path` is used in messages. `runtimes` are the existing runtimes, if known.
    ///
    /// # Errors
    ///
    /// The first mistake, with its line.
    pub fn parse(text: &str, path: &Path, runtimes: Option<&[&str]>) -> Result<Definition, Mistake> {
        let lines = Lines { path, text };
        let raw: RawScene = toml::from_str(text).map_err(|error| lines.syntax(&error))?;
        check::definition(&lines, raw, runtimes)
    }

    /// The tensors that are arguments of the scene.
    pub fn args(&self) -> impl Iterator<Item = (&TensorDef, Role)> {
        self.tensors.iter().filter_map(|tensor| Some((tensor, tensor.role?)))
    }

    /// All functions that must exist, each with a description of its use.
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
    /// The sizes of all dimensions for these parameters.
    ///
    /// # Errors
    ///
    /// The reason why the shape is invalid.
    pub fn sizes(&self, params: &dyn Fn(&str) -> Option<u64>) -> Result<Vec<u64>, String> {
        let size = |expression: &Expression| {
            let value = expression.value(params)?;
            let size = u64::try_from(value).ok().filter(|&size| size > 0 && size < 1 << 62);
            size.ok_or_else(|| format!("`{expression}` is {value}"))
        };
        let sizes: Vec<u64> = self.shape.iter().map(size).collect::<Result<_, String>>()?;
        let numel = sizes.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size));
        let bytes = numel.and_then(|numel| self.dtype.packed_bytes(numel)).filter(|&bytes| bytes < 1 << 62);
        bytes.map(|_| sizes).ok_or_else(|| "the tensor is too large".into())
    }
}

/// Looks up whole-number parameters by name.
pub(crate) fn whole(params: &Params) -> impl Fn(&str) -> Option<u64> + '_ {
    |name| params.iter().find(|(known, _)| *known == name).and_then(|(_, value)| value.parse().ok())
}

/// Looks up the defaults of whole-number parameters by name.
pub(crate) fn defaults(specs: &'static [ParamSpec]) -> impl Fn(&str) -> Option<u64> {
    move |name| {
        let spec = specs.iter().find(|spec| spec.name == name)?;
        matches!(spec.kind, ParamKind::Int { .. }).then(|| spec.default.parse().ok())?
    }
}

/// Text that lives as long as the process. Scenes are few and are never dropped.
pub(crate) fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

pub(crate) fn tolerance(raw: RawTolerance) -> Tolerance {
    Tolerance { rtol: raw.rtol, atol: raw.atol }
}

/// Finds line numbers for messages.
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

    /// A mistake at the position of a value.
    pub fn at<T>(&self, spanned: &Spanned<T>, problem: String, remedy: impl Into<String>) -> Mistake {
        self.mistake(self.of(spanned), problem, remedy)
    }

    fn syntax(&self, error: &toml::de::Error) -> Mistake {
        let line = error.span().map_or(1, |span| self.line(&span));
        let problem = error.message().trim().replace('\n', ", ");
        let remedy = match problem.contains("unknown field") {
            true => "remove the key, or use one of the expected keys",
            false => "see docs/reference/scene-toml.md for the format",
        };
        self.mistake(line, problem, remedy)
    }
}
