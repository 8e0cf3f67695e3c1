//! Compares loads and stores of kernels through views with plain indexing into the buffer.

use std::ptr::from_mut;

use proptest::prelude::*;
use tensortap_abi::{ARG_SLOTS, DType, TensorDesc};
use tensortap_scene::{Args, Element, FaultKind, KernelBody, kernel_entry, run_kernel};

/// The element offsets of a view in row-major order, by nested counting.
fn offsets(shape: &[u64], strides: &[i64], start: u64) -> Vec<usize> {
    let mut all = vec![i64::try_from(start).unwrap()];
    for (&size, &stride) in shape.iter().zip(strides) {
        all =
            all.iter().flat_map(|o| (0..i64::try_from(size).unwrap()).map(move |i| o + i * stride)).collect();
    }
    all.into_iter().map(|o| usize::try_from(o).unwrap()).collect()
}

fn desc<T: Element>(buffer: &mut [T], shape: &[u64], strides: &[i64], start: u64) -> TensorDesc {
    let mut desc = TensorDesc {
        buffer_addr: buffer.as_mut_ptr().expose_provenance() as u64,
        buffer_bytes: size_of_val(buffer) as u64,
        start_offset: start,
        dtype: T::DTYPE.tag(),
        ndims: u8::try_from(shape.len()).unwrap(),
        ..TensorDesc::default()
    };
    desc.shape[..shape.len()].copy_from_slice(shape);
    desc.strides[..strides.len()].copy_from_slice(strides);
    desc
}

/// Runs a kernel with tensors, followed by scalars.
fn call<K: KernelBody>(
    tensors: &mut [TensorDesc],
    scalars: &[u64],
    fault: Option<FaultKind>,
) -> Result<(), String> {
    let mut args = [0; ARG_SLOTS];
    for (slot, desc) in args.iter_mut().zip(tensors.iter_mut()) {
        *slot = from_mut(desc).expose_provenance() as u64;
    }
    args[tensors.len()..tensors.len() + scalars.len()].copy_from_slice(scalars);
    // SAFETY: descriptors and their buffers live in the caller, and these kernels use no context.
    unsafe { run_kernel(kernel_entry::<K>, args.as_mut_ptr(), fault) }
}

/// Copies the view in slot 0 to slot 1.
struct Copy32;
impl KernelBody for Copy32 {
    fn run(args: &Args) {
        args.tensor(1).store(&args.tensor(0).load::<u32>());
    }
}

/// Copies in two halves. Element ranges count in row-major order.
struct CopyHalves;
impl KernelBody for CopyHalves {
    fn run(args: &Args) {
        let (from, to) = (args.tensor(0), args.tensor(1));
        let half = from.numel() / 2;
        to.store_range(half, &from.load_range::<u32>(half, from.numel() - half));
        to.store_range(0, &from.load_range::<u32>(0, half));
    }
}

/// A view whose elements do not overlap, so that the result of a store is well-defined.
fn distinct_view() -> impl Strategy<Value = (Vec<u64>, Vec<i64>, u64, usize)> {
    let dims = prop::collection::vec((1_u64..4, 1_i64..3, any::<bool>()), 0..4);
    (dims, 0_u64..5).prop_map(|(dims, extra)| {
        // Each stride is larger than everything inside, plus a gap. Some strides are negative.
        let (mut inside, mut low, mut strides) = (1_i64, 0_i64, Vec::new());
        for &(size, gap, backwards) in dims.iter().rev() {
            let stride = inside * gap;
            let reach = stride * (i64::try_from(size).unwrap() - 1);
            strides.insert(0, if backwards { -stride } else { stride });
            low += if backwards { reach } else { 0 };
            inside += reach;
        }
        let shape = dims.iter().map(|d| d.0).collect();
        let start = u64::try_from(low).unwrap() + extra;
        (shape, strides, start, usize::try_from(inside).unwrap() + usize::try_from(start).unwrap() + 3)
    })
}

proptest! {
    #[test]
    fn a_strided_view_is_loaded_and_stored_in_row_major_order((shape, strides, start, len) in distinct_view()) {
        let wanted = offsets(&shape, &strides, start);
        let mut buffer: Vec<u32> = (0..).take(len).collect();
        let mut packed = vec![0_u32; wanted.len()];
        let packed_shape = [packed.len() as u64];
        let view = desc(&mut buffer, &shape, &strides, start);
        call::<Copy32>(&mut [view, desc(&mut packed, &packed_shape, &[1], 0)], &[], None).unwrap();
        let expected: Vec<u32> = wanted.iter().map(|&o| u32::try_from(o).unwrap()).collect();
        prop_assert_eq!(&packed, &expected);

        let mut target = vec![u32::MAX; len];
        let view = desc(&mut target, &shape, &strides, start);
        call::<CopyHalves>(&mut [desc(&mut packed, &packed_shape, &[1], 0), view], &[], None).unwrap();
        for (place, &value) in target.iter().enumerate() {
            let expected = if wanted.contains(&place) { u32::try_from(place).unwrap() } else { u32::MAX };
            prop_assert_eq!(value, expected, "element {} of {:?}", place, target);
        }
    }
}

#[test]
fn a_zero_stride_repeats_and_an_empty_view_is_a_no_op() {
    let mut one = [7_u32, 8];
    let mut four = [0_u32; 4];
    let view = desc(&mut one, &[4], &[0], 1);
    call::<Copy32>(&mut [view, desc(&mut four, &[4], &[1], 0)], &[], None).unwrap();
    assert_eq!(four, [8; 4]);
    let empty = desc(&mut one, &[0], &[1], 0);
    call::<Copy32>(&mut [empty, desc(&mut four, &[0], &[1], 0)], &[], None).unwrap();
    assert_eq!(four, [8; 4]);
}

/// Copies slot 0 to slot 1 as f32.
struct CopyFloat;
impl KernelBody for CopyFloat {
    fn run(args: &Args) {
        args.tensor(1).store(&args.tensor(0).load::<f32>());
    }
}

#[test]
fn each_fault_damages_as_described() {
    let damaged = |fault| {
        let (mut from, mut to) = ([1.0_f32, -2.0, 3.0], [9.0_f32; 3]);
        let mut tensors = [desc(&mut from, &[3], &[1], 0), desc(&mut to, &[3], &[1], 0)];
        call::<CopyFloat>(&mut tensors, &[], Some(fault)).unwrap();
        to
    };
    assert_eq!(damaged(FaultKind::Sign), [-1.0, 2.0, -3.0]);
    assert_eq!(damaged(FaultKind::Last)[..2], [1.0, -2.0]);
    assert_ne!(damaged(FaultKind::Last)[2], 3.0);
    assert_eq!(damaged(FaultKind::Stale), [9.0; 3]);
    assert!(damaged(FaultKind::Nan).iter().all(|v| v.is_nan()));
    assert_eq!(damaged(FaultKind::Shift), [-2.0, 3.0, 3.0]);
    assert_eq!(damaged(FaultKind::Overflow), [f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY]);
    assert_eq!(damaged(FaultKind::Race), [1.0, -2.0, 3.0]);
}

/// Adds scalar 2 (i64) to each element of slot 0 and stores to slot 1.
struct AddScalar;
impl KernelBody for AddScalar {
    fn run(args: &Args) {
        let addend: i64 = args.scalar(2);
        let sums: Vec<i64> = args.tensor(0).load::<i64>().iter().map(|v| v + addend).collect();
        args.tensor(1).store(&sums);
    }
}

#[test]
fn scalars_follow_the_tensors_and_keep_their_sign() {
    let (mut from, mut to) = ([5_i64, i64::MAX], [0_i64; 2]);
    let mut tensors = [desc(&mut from, &[2], &[1], 0), desc(&mut to, &[2], &[1], 0)];
    call::<AddScalar>(&mut tensors, &[Element::to_bits(-3_i64)], None).unwrap();
    assert_eq!(to, [2, i64::MAX - 3]);
}

#[test]
fn a_kernel_panic_is_returned_and_the_thread_continues() {
    let (mut from, mut to) = ([1.0_f32; 2], [0.0_f32; 3]);
    let mut tensors = [desc(&mut from, &[2], &[1], 0), desc(&mut to, &[3], &[1], 0)];
    let error = call::<CopyFloat>(&mut tensors, &[], None).unwrap_err();
    assert!(error.contains("store of a whole tensor"), "{error}");
    let mut tensors = [desc(&mut from, &[2], &[1], 0), desc(&mut to, &[2], &[1], 0)];
    assert_eq!(call::<CopyFloat>(&mut tensors, &[], None), Ok(()));
}

#[test]
fn a_view_beyond_its_buffer_or_with_another_dtype_is_refused() {
    let (mut from, mut to) = ([1.0_f32; 2], [0.0_f32; 3]);
    let mut tensors = [desc(&mut from, &[3], &[1], 0), desc(&mut to, &[3], &[1], 0)];
    assert!(call::<CopyFloat>(&mut tensors, &[], None).is_err());
    let mut tensors = [desc(&mut from, &[2], &[1], 0), desc(&mut to, &[2], &[1], 0)];
    tensors[0].dtype = DType::Int32.tag();
    assert!(call::<CopyFloat>(&mut tensors, &[], None).unwrap_err().contains("accessed as float32"));
}
