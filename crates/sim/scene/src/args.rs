//! A kernel's view of `args[]`. Addresses become typed views in this module and nowhere else.
//!
//! Loads and stores copy between device memory and the kernel's own buffers, as kernels on an accelerator do.
//! No reference into device memory is created, because other cores may use neighboring elements at the same
//! time.

mod outside;

pub use outside::run_damaged;

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tensortap_abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, DType, KernelEntry, SUBTASK_CONTEXT_SLOT, SubtaskContext,
    TensorDesc,
};
use tensortap_geometry::Layout;
use tensortap_sync::SharedU32;
use tensortap_values::{element_bits, from_f64, put_element_bits, to_f64};

use crate::{Element, FaultKind};

/// The code of a built-in kernel.
pub trait KernelBody {
    /// Runs one dispatch.
    fn run(args: &Args);
}

/// The entry point of a built-in kernel, in the kernel ABI.
///
/// A panic must not unwind through the C ABI. It is stored for [`run_kernel`], which returns it as an error.
///
/// # Safety
///
/// `args` must point to [`ARG_SLOTS`] words in the layout of the kernel ABI, valid for the call.
pub unsafe extern "C" fn kernel_entry<K: KernelBody>(args: *mut u64) {
    // SAFETY: the caller promises ARG_SLOTS valid words.
    let words = unsafe { args.cast::<[u64; ARG_SLOTS]>().read() };
    let outcome = catch_unwind(AssertUnwindSafe(|| K::run(&Args { words, fault: FaultKind::active() })));
    if let Err(payload) = outcome {
        PANIC.with_borrow_mut(|slot| *slot = Some(panic_text(&*payload)));
    }
}

/// Marks the kernel that runs on this thread as failed. [`run_kernel`] returns the error. Only the first
/// message of a call counts.
pub fn record_failure(text: &str) {
    PANIC.with_borrow_mut(|slot| {
        slot.get_or_insert_with(|| text.to_owned());
    });
}

/// The entry of a kernel whose library is not loaded into this process. Calling it fails and runs nothing.
pub extern "C" fn unloaded_entry(_args: *mut u64) {
    record_failure(
        "its library is not loaded into this process, because kernels of scene folders run only on devices",
    );
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panicked".into())
}

/// Calls a kernel, with a fault if one is injected. Returns the message of a panic as an error.
///
/// # Safety
///
/// `args` must point to [`ARG_SLOTS`] words for `entry`. All descriptors and contexts in them must be in
/// mapped memory, and so must every byte that the descriptors describe. No other thread may access the bytes
/// that the kernel writes, or write the bytes that it reads. Other dispatches of the same task may do so for
/// different elements. (An injected race breaks this rule on purpose: it reads bytes that another core is
/// writing, through raw copies of plain integers.)
pub unsafe fn run_kernel(entry: KernelEntry, args: *mut u64, fault: Option<FaultKind>) -> Result<(), String> {
    // SAFETY: passed on from the caller.
    let call = || unsafe { entry(args) };
    match fault {
        Some(fault) => fault.damage(call),
        None => call(),
    }
    PANIC.with_borrow_mut(Option::take).map_or(Ok(()), Err)
}

/// The arguments of one dispatch of a kernel.
pub struct Args {
    words: [u64; ARG_SLOTS],
    fault: Option<FaultKind>,
}

impl Args {
    /// The tensor in a slot.
    ///
    /// # Panics
    ///
    /// If the descriptor is damaged.
    pub fn tensor(&self, arg_index: usize) -> TensorArg {
        let address = self.words[arg_index] as *const TensorDesc;
        // SAFETY: run_kernel's caller promises that tensor slots hold addresses of mapped descriptors, and a
        // kernel only requests the tensors of its signature.
        let desc = unsafe { address.read() };
        let dtype = desc.dtype().expect("a descriptor has a known dtype");
        let layout = Layout::new(desc.dims(), desc.dim_strides(), desc.start_offset, dtype.bits())
            .expect("a descriptor describes a valid view");
        layout.fits(desc.buffer_bytes).expect("a view is inside its buffer");
        TensorArg { buffer: desc.buffer_addr as *mut u8, dtype, layout, fault: self.fault }
    }

    /// The scalar in a slot. Scalars follow the tensors.
    pub fn scalar<T: Element>(&self, arg_index: usize) -> T {
        T::from_bits(self.words[arg_index])
    }

    /// The raw words.
    pub fn words(&self) -> &[u64; ARG_SLOTS] {
        &self.words
    }

    /// The block of this dispatch.
    pub fn block(&self) -> BlockContext {
        // SAFETY: slot 48 holds the address of a mapped BlockContext, as run_kernel's caller promises.
        unsafe { (self.words[BLOCK_CONTEXT_SLOT] as *const BlockContext).read() }
    }

    /// The subtask of this dispatch.
    pub fn subtask(&self) -> SubtaskContext {
        // SAFETY: slot 49 holds the address of a mapped SubtaskContext, as run_kernel's caller promises.
        unsafe { (self.words[SUBTASK_CONTEXT_SLOT] as *const SubtaskContext).read() }
    }
}

/// A tensor argument inside a kernel. Indices count the elements of the view in row-major order.
#[derive(Clone, Copy)]
pub struct TensorArg {
    buffer: *mut u8,
    dtype: DType,
    layout: Layout,
    fault: Option<FaultKind>,
}

impl TensorArg {
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes of all dimensions.
    pub fn shape(&self) -> &[u64] {
        self.layout.shape()
    }

    /// The layout of the view.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The device address of the buffer.
    pub fn buffer_addr(&self) -> u64 {
        self.buffer.addr() as u64
    }

    /// The size of one dimension.
    pub fn dim(&self, dim: usize) -> usize {
        usize::try_from(self.layout.shape()[dim]).expect("a size fits in memory")
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        usize::try_from(self.layout.numel()).expect("a size fits in memory")
    }

    /// Loads all elements.
    pub fn load<T: Element>(&self) -> Vec<T> {
        self.load_range(0, self.numel())
    }

    /// Loads `len` elements, starting at index `first`.
    ///
    /// # Panics
    ///
    /// If the range is not inside the view, or if `T` is not its dtype.
    pub fn load_range<T: Element>(&self, first: usize, len: usize) -> Vec<T> {
        self.check::<T>(first, len);
        let mut out = vec![T::default(); len];
        if self.fault == Some(FaultKind::Shift) {
            for (i, element) in out.iter_mut().enumerate() {
                let place = (first + i + 1).min(self.numel() - 1);
                self.copy_runs(place, std::slice::from_mut(element).as_mut_ptr(), 1, CopyDirection::Load);
            }
        } else {
            self.copy_runs(first, out.as_mut_ptr(), len, CopyDirection::Load);
        }
        out
    }

    /// Loads all elements as raw bits. Works for every dtype, including 4-bit elements, for which Rust has no
    /// type.
    pub fn load_bits(&self) -> Vec<u128> {
        let last = self.numel().saturating_sub(1);
        let off = usize::from(self.fault == Some(FaultKind::Shift));
        (0..self.numel()).map(|place| self.read_bits((place + off).min(last))).collect()
    }

    /// Replaces all elements with raw bits (see [`load_bits`](Self::load_bits)).
    ///
    /// # Panics
    ///
    /// If the number of elements differs.
    pub fn store_bits(&self, bits: &[u128]) {
        assert_eq!(bits.len(), self.numel(), "store of a whole tensor");
        // A fault damages the byte of a boolean. A negated number would still be true.
        let dtype = if self.dtype == DType::Bool { DType::UInt8 } else { self.dtype };
        for (place, &bits) in bits.iter().enumerate() {
            let is_last = place + 1 == self.numel();
            match self.fault {
                None | Some(FaultKind::Shift | FaultKind::Race) => self.write_bits(place, bits),
                Some(FaultKind::Stale) => {}
                Some(fault) => self.write_bits(place, damage_element(fault, dtype, bits, is_last)),
            }
        }
    }

    /// The address and length of the bytes that hold an element, and the index of the element within them.
    fn bytes_of(&self, place: usize) -> (*mut u8, usize, usize) {
        let (offset, bits) = (self.element_offset(place).unsigned_abs(), self.dtype.bits() as usize);
        let (byte, within) = if bits == 4 { (offset / 2, offset % 2) } else { (offset * (bits / 8), 0) };
        (self.buffer.wrapping_add(byte), bits.div_ceil(8), within)
    }

    fn read_bits(&self, place: usize) -> u128 {
        let (at, len, within) = self.bytes_of(place);
        let mut bytes = [0; 16];
        // SAFETY: `place` is less than the number of elements of the view. `Args::tensor` checked that the
        // view is inside its buffer, so these bytes are in mapped memory. `bytes` has room for the widest
        // element.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(at, len) };
        element_bits(self.dtype, &bytes, within).expect("a word holds an element")
    }

    fn write_bits(&self, place: usize, bits: u128) {
        let (at, len, within) = self.bytes_of(place);
        let mut bytes = [0; 16];
        // SAFETY: as in `read_bits`. For 4-bit elements the neighbor in the same byte is written back
        // unchanged, so two cores must not share a byte, which `run_kernel`'s caller promises.
        unsafe {
            bytes.as_mut_ptr().copy_from_nonoverlapping(at, len);
            put_element_bits(self.dtype, &mut bytes, within, bits);
            at.copy_from_nonoverlapping(bytes.as_ptr(), len);
        }
    }

    /// Loads one element by its row-major index.
    pub fn load_one<T: Element>(&self, place: usize) -> T {
        self.load_range(place, 1)[0]
    }

    /// Loads one 32-bit element that another core may be writing with [`TensorArg::signal_u32`] at the same
    /// time. Everything that the other core wrote before the signal is visible once the signal is seen.
    ///
    /// # Panics
    ///
    /// If `place` is outside the view, or if the dtype is not `uint32`.
    pub fn poll_u32(&self, place: usize) -> u32 {
        self.shared_u32(place).see()
    }

    /// Writes one 32-bit element for a core that [polls](TensorArg::poll_u32) it. Injected faults do not
    /// affect it.
    ///
    /// # Panics
    ///
    /// If `place` is outside the view, or if the dtype is not `uint32`.
    pub fn signal_u32(&self, place: usize, value: u32) {
        self.shared_u32(place).publish(value);
    }

    fn shared_u32(&self, place: usize) -> &SharedU32 {
        self.check::<u32>(place, 1);
        // SAFETY: `check` and `Args::tensor` checked that the element is in mapped memory and aligned. While
        // one core polls it, others only signal it.
        unsafe { &*self.element::<u32>(place).cast::<SharedU32>() }
    }

    fn element<T: Element>(&self, place: usize) -> *mut T {
        self.buffer.cast::<T>().wrapping_offset(self.element_offset(place))
    }

    /// Replaces all elements.
    pub fn store<T: Element>(&self, values: &[T]) {
        assert_eq!(values.len(), self.numel(), "store of a whole tensor");
        self.store_range(0, values);
    }

    /// Replaces elements, starting at index `first`.
    ///
    /// # Panics
    ///
    /// If the range is not inside the view, or if `T` is not its dtype.
    pub fn store_range<T: Element>(&self, first: usize, values: &[T]) {
        self.check::<T>(first, values.len());
        match self.fault {
            None | Some(FaultKind::Shift | FaultKind::Race) => self.put(first, values),
            Some(FaultKind::Stale) => {}
            Some(fault) => {
                let last = self.numel() - 1;
                let damaged: Vec<T> =
                    values.iter().enumerate().map(|(i, &v)| damaged(fault, v, first + i == last)).collect();
                self.put(first, &damaged);
            }
        }
    }

    fn put<T: Element>(&self, first: usize, values: &[T]) {
        self.copy_runs(first, values.as_ptr().cast_mut(), values.len(), CopyDirection::Store);
    }

    fn check<T: Element>(&self, first: usize, len: usize) {
        let same = self.dtype == T::DTYPE || (self.dtype == DType::Bool && T::DTYPE == DType::UInt8);
        assert!(same, "a tensor of {} is accessed as {}", self.dtype, T::DTYPE);
        assert!(first.checked_add(len).is_some_and(|end| end <= self.numel()), "access outside the view");
    }

    /// Copies `len` elements between the view and `local`, in runs along the innermost dimension.
    fn copy_runs<T: Element>(&self, first: usize, local: *mut T, len: usize, direction: CopyDirection) {
        let inner = self.layout.shape().last().map_or(1, |&n| usize::try_from(n).expect("fits in memory"));
        let stride = self.layout.strides().last().copied().unwrap_or(1);
        let run_stride = if self.layout.is_contiguous() { 1 } else { stride };
        let mut copied = 0;
        while copied < len {
            let place = first + copied;
            let run =
                if self.layout.is_contiguous() { len } else { (inner - place % inner).min(len - copied) };
            let element = self.element_offset(place);
            // SAFETY: `check` checked that first..first+len is inside the view, and `Args::tensor` that the
            // view is inside its buffer. So each element of the run is in mapped memory. `local` has room for
            // `len` elements.
            unsafe {
                let device = self.buffer.cast::<T>().offset(element);
                direction.copy(device, run_stride, local.add(copied), run);
            }
            copied += run;
        }
    }

    fn element_offset(&self, mut place: usize) -> isize {
        let mut offset = i128::from(self.layout.start_offset());
        for (&size, &stride) in self.layout.shape().iter().zip(self.layout.strides()).rev() {
            let size = usize::try_from(size).expect("fits in memory");
            offset += i128::try_from(place % size).expect("a usize fits") * i128::from(stride);
            place /= size;
        }
        isize::try_from(offset).expect("a view is inside its buffer")
    }
}

#[derive(Clone, Copy)]
enum CopyDirection {
    Load,
    Store,
}

impl CopyDirection {
    /// Copies `len` elements with a stride on the device side.
    ///
    /// # Safety
    ///
    /// Every element on both sides must be in mapped memory and aligned for `T`. The two sides must not
    /// overlap.
    unsafe fn copy<T: Copy>(self, device: *mut T, stride: i64, local: *mut T, len: usize) {
        let stride = isize::try_from(stride).expect("64-bit addresses");
        // SAFETY: passed on from the caller.
        unsafe {
            match (self, stride) {
                (CopyDirection::Load, 1) => local.copy_from_nonoverlapping(device, len),
                (CopyDirection::Store, 1) => device.copy_from_nonoverlapping(local, len),
                _ => {
                    for i in 0..len {
                        let far = device.offset(stride * isize::try_from(i).expect("fits in memory"));
                        match self {
                            CopyDirection::Load => local.add(i).write(far.read()),
                            CopyDirection::Store => far.write(local.add(i).read()),
                        }
                    }
                }
            }
        }
    }
}

/// The value that a damaged kernel writes instead of `value`.
fn damaged<T: Element>(fault: FaultKind, value: T, is_last: bool) -> T {
    T::from_bits(damage(fault, T::DTYPE, value.to_bits(), is_last))
}

/// The bits that a damaged kernel writes instead of `bits`. Both parts of a complex number are damaged.
fn damage_element(fault: FaultKind, dtype: DType, bits: u128, is_last: bool) -> u128 {
    let (part, width) = (dtype.part(), dtype.part().bits());
    let parts = (0..dtype.parts()).map(|place| {
        let shift = place * width;
        #[expect(clippy::cast_possible_truncation, reason = "a part has at most 64 bits")]
        let bits = (bits >> shift) as u64 & (u64::MAX >> (64 - width));
        u128::from(damage(fault, part, bits, is_last)) << shift
    });
    parts.fold(0, |all, part| all | part)
}

/// The bits that a damaged kernel writes instead of `bits`.
fn damage(fault: FaultKind, dtype: DType, bits: u64, is_last: bool) -> u64 {
    let value = to_f64(dtype, bits);
    match fault {
        FaultKind::Sign => from_f64(dtype, -value),
        FaultKind::Nan => from_f64(dtype, f64::NAN),
        FaultKind::Last if is_last => from_f64(dtype, if value == 0.0 { 7.0 } else { -value * 3.0 }),
        FaultKind::Overflow if dtype.is_float() => {
            from_f64(dtype, if value < 0.0 { f64::NEG_INFINITY } else { f64::INFINITY })
        }
        FaultKind::Overflow => bits ^ 1 << (dtype.bits() - 1),
        FaultKind::Last | FaultKind::Stale | FaultKind::Shift | FaultKind::Race => bits,
    }
}
