//! A reference for strided views: plain enumeration that shares no arithmetic with the crate.

use std::collections::HashSet;

use proptest::prelude::*;
use tensortap_geometry::Layout;

/// A view as plain numbers, with the address of its buffer.
#[derive(Clone, Debug)]
pub struct PlainView {
    pub shape: Vec<u64>,
    pub strides: Vec<i64>,
    pub start: u64,
    pub elem_bits: u32,
    pub base: u64,
}

impl PlainView {
    pub fn layout(&self) -> Layout {
        Layout::new(&self.shape, &self.strides, self.start, self.elem_bits)
            .expect("generated views are valid")
    }

    pub fn of(layout: &Layout, base: u64) -> Self {
        Self {
            shape: layout.shape().to_vec(),
            strides: layout.strides().to_vec(),
            start: layout.start_offset(),
            elem_bits: layout.elem_bits(),
            base,
        }
    }

    /// Element offsets in row-major order, each from its linear index.
    pub fn offsets(&self) -> Vec<i64> {
        let numel: u64 = self.shape.iter().product();
        (0..numel)
            .map(|linear| {
                let mut rest = linear;
                let mut offset = self.start.cast_signed();
                for (size, stride) in self.shape.iter().zip(&self.strides).rev() {
                    offset += (rest % size).cast_signed() * stride;
                    rest /= size;
                }
                offset
            })
            .collect()
    }

    /// Addresses of all bytes touched, bit by bit.
    pub fn bytes(&self) -> HashSet<u64> {
        let bits = u64::from(self.elem_bits);
        let first_bits = self.offsets().into_iter().map(|offset| offset.cast_unsigned() * bits);
        first_bits.flat_map(|first| (first..first + bits).map(|bit| self.base + bit / 8)).collect()
    }
}

pub fn elem_bits() -> impl Strategy<Value = u32> {
    // 4-bit elements have separate code paths, so they are more frequent.
    prop_oneof![4 => Just(4u32), 2 => Just(8u32), 1 => Just(16u32), 1 => Just(32u32), 1 => Just(64u32)]
}

/// How far negative strides reach below a view's start.
fn reach_below_start(shape: &[u64], strides: &[i64]) -> u64 {
    shape
        .iter()
        .zip(strides)
        .map(|(size, stride)| size.saturating_sub(1) * (-stride).max(0).unsigned_abs())
        .sum()
}

/// Views of 0 to 4 dimensions with strides unrelated to their shape.
fn views(max_size: u64, max_stride: i64, max_base: u64) -> impl Strategy<Value = PlainView> {
    let size = prop_oneof![1 => Just(0u64), 30 => 1..=max_size];
    let stride = prop_oneof![1 => Just(0i64), 8 => -max_stride..=max_stride];
    let dims = prop::collection::vec((size, stride), 0..=4);
    (dims, 0..24u64, elem_bits(), 0..=max_base).prop_map(|(dims, spare, elem_bits, base)| {
        let (shape, strides): (Vec<u64>, Vec<i64>) = dims.into_iter().unzip();
        let start = reach_below_start(&shape, &strides) + spare;
        PlainView { shape, strides, start, elem_bits, base }
    })
}

/// Pairs of views: crowded ones, sparse ones whose spans meet without a shared byte, and long ones with few
/// dimensions and unrelated steps.
pub fn view_pairs() -> impl Strategy<Value = (PlainView, PlainView)> {
    prop_oneof![
        (views(5, 12, 40), views(5, 12, 40)),
        (views(4, 90, 200), views(4, 90, 200)),
        (sparse_views(), sparse_views()),
    ]
}

/// One or two long dimensions, with strides that sometimes share factors.
fn sparse_views() -> impl Strategy<Value = PlainView> {
    let dim = (2..=24u64, prop_oneof![6..=40i64, -40..=-6i64], 1..=3i64);
    (prop::collection::vec(dim, 1..=2), 0..600u64, elem_bits(), 0..64u64).prop_map(
        |(dims, spare, elem_bits, base)| {
            let shape: Vec<u64> = dims.iter().map(|dim| dim.0).collect();
            let strides: Vec<i64> = dims.iter().map(|dim| dim.1 * dim.2).collect();
            let start = reach_below_start(&shape, &strides) + spare;
            PlainView { shape, strides, start, elem_bits, base }
        },
    )
}

/// A view operation with arguments that are reduced to the range that the view allows.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    pub kind: u8,
    pub dim: usize,
    pub numbers: [u64; 3],
}

pub fn ops(max_ops: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = (0..5u8, 0..8usize, prop::array::uniform3(0..1u64 << 40));
    prop::collection::vec(op.prop_map(|(kind, dim, numbers)| Op { kind, dim, numbers }), 0..=max_ops)
}

/// An operation that is valid for one view.
#[derive(Clone, Copy, Debug)]
pub enum ValidOp {
    SliceStep { dim: usize, start: u64, len: u64, step: i64 },
    Transpose { a: usize, b: usize },
    Select { dim: usize, index: u64 },
    Broadcast { dim: usize, len: u64 },
}

impl Op {
    /// The operation reduced to a view of this shape; `None` if the shape allows no such operation.
    pub fn for_shape(&self, shape: &[u64]) -> Option<ValidOp> {
        let dim = self.dim.checked_rem(shape.len())?;
        let size = shape[dim];
        let [x, y, z] = self.numbers;
        match self.kind {
            0 => Some(ValidOp::Transpose { a: dim, b: usize::try_from(x).unwrap() % shape.len() }),
            1 if size > 0 => Some(ValidOp::Select { dim, index: x % size }),
            2 if size == 1 => Some(ValidOp::Broadcast { dim, len: 1 + x % 3 }),
            3 | 4 if size > 0 => {
                let start = x % size;
                let step = 1 + y % 3.max(size / 3);
                let down = self.kind == 4;
                let room = if down { start / step } else { (size - 1 - start) / step };
                let len = 1 + z % (room + 1);
                let step = if down { -step.cast_signed() } else { step.cast_signed() };
                Some(ValidOp::SliceStep { dim, start, len, step })
            }
            _ => None,
        }
    }
}

impl ValidOp {
    pub fn apply(self, layout: &Layout) -> Layout {
        match self {
            Self::SliceStep { dim, start, len, step } => layout.slice_step(dim, start, len, step),
            Self::Transpose { a, b } => layout.transpose(a, b),
            Self::Select { dim, index } => layout.select(dim, index),
            Self::Broadcast { dim, len } => layout.broadcast(dim, len),
        }
        .expect("the operation was made for this view")
    }
}

/// The result of applying the operations to a whole tensor.
pub fn derived(tensor: &Layout, ops: &[Op]) -> Layout {
    ops.iter().fold(*tensor, |view, op| op.for_shape(view.shape()).map_or(view, |valid| valid.apply(&view)))
}
