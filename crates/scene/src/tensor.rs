use tensortap_abi::{DType, TensorDesc};
use tensortap_geometry::Layout;
use tensortap_values::decode_block;
use zerocopy::IntoBytes;

use crate::{BufferId, Element, GraphError, Location};

/// A tensor as an orchestration holds it: a strided view of a buffer that may not have memory yet.
///
/// It is a cheap value; views are made by the methods and share the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub(crate) buffer: BufferId,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
}

impl Tensor {
    /// The buffer viewed.
    pub fn buffer(&self) -> BufferId {
        self.buffer
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Which elements of the buffer, in which order.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sizes.
    pub fn shape(&self) -> &[u64] {
        self.layout.shape()
    }

    fn viewed(&self, layout: Layout) -> Tensor {
        Tensor { layout, ..*self }
    }

    /// `len` indices of dimension `dim` from `start` on.
    pub fn slice(&self, dim: usize, start: u64, len: u64) -> Result<Tensor, GraphError> {
        Ok(self.viewed(self.layout.slice(dim, start, len)?))
    }

    /// Every `step`-th index of a dimension; backwards when negative.
    pub fn slice_step(&self, dim: usize, start: u64, len: u64, step: i64) -> Result<Tensor, GraphError> {
        Ok(self.viewed(self.layout.slice_step(dim, start, len, step)?))
    }

    /// Two dimensions exchanged.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Tensor, GraphError> {
        Ok(self.viewed(self.layout.transpose(a, b)?))
    }

    /// One index of a dimension, which is dropped.
    pub fn select(&self, dim: usize, index: u64) -> Result<Tensor, GraphError> {
        Ok(self.viewed(self.layout.select(dim, index)?))
    }

    /// A dimension of size 1 repeated `len` times, by a stride of zero.
    pub fn broadcast(&self, dim: usize, len: u64) -> Result<Tensor, GraphError> {
        Ok(self.viewed(self.layout.broadcast(dim, len)?))
    }

    /// Other sizes for the same elements; contiguous views only.
    pub fn reshape(&self, shape: &[u64]) -> Result<Tensor, GraphError> {
        Ok(self.viewed(self.layout.reshape(shape)?))
    }

    /// The descriptor a kernel receives, once the buffer has a location.
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

/// A contiguous tensor in host memory: inputs, goldens, results.
#[derive(Clone, Debug, PartialEq)]
pub struct HostTensor {
    /// Name of the scene's argument.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<u64>,
    /// Packed elements, little endian.
    pub bytes: Vec<u8>,
}

impl HostTensor {
    /// A tensor of zeros.
    ///
    /// # Panics
    /// When the sizes multiply past 64 bits.
    pub fn zeros(name: &str, dtype: DType, shape: &[u64]) -> HostTensor {
        let numel = shape.iter().try_fold(1_u64, |n, &d| n.checked_mul(d));
        let bytes = numel.and_then(|n| dtype.packed_bytes(n)).and_then(|b| usize::try_from(b).ok());
        let bytes = vec![0; bytes.expect("a scene's tensor fits in memory")];
        HostTensor { name: name.into(), dtype, shape: shape.into(), bytes }
    }

    /// A tensor of these elements.
    ///
    /// # Panics
    /// When their number is not that of the shape.
    pub fn new<T: Element>(name: &str, shape: &[u64], elements: &[T]) -> HostTensor {
        let mut tensor = HostTensor::zeros(name, T::DTYPE, shape);
        tensor.set(elements);
        tensor
    }

    /// The elements.
    ///
    /// # Panics
    /// When `T` is not the tensor's dtype.
    pub fn get<T: Element>(&self) -> Vec<T> {
        self.check_type::<T>();
        self.bytes
            .chunks_exact(size_of::<T>())
            .map(|c| T::read_from_bytes(c).expect("a chunk has the size of T"))
            .collect()
    }

    /// The elements as `f64`: exact but for 64-bit integers beyond 2^53, which are rounded.
    pub fn values(&self) -> Vec<f64> {
        let numel = usize::try_from(self.shape.iter().product::<u64>()).expect("it is in memory");
        let mut values = vec![0.0; numel];
        decode_block(self.dtype, &self.bytes, &mut values);
        values
    }

    /// Replaces all elements.
    ///
    /// # Panics
    /// When `T` is not the tensor's dtype or the number differs.
    pub fn set<T: Element>(&mut self, elements: &[T]) {
        self.check_type::<T>();
        assert_eq!(self.bytes.len(), size_of_val(elements), "elements of `{}`", self.name);
        self.bytes.copy_from_slice(elements.as_bytes());
    }

    fn check_type<T: Element>(&self) {
        assert_eq!(self.dtype, T::DTYPE, "dtype of `{}`", self.name);
    }
}

/// The orchestration's own arguments in host memory, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostArgs(pub Vec<HostTensor>);

impl HostArgs {
    /// The argument of a name.
    ///
    /// # Panics
    /// When the scene has no such argument.
    pub fn get(&self, name: &str) -> &HostTensor {
        self.0.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("the scene has no argument `{name}`"))
    }

    /// The argument of a name, to be filled.
    ///
    /// # Panics
    /// When the scene has no such argument.
    pub fn get_mut(&mut self, name: &str) -> &mut HostTensor {
        self.0
            .iter_mut()
            .find(|t| t.name == name)
            .unwrap_or_else(|| panic!("the scene has no argument `{name}`"))
    }
}
