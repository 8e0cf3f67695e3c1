use tensortap_abi::{DType, TensorDesc};
use tensortap_geometry::Layout;
use tensortap_values::decode_block;
use zerocopy::IntoBytes;

use crate::{BufferId, Element, GraphError, Location};

/// A tensor in an orchestration: a strided view of a buffer. The buffer may not have memory yet.
///
/// Cheap to copy. Methods create other views of the same buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub(crate) buffer: BufferId,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
}

impl Tensor {
    /// The buffer.
    pub fn buffer(&self) -> BufferId {
        self.buffer
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The layout: which elements of the buffer, in which order.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The sizes of all dimensions.
    pub fn shape(&self) -> &[u64] {
        self.layout.shape()
    }

    fn with_layout(&self, layout: Layout) -> Tensor {
        Tensor { layout, ..*self }
    }

    /// `len` indices of a dimension, starting at `start`.
    pub fn slice(&self, dim: usize, start: u64, len: u64) -> Result<Tensor, GraphError> {
        Ok(self.with_layout(self.layout.slice(dim, start, len)?))
    }

    /// Every `step`-th index of a dimension. A negative step goes backward.
    pub fn slice_step(&self, dim: usize, start: u64, len: u64, step: i64) -> Result<Tensor, GraphError> {
        Ok(self.with_layout(self.layout.slice_step(dim, start, len, step)?))
    }

    /// Two dimensions swapped.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Tensor, GraphError> {
        Ok(self.with_layout(self.layout.transpose(a, b)?))
    }

    /// One index of a dimension. The dimension is removed.
    pub fn select(&self, dim: usize, index: u64) -> Result<Tensor, GraphError> {
        Ok(self.with_layout(self.layout.select(dim, index)?))
    }

    /// A dimension of size 1 repeated `len` times, with stride zero.
    pub fn broadcast(&self, dim: usize, len: u64) -> Result<Tensor, GraphError> {
        Ok(self.with_layout(self.layout.broadcast(dim, len)?))
    }

    /// The same elements with other sizes. Contiguous views only.
    pub fn reshape(&self, shape: &[u64]) -> Result<Tensor, GraphError> {
        Ok(self.with_layout(self.layout.reshape(shape)?))
    }

    /// The descriptor that a kernel receives, once the buffer has a location.
    pub fn descriptor(&self, location: &Location, buffer_bytes: u64) -> TensorDesc {
        let mut desc = TensorDesc {
            buffer_addr: location.addr,
            buffer_bytes,
            start_offset: self.layout.start_offset(),
            owner_task: location.owner_task,
            version: location.version,
            dtype: self.dtype.tag(),
            ndims: u8::try_from(self.layout.ndims()).expect("a layout has at most 8 dimensions"),
            ..TensorDesc::default()
        };
        desc.shape[..self.layout.ndims()].copy_from_slice(self.layout.shape());
        desc.strides[..self.layout.ndims()].copy_from_slice(self.layout.strides());
        desc
    }
}

/// A contiguous tensor in host memory, for inputs, goldens and results.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Name of the argument in the scene.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The sizes of all dimensions.
    pub shape: Vec<u64>,
    /// Packed elements, little-endian.
    pub bytes: Vec<u8>,
}

impl HostTensor {
    /// A tensor of zeros.
    ///
    /// # Panics
    ///
    /// If the number of elements does not fit in 64 bits.
    pub fn zeros(name: &str, dtype: DType, shape: &[u64]) -> HostTensor {
        let numel = shape.iter().try_fold(1_u64, |n, &d| n.checked_mul(d));
        let bytes = numel.and_then(|n| dtype.packed_bytes(n)).and_then(|b| usize::try_from(b).ok());
        let bytes = vec![0; bytes.expect("a scene's tensor fits in memory")];
        HostTensor { name: name.into(), dtype, shape: shape.into(), bytes }
    }

    /// A tensor with these elements.
    ///
    /// # Panics
    ///
    /// If their number does not match the shape.
    pub fn new<T: Element>(name: &str, shape: &[u64], elements: &[T]) -> HostTensor {
        let mut tensor = HostTensor::zeros(name, T::DTYPE, shape);
        tensor.set(elements);
        tensor
    }

    /// The elements.
    ///
    /// # Panics
    ///
    /// If `T` is not the tensor's dtype.
    pub fn get<T: Element>(&self) -> Vec<T> {
        self.check_type::<T>();
        self.bytes
            .chunks_exact(size_of::<T>())
            .map(|c| T::read_from_bytes(c).expect("a chunk has the size of T"))
            .collect()
    }

    /// The elements as `f64`. Exact except for 64-bit integers beyond 2^53, which are rounded. A complex number
    /// is two values.
    pub fn values(&self) -> Vec<f64> {
        let numel = usize::try_from(self.shape.iter().product::<u64>()).expect("it is in memory");
        let mut values = vec![0.0; numel * self.dtype.parts() as usize];
        decode_block(self.dtype, &self.bytes, &mut values);
        values
    }

    /// Replaces all elements.
    ///
    /// # Panics
    ///
    /// If `T` is not the tensor's dtype, or if the number of elements differs.
    pub fn set<T: Element>(&mut self, elements: &[T]) {
        self.check_type::<T>();
        assert_eq!(self.bytes.len(), size_of_val(elements), "elements of `{}`", self.name);
        self.bytes.copy_from_slice(elements.as_bytes());
    }

    fn check_type<T: Element>(&self) {
        assert_eq!(self.dtype, T::DTYPE, "dtype of `{}`", self.name);
    }
}

/// The arguments of the orchestration in host memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostArgs(pub Vec<HostTensor>);

impl HostArgs {
    /// The argument with this name.
    ///
    /// # Panics
    ///
    /// If the scene has no such argument.
    pub fn get(&self, name: &str) -> &HostTensor {
        self.0.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("the scene has no argument `{name}`"))
    }

    /// The argument with this name, for filling it.
    ///
    /// # Panics
    ///
    /// If the scene has no such argument.
    pub fn get_mut(&mut self, name: &str) -> &mut HostTensor {
        self.0
            .iter_mut()
            .find(|t| t.name == name)
            .unwrap_or_else(|| panic!("the scene has no argument `{name}`"))
    }
}
