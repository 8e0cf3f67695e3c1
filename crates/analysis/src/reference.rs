//! What a task should have written, computed in f64 from what it was given.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tensortap_abi::{DType, Role};
use tensortap_format::{Dump, FormatError};
use tensortap_scene::{KernelDef, RefTask, RefTensor, ScalarArg, Scene};
use tensortap_values::{decode_block, from_f64};

use crate::compare::Side;
use crate::graph::{Argument, Captured, GraphTask};

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
    /// The same to be compared with.
    #[must_use]
    pub fn side(&self) -> Side<'_> {
        Side::of_bytes(self.dtype, &self.shape, self.bytes.as_slice())
    }
}

impl References {
    /// Of a scene.
    #[must_use]
    pub fn of(scene: &dyn Scene) -> References {
        References { by_name: scene.kernels().iter().map(|k| (k.name, k)).collect() }
    }

    /// What the kernels of a task declare: relative and absolute tolerance, by name.
    #[must_use]
    pub fn tolerances(&self) -> HashMap<String, (f64, f64)> {
        let declared = self.by_name.values().filter_map(|k| Some((k.name.to_string(), k.tolerance?)));
        declared.map(|(name, t)| (name, (t.rtol, t.atol))).collect()
    }

    /// Runs a task's references on what it was given. The kernels of a mix task are applied in the order of their slots; a
    /// reference stands for all blocks. The inner error says why that cannot be done.
    ///
    /// # Errors
    /// A payload cannot be read.
    pub fn expect(
        &self,
        dump: &Dump,
        task: &GraphTask,
    ) -> Result<Result<Vec<Expected>, String>, FormatError> {
        let kernels: Result<Vec<&KernelDef>, String> = task
            .kernel_labels()
            .iter()
            .map(|name| {
                self.by_name.get(name.as_str()).copied().ok_or(format!("kernel {name} has no reference"))
            })
            .collect();
        let kernels = match kernels {
            Ok(kernels) if !kernels.is_empty() => kernels,
            Ok(_) => return Ok(Err("the dump does not say which kernels it ran".into())),
            Err(reason) => return Ok(Err(reason)),
        };
        let mut computed = match load(dump, task)? {
            Ok(computed) => computed,
            Err(reason) => return Ok(Err(reason)),
        };
        let read = task.args.iter().filter(|a| a.role.reads() && !a.is_scalar());
        let from_non_finite = read
            .filter_map(|a| computed.tensors.get(usize::from(a.arg_index)))
            .any(|tensor| tensor.values.iter().any(|v| !v.is_finite()));
        // A dump may hold shapes that no reference expects.
        let run = || kernels.iter().for_each(|kernel| (kernel.reference)(&mut computed));
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            return Ok(Err("the reference does not take such arguments".into()));
        }
        let written = task.args.iter().filter(|a| a.role.writes() && !a.is_scalar());
        let expected = written.map(|arg| {
            let tensor = computed.tensors.get(usize::from(arg.arg_index))?;
            let numel: u64 = arg.shape.iter().product();
            (tensor.values.len() as u64 == numel)
                .then(|| Expected { from_non_finite, ..encode(arg, &tensor.values) })
        });
        Ok(expected
            .collect::<Option<_>>()
            .ok_or_else(|| "the reference changed the shape of an output".into()))
    }
}

/// The arguments of a task from before it ran, outputs filled with NaN: nothing may depend on them.
fn load(dump: &Dump, task: &GraphTask) -> Result<Result<RefTask, String>, FormatError> {
    let complete = task.arg_count.is_none_or(|count| task.args.len() as u64 == u64::from(count));
    let in_order = task.args.iter().enumerate().all(|(place, a)| usize::from(a.arg_index) == place);
    if !complete || !in_order {
        return Ok(Err("not all of its arguments were captured".into()));
    }
    let mut tensors = Vec::new();
    let mut scalars = Vec::new();
    for arg in &task.args {
        if let Some(bits) = arg.scalar_bits {
            scalars.push(ScalarArg { bits, dtype: arg.dtype });
            continue;
        }
        match tensor(dump, arg)? {
            Ok(tensor) => tensors.push(tensor),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(RefTask { tensors, scalars, block_num: task.block_num.unwrap_or(1) }))
}

fn tensor(dump: &Dump, arg: &Argument) -> Result<Result<RefTensor, String>, FormatError> {
    let is_output = arg.role == Role::Output;
    let (captured, stage) = if is_output { (arg.after, "after") } else { (arg.before, "before") };
    let Some(Captured { record, .. }) = captured.filter(|c| c.stored) else {
        return Ok(Err(format!("the content of argument {} {stage} the task is not stored", arg.arg_index)));
    };
    // Read of outputs, too: memory is taken only for what is in the file.
    let bytes = dump.payload(&dump.record(record)?)?;
    let numel = arg.shape.iter().map(|&d| usize::try_from(d).unwrap_or(usize::MAX)).product::<usize>();
    let mut values = vec![f64::NAN; numel];
    if !is_output && decode_block(arg.dtype, &bytes, &mut values) != numel {
        return Ok(Err(format!("the content of argument {} is not that of its shape", arg.arg_index)));
    }
    let bytes = if is_output { vec![0; bytes.len()] } else { bytes };
    let shape = arg.shape.iter().map(|&d| usize::try_from(d).unwrap_or(usize::MAX)).collect();
    Ok(Ok(RefTensor { dtype: arg.dtype, shape, values, bytes }))
}

fn encode(arg: &Argument, values: &[f64]) -> Expected {
    let bits = arg.dtype.bits();
    let in_f64 = arg.dtype.is_float() || bits == 64;
    let dtype = if in_f64 { DType::Float64 } else { arg.dtype };
    let bytes = if in_f64 {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    } else if bits < 8 {
        let nibble = |value: f64| u8::try_from(from_f64(dtype, value) & 0xf).unwrap_or(0);
        values.chunks(2).map(|pair| nibble(pair[0]) | pair.get(1).map_or(0, |v| nibble(*v) << 4)).collect()
    } else {
        let width = usize::try_from(bits / 8).unwrap_or(8);
        values.iter().flat_map(|v| from_f64(dtype, *v).to_le_bytes().into_iter().take(width)).collect()
    };
    Expected { arg_index: arg.arg_index, bytes, dtype, shape: arg.shape.clone(), from_non_finite: false }
}

/// A captured output as it is compared with [`Expected`]: 64-bit integers become f64, as they did there.
///
/// # Errors
/// A payload cannot be read.
pub(crate) fn captured_side<'d>(
    dump: &'d Dump,
    arg: &Argument,
    captured: Captured,
) -> Result<Side<'d>, FormatError> {
    let record = dump.record(captured.record)?;
    if arg.dtype.is_float() || arg.dtype.bits() < 64 || !captured.stored {
        return Ok(Side::of_record(dump, &record));
    }
    let bytes = dump.payload(&record)?;
    let mut values = vec![0.0; bytes.len() / 8];
    decode_block(arg.dtype, &bytes, &mut values);
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Ok(Side::of_bytes(DType::Float64, &arg.shape, bytes))
}
