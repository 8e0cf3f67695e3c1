//! Checks `scene.toml`, in the order of the file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tensortap_abi::{DType, MAX_DIMS, Role};
use tensortap_scene::{Case, FaultKind, ParamKind, ParamSpec, Params, ScalarArg};
use toml::{Spanned, Value};

use super::{
    CodeFile, Definition, Fill, Function, GoldenDef, GraphDef, KernelDecl, Lines, SEED, TaskDef, TensorDef,
    defaults, kernels, leak, tasks, tolerance,
};
use crate::Mistake;
use crate::expression::Expression;
use crate::raw::{RawCase, RawFill, RawGolden, RawParam, RawScalar, RawScene, RawTensor};

const ENTRY: &str = "kernel_entry";

pub fn definition(
    lines: &Lines<'_>,
    raw: RawScene,
    runtimes: Option<&[&str]>,
) -> Result<Definition, Mistake> {
    let name = name(lines, raw.name.as_ref())?;
    let named = raw.runtimes.as_deref();
    let of_scene = named.map(|named| names_of_runtimes(lines, named, runtimes)).transpose()?;
    let params = params(lines, raw.params)?;
    let tensors = tensors(lines, raw.tensor, params)?;
    let scalars = scalars(lines, raw.scalar, params)?;
    if raw.kernel.is_empty() {
        return Err(lines.mistake(1, "the scene has no kernels".into(), "add one under [[kernel]]"));
    }
    let mut kernels = kernels::kernels(lines, raw.kernel)?;
    let graph = match (raw.orchestration, raw.task) {
        (Some(code), tasks) if tasks.is_empty() => {
            if let Some(temp) = tensors.iter().find(|tensor| tensor.role.is_none()) {
                let problem =
                    format!("tensor `{}` is an intermediate, but the orchestration is code", temp.name);
                return Err(lines.mistake(
                    temp.line,
                    problem,
                    "create the tensor in the orchestration with tt_tensor_new",
                ));
            }
            GraphDef::Code(source_function(lines, &code.source, code.symbol.as_ref(), "orchestrate"))
        }
        (Some(code), _) => {
            let problem = "the scene has both an orchestration and a list of tasks".to_owned();
            return Err(lines.at(
                &code.source,
                problem,
                "keep either [orchestration] or the [[task]] entries",
            ));
        }
        (None, tasks) => GraphDef::Tasks(tasks::tasks(lines, tasks, &tensors, &kernels, params)?),
    };
    if let GraphDef::Tasks(tasks) = &graph {
        remove_ineffective_races(&mut kernels, tasks);
    }
    let golden = golden(lines, raw.golden, &tensors)?;
    let mut cases: Vec<Case> = Vec::new();
    for raw in raw.case {
        let line = lines.of(&raw);
        let case = self::case(lines, raw.into_inner(), params, &tensors)?;
        if cases.iter().any(|known| known.name == case.name) {
            let problem = format!("two cases have the name `{}`", case.name);
            return Err(lines.mistake(line, problem, "rename one of them"));
        }
        cases.push(case);
    }
    let definition = Definition {
        name: leak(&name),
        about: leak(raw.about.trim()),
        runtimes: of_scene.map(|names| &*Vec::leak(names)),
        params,
        tensors,
        scalars,
        kernels,
        graph,
        golden,
        cases,
        build: raw.build,
    };
    Ok(definition)
}

/// Removes the race fault from kernels whose output no task reads, because a race there has no effect.
fn remove_ineffective_races(kernels: &mut [KernelDecl], tasks: &[TaskDef]) {
    for (place, kernel) in kernels.iter_mut().enumerate() {
        let waited_for = (0..tasks.len()).any(|at| {
            let is_read = |&(tensor, role): &(usize, Role)| {
                let reads = |task: &TaskDef| task.tensors.iter().any(|&(t, r)| t == tensor && r.reads());
                role.writes() && tasks[at + 1..].iter().any(reads)
            };
            tasks[at].kernels.contains(&place) && tasks[at].tensors.iter().any(is_read)
        });
        if !waited_for {
            let left: Vec<FaultKind> =
                kernel.faults.iter().copied().filter(|kind| *kind != FaultKind::Race).collect();
            kernel.faults = Vec::leak(left);
        }
    }
}

/// The name of the scene, which dumps and the command line use.
fn name(lines: &Lines<'_>, given: Option<&Spanned<String>>) -> Result<String, Mistake> {
    let Some(given) = given else {
        let folder = lines.path.parent().and_then(|folder| folder.file_name());
        return Ok(folder.map_or_else(|| "scene".into(), |name| name.to_string_lossy().into_owned()));
    };
    let name = given.get_ref();
    let is_good = (1..=64).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c == '/');
    is_good.then(|| name.clone()).ok_or_else(|| {
        lines.at(
            given,
            format!("`{name}` is not a valid scene name"),
            "use 1 to 64 bytes, without `/` and control characters",
        )
    })
}

fn names_of_runtimes(
    lines: &Lines<'_>,
    named: &[Spanned<String>],
    known: Option<&[&str]>,
) -> Result<Vec<&'static str>, Mistake> {
    let name = |named: &Spanned<String>| match known {
        Some(known) if !known.contains(&named.get_ref().as_str()) => {
            let problem = format!("unknown runtime `{}`", named.get_ref());
            Err(lines.at(named, problem, format!("choose from: {}", known.join(", "))))
        }
        _ => Ok(leak(named.get_ref())),
    };
    named.iter().map(name).collect()
}

fn params(
    lines: &Lines<'_>,
    raw: BTreeMap<Spanned<String>, RawParam>,
) -> Result<&'static [ParamSpec], Mistake> {
    let mut specs = Vec::new();
    for (name, param) in raw {
        specs.push(self::param(lines, &name, &param)?);
    }
    if !specs.iter().any(|spec| spec.name == SEED) {
        specs.push(ParamSpec::int(SEED, "1", 0, u64::MAX, "seed of the random inputs"));
    }
    Ok(Vec::leak(specs))
}

fn param(lines: &Lines<'_>, name: &Spanned<String>, raw: &RawParam) -> Result<ParamSpec, Mistake> {
    let default = match raw.default.get_ref() {
        Value::Integer(number) => number.to_string(),
        Value::String(word) => word.clone(),
        other => {
            let problem = format!(
                "the default of parameter `{}` is neither a whole number nor a string: {}",
                name.get_ref(),
                describe_value(other)
            );
            return Err(lines.at(
                &raw.default,
                problem,
                "write a whole number of at least 0, or one of `choices`",
            ));
        }
    };
    let kind = match &raw.choices {
        Some(words) => {
            let words: Vec<&'static str> = words.iter().map(|word| leak(word)).collect();
            ParamKind::Choice(Vec::leak(words))
        }
        None => ParamKind::Int { min: raw.min.unwrap_or(0), max: raw.max.unwrap_or(u64::MAX) },
    };
    let spec =
        ParamSpec { name: leak(name.get_ref()), about: leak(&raw.about), default: leak(&default), kind };
    Params::resolve("", &[spec], [(spec.name, spec.default)]).map_err(|_| {
        let remedy = match spec.kind {
            ParamKind::Int { min, max } => format!("write a whole number from {min} to {max}"),
            ParamKind::Choice(words) => format!("write one of {}", words.join(", ")),
        };
        lines.at(&raw.default, format!("invalid default `{default}` of parameter `{}`", spec.name), remedy)
    })?;
    Ok(spec)
}

fn tensors(
    lines: &Lines<'_>,
    raw: Vec<Spanned<RawTensor>>,
    params: &'static [ParamSpec],
) -> Result<Vec<TensorDef>, Mistake> {
    let mut tensors: Vec<TensorDef> = Vec::new();
    for tensor in raw {
        let tensor = tensor.into_inner();
        let name = tensor.name.get_ref();
        if tensors.iter().any(|known| known.name == name) {
            return Err(lines.at(
                &tensor.name,
                format!("two tensors have the name `{name}`"),
                "rename one of them",
            ));
        }
        tensors.push(self::tensor(lines, &tensor, params)?);
    }
    // Arguments of the scene come first, because their index is their argument index.
    tensors.sort_by_key(|tensor| tensor.role.is_none());
    Ok(tensors)
}

fn tensor(lines: &Lines<'_>, raw: &RawTensor, params: &'static [ParamSpec]) -> Result<TensorDef, Mistake> {
    let name = raw.name.get_ref();
    let dtype = dtype(lines, &raw.dtype)?;
    let role = match raw.role.get_ref().as_str() {
        "in" => Some(Role::Input),
        "out" => Some(Role::Output),
        "inout" => Some(Role::InOut),
        "temp" => None,
        other => {
            let problem = format!("tensor `{name}` has the unknown role `{other}`");
            return Err(lines.at(
                &raw.role,
                problem,
                "write `in`, `out`, `inout`, or `temp` for an intermediate",
            ));
        }
    };
    let shape: Vec<Expression> =
        raw.shape.get_ref().iter().map(|size| expression(lines, size)).collect::<Result<_, _>>()?;
    if shape.is_empty() || shape.len() > MAX_DIMS {
        let problem = format!("tensor `{name}` has {} dimensions", shape.len());
        return Err(lines.at(&raw.shape, problem, format!("use 1 to {MAX_DIMS}")));
    }
    let is_filled = role.is_some_and(Role::reads);
    let fill = match &raw.fill {
        Some(fill) if is_filled => self::fill(lines, fill)?,
        Some(fill) => {
            let problem =
                format!("tensor `{name}` has a fill, but the graph does not read it before writing it");
            return Err(lines.at(fill, problem, "remove `fill`, or change the role to `in` or `inout`"));
        }
        None => Fill::Zero,
    };
    let line = lines.of(&raw.shape);
    let tolerance = raw.tolerance.map(tolerance);
    let tensor = TensorDef { name: leak(name), dtype, shape, role, fill, tolerance, line };
    tensor.sizes(&defaults(params)).map_err(|why| {
        let problem = format!("tensor `{name}` has no valid shape with the default parameters: {why}");
        lines.mistake(
            line,
            problem,
            "sizes must be whole numbers of at least 1; use parameters under [params], numbers, + - * / %",
        )
    })?;
    Ok(tensor)
}

pub fn dtype(lines: &Lines<'_>, raw: &Spanned<String>) -> Result<DType, Mistake> {
    let name = raw.get_ref();
    DType::parse(name).ok_or_else(|| {
        let names: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        lines.at(raw, format!("unknown dtype `{name}`"), format!("write one of {}", names.join(", ")))
    })
}

/// A value in the notation of the file, for messages.
pub fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(is) => is.to_string(),
        Value::Datetime(_) => "a date".into(),
        Value::Array(_) => "a list".into(),
        Value::Table(_) => "a table".into(),
    }
}

pub fn expression(lines: &Lines<'_>, raw: &Spanned<Value>) -> Result<Expression, Mistake> {
    let parsed = match raw.get_ref() {
        Value::Integer(number) => Ok(Expression::Number(i128::from(*number))),
        Value::String(text) => Expression::parse(text),
        other => Err(format!("{} is not a size", describe_value(other))),
    };
    parsed.map_err(|why| {
        lines.at(
            raw,
            why,
            "write a whole number, or an expression such as \"n * 2\" with parameters of the scene",
        )
    })
}

fn fill(lines: &Lines<'_>, raw: &Spanned<RawFill>) -> Result<Fill, Mistake> {
    let RawFill { uniform, normal, range, constant, file, seed } = raw.get_ref();
    let seed = seed.unwrap_or(0);
    let fills = [
        uniform.map(|[from, to]| Fill::Uniform(from, to, seed)),
        normal.map(|[mean, deviation]| Fill::Normal(mean, deviation, seed)),
        range.map(|[start, step]| Fill::Range(start, step)),
        constant.map(Fill::Constant),
        file.as_ref().map(|file| Fill::File(PathBuf::from(file.get_ref()))),
    ];
    let mut given = fills.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(fill), None) => Ok(fill),
        _ => Err(lines.at(
            raw,
            "a fill must have exactly one key besides `seed`".into(),
            "write one of uniform = [from, to], normal = [mean, deviation], range = [start, step], constant = x, file = \"x.npy\"",
        )),
    }
}

fn scalars(
    lines: &Lines<'_>,
    raw: Vec<Spanned<RawScalar>>,
    params: &'static [ParamSpec],
) -> Result<Vec<(&'static str, ScalarArg)>, Mistake> {
    let scalar = |raw: Spanned<RawScalar>| {
        let raw = raw.into_inner();
        let scalar = tasks::scalar(lines, dtype(lines, &raw.dtype)?, &raw.value)?;
        let bits = scalar
            .bits(&defaults(params))
            .map_err(|why| lines.at(&raw.value, why, "write a value of that dtype"))?;
        Ok((leak(raw.name.get_ref()), ScalarArg { bits, dtype: scalar.dtype }))
    };
    raw.into_iter().map(scalar).collect()
}

pub fn source_function(
    lines: &Lines<'_>,
    source: &Spanned<String>,
    symbol: Option<&Spanned<String>>,
    default: &str,
) -> Function {
    let line = symbol.map_or_else(|| lines.of(source), |symbol| lines.of(symbol));
    let symbol = symbol.map_or_else(|| default.to_owned(), |symbol| symbol.get_ref().clone());
    Function { file: CodeFile::Source(source.get_ref().into()), symbol, line }
}

pub fn kernel_symbol(symbol: Option<&Spanned<String>>) -> String {
    symbol.map_or_else(|| ENTRY.to_owned(), |symbol| symbol.get_ref().clone())
}

fn golden(
    lines: &Lines<'_>,
    raw: Option<Spanned<RawGolden>>,
    tensors: &[TensorDef],
) -> Result<GoldenDef, Mistake> {
    let Some(raw) = raw else { return Ok(GoldenDef::None) };
    let one = |problem: &str| {
        lines.at(
            &raw,
            problem.into(),
            "write one of files = { y = \"y.npy\" }, source = \"golden.c\", command = [..]",
        )
    };
    let RawGolden { files, source, symbol, command } = raw.get_ref();
    match (files, source, command) {
        (Some(files), None, None) if !files.is_empty() => {
            let file = |(output, file): (&Spanned<String>, &Spanned<String>)| {
                let name = output.get_ref();
                let found = tensors.iter().find(|t| t.name == name && t.role.is_some_and(Role::writes));
                let found = found.ok_or_else(|| {
                    lines.at(
                        output,
                        format!("the scene has no output `{name}`"),
                        "use the name of an `out` or `inout` tensor",
                    )
                })?;
                Ok((found.name, PathBuf::from(file.get_ref()), lines.of(file)))
            };
            Ok(GoldenDef::Files(files.iter().map(file).collect::<Result<_, Mistake>>()?))
        }
        (None, Some(source), None) => {
            Ok(GoldenDef::Code(source_function(lines, source, symbol.as_ref(), "golden")))
        }
        (None, None, Some(command)) if !command.get_ref().is_empty() => {
            Ok(GoldenDef::Command(command.get_ref().clone()))
        }
        (None, None, None) => Err(one("the golden is empty")),
        _ => Err(one("the golden must have exactly one source, and it must not be empty")),
    }
}

fn case(
    lines: &Lines<'_>,
    raw: RawCase,
    specs: &'static [ParamSpec],
    tensors: &[TensorDef],
) -> Result<Case, Mistake> {
    let mut case = Case::new(raw.name.get_ref());
    for (name, value) in raw.params {
        let text = match value.get_ref() {
            Value::String(word) => word.clone(),
            other => describe_value(other),
        };
        Params::resolve("", specs, [(name.get_ref().as_str(), text.as_str())]).map_err(|error| {
            let problem =
                format!("case `{}`: {}", case.name, error.to_string().replace("scene ``", "the scene"));
            lines.at(&value, problem, "use a parameter and a value that [params] allows")
        })?;
        case.params.push((name.into_inner(), text));
    }
    case.params.extend(raw.seed.map(|seed| (SEED.to_owned(), seed.to_string())));
    for (output, raw) in raw.tolerances {
        let name = output.get_ref();
        if !tensors.iter().any(|tensor| tensor.name == name && tensor.role.is_some_and(Role::writes)) {
            let problem = format!("case `{}`: the scene has no output `{name}`", case.name);
            return Err(lines.at(&output, problem, "use the name of an `out` or `inout` tensor"));
        }
        case.tolerances.push((name.clone(), tolerance(raw)));
    }
    Ok(case)
}
