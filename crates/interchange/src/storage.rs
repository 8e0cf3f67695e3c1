use tensortap_abi::DType;

/// How a file holds an array whose dtype it does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The dtype that the file names.
    pub dtype: DType,
    /// The shape that the file names.
    pub shape: Vec<u64>,
}

/// In `.npy` and `.npz`: `bfloat16` as `uint16`, 8-bit floats as `uint8`, 4-bit elements packed two to a byte, low nibble
/// first, in a one-dimensional `uint8`. The bytes are the same in every case.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_interchange::numpy_storage;
/// let stored = numpy_storage(DType::Int4, &[3, 5]);
/// assert_eq!((stored.dtype, stored.shape), (DType::UInt8, vec![8]));
/// ```
#[must_use]
pub fn numpy_storage(dtype: DType, shape: &[u64]) -> Stored {
    match (dtype.npy_descr(), dtype.bits()) {
        (None, 16) => Stored { dtype: DType::UInt16, shape: shape.into() },
        (None, 8) => Stored { dtype: DType::UInt8, shape: shape.into() },
        _ => safetensors_storage(dtype, shape),
    }
}

/// In `.safetensors`, which has all but the 4-bit dtypes.
#[must_use]
pub fn safetensors_storage(dtype: DType, shape: &[u64]) -> Stored {
    if dtype.bits() < 8 {
        return Stored { dtype: DType::UInt8, shape: vec![content_bytes(dtype, shape).unwrap_or(u64::MAX)] };
    }
    Stored { dtype, shape: shape.into() }
}

/// Elements of a shape; `None` when that exceeds 64 bits.
pub(crate) fn numel(shape: &[u64]) -> Option<u64> {
    // A zero decides, wherever it stands.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size))
}

/// Bytes of an array; `None` when that exceeds 64 bits.
pub(crate) fn content_bytes(dtype: DType, shape: &[u64]) -> Option<u64> {
    dtype.packed_bytes(numel(shape)?)
}
