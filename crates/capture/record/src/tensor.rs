//! Tensors in a program's memory.
#![expect(unsafe_code, reason = "programs describe memory by address")]

use std::marker::PhantomData;

use tensortap_abi::{
    DType, MAX_DIMS, MAX_RECORD_ARGS, MemorySpace, RECORD_DTYPE_UNKNOWN, RECORD_EXTENT_GUESSED,
    RECORD_ROLE_UNKNOWN, Role, TensorDesc,
};
use tensortap_geometry::{GeometryError, Layout};
use tensortap_recorder::TensorDetails;

use crate::{RecordError, StringId, ViewFault};

/// Limit on sizes, strides and offsets: JSON numbers are exact below it.
pub(crate) const NUMBER_LIMIT: u64 = 1 << 53;
/// Limit on the content of one tensor.
const MOST_BYTES: u64 = 1 << 40;

/// Checks the position of an argument.
#[inline]
pub(crate) fn check_position(arg: u16) -> Result<(), RecordError> {
    match u32::from(arg) < MAX_RECORD_ARGS {
        true => Ok(()),
        false => {
            let remedy = "a task has at most 65535 arguments, counted from 0";
            Err(RecordError::BadArgument { what: "argument", value: arg.into(), remedy })
        }
    }
}

/// A strided view of memory, as an argument of a task.
///
/// ```
/// use tensortap_record::{DType, Role, Tensor};
/// let matrix = [[1_i32, 2, 3], [4, 5, 6]];
/// // The second column, from the bottom up. Strides count elements.
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
    pub(crate) details: TensorDetails,
    /// Whether this process can read it.
    pub(crate) is_here: bool,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Tensor<'a> {
    /// A tensor over a slice or other plain memory, in one dimension: an input, argument 0.
    ///
    /// # Errors
    /// If the size is not a whole number of elements.
    pub fn of<T: zerocopy::IntoBytes + zerocopy::Immutable + ?Sized>(
        memory: &'a T,
        dtype: DType,
    ) -> Result<Tensor<'a>, RecordError> {
        let bytes = memory.as_bytes();
        let (len, bits) = (bytes.len() as u64, u64::from(dtype.bits()));
        if !(len * 8).is_multiple_of(bits) {
            let remedy = "pass a whole number of elements";
            return Err(RecordError::BadArgument { what: "memory of bytes", value: len, remedy });
        }
        // SAFETY: borrowed for 'a, so it is readable.
        unsafe { Tensor::at(bytes.as_ptr(), len, dtype) }.view(&[len * 8 / bits], &[1], 0)
    }

    /// A tensor over a buffer at an address, without a shape yet.
    ///
    /// # Safety
    /// During 'a, the `bytes` at `start` must be readable whenever the tensor is recorded. If other threads
    /// write them meanwhile, the recorded content is a mixture.
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
            details: TensorDetails { space: MemorySpace::Host, ..TensorDetails::default() },
            is_here: true,
            memory: PhantomData,
        }
    }

    /// A tensor in memory that this process cannot read, such as a device's. Its content is
    /// [reserved](crate::ThreadRecorder::reserve) and arrives later.
    #[inline]
    pub fn elsewhere(address: u64, bytes: u64, dtype: DType, space: MemorySpace) -> Tensor<'static> {
        // SAFETY: `is_here` is false, so it is never read.
        let mut tensor: Tensor<'static> = unsafe { Tensor::at(std::ptr::null(), bytes, dtype) };
        (tensor.desc.buffer_addr, tensor.details.space, tensor.is_here) = (address, space, false);
        tensor
    }

    /// Sets shape, strides and start in elements. Strides may be zero or negative. A view that exceeds the
    /// buffer, or that has more dimensions than [`MAX_DIMS`], is an error when it is recorded
    /// ([`RecordError::BadView`]), and the dump lists it as uncaptured.
    ///
    /// # Errors
    /// With a different number of strides.
    #[inline]
    pub fn view(mut self, shape: &[u64], strides: &[i64], start: u64) -> Result<Tensor<'a>, RecordError> {
        let ndims = shape.len();
        if strides.len() != ndims {
            let remedy = "pass one stride for each";
            return Err(RecordError::BadArgument { what: "dimensions", value: ndims as u64, remedy });
        }
        (self.desc.shape, self.desc.strides) = ([0; MAX_DIMS], [0; MAX_DIMS]);
        self.desc.ndims = u8::try_from(ndims).unwrap_or(u8::MAX);
        if ndims > MAX_DIMS {
            return Ok(self);
        }
        self.desc.shape[..ndims].copy_from_slice(shape);
        self.desc.strides[..ndims].copy_from_slice(strides);
        self.desc.start_offset = start;
        Ok(self)
    }

    /// Sets the shape of a contiguous view.
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

    /// Sets its argument position.
    #[must_use]
    #[inline]
    pub fn arg(self, position: u16) -> Tensor<'a> {
        Tensor { arg: position, ..self }
    }

    /// Sets how the task uses it.
    #[must_use]
    #[inline]
    pub fn role(self, role: Role) -> Tensor<'a> {
        Tensor { role, ..self }
    }

    /// Sets its name.
    #[must_use]
    #[inline]
    pub fn name(mut self, name: StringId) -> Tensor<'a> {
        self.details.name = name.0;
        self
    }

    /// Marks it, for level `marked`.
    #[must_use]
    #[inline]
    pub fn marked(self) -> Tensor<'a> {
        Tensor { marked: true, ..self }
    }

    /// Sets its memory space.
    #[must_use]
    #[inline]
    pub fn space(mut self, space: MemorySpace) -> Tensor<'a> {
        self.details.space = space;
        self
    }

    /// Sets the buffer's address on the device, if it differs from the address in this process.
    #[must_use]
    #[inline]
    pub fn known_at(mut self, address: u64) -> Tensor<'a> {
        self.details.address = address;
        self
    }

    /// Sets which facts are guesses.
    #[must_use]
    #[inline]
    pub fn guessed(mut self, dtype: bool, role: bool, extent: bool) -> Tensor<'a> {
        let flag = |is_guess: bool, flag: u32| if is_guess { flag } else { 0 };
        self.details.guessed = flag(dtype, RECORD_DTYPE_UNKNOWN)
            | flag(role, RECORD_ROLE_UNKNOWN)
            | flag(extent, RECORD_EXTENT_GUESSED);
        self
    }

    /// Whether its sizes fit a dump.
    #[inline]
    pub(crate) fn is_recordable(&self) -> bool {
        if usize::from(self.desc.ndims) > MAX_DIMS {
            return false;
        }
        let sizes = self.desc.dims().iter().fold(self.desc.start_offset, |all, &size| all | size);
        let all = self.desc.dim_strides().iter().fold(sizes, |all, &stride| all | stride.unsigned_abs());
        all < NUMBER_LIMIT && self.content_bytes().is_some_and(|bytes| bytes <= MOST_BYTES)
    }

    /// A size, stride or offset that is too large for a dump.
    fn large_number(&self) -> Option<u64> {
        let numbers = self.desc.dims().iter().copied().chain([self.desc.start_offset]);
        let mut numbers = numbers.chain(self.desc.dim_strides().iter().map(|stride| stride.unsigned_abs()));
        numbers.find(|&number| number >= NUMBER_LIMIT)
    }

    /// Why the view could not be captured.
    #[cold]
    pub(crate) fn fault(&self) -> RecordError {
        let (arg, bytes, ndims) = (self.arg, self.desc.buffer_bytes, usize::from(self.desc.ndims));
        if ndims > MAX_DIMS {
            let fault = ViewFault::Geometry(GeometryError::TooManyDims { ndims });
            return RecordError::BadView { arg, fault: Box::new(fault) };
        }
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

    /// Size of its content in bytes; `None` if it overflows.
    pub fn content_bytes(&self) -> Option<u64> {
        let sizes = self.desc.dims();
        let numel = sizes.iter().try_fold(1_u64, |numel, &size| numel.checked_mul(size))?;
        self.desc.dtype()?.packed_bytes(numel)
    }
}
