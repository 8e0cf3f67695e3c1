//! The ABI of the public project `simpler`: every layout and number that one of its kernels sees. These are its
//! tensor descriptor, its contexts and its dtype names and numbers.
//!
//! The readers of `simpler`'s dump files are in the crate `tensortap-format`, in `source`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{BlockContext, DType, MAX_DIMS, SubtaskContext, TENSOR_DTYPE_UNKNOWN, TensorDesc, assert_layout};

/// Maximum number of dimensions of a [`SimplerTensor`].
pub const SIMPLER_MAX_DIMS: usize = 5;

/// The tensor descriptor that `simpler` kernels receive through a slot of `args[]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct SimplerTensor {
    /// Address of the buffer.
    pub buffer_addr: u64,
    /// Size of the buffer.
    pub buffer_bytes: u64,
    /// Task that allocated it; all ones for none.
    pub owner_task: u64,
    /// First element of the view, in elements.
    pub start_offset: u64,
    /// Zero.
    pub version: i32,
    /// Dimensions in use, 1 to 5.
    pub ndims: u32,
    /// Element type, by the number from [`simpler_dtype`].
    pub dtype: u8,
    /// 0 or 1; kernels ignore it.
    pub manual_dep: u8,
    /// 0 or 1: whether the elements are contiguous.
    pub is_contiguous: u8,
    /// Zero: device memory.
    pub address_space: u8,
    /// Shape, zero past `ndims`.
    pub shapes: [u32; SIMPLER_MAX_DIMS],
    /// Number of elements from the view's first to its last.
    pub extent: u64,
    /// Strides in elements, above 0 up to `ndims`, zero past it.
    pub strides: [u32; SIMPLER_MAX_DIMS],
    /// Zero.
    pub reserved: [u32; 9],
}
assert_layout!(SimplerTensor, size 128, align 64,
    buffer_addr @ 0, buffer_bytes @ 8, owner_task @ 16, start_offset @ 24, version @ 32, ndims @ 36, dtype @ 40,
    manual_dep @ 41, is_contiguous @ 42, address_space @ 43, shapes @ 44, extent @ 64, strides @ 72, reserved @ 92);

impl SimplerTensor {
    /// The same view in `simpler`'s layout.
    ///
    /// # Errors
    /// The reason why `simpler` cannot describe the view.
    pub fn of(desc: &TensorDesc) -> Result<SimplerTensor, &'static str> {
        let dtype = desc.dtype().ok_or("its dtype is unknown")?;
        if dtype == DType::Float4E2M1 {
            return SimplerTensor::of(&without_pairs(desc)?)
                .map(|bytes| SimplerTensor { dtype: SIMPLER_FP4E2M1, ..bytes });
        }
        let is_known = desc.flags & TENSOR_DTYPE_UNKNOWN == 0;
        let dtype = match dtype {
            // Cases of earlier versions have the exponents of block scales as bytes of unknown dtype.
            DType::UInt8 if !is_known => Some(SIMPLER_FP8E8M0),
            _ if !is_known => return Err("its dtype is unknown"),
            dtype => simpler_dtype(dtype),
        };
        let dtype = dtype.ok_or("`simpler` has no such dtype")?;
        let (dims, steps) = (desc.dims(), desc.dim_strides());
        if dims.is_empty() || dims.len() > SIMPLER_MAX_DIMS {
            return Err("`simpler` tensors have 1 to 5 dimensions");
        }
        let (mut shapes, mut strides) = ([0; SIMPLER_MAX_DIMS], [0; SIMPLER_MAX_DIMS]);
        let mut extent = 1_u64;
        for (axis, (&size, &step)) in dims.iter().zip(steps).enumerate() {
            let too_large = "`simpler` sizes and strides are limited to 32 bits";
            shapes[axis] = u32::try_from(size).map_err(|_| too_large)?;
            strides[axis] =
                u32::try_from(step).map_err(|_| "`simpler` strides must be positive and fit in 32 bits")?;
            if step == 0 {
                return Err("`simpler` strides must be positive");
            }
            let reach = size.saturating_sub(1).checked_mul(u64::from(strides[axis])).ok_or(too_large)?;
            extent = extent.checked_add(reach).ok_or(too_large)?;
        }
        if dims.contains(&0) {
            extent = 0;
        }
        Ok(SimplerTensor {
            buffer_addr: desc.buffer_addr,
            buffer_bytes: desc.buffer_bytes,
            owner_task: u64::MAX,
            start_offset: desc.start_offset,
            ndims: u32::try_from(dims.len()).unwrap_or(0),
            dtype,
            is_contiguous: u8::from(extent == dims.iter().product::<u64>() && is_row_major(dims, steps)),
            shapes,
            extent,
            strides,
            ..SimplerTensor::default()
        })
    }
}

/// Converts a view of pairs of 4-bit values ([`SimplerElements::Pairs`]) to a view of the bytes that hold
/// them.
fn without_pairs(desc: &TensorDesc) -> Result<TensorDesc, &'static str> {
    let odd = "`simpler` elements hold two 4-bit values each: the view needs a contiguous last dimension of 2 and even strides before it";
    let (Some((&2, dims)), Some((&1, steps))) = (desc.dims().split_last(), desc.dim_strides().split_last())
    else {
        return Err(odd);
    };
    if !desc.start_offset.is_multiple_of(2) || steps.iter().any(|step| step % 2 != 0) {
        return Err(odd);
    }
    let mut bytes = TensorDesc {
        dtype: DType::UInt8.tag(),
        ndims: desc.ndims - 1,
        start_offset: desc.start_offset / 2,
        shape: [0; MAX_DIMS],
        strides: [0; MAX_DIMS],
        ..*desc
    };
    bytes.shape[..dims.len()].copy_from_slice(dims);
    for (place, step) in bytes.strides.iter_mut().zip(steps) {
        *place = step / 2;
    }
    Ok(bytes)
}

fn is_row_major(dims: &[u64], strides: &[i64]) -> bool {
    let mut expected = 1_u64;
    for (&size, &stride) in dims.iter().zip(strides).rev() {
        if size != 1 && u64::try_from(stride) != Ok(expected) {
            return false;
        }
        expected = expected.saturating_mul(size.max(1));
    }
    true
}

/// How the elements of a `simpler` dump are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimplerElements {
    /// As this dtype.
    Plain(DType),
    /// Each as two values of this dtype: the view gets an additional last dimension of 2.
    Pairs(DType),
    /// As bytes: a scalar byte of two values, which is not a view.
    Bytes,
}

impl SimplerElements {
    /// The elements of a dtype name, in upper or lower case: one of tensortap's names, or one that only
    /// `simpler` uses.
    ///
    /// ```
    /// use tensortap_abi::{DType, SimplerElements};
    /// assert_eq!(SimplerElements::of_name("FLOAT32"), Some(SimplerElements::Plain(DType::Float32)));
    /// assert_eq!(SimplerElements::of_name("FP4E2M1"), Some(SimplerElements::Pairs(DType::Float4E2M1)));
    /// ```
    pub fn of_name(name: &str) -> Option<SimplerElements> {
        let own = SimplerElements::SPELLED.into_iter().find(|(word, _)| word.eq_ignore_ascii_case(name));
        own.map(|(_, elements)| elements).or_else(|| DType::parse(name).map(SimplerElements::Plain))
    }

    /// The names that only `simpler` uses.
    const SPELLED: [(&str, SimplerElements); 3] = [
        ("FP8E4M3FN", SimplerElements::Plain(DType::Float8E4M3FN)),
        ("FP8E8M0", SimplerElements::Plain(DType::Float8E8M0FNU)),
        ("FP4E2M1", SimplerElements::Pairs(DType::Float4E2M1)),
    ];

    /// The dtype name in `simpler` dumps, for elements that are read as a different dtype.
    pub fn only_name(self) -> Option<&'static str> {
        let own = SimplerElements::SPELLED.into_iter().find(|(_, elements)| *elements == self);
        own.map(|(word, _)| word).filter(|_| !matches!(self, SimplerElements::Plain(_)))
    }

    /// The dtype that tensortap shows.
    pub const fn dtype(self) -> DType {
        match self {
            SimplerElements::Plain(dtype) | SimplerElements::Pairs(dtype) => dtype,
            SimplerElements::Bytes => DType::UInt8,
        }
    }
}

/// `simpler`'s number for the exponents of block scales.
const SIMPLER_FP8E8M0: u8 = 13;

/// `simpler`'s number for bytes that hold two 4-bit values.
const SIMPLER_FP4E2M1: u8 = 14;

/// `simpler`'s number of a dtype; `None` if `simpler` does not have the dtype or packs it differently.
pub const fn simpler_dtype(dtype: DType) -> Option<u8> {
    Some(match dtype {
        DType::Float32 => 0,
        DType::Float16 => 1,
        DType::Int32 => 2,
        DType::Int16 => 3,
        DType::Int8 => 4,
        DType::UInt8 => 5,
        DType::BFloat16 => 6,
        DType::Int64 => 7,
        DType::UInt64 => 8,
        DType::UInt16 => 9,
        DType::UInt32 => 10,
        DType::Bool => 11,
        DType::Float8E4M3FN => 12,
        DType::Float8E8M0FNU => SIMPLER_FP8E8M0,
        DType::Float64
        | DType::Float8E5M2
        | DType::Float8E4M3FNUZ
        | DType::Float8E5M2FNUZ
        | DType::Float4E2M1
        | DType::Int4
        | DType::Complex64
        | DType::Complex128 => return None,
    })
}

/// The contexts that slots 48 and 49 of `simpler` point to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(64))]
pub struct SimplerContext {
    /// In slot 48: `block_idx` and `block_num`. In slot 49: `sub_block_id`, then zero.
    pub words: [i32; 2],
    /// Zero.
    pub reserved: [u32; 14],
}
assert_layout!(SimplerContext, size 64, align 64, words @ 0, reserved @ 8);

impl SimplerContext {
    /// The context for slot 48. A block count that does not fit into an `i32` is clamped.
    pub fn of_block(block: BlockContext) -> SimplerContext {
        let word = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let words = [word(block.block_idx), word(block.block_num).max(1)];
        SimplerContext { words, ..SimplerContext::default() }
    }

    /// The context for slot 49: the second vector core of a block has sub-block 1, every other core 0.
    pub fn of_subtask(subtask: SubtaskContext) -> SimplerContext {
        SimplerContext { words: [i32::from(subtask.subtask_id == 2), 0], ..SimplerContext::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KernelAbi, first_element};

    fn view(dtype: DType, start_offset: u64, shape: &[u64], strides: &[i64]) -> TensorDesc {
        let mut desc = TensorDesc {
            buffer_addr: 0x2000_0000_0040,
            buffer_bytes: 4096,
            start_offset,
            dtype: dtype.tag(),
            ndims: u8::try_from(shape.len()).unwrap(),
            ..TensorDesc::default()
        };
        desc.shape[..shape.len()].copy_from_slice(shape);
        desc.strides[..strides.len()].copy_from_slice(strides);
        desc
    }

    #[test]
    fn a_view_has_the_bytes_that_kernels_of_simpler_read() {
        let tensor = SimplerTensor::of(&view(DType::BFloat16, 7, &[3, 4], &[16, 1])).unwrap();
        let bytes = tensor.as_bytes();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!([long(0), long(8), long(16), long(24)], [0x2000_0000_0040, 4096, u64::MAX, 7]);
        assert_eq!((word(36), &bytes[40..44]), (2, &[6, 0, 0, 0][..]));
        assert_eq!([word(44), word(48), word(52)], [3, 4, 0]);
        assert_eq!((long(64), word(72), word(76), word(80)), (36, 16, 1, 0));
        let whole = SimplerTensor::of(&view(DType::Float32, 0, &[3, 4], &[4, 1])).unwrap();
        assert_eq!((whole.is_contiguous, whole.extent, whole.dtype), (1, 12, 0));
    }

    #[test]
    fn dtypes_that_only_simpler_has_are_passed_as_bytes_with_their_number() {
        let pairs = SimplerTensor::of(&view(DType::Float4E2M1, 14, &[3, 4, 2], &[16, 2, 1])).unwrap();
        assert_eq!((pairs.dtype, pairs.ndims, pairs.start_offset, pairs.extent), (14, 2, 7, 20));
        assert_eq!((&pairs.shapes[..3], &pairs.strides[..3]), (&[3, 4, 0][..], &[8, 1, 0][..]));
        let scales = TensorDesc { flags: TENSOR_DTYPE_UNKNOWN, ..view(DType::UInt8, 0, &[4], &[1]) };
        let dtype = |desc: &TensorDesc| SimplerTensor::of(desc).unwrap().dtype;
        assert_eq!((dtype(&scales), dtype(&view(DType::UInt8, 0, &[4], &[1]))), (13, 5));
        assert_eq!(dtype(&view(DType::Float8E4M3FN, 0, &[4], &[1])), 12);
        assert_eq!(dtype(&view(DType::Float8E8M0FNU, 0, &[4], &[1])), 13);
        let scales = SimplerElements::of_name("FP8E8M0");
        assert_eq!(scales, Some(SimplerElements::Plain(DType::Float8E8M0FNU)));
        for dtype in DType::ALL {
            assert_eq!(SimplerElements::of_name(dtype.name()), Some(SimplerElements::Plain(dtype)));
        }
        assert_eq!(SimplerElements::of_name("FP8E8M1"), None);
    }

    #[test]
    fn views_that_simpler_cannot_describe_are_rejected() {
        for (desc, why) in [
            (view(DType::Float64, 0, &[4], &[1]), "no such dtype"),
            (view(DType::Float4E2M1, 0, &[4], &[1]), "hold two 4-bit values each"),
            (view(DType::Float4E2M1, 0, &[4, 2], &[2, 2]), "hold two 4-bit values each"),
            (view(DType::Float4E2M1, 0, &[4, 2], &[3, 1]), "hold two 4-bit values each"),
            (view(DType::Float4E2M1, 1, &[4, 2], &[2, 1]), "hold two 4-bit values each"),
            (view(DType::Float4E2M1, 0, &[2], &[1]), "1 to 5"),
            (view(DType::Float32, 0, &[4], &[-1]), "must be positive"),
            (view(DType::Float32, 0, &[4], &[0]), "must be positive"),
            (view(DType::Float32, 0, &[], &[]), "1 to 5"),
            (view(DType::Float32, 0, &[1; 6], &[1; 6]), "1 to 5"),
            (view(DType::Float32, 0, &[1 << 32], &[1]), "32 bits"),
        ] {
            assert!(KernelAbi::Simpler.check(&desc).unwrap_err().contains(why), "{desc:?}");
        }
        assert_eq!(first_element(&view(DType::Float16, 3, &[4], &[1])), Ok(0x2000_0000_0046));
        assert!(KernelAbi::Raw.check(&view(DType::Int4, 3, &[4], &[1])).is_err());
    }

    #[test]
    fn contexts_hold_block_and_sub_block() {
        let block = SimplerContext::of_block(BlockContext { block_idx: 3, block_num: 8 });
        assert_eq!((block.words, &block.as_bytes()[..8]), ([3, 8], &[3, 0, 0, 0, 8, 0, 0, 0][..]));
        let sub = |subtask_id| SimplerContext::of_subtask(SubtaskContext { subtask_id, subtask_count: 3 });
        assert_eq!([0, 1, 2].map(|slot| sub(slot).words[0]), [0, 0, 1]);
    }
}
