//! Computes the expected outputs of a task in f64 with the references of its kernels.

mod last_writes;
mod quiet;
pub(crate) mod rebuilt_inputs;

use std::borrow::Cow;
use std::collections::HashMap;

use tensortap_abi::{DType, DTypeKind, Role};
use tensortap_format::{Argument, ArgumentSnapshot, Dump, FormatError, Task};
use tensortap_judge::{Content, Tolerance};
use tensortap_scene::{KernelDef, RefTask, RefTensor, ScalarArg, Scene};
use tensortap_values::{decode_block, elements_in, encode_block};

use crate::compare::{GONE, Side, record_side, unless_gone};

/// Why references could not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// The reference rejected the arguments: the capture is damaged, or from another version of the kernel.
    #[error("the reference of kernel `{kernel}` rejected the captured arguments: {why}")]
    Arguments {
        /// The kernel.
        kernel: &'static str,
        /// The reference's error.
        why: String,
    },
    /// An input or an output of the references is missing.
    #[error("{0}")]
    Content(String),
}

impl From<String> for ReferenceError {
    fn from(why: String) -> ReferenceError {
        ReferenceError::Content(why)
    }
}

/// The references of a scene's kernels.
pub struct References {
    by_name: HashMap<&'static str, &'static KernelDef>,
}

/// The expected content of one output.
pub struct ExpectedTensor {
    /// Argument index.
    pub arg_index: u16,
    /// Content, in the dtype [`ExpectedTensor::dtype`].
    pub bytes: Vec<u8>,
    /// `float64` for floats, and for 64-bit integers, which references compute in f64; else the argument's
    /// dtype.
    pub dtype: DType,
    /// Size of each axis.
    pub shape: Vec<u64>,
    /// Whether an input of the task holds NaN or an infinity. Kernel and reference may legitimately differ on
    /// those: which of two values is greater, if one is NaN, depends on the implementation.
    pub from_non_finite: bool,
}

impl ExpectedTensor {
    /// The expected content from the output of a reference.
    pub(crate) fn of(arg_index: u16, tensor: &RefTensor) -> ExpectedTensor {
        let (dtype, bytes) = encode(tensor.dtype, &tensor.values);
        let shape = tensor.shape.iter().map(|&size| size as u64).collect();
        ExpectedTensor { arg_index, bytes, dtype, shape, from_non_finite: false }
    }

    /// The expected side of a comparison.
    #[must_use]
    pub fn side(&self) -> Side<'_> {
        Side::of_bytes(self.dtype, &self.shape, self.bytes.as_slice())
    }

    /// The content as packed elements of a dtype, rounded to nearest.
    #[must_use]
    pub fn rounded(&self, dtype: DType) -> Vec<u8> {
        if dtype == self.dtype {
            return self.bytes.clone();
        }
        let mut values = vec![0.0; elements_in(self.dtype.part(), self.bytes.len())];
        decode_block(self.dtype, &self.bytes, &mut values);
        round(dtype, &values)
    }
}

impl References {
    /// The references of a scene.
    #[must_use]
    pub fn of(scene: &dyn Scene) -> References {
        References { by_name: scene.kernels().iter().map(|k| (k.name, k)).collect() }
    }

    /// The tolerances that kernels declare, by kernel name.
    #[must_use]
    pub fn tolerances(&self) -> HashMap<String, Tolerance> {
        self.by_name.values().filter_map(|k| Some((k.name.to_string(), k.tolerance?))).collect()
    }

    /// Runs a task's references on its captured inputs. The kernels of a mix task run in slot order. A
    /// reference covers all blocks. The inner error explains why the references cannot run.
    ///
    /// # Errors
    /// A payload cannot be read.
    pub fn expect(
        &self,
        dump: &Dump,
        task: Task<'_>,
    ) -> Result<Result<Vec<ExpectedTensor>, String>, FormatError> {
        let (kernels, computed) = match self.prepared(dump, task)? {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(Err(reason)),
        };
        let roles: Vec<Role> = task.arguments().filter(|a| !a.is_scalar()).map(|a| a.role).collect();
        Ok(apply(&kernels, computed, &roles).map_err(|error| error.to_string()))
    }

    /// The kernels of a task and its captured arguments.
    pub(crate) fn prepared(
        &self,
        dump: &Dump,
        task: Task<'_>,
    ) -> Result<Result<(Vec<&'static KernelDef>, RefTask), String>, FormatError> {
        match self.kernels(task) {
            Ok(kernels) => Ok(load(dump, task)?.map(|given| (kernels, given))),
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// Whether a kernel of the task is known but has no reference.
    pub(crate) fn are_not_declared(&self, task: Task<'_>) -> bool {
        let names = task.kernel_names();
        let mut known = names.iter().filter_map(|name| self.by_name.get(name.as_str()));
        known.any(|kernel| kernel.reference.is_none())
    }

    /// The kernels of a task, or why they are unknown.
    pub(crate) fn kernels(&self, task: Task<'_>) -> Result<Vec<&'static KernelDef>, String> {
        let known = |name: &String| {
            let kernel = self.by_name.get(name.as_str()).copied().filter(|kernel| kernel.reference.is_some());
            kernel.ok_or(format!("kernel {name} has no reference"))
        };
        let kernels: Vec<&'static KernelDef> =
            task.kernel_names().iter().map(known).collect::<Result<_, _>>()?;
        if kernels.is_empty() {
            Err("the dump does not say which kernels it ran".into())
        } else {
            Ok(kernels)
        }
    }

    /// Runs a single reference; `None` if it rejects the arguments or changes their shapes.
    pub(crate) fn run_one(kernel: &KernelDef, given: &RefTask) -> Option<RefTask> {
        let mut task = given.clone();
        quiet::run(|| kernel.reference.map(|reference| reference.run(&mut task))).ok()??.ok()?;
        let sizes = |task: &RefTask| task.tensors.iter().map(|t| t.values.len()).collect::<Vec<_>>();
        (sizes(&task) == sizes(given)).then_some(task)
    }
}

/// Runs references in this order on the arguments of a task. Returns the expected content of every tensor
/// that the task writes. `roles` has one role per tensor.
///
/// # Errors
/// The references cannot run.
pub fn apply(
    kernels: &[&'static KernelDef],
    mut task: RefTask,
    roles: &[Role],
) -> Result<Vec<ExpectedTensor>, ReferenceError> {
    let types: Vec<(DType, Vec<usize>)> = task.tensors.iter().map(|t| (t.dtype, t.shape.clone())).collect();
    let read = task.tensors.iter().zip(roles).filter(|(_, role)| role.reads());
    let from_non_finite = read.map(|(tensor, _)| tensor).any(|t| t.values.iter().any(|v| !v.is_finite()));
    // A dump may hold shapes that no reference expects.
    for kernel in kernels {
        let reference = kernel.reference.ok_or_else(|| format!("kernel {} has no reference", kernel.name))?;
        let ran = quiet::run(|| reference.run(&mut task)).and_then(|ran| ran);
        ran.map_err(|why| ReferenceError::Arguments { kernel: kernel.name, why })?;
    }
    let mut expected = Vec::new();
    for (place, ((dtype, shape), _)) in types.iter().zip(roles).enumerate().filter(|(_, (_, r))| r.writes()) {
        let values = task.tensors.get(place).map(|tensor| tensor.values.as_slice());
        let parts = dtype.parts() as usize;
        let values = values.filter(|values| values.len() == shape.iter().product::<usize>() * parts);
        let values = values.ok_or_else(|| "the reference changed the shape of an output".to_owned())?;
        let arg_index = u16::try_from(place).map_err(|_| "the task has too many arguments".to_owned())?;
        let (dtype, bytes) = encode(*dtype, values);
        let shape = shape.iter().map(|&size| size as u64).collect();
        expected.push(ExpectedTensor { arg_index, bytes, dtype, shape, from_non_finite });
    }
    Ok(expected)
}

/// A tensor as an argument of references; `None` if the content does not have the size of the shape. An
/// output is filled with NaN, because no result may depend on it; only its size is checked.
#[must_use]
pub fn ref_tensor(dtype: DType, shape: &[u64], role: Role, content: &[u8]) -> Option<RefTensor> {
    let shape: Vec<usize> = shape.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<_>>()?;
    let numel = shape.iter().try_fold(1_usize, |numel, &size| numel.checked_mul(size))?;
    let packed = dtype.packed_bytes(numel as u64)?;
    if content.len() as u64 != packed {
        return None;
    }
    let numbers = numel.checked_mul(dtype.parts() as usize)?;
    let mut values = vec![f64::NAN; numbers];
    let is_output = role == Role::Output;
    if !is_output && decode_block(dtype, content, &mut values) != numbers {
        return None;
    }
    let bytes = if is_output { vec![0; content.len()] } else { content.to_vec() };
    Some(RefTensor { dtype, shape, values, bytes })
}

/// The arguments of a task from before it ran. Outputs are filled with NaN, because no result may depend on
/// them.
fn load(dump: &Dump, task: Task<'_>) -> Result<Result<RefTask, String>, FormatError> {
    let complete =
        task.argument_total().is_none_or(|count| task.arguments().len() as u64 == u64::from(count));
    let in_order = task.arguments().enumerate().all(|(place, a)| usize::from(a.arg_index) == place);
    if !complete || !in_order {
        return Ok(Err("not all arguments of the task were captured".into()));
    }
    let mut tensors = Vec::new();
    let mut scalars = Vec::new();
    for arg in task.arguments() {
        if let Some(bits) = arg.scalar_bits {
            scalars.push(ScalarArg { bits, dtype: arg.dtype });
            continue;
        }
        match tensor(dump, arg)? {
            Ok(tensor) => tensors.push(tensor),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(RefTask { tensors, scalars, block_num: task.block_count().unwrap_or(1) }))
}

fn tensor(dump: &Dump, arg: Argument<'_>) -> Result<Result<RefTensor, String>, FormatError> {
    let is_output = arg.role == Role::Output;
    let (captured, stage) = if is_output { (arg.after, "after") } else { (arg.before, "before") };
    let Some(ArgumentSnapshot { record, .. }) = captured.filter(ArgumentSnapshot::is_stored) else {
        return Ok(Err(format!("the content of argument {} {stage} the task is not stored", arg.arg_index)));
    };
    // Outputs are read too, so that a damaged shape cannot allocate more memory than the file has.
    let Some(bytes) = unless_gone(dump.payload(&dump.record(record)?))? else {
        return Ok(Err(format!("argument {} {stage} the task: {GONE}", arg.arg_index)));
    };
    Ok(ref_tensor(arg.dtype, arg.shape(), arg.role, &bytes).ok_or_else(|| {
        format!("the content of argument {} does not have the size of its shape", arg.arg_index)
    }))
}

/// Encodes values in the dtype in which they are compared.
fn encode(dtype: DType, values: &[f64]) -> (DType, Vec<u8>) {
    let dtype = match dtype.kind() {
        DTypeKind::Complex(_) => DType::Complex128,
        DTypeKind::Float(_) => DType::Float64,
        _ if dtype.bits() == 64 => DType::Float64,
        _ => dtype,
    };
    (dtype, round(dtype, values))
}

/// Packed elements of a dtype, rounded to nearest.
fn round(dtype: DType, values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; (values.len() * dtype.part().bits() as usize).div_ceil(8)];
    encode_block(dtype, values, &mut bytes);
    bytes
}

/// Whether outputs of a dtype are compared as 64-bit floats.
fn is_compared_as_float(dtype: DType) -> bool {
    matches!(dtype.kind(), DTypeKind::Signed | DTypeKind::Unsigned) && dtype.bits() == 64
}

/// The content of an output for a comparison with [`ExpectedTensor`]: 64-bit integers become f64.
#[must_use]
pub fn as_compared(dtype: DType, content: &[u8]) -> (DType, Cow<'_, [u8]>) {
    if !is_compared_as_float(dtype) {
        return (dtype, content.into());
    }
    let mut values = vec![0.0; content.len() / 8];
    decode_block(dtype, content, &mut values);
    (DType::Float64, round(DType::Float64, &values).into())
}

/// A captured output for a comparison with [`ExpectedTensor`]: 64-bit integers become f64.
///
/// # Errors
/// A payload cannot be read.
pub(crate) fn captured_side<'d>(
    dump: &'d Dump,
    arg: Argument<'_>,
    captured: ArgumentSnapshot,
) -> Result<Side<'d>, FormatError> {
    let record = dump.record(captured.record)?;
    if !is_compared_as_float(arg.dtype) || !captured.is_stored() {
        return Ok(record_side(dump, &record));
    }
    let Some(bytes) = unless_gone(dump.payload(&record))? else {
        let mut side = record_side(dump, &record);
        side.content = Content::Missing(GONE.into());
        return Ok(side);
    };
    let (dtype, bytes) = as_compared(arg.dtype, &bytes);
    Ok(Side::of_bytes(dtype, arg.shape(), bytes.into_owned()))
}
