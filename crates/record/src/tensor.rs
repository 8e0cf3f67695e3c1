//! Tensors as a program has them in memory.
#![expect(unsafe_code, reason = "a program describes its memory by addresses")]

use std::marker::PhantomData;

use tensortap_abi::{
    DType, MAX_DIMS, MAX_RECORD_ARGS, MemorySpace, RECORD_DTYPE_UNKNOWN, RECORD_EXTENT_GUESSED,
    RECORD_ROLE_UNKNOWN, Role, TensorDesc,
};
use tensortap_geometry::{GeometryError, Layout};
use tensortap_recorder::Known;

use crate::{RecordError, StringId, ViewFault};

/// Sizes, strides and offsets of a dump stay below this: JSON numbers are exact there.
pub(crate) const NUMBER_LIMIT: u64 = 1 << 53;
/// Content of one tensor that a recorder takes.
const MOST_BYTES: u64 = 1 << 40;

/// Whether an argument can stand at this position.
#[inline]
pub(crate) fn check_position(arg: u16) -> Result<(), RecordError> {
    match u32::from(arg) < MAX_RECORD_ARGS {
        true => Ok(()),
        false => {
            let remedy = "a task has 65535 arguments at most, counted from 0";
            Err(RecordError::BadArgument { what: "argument", value: arg.into(), remedy })
        }
    }
}

/// A strided view of memory, and what is known of it as an argument of a task.
///
/// ```
/// use tensortap_record::{DType, Role, Tensor};
/// let matrix = [[1_i32, 2, 3], [4, 5, 6]];
/// // Its second column, from the bottom up: strides count elements.
/// let column = Tensor::of(&matrix, DType::Int32)?.view(&[2], &[-3], 4)?.arg(2).role(Role::InOut);
/// assert_eq!(column.content_bytes(), Some(8));
/// # Ok::<(), tensortap_record::RecordError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    pub(crate) desc: TensorDesc,
    pub(crate) role: Role,
    pub(crate) arg: u16,
    pub(crate) marked: bool,
    pub(crate) known: Known,
    /// Whether this process can read it.
    pub(crate) is_here: bool,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Tensor<'a> {
    /// All of a slice, or of anything else that is plain memory, as one dimension of elements: an input, argument 0.
    ///
    /// # Errors
    /// When it does not hold whole elements.
    pub fn of<T: zerocopy::IntoBytes + zerocopy::Immutable + ?Sized>(
        memory: &'a T,
        dtype: DType,
    ) -> Result<Tensor<'a>, RecordError> {
        let bytes = memory.as_bytes();
        let (len, bits) = (bytes.len() as u64, u64::from(dtype.bits()));
        if !(len * 8).is_multiple_of(bits) {
            let remedy = "give as many bytes as whole elements have";
            return Err(RecordError::BadArgument { what: "memory of bytes", value: len, remedy });
        }
        // SAFETY: borrowed during 'a, so it can be read.
        unsafe { Tensor::at(bytes.as_ptr(), len, dtype) }.view(&[len * 8 / bits], &[1], 0)
    }

    /// A buffer at an address, of which nothing is a view yet.
    ///
    /// # Safety
    /// During 'a, the `bytes` at `start` can be read whenever the tensor is recorded. Other threads may write them meanwhile: what is
    /// recorded is then a mixture.
    #[inline]
    pub unsafe fn at(start: *const u8, bytes: u64, dtype: DType) -> Tensor<'a> {
        let buffer_addr = start.expose_provenance() as u64;
        Tensor {
            desc: TensorDesc {
                buffer_addr,
                buffer_bytes: bytes,
                dtype: dtype.tag(),
                ..TensorDesc::default()
            },
            role: Role::Input,
            arg: 0,
            marked: false,
            known: Known { space: MemorySpace::Host, ..Known::default() },
            is_here: true,
            memory: PhantomData,
        }
    }

    /// Memory that this process does not read, such as a device's: for content that [comes later](crate::ThreadRecorder::reserve).
    #[inline]
    pub fn elsewhere(address: u64, bytes: u64, dtype: DType, space: MemorySpace) -> Tensor<'static> {
        // SAFETY: it is not said to be here, so nothing reads it.
        let mut tensor: Tensor<'static> = unsafe { Tensor::at(std::ptr::null(), bytes, dtype) };
        (tensor.desc.buffer_addr, tensor.known.space, tensor.is_here) = (address, space, false);
        tensor
    }

    /// Part of its memory. Strides and start count elements; strides may be zero or negative. A view that leaves the buffer is an error when it is
    /// recorded ([`RecordError::BadView`]).
    ///
    /// # Errors
    /// With more dimensions than [`MAX_DIMS`], or another number of strides.
    #[inline]
    pub fn view(mut self, shape: &[u64], strides: &[i64], start: u64) -> Result<Tensor<'a>, RecordError> {
        let ndims = shape.len();
        if ndims > MAX_DIMS || strides.len() != ndims {
            let remedy = "give at most 8, and a stride for each";
            return Err(RecordError::BadArgument { what: "dimensions", value: ndims as u64, remedy });
        }
        (self.desc.shape, self.desc.strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
        self.desc.shape[..ndims].copy_from_slice(shape);
        self.desc.strides[..ndims].copy_from_slice(strides);
        self.desc.ndims = u8::try_from(ndims).expect("at most 8");
        self.desc.start_offset = start;
        Ok(self)
    }

    /// A view of all elements in order, with these sizes.
    ///
    /// # Errors
    /// As [`Tensor::view`].
    pub fn shape(self, shape: &[u64]) -> Result<Tensor<'a>, RecordError> {
        let mut strides = [0; MAX_DIMS];
        let mut next = 1_i64;
        for (stride, &size) in strides.iter_mut().take(shape.len()).rev().zip(shape.iter().rev()) {
            *stride = next;
            next = next.saturating_mul(i64::try_from(size).unwrap_or(i64::MAX));
        }
        self.view(shape, &strides[..shape.len().min(MAX_DIMS)], 0)
    }

    /// Its position among the arguments of its task.
    #[must_use]
    #[inline]
    pub fn arg(self, position: u16) -> Tensor<'a> {
        Tensor { arg: position, ..self }
    }

    /// How the task uses it.
    #[must_use]
    #[inline]
    pub fn role(self, role: Role) -> Tensor<'a> {
        Tensor { role, ..self }
    }

    /// What people call it.
    #[must_use]
    #[inline]
    pub fn name(mut self, name: StringId) -> Tensor<'a> {
        self.known.name = name.0;
        self
    }

    /// Marked, for level `marked`.
    #[must_use]
    #[inline]
    pub fn marked(self) -> Tensor<'a> {
        Tensor { marked: true, ..self }
    }

    /// Whose memory it lies in, where that is not the process's own.
    #[must_use]
    #[inline]
    pub fn space(mut self, space: MemorySpace) -> Tensor<'a> {
        self.known.space = space;
        self
    }

    /// Where its buffer begins for the device that uses it, when that is not where this process reads it.
    #[must_use]
    #[inline]
    pub fn known_at(mut self, address: u64) -> Tensor<'a> {
        self.known.address = address;
        self
    }

    /// What is but a guess.
    #[must_use]
    #[inline]
    pub fn guessed(mut self, dtype: bool, role: bool, extent: bool) -> Tensor<'a> {
        let flag = |is_guess: bool, flag: u32| if is_guess { flag } else { 0 };
        self.known.guessed = flag(dtype, RECORD_DTYPE_UNKNOWN)
            | flag(role, RECORD_ROLE_UNKNOWN)
            | flag(extent, RECORD_EXTENT_GUESSED);
        self
    }

    /// Whether a dump can hold what it says of itself.
    #[inline]
    pub(crate) fn is_recordable(&self) -> bool {
        let sizes = self.desc.dims().iter().fold(self.desc.start_offset, |all, &size| all | size);
        let all = self.desc.dim_strides().iter().fold(sizes, |all, &stride| all | stride.unsigned_abs());
        all < NUMBER_LIMIT && self.content_bytes().is_some_and(|bytes| bytes <= MOST_BYTES)
    }

    /// A size, stride or offset that no dump can hold.
    fn large_number(&self) -> Option<u64> {
        let numbers = self.desc.dims().iter().copied().chain([self.desc.start_offset]);
        let mut numbers = numbers.chain(self.desc.dim_strides().iter().map(|stride| stride.unsigned_abs()));
        numbers.find(|&number| number >= NUMBER_LIMIT)
    }

    /// What is wrong with a view that could not be captured.
    #[cold]
    pub(crate) fn fault(&self) -> RecordError {
        let (arg, bytes) = (self.arg, self.desc.buffer_bytes);
        let bits = self.desc.dtype().map_or(8, DType::bits);
        let layout = Layout::new(self.desc.dims(), self.desc.dim_strides(), self.desc.start_offset, bits);
        let fault = match layout.and_then(|layout| layout.fits(bytes)) {
            Ok(()) if self.large_number().is_some() => {
                ViewFault::LargeNumber { number: self.large_number().unwrap_or(u64::MAX) }
            }
            Err(GeometryError::PastBuffer { needed_bytes, buffer_bytes }) => {
                ViewFault::PastBuffer { reaches: needed_bytes, bytes: buffer_bytes }
            }
            Err(other) => ViewFault::Geometry(other),
            Ok(()) if self.desc.buffer_addr == 0 => ViewFault::Null { bytes },
            Ok(()) if self.desc.buffer_addr.checked_add(bytes).is_none() => ViewFault::NoSuchMemory { bytes },
            Ok(()) => ViewFault::TooLarge,
        };
        RecordError::BadView { arg, fault: Box::new(fault) }
    }

    /// Bytes of its content; none when it is too large to be any.
    pub fn content_bytes(&self) -> Option<u64> {
        let sizes = self.desc.dims();
        let numel = sizes.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size))?;
        self.desc.dtype()?.packed_bytes(numel)
    }
}
