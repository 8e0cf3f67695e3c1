//! Checks the list of tasks.

use tensortap_abi::{ArgKind, DType, Role};
use tensortap_scene::{KernelArg, ParamSpec};
use tensortap_values::from_f64;
use toml::{Spanned, Value};

use super::check::{describe_value, expression};
use super::{KernelDecl, Lines, ScalarDef, ScalarValue, TaskDef, TensorDef, defaults};
use crate::Mistake;
use crate::expression::Expression;
use crate::raw::RawTask;

pub fn tasks(
    lines: &Lines<'_>,
    raw: Vec<Spanned<RawTask>>,
    tensors: &[TensorDef],
    kernels: &[KernelDecl],
    params: &'static [ParamSpec],
) -> Result<Vec<TaskDef>, Mistake> {
    if raw.is_empty() {
        let remedy = "add tasks under [[task]], or set source = \"graph.c\" under [orchestration]";
        return Err(lines.mistake(1, "the scene has no tasks".into(), remedy));
    }
    let reader = Reader { lines, tensors, kernels, params };
    let mut tasks: Vec<TaskDef> = Vec::new();
    for raw in raw {
        let line = lines.of(&raw);
        let task = reader.task(raw.into_inner(), line)?;
        reader.check_reads(&task, &tasks)?;
        tasks.push(task);
    }
    let is_written =
        |place: usize| tasks.iter().any(|t| t.tensors.iter().any(|&(at, role)| at == place && role.writes()));
    let lost =
        tensors.iter().enumerate().find(|(place, t)| t.role != Some(Role::Input) && !is_written(*place));
    match lost {
        Some((_, tensor)) => {
            let problem = format!("no task writes tensor `{}`", tensor.name);
            Err(lines.mistake(
                tensor.line,
                problem,
                "add a task that writes the tensor, or remove the tensor",
            ))
        }
        None => Ok(tasks),
    }
}

struct Reader<'l, 't> {
    lines: &'l Lines<'t>,
    tensors: &'l [TensorDef],
    kernels: &'l [KernelDecl],
    params: &'static [ParamSpec],
}

impl Reader<'_, '_> {
    fn task(&self, raw: RawTask, line: usize) -> Result<TaskDef, Mistake> {
        let named: Vec<Spanned<String>> =
            raw.kernel.into_iter().chain(raw.kernels.into_iter().flatten()).collect();
        let kernels: Vec<usize> = named.iter().map(|name| self.kernel(name)).collect::<Result<_, _>>()?;
        let longest = kernels.iter().map(|&k| &self.kernels[k]).max_by_key(|kernel| kernel.signature.len());
        let Some(longest) = longest else {
            return Err(self.lines.mistake(line, "the task has no kernel".into(), "write kernel = \"NAME\""));
        };
        if raw.args.len() != longest.signature.len() {
            let names: Vec<_> = longest.signature.iter().map(|arg| arg.name()).collect();
            let problem = format!(
                "the task passes to kernel `{}` {} arguments, but the kernel takes {}",
                longest.name,
                raw.args.len(),
                names.len()
            );
            let line = raw.args.first().map_or(line, |first| self.lines.of(first));
            return Err(self.lines.mistake(
                line,
                problem,
                format!("pass, in this order: {}", names.join(", ")),
            ));
        }
        let (mut tensors, mut scalars) = (Vec::new(), Vec::new());
        for (place, given) in raw.args.iter().enumerate() {
            let takers: Vec<&KernelDecl> =
                kernels.iter().map(|&k| &self.kernels[k]).filter(|k| place < k.signature.len()).collect();
            match self.argument(&takers, place, given)? {
                Argument::Tensor(tensor, role) => tensors.push((tensor, role)),
                Argument::Scalar(scalar) => scalars.push(scalar),
            }
        }
        let blocks = raw.blocks.as_ref().map(|blocks| expression(self.lines, blocks)).transpose()?;
        let blocks = blocks.unwrap_or(Expression::Number(1));
        self.check_blocks(&blocks, raw.blocks.as_ref(), line)?;
        let marks = raw.dump.as_ref().map(|dump| self.marks(dump)).transpose()?.unwrap_or(0);
        let scope = raw.scope.unwrap_or_default();
        let scope =
            scope.split('/').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
        Ok(TaskDef { kernels, name: raw.name, scope, tensors, scalars, blocks, marks, line })
    }

    fn kernel(&self, name: &Spanned<String>) -> Result<usize, Mistake> {
        let place = self.kernels.iter().position(|kernel| kernel.name == name.get_ref());
        place.ok_or_else(|| {
            let names: Vec<_> = self.kernels.iter().map(|kernel| kernel.name).collect();
            let problem = format!("unknown kernel `{}`", name.get_ref());
            self.lines.at(name, problem, format!("choose from: {}", names.join(", ")))
        })
    }

    fn argument(
        &self,
        takers: &[&KernelDecl],
        place: usize,
        given: &Spanned<Value>,
    ) -> Result<Argument, Mistake> {
        let first = takers[0];
        let kinds: Vec<ArgKind> = takers.iter().map(|kernel| kernel.signature[place].kind()).collect();
        let declared = first.signature[place];
        if kinds.iter().any(|kind| (*kind == ArgKind::Scalar) != (kinds[0] == ArgKind::Scalar)) {
            let problem =
                format!("argument {place} is a scalar for one kernel of the task and a tensor for another");
            return Err(self.lines.at(
                given,
                problem,
                "declare it the same way in all of them, because the kernels of a task share their arguments",
            ));
        }
        let dtype = takers.iter().find_map(|kernel| kernel.dtypes[place]);
        if kinds[0] == ArgKind::Scalar {
            let dtype = dtype.ok_or_else(|| {
                let problem = format!("scalar `{}` of kernel `{}` has no dtype", declared.name(), first.name);
                self.lines.at(
                    given,
                    problem,
                    format!("declare one, for example \"scalar {}: float32\"", declared.name()),
                )
            })?;
            let scalar = scalar(self.lines, dtype, given)?;
            scalar
                .bits(&defaults(self.params))
                .map_err(|why| self.lines.at(given, why, format!("write a value of type {dtype}")))?;
            return Ok(Argument::Scalar(scalar));
        }
        let role = kinds.iter().filter_map(|kind| role_of(*kind)).reduce(Role::union).unwrap_or(Role::Input);
        self.tensor(first.name, declared, role, dtype, given)
    }

    fn tensor(
        &self,
        kernel: &str,
        declared: KernelArg,
        role: Role,
        dtype: Option<DType>,
        given: &Spanned<Value>,
    ) -> Result<Argument, Mistake> {
        let names = || self.tensors.iter().map(|tensor| tensor.name).collect::<Vec<_>>().join(", ");
        let Value::String(name) = given.get_ref() else {
            let problem = format!(
                "kernel `{kernel}` takes a tensor as `{}`, but the task passes {}",
                declared.name(),
                describe_value(given.get_ref())
            );
            return Err(self.lines.at(given, problem, format!("pass one of the tensors: {}", names())));
        };
        let place = self.tensors.iter().position(|tensor| tensor.name == name);
        let place = place.ok_or_else(|| {
            self.lines.at(given, format!("unknown tensor `{name}`"), format!("choose from: {}", names()))
        })?;
        let tensor = &self.tensors[place];
        if let Some(dtype) = dtype.filter(|dtype| *dtype != tensor.dtype) {
            let problem = format!(
                "kernel `{kernel}` takes {dtype} as `{}`, but tensor `{name}` is {}",
                declared.name(),
                tensor.dtype
            );
            return Err(self.lines.at(
                given,
                problem,
                "pass a tensor of that dtype, or change the declaration",
            ));
        }
        if role.writes() && tensor.role == Some(Role::Input) {
            let problem = format!(
                "kernel `{kernel}` writes `{}`, but tensor `{name}` is an input of the scene",
                declared.name()
            );
            return Err(self.lines.at(
                given,
                problem,
                "change the tensor's role to `inout`, or declare the argument as `in`",
            ));
        }
        Ok(Argument::Tensor(place, role))
    }

    /// Checks that the task reads no intermediate and no output before another task has written it.
    fn check_reads(&self, task: &TaskDef, before: &[TaskDef]) -> Result<(), Mistake> {
        for &(place, role) in &task.tensors {
            let tensor = &self.tensors[place];
            let is_filled = tensor.role.is_some_and(Role::reads);
            let is_written =
                before.iter().any(|t| t.tensors.iter().any(|&(at, r)| at == place && r.writes()));
            if role == Role::Input && !is_filled && !is_written {
                let problem =
                    format!("the task reads tensor `{}`, which no earlier task writes", tensor.name);
                return Err(self.lines.mistake(task.line, problem, "move the task that writes it up"));
            }
        }
        Ok(())
    }

    fn check_blocks(
        &self,
        blocks: &Expression,
        raw: Option<&Spanned<Value>>,
        line: usize,
    ) -> Result<(), Mistake> {
        let value = blocks.value(&defaults(self.params));
        let is_good = value.as_ref().is_ok_and(|value| (1..=i128::from(u32::MAX)).contains(value));
        let problem = || value.map_or_else(|why| why, |value| format!("the task has {value} blocks"));
        let line = raw.map_or(line, |raw| self.lines.of(raw));
        if is_good { Ok(()) } else { Err(self.lines.mistake(line, problem(), "use at least 1 block")) }
    }

    fn marks(&self, dump: &Spanned<Value>) -> Result<u64, Mistake> {
        let marks = match dump.get_ref() {
            Value::Boolean(true) => Some(u64::MAX),
            Value::Boolean(false) => Some(0),
            Value::Array(places) => places.iter().try_fold(0_u64, |marks, place| {
                let place = place.as_integer().filter(|place| (0..48).contains(place))?;
                Some(marks | 1 << place)
            }),
            _ => None,
        };
        marks.ok_or_else(|| {
            self.lines.at(
                dump,
                format!("{} does not select arguments", describe_value(dump.get_ref())),
                "write dump = true for all arguments, or dump = [0, 2] for some",
            )
        })
    }
}

enum Argument {
    Tensor(usize, Role),
    Scalar(ScalarDef),
}

fn role_of(kind: ArgKind) -> Option<Role> {
    match kind {
        ArgKind::In => Some(Role::Input),
        ArgKind::Out => Some(Role::Output),
        ArgKind::InOut => Some(Role::InOut),
        ArgKind::Scalar => None,
    }
}

/// Reads a scalar: a number, or an expression for whole numbers.
pub fn scalar(lines: &Lines<'_>, dtype: DType, given: &Spanned<Value>) -> Result<ScalarDef, Mistake> {
    let value = match given.get_ref() {
        Value::Float(number) if dtype.is_float() => ScalarValue::Float(*number),
        Value::Boolean(is) if dtype == DType::Bool => ScalarValue::Whole(Expression::Number(i128::from(*is))),
        Value::Integer(_) | Value::String(_) => ScalarValue::Whole(expression(lines, given)?),
        other => {
            let problem = format!("{} is not a value of type {dtype}", describe_value(other));
            return Err(lines.at(
                given,
                problem,
                "write a number, or an expression such as \"n * 2\" for whole numbers",
            ));
        }
    };
    Ok(ScalarDef { dtype, value })
}

impl ScalarDef {
    /// The bits of the value, zero-extended.
    ///
    /// # Errors
    ///
    /// The reason why the value is invalid.
    pub fn bits(&self, param: &dyn Fn(&str) -> Option<u64>) -> Result<u64, String> {
        let dtype = self.dtype;
        match &self.value {
            ScalarValue::Float(number) => Ok(from_f64(dtype, *number)),
            ScalarValue::Whole(expression) => {
                let value = expression.value(param)?;
                if dtype.is_float() {
                    #[expect(clippy::cast_precision_loss, reason = "rounds to the nearest value")]
                    return Ok(from_f64(dtype, value as f64));
                }
                whole_bits(dtype, value).ok_or_else(|| format!("{value} does not fit in {dtype}"))
            }
        }
    }
}

fn whole_bits(dtype: DType, value: i128) -> Option<u64> {
    let bits = dtype.bits();
    let is_signed = dtype.name().starts_with("int");
    let (least, most) = match (dtype, is_signed) {
        (DType::Bool, _) => (0, 1),
        (_, true) => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        (_, false) => (0, (1_i128 << bits) - 1),
    };
    let inside = (least..=most).contains(&value);
    inside.then(|| u64::try_from(value & ((1_i128 << bits) - 1)).ok())?
}
