//! What a task should have written, computed in f64 from what it was given.

pub(crate) mod given;
mod last_writes;
mod quiet;

use std::borrow::Cow;
use std::collections::HashMap;

use tensortap_abi::{DType, Role};
use tensortap_format::{Argument, Captured, Dump, FormatError, Task};
use tensortap_judge::{Content, Tolerance};
use tensortap_scene::{KernelDef, RefTask, RefTensor, ScalarArg, Scene};
use tensortap_values::{decode_block, elements_in, encode_block};

use crate::compare::{GONE, Side, record_side, unless_gone};

/// Why references could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// A reference does not take arguments like these: the capture is damaged, or of another version of the kernel.
    #[error("the reference of kernel `{kernel}` does not take such arguments: {why}")]
    Arguments {
        /// The kernel.
        kernel: &'static str,
        /// What went wrong in it.
        why: String,
    },
    /// What it should be given, or what it gave, is not there.
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

/// What one output should hold.
pub struct Expected {
    /// Argument.
    pub arg_index: u16,
    /// Bytes, of the dtype that [`Expected::dtype`] says.
    pub bytes: Vec<u8>,
    /// `float64` for floats and for 64-bit integers, which f64 cannot hold exactly; else that of the argument.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<u64>,
    /// Whether an input of the task holds NaN or an infinity. Kernel and reference need not agree on those: which of two
    /// values is greater, when one is NaN, is decided differently everywhere.
    pub from_non_finite: bool,
}

impl Expected {
    /// What a reference made of one tensor.
    pub(crate) fn of(arg_index: u16, tensor: &RefTensor) -> Expected {
        let (dtype, bytes) = encode(tensor.dtype, &tensor.values);
        let shape = tensor.shape.iter().map(|&size| size as u64).collect();
        Expected { arg_index, bytes, dtype, shape, from_non_finite: false }
    }

    /// The same to be compared with.
    #[must_use]
    pub fn side(&self) -> Side<'_> {
        Side::of_bytes(self.dtype, &self.shape, self.bytes.as_slice())
    }

    /// The same as packed elements of a dtype, each rounded to the nearest.
    #[must_use]
    pub fn rounded(&self, dtype: DType) -> Vec<u8> {
        if dtype == self.dtype {
            return self.bytes.clone();
        }
        let mut values = vec![0.0; elements_in(self.dtype, self.bytes.len())];
        decode_block(self.dtype, &self.bytes, &mut values);
        round(dtype, &values)
    }
}

impl References {
    /// Of a scene.
    #[must_use]
    pub fn of(scene: &dyn Scene) -> References {
        References { by_name: scene.kernels().iter().map(|k| (k.name, k)).collect() }
    }

    /// What kernels declare, by name.
    #[must_use]
    pub fn tolerances(&self) -> HashMap<String, Tolerance> {
        self.by_name.values().filter_map(|k| Some((k.name.to_string(), k.tolerance?))).collect()
    }

    /// Runs a task's references on what it was given. The kernels of a mix task are applied in the order of their slots; a
    /// reference stands for all blocks. The inner error says why that cannot be done.
    ///
    /// # Errors
    /// A payload cannot be read.
    pub fn expect(&self, dump: &Dump, task: Task<'_>) -> Result<Result<Vec<Expected>, String>, FormatError> {
        let (kernels, computed) = match self.prepared(dump, task)? {
            Ok(prepared) => prepared,
            Err(reason) => return Ok(Err(reason)),
        };
        let roles: Vec<Role> = task.arguments().filter(|a| !a.is_scalar()).map(|a| a.role).collect();
        Ok(apply(&kernels, computed, &roles).map_err(|error| error.to_string()))
    }

    /// The kernels of a task, and what they were given.
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

    /// Whether a kernel of the task is known and has no reference, so that nobody could judge the task.
    pub(crate) fn are_not_declared(&self, task: Task<'_>) -> bool {
        let names = task.kernel_names();
        let mut known = names.iter().filter_map(|name| self.by_name.get(name.as_str()));
        known.any(|kernel| kernel.reference.is_none())
    }

    /// The kernels of a task, or why they are not known.
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

    /// One reference alone; `None` when it does not take such arguments, or changes their shapes.
    pub(crate) fn run_one(kernel: &KernelDef, given: &RefTask) -> Option<RefTask> {
        let mut task = given.clone();
        quiet::run(|| kernel.reference.map(|reference| reference.run(&mut task))).ok()??.ok()?;
        let sizes = |task: &RefTask| task.tensors.iter().map(|t| t.values.len()).collect::<Vec<_>>();
        (sizes(&task) == sizes(given)).then_some(task)
    }
}

/// Runs references, in this order, on what a task was given: what should be in every tensor that it writes. `roles` has
/// one for each tensor.
///
/// # Errors
/// Why that cannot be done.
pub fn apply(
    kernels: &[&'static KernelDef],
    mut task: RefTask,
    roles: &[Role],
) -> Result<Vec<Expected>, ReferenceError> {
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
        let values = values.filter(|values| values.len() == shape.iter().product::<usize>());
        let values = values.ok_or_else(|| "the reference changed the shape of an output".to_owned())?;
        let arg_index = u16::try_from(place).map_err(|_| "it has too many arguments".to_owned())?;
        let (dtype, bytes) = encode(*dtype, values);
        let shape = shape.iter().map(|&size| size as u64).collect();
        expected.push(Expected { arg_index, bytes, dtype, shape, from_non_finite });
    }
    Ok(expected)
}

/// A tensor as references are given it; `None` when the content is not that of its shape. Of an output only the size of
/// the content counts: it is filled with NaN, so that nothing may depend on it.
#[must_use]
pub fn ref_tensor(dtype: DType, shape: &[u64], role: Role, content: &[u8]) -> Option<RefTensor> {
    let shape: Vec<usize> = shape.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<_>>()?;
    let numel = shape.iter().try_fold(1_usize, |numel, &size| numel.checked_mul(size))?;
    let packed = dtype.packed_bytes(numel as u64)?;
    if content.len() as u64 != packed {
        return None;
    }
    let mut values = vec![f64::NAN; numel];
    let is_output = role == Role::Output;
    if !is_output && decode_block(dtype, content, &mut values) != numel {
        return None;
    }
    let bytes = if is_output { vec![0; content.len()] } else { content.to_vec() };
    Some(RefTensor { dtype, shape, values, bytes })
}

/// The arguments of a task from before it ran, outputs filled with NaN: nothing may depend on them.
fn load(dump: &Dump, task: Task<'_>) -> Result<Result<RefTask, String>, FormatError> {
    let complete =
        task.argument_total().is_none_or(|count| task.arguments().len() as u64 == u64::from(count));
    let in_order = task.arguments().enumerate().all(|(place, a)| usize::from(a.arg_index) == place);
    if !complete || !in_order {
        return Ok(Err("not all of its arguments were captured".into()));
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
    let Some(Captured { record, .. }) = captured.filter(Captured::is_stored) else {
        return Ok(Err(format!("the content of argument {} {stage} the task is not stored", arg.arg_index)));
    };
    // Read of outputs, too: memory is taken only for what is in the file.
    let Some(bytes) = unless_gone(dump.payload(&dump.record(record)?))? else {
        return Ok(Err(format!("argument {} {stage} the task: {GONE}", arg.arg_index)));
    };
    Ok(ref_tensor(arg.dtype, arg.shape(), arg.role, &bytes)
        .ok_or_else(|| format!("the content of argument {} is not that of its shape", arg.arg_index)))
}

/// Values with the dtype they are kept in.
fn encode(dtype: DType, values: &[f64]) -> (DType, Vec<u8>) {
    let in_f64 = dtype.is_float() || dtype.bits() == 64;
    let dtype = if in_f64 { DType::Float64 } else { dtype };
    (dtype, round(dtype, values))
}

/// Packed elements of a dtype, each the nearest to its value.
fn round(dtype: DType, values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; (values.len() * dtype.bits() as usize).div_ceil(8)];
    encode_block(dtype, values, &mut bytes);
    bytes
}

/// Content of an output as it is compared with [`Expected`]: 64-bit integers become f64, as they did there.
#[must_use]
pub fn as_compared(dtype: DType, content: &[u8]) -> (DType, Cow<'_, [u8]>) {
    if dtype.is_float() || dtype.bits() < 64 {
        return (dtype, content.into());
    }
    let mut values = vec![0.0; content.len() / 8];
    decode_block(dtype, content, &mut values);
    (DType::Float64, round(DType::Float64, &values).into())
}

/// A captured output as it is compared with [`Expected`]: 64-bit integers become f64, as they did there.
///
/// # Errors
/// A payload cannot be read.
pub(crate) fn captured_side<'d>(
    dump: &'d Dump,
    arg: Argument<'_>,
    captured: Captured,
) -> Result<Side<'d>, FormatError> {
    let record = dump.record(captured.record)?;
    if arg.dtype.is_float() || arg.dtype.bits() < 64 || !captured.is_stored() {
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
