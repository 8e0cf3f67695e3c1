use tensortap_abi::DType;

/// The dtype and shape under which a file stores an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredType {
    /// Dtype in the file.
    pub dtype: DType,
    /// Shape in the file.
    pub shape: Vec<u64>,
}

/// Storage in `.npy` and `.npz`: `bfloat16` as `uint16`, 8-bit floats as `uint8`, and 4-bit elements packed
/// two to a byte, low nibble first, in a one-dimensional `uint8`. The bytes are always the same.
///
/// ```
/// use tensortap_abi::DType;
/// use tensortap_interchange::numpy_storage;
/// let stored = numpy_storage(DType::Int4, &[3, 5]);
/// assert_eq!((stored.dtype, stored.shape), (DType::UInt8, vec![8]));
/// ```
#[must_use]
pub fn numpy_storage(dtype: DType, shape: &[u64]) -> StoredType {
    match (dtype.npy_descr(), dtype.bits()) {
        (None, 16) => StoredType { dtype: DType::UInt16, shape: shape.into() },
        (None, 8) => StoredType { dtype: DType::UInt8, shape: shape.into() },
        (Some(_), _) => StoredType { dtype, shape: shape.into() },
        _ => safetensors_storage(dtype, shape),
    }
}

/// Storage in `.safetensors`, which lacks the 4-bit dtypes and `complex128`. The former are stored as in `.npy`, the latter
/// as `float64` with a last dimension of 2: real and imaginary part.
#[must_use]
pub fn safetensors_storage(dtype: DType, shape: &[u64]) -> StoredType {
    if dtype.bits() < 8 {
        return StoredType {
            dtype: DType::UInt8,
            shape: vec![content_bytes(dtype, shape).unwrap_or(u64::MAX)],
        };
    }
    if dtype == DType::Complex128 {
        let shape = shape.iter().copied().chain([dtype.parts().into()]).collect();
        return StoredType { dtype: dtype.part(), shape };
    }
    StoredType { dtype, shape: shape.into() }
}

/// Number of elements of a shape; `None` if it exceeds 64 bits.
pub(crate) fn numel(shape: &[u64]) -> Option<u64> {
    // A zero decides at any position.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size))
}

/// Size of an array in bytes; `None` if it exceeds 64 bits.
pub(crate) fn content_bytes(dtype: DType, shape: &[u64]) -> Option<u64> {
    dtype.packed_bytes(numel(shape)?)
}
