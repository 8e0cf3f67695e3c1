//! The kernels of `bgemm`: the product of two tiles, and its accumulation. The dtype is that of the
//! arguments.

use half::f16;
use tensortap_abi::{CoreType, DType};
use tensortap_scene::FaultKind::{Last, Nan, Overflow, Race, Shift, Sign, Stale};
use tensortap_scene::KernelArg::{In, InOut, Out, Scalar};
use tensortap_scene::{Args, Element, KernelBody, KernelDef, RefTask, kernel_entry};

pub(super) const GEMM_TILE: KernelDef = KernelDef {
    func_id: 0,
    name: "gemm_tile",
    core_type: CoreType::Aic,
    signature: &[In("a"), In("b"), Out("product")],
    entry: kernel_entry::<GemmTile>,
    reference: Some(&gemm_tile_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Shift, Overflow, Race],
};

pub(super) const TILE_ADD: KernelDef = KernelDef {
    func_id: 1,
    name: "tile_add",
    core_type: CoreType::Aiv,
    signature: &[In("product"), InOut("c"), Scalar("first")],
    entry: kernel_entry::<TileAdd>,
    reference: Some(&tile_add_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Shift, Overflow, Race],
};

/// An operand type and the type for sums of its products.
trait Operand: Element {
    type Sum: Sum;
    fn widen(self) -> Self::Sum;
}

/// A type for sums of products. Integers wrap, as on a matrix core.
trait Sum: Element {
    fn plus(self, other: Self) -> Self;
    fn plus_product(self, left: Self, right: Self) -> Self;
}

impl Operand for f32 {
    type Sum = f32;
    fn widen(self) -> f32 {
        self
    }
}

impl Operand for f16 {
    type Sum = f32;
    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Operand for i8 {
    type Sum = i32;
    fn widen(self) -> i32 {
        self.into()
    }
}

impl Sum for f32 {
    fn plus(self, other: f32) -> f32 {
        self + other
    }
    fn plus_product(self, left: f32, right: f32) -> f32 {
        self + left * right
    }
}

impl Sum for i32 {
    fn plus(self, other: i32) -> i32 {
        self.wrapping_add(other)
    }
    fn plus_product(self, left: i32, right: i32) -> i32 {
        self.wrapping_add(left.wrapping_mul(right))
    }
}

/// `product = left x right`.
struct GemmTile;

impl KernelBody for GemmTile {
    fn run(args: &Args) {
        match args.tensor(0).dtype() {
            DType::Int8 => gemm_tile::<i8>(args),
            DType::Float16 => gemm_tile::<f16>(args),
            _ => gemm_tile::<f32>(args),
        }
    }
}

fn gemm_tile<T: Operand>(args: &Args) {
    let (left, right) = (args.tensor(0), args.tensor(1));
    let (depth, columns) = (right.dim(0), right.dim(1));
    let left: Vec<T::Sum> = left.load::<T>().into_iter().map(T::widen).collect();
    let right: Vec<T::Sum> = right.load::<T>().into_iter().map(T::widen).collect();
    args.tensor(2).store(&multiply(&left, &right, depth, columns));
}

/// Multiplies row-major matrices. The innermost loop runs along rows of `right` and of the product, so that
/// the compiler can vectorize it.
fn multiply<S: Sum>(left: &[S], right: &[S], depth: usize, columns: usize) -> Vec<S> {
    let mut product = vec![S::default(); left.len() / depth * columns];
    for (left_row, product_row) in left.chunks_exact(depth).zip(product.chunks_exact_mut(columns)) {
        for (&factor, right_row) in left_row.iter().zip(right.chunks_exact(columns)) {
            for (sum, &value) in product_row.iter_mut().zip(right_row) {
                *sum = sum.plus_product(factor, value);
            }
        }
    }
    product
}

fn gemm_tile_reference(task: &mut RefTask) {
    let (left, right) = (task.tensors[0].clone(), task.tensors[1].clone());
    let (rows, depth, columns) = (left.shape[0], left.shape[1], right.shape[1]);
    for i in 0..rows {
        for j in 0..columns {
            let terms = (0..depth).map(|p| left.values[i * depth + p] * right.values[p * columns + j]);
            task.tensors[2].values[i * columns + j] = terms.sum();
        }
    }
}

/// `total += product`, or `total = product` in the first step of a chain.
struct TileAdd;

impl KernelBody for TileAdd {
    fn run(args: &Args) {
        match args.tensor(0).dtype() {
            DType::Int32 => tile_add::<i32>(args),
            _ => tile_add::<f32>(args),
        }
    }
}

fn tile_add<S: Sum>(args: &Args) {
    let (product, total) = (args.tensor(0).load::<S>(), args.tensor(1));
    let is_first = args.scalar::<u8>(2) != 0;
    if is_first {
        total.store(&product);
        return;
    }
    let mut sums = total.load::<S>();
    for (sum, &value) in sums.iter_mut().zip(&product) {
        *sum = sum.plus(value);
    }
    total.store(&sums);
}

fn tile_add_reference(task: &mut RefTask) {
    let is_first = task.scalars[0].bits == 1;
    for i in 0..task.tensors[1].values.len() {
        let before = if is_first { 0.0 } else { task.tensors[1].values[i] };
        task.tensors[1].values[i] = before + task.tensors[0].values[i];
    }
}
