//! Arguments that are passed by value.

use std::borrow::Cow;

use tensortap_record::{DType, DumpStage, RecordError, Role, StringId, Task, Tensor, ThreadRecorder};

/// An argument that a command receives by value.
#[derive(Clone, Debug)]
pub struct Value<'v> {
    /// Position among the arguments.
    pub arg: u16,
    /// Its name.
    pub name: StringId,
    /// Type of its elements, if known.
    pub dtype: Option<DType>,
    /// Number of elements that its type declares: more than one for a vector.
    pub lanes: u64,
    /// Whether it may be recorded as a number. A struct is recorded as bytes.
    pub may_be_number: bool,
    /// Its content.
    pub bytes: Cow<'v, [u8]>,
}

impl Value<'_> {
    /// A value whose type is unknown.
    pub fn untyped(arg: u16, bytes: &[u8]) -> Value<'_> {
        let (name, bytes) = (StringId::NONE, Cow::Borrowed(bytes));
        Value { arg, name, dtype: None, lanes: 1, may_be_number: true, bytes }
    }

    /// Records the value: as a number if it has the size of one, else as a tensor of elements or bytes.
    ///
    /// # Errors
    /// Those of [`ThreadRecorder::scalar`] and [`ThreadRecorder::tensor`].
    pub fn record(&self, recorder: &mut ThreadRecorder, task: &mut Task) -> Result<(), RecordError> {
        let &Value { arg, name, dtype, lanes, may_be_number, ref bytes } = self;
        let unsigned = match bytes.len() {
            1 => Some(DType::UInt8),
            2 => Some(DType::UInt16),
            4 => Some(DType::UInt32),
            8 => Some(DType::UInt64),
            _ => None,
        };
        let fits = |dtype: &DType| bytes.len() <= 8 && dtype.bits() as usize == bytes.len() * 8;
        let is_vector = dtype.is_some() && lanes > 1;
        if let Some(dtype) = dtype.filter(fits).or(unsigned).filter(|_| may_be_number && !is_vector) {
            let mut bits = [0; 8];
            bits[..bytes.len()].copy_from_slice(bytes);
            recorder.scalar(task, arg, dtype, u64::from_le_bytes(bits), name)?;
            return Ok(());
        }
        let divides =
            |dtype: &DType| dtype.bits() >= 8 && bytes.len().is_multiple_of(dtype.bits() as usize / 8);
        let known = dtype.filter(divides);
        let tensor = Tensor::of(&bytes[..], known.unwrap_or(DType::UInt8))?;
        let tensor = tensor.arg(arg).role(Role::Input).name(name).guessed(known.is_none(), false, false);
        recorder.tensor(task, DumpStage::BeforeDispatch, &tensor)?;
        Ok(())
    }
}
