//! The static list of tasks.

use tensortap_abi::{ArgKind, DType, Role};
use tensortap_scene::{KernelArg, ParamSpec};
use tensortap_values::from_f64;
use toml::{Spanned, Value};

use super::check::{expression, shown};
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
        let remedy = "list tasks under [[task]], or write source = \"graph.c\" under [orchestration]";
        return Err(lines.mistake(1, "the scene submits no task".into(), remedy));
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
            Err(lines.mistake(tensor.line, problem, "give it to a task as an output, or remove it"))
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
            return Err(self.lines.mistake(
                line,
                "the task runs no kernel".into(),
                "write kernel = \"NAME\"",
            ));
        };
        if raw.args.len() != longest.signature.len() {
            let names: Vec<_> = longest.signature.iter().map(|arg| arg.name()).collect();
            let problem = format!(
                "the task gives kernel `{}` {} arguments, it takes {}",
                longest.name,
                raw.args.len(),
                names.len()
            );
            let line = raw.args.first().map_or(line, |first| self.lines.of(first));
            return Err(self.lines.mistake(
                line,
                problem,
                format!("give it, in this order: {}", names.join(", ")),
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
            let problem = format!("there is no kernel `{}`", name.get_ref());
            self.lines.at(name, problem, format!("name one of: {}", names.join(", ")))
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
        let said = first.signature[place];
        if kinds.iter().any(|kind| (*kind == ArgKind::Scalar) != (kinds[0] == ArgKind::Scalar)) {
            let problem = format!(
                "the kernels of the task do not agree on argument {place}: scalar here, tensor there"
            );
            return Err(self.lines.at(given, problem, "kernels of one task share one list of arguments"));
        }
        let dtype = takers.iter().find_map(|kernel| kernel.dtypes[place]);
        if kinds[0] == ArgKind::Scalar {
            let dtype = dtype.ok_or_else(|| {
                let problem = format!("scalar `{}` of kernel `{}` has no dtype", said.name(), first.name);
                self.lines.at(given, problem, format!("declare it: \"scalar {}: float32\"", said.name()))
            })?;
            let scalar = scalar(self.lines, dtype, given)?;
            scalar
                .bits(&defaults(self.params))
                .map_err(|why| self.lines.at(given, why, format!("write a number of {dtype}")))?;
            return Ok(Argument::Scalar(scalar));
        }
        let role = kinds.iter().filter_map(|kind| role_of(*kind)).reduce(Role::union).unwrap_or(Role::Input);
        self.tensor(first.name, said, role, dtype, given)
    }

    fn tensor(
        &self,
        kernel: &str,
        said: KernelArg,
        role: Role,
        dtype: Option<DType>,
        given: &Spanned<Value>,
    ) -> Result<Argument, Mistake> {
        let names = || self.tensors.iter().map(|tensor| tensor.name).collect::<Vec<_>>().join(", ");
        let Value::String(name) = given.get_ref() else {
            let problem = format!(
                "kernel `{kernel}` takes a tensor as `{}`, and is given {}",
                said.name(),
                shown(given.get_ref())
            );
            return Err(self.lines.at(given, problem, format!("name one of the tensors: {}", names())));
        };
        let place = self.tensors.iter().position(|tensor| tensor.name == name);
        let place = place.ok_or_else(|| {
            self.lines.at(given, format!("there is no tensor `{name}`"), format!("name one of: {}", names()))
        })?;
        let tensor = &self.tensors[place];
        if let Some(dtype) = dtype.filter(|dtype| *dtype != tensor.dtype) {
            let problem = format!(
                "kernel `{kernel}` takes {dtype} as `{}`, and tensor `{name}` is {}",
                said.name(),
                tensor.dtype
            );
            return Err(self.lines.at(given, problem, "give it a tensor of that dtype, or declare another"));
        }
        if role.writes() && tensor.role == Some(Role::Input) {
            let problem = format!(
                "kernel `{kernel}` writes `{}`, and tensor `{name}` is an input of the scene",
                said.name()
            );
            return Err(self.lines.at(
                given,
                problem,
                "make the tensor's role `inout`, or the argument's `in`",
            ));
        }
        Ok(Argument::Tensor(place, role))
    }

    /// An intermediate, or an output of the scene, has no content until a task has written it.
    fn check_reads(&self, task: &TaskDef, before: &[TaskDef]) -> Result<(), Mistake> {
        for &(place, role) in &task.tensors {
            let tensor = &self.tensors[place];
            let is_filled = tensor.role.is_some_and(Role::reads);
            let is_written =
                before.iter().any(|t| t.tensors.iter().any(|&(at, r)| at == place && r.writes()));
            if role == Role::Input && !is_filled && !is_written {
                let problem =
                    format!("the task reads tensor `{}`, which no task above it writes", tensor.name);
                return Err(self.lines.mistake(task.line, problem, "put the task that writes it first"));
            }
        }
        Ok(())
    }

    fn check_blocks(
        &self,
        blocks: &Expression,
        said: Option<&Spanned<Value>>,
        line: usize,
    ) -> Result<(), Mistake> {
        let value = blocks.value(&defaults(self.params));
        let is_good = value.as_ref().is_ok_and(|value| (1..=i128::from(u32::MAX)).contains(value));
        let problem = || value.map_or_else(|why| why, |value| format!("the task has {value} blocks"));
        let line = said.map_or(line, |said| self.lines.of(said));
        if is_good { Ok(()) } else { Err(self.lines.mistake(line, problem(), "give it 1 block or more")) }
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
                format!("{} marks nothing", shown(dump.get_ref())),
                "write dump = true, or dump = [0, 2] for some arguments",
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

/// A scalar as it is written: a number, or for whole numbers an expression.
pub fn scalar(lines: &Lines<'_>, dtype: DType, given: &Spanned<Value>) -> Result<ScalarDef, Mistake> {
    let value = match given.get_ref() {
        Value::Float(number) if dtype.is_float() => ScalarValue::Float(*number),
        Value::Boolean(is) if dtype == DType::Bool => ScalarValue::Whole(Expression::Number(i128::from(*is))),
        Value::Integer(_) | Value::String(_) => ScalarValue::Whole(expression(lines, given)?),
        other => {
            let problem = format!("{} is no scalar of {dtype}", shown(other));
            return Err(lines.at(
                given,
                problem,
                "write a number, or for whole numbers \"n * 2\" with parameters",
            ));
        }
    };
    Ok(ScalarDef { dtype, value })
}

impl ScalarDef {
    /// Its bits, zero-extended.
    ///
    /// # Errors
    /// Why there are none.
    pub fn bits(&self, param: &dyn Fn(&str) -> Option<u64>) -> Result<u64, String> {
        let dtype = self.dtype;
        match &self.value {
            ScalarValue::Float(number) => Ok(from_f64(dtype, *number)),
            ScalarValue::Whole(expression) => {
                let value = expression.value(param)?;
                if dtype.is_float() {
                    #[expect(clippy::cast_precision_loss, reason = "the nearest is meant")]
                    return Ok(from_f64(dtype, value as f64));
                }
                whole_bits(dtype, value).ok_or_else(|| format!("{value} does not fit {dtype}"))
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
