//! Typed views of device memory, for code on the device: shared structs at known addresses.
//!
//! Fields that threads share are accessed as atomics over the bytes of the struct. One thread writes all
//! other fields before the task is published (or before a core's message is posted), and they are only read
//! afterwards. The protocols in `tensortap-sync` provide this order.

use std::marker::PhantomData;

use tensortap_abi::{
    ARG_SLOTS, BLOCK_CONTEXT_SLOT, BlockContext, ControlLayout, CoreControl, DeviceControl, DeviceRange,
    EdgeNode, MAX_DEVICE_THREADS, MAX_PASSED_TENSORS, PayloadLayout, SUBTASK_CONTEXT_SLOT, SubtaskContext,
    TaskSlot, TensorDesc, ThreadControl,
};
use tensortap_platform::{DeviceMemory, PlatformError};
use tensortap_recorder::{Memory, Region, RegionError};
use tensortap_sync::fanout::EdgeTable;
use tensortap_sync::mailbox::MailboxWords;
use tensortap_sync::{SharedU32, SharedU64};
use zerocopy::{FromBytes, IntoBytes};

use super::scheduler::FinishedDispatch;

/// An array of `T` in device memory. Valid while the memory is mapped, which is longer than any launch.
pub struct Table<'m, T> {
    base: *mut T,
    len: u32,
    memory: PhantomData<&'m T>,
}

impl<T> Clone for Table<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Table<'_, T> {}

// SAFETY: a table is an address range. Each access states which fields are atomic and which are ordered by a
// protocol.
unsafe impl<T> Send for Table<'_, T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Table<'_, T> {}

impl<'m, T: FromBytes + IntoBytes> Table<'m, T> {
    /// Creates a table over a range, which must be mapped and aligned.
    pub fn new(memory: &'m DeviceMemory, range: DeviceRange) -> Result<Table<'m, T>, PlatformError> {
        let len = range.bytes / size_of::<T>() as u64;
        let base = memory.ptr(range.addr, range.bytes)?.cast::<T>();
        assert!(base.is_aligned(), "the host aligns what it allocates");
        Ok(Table { base, len: u32::try_from(len).unwrap_or(u32::MAX), memory: PhantomData })
    }

    /// Number of entries.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Copies an entry. No thread may write it at the same time.
    pub fn read(&self, index: u32) -> T {
        // SAFETY: `at` is in the table, and T accepts any bytes.
        unsafe { self.at(index).read() }
    }

    /// Replaces an entry that no other thread can see yet.
    pub fn write(&self, index: u32, value: T) {
        // SAFETY: `at` is in the table, and the caller owns the entry until it publishes it.
        unsafe { self.at(index).write(value) }
    }

    /// The device address of an entry.
    pub fn addr(&self, index: u32) -> u64 {
        self.at(index).expose_provenance() as u64
    }

    fn at(&self, index: u32) -> *mut T {
        assert!(index < self.len, "index {index} outside a table of {}", self.len);
        // SAFETY: index < len, and `new` checked that len entries are mapped.
        unsafe { self.base.add(index as usize) }
    }
}

/// Defines an accessor that views a field of an entry as an atomic.
macro_rules! shared_field {
    ($(#[$doc:meta])* $name:ident: $field:ident, $atomic:ty) => {
        $(#[$doc])*
        pub fn $name(&self, index: u32) -> &'m $atomic {
            // SAFETY: the field is in the table and aligned. While the entry is shared, all threads access
            // the field through atomics. The mapping lives for 'm.
            unsafe { &*(&raw mut (*self.at(index)).$field).cast::<$atomic>() }
        }
    };
}

/// Defines an accessor for a field that was written before the entry was published.
macro_rules! fixed_field {
    ($(#[$doc:meta])* $name:ident, $ty:ty) => {
        $(#[$doc])*
        pub fn $name(&self, index: u32) -> $ty {
            // SAFETY: the field is in the table. It was written before the task was published and is read
            // after the publication was observed.
            unsafe { (&raw const (*self.at(index)).$name).read() }
        }
    };
}

impl<'m> Table<'m, TaskSlot> {
    shared_field!(/** Holds that keep the task from running: incomplete predecessors, and a guard until it is published. */ pending: pending, SharedU32);
    shared_field!(/** Head of the list of successors. */ fanout: fanout, SharedU32);
    shared_field!(/** Number of unfinished dispatches. */ remaining: remaining, SharedU32);
    shared_field!(/** Number of holders of the slot. */ refs: refs, SharedU32);
    shared_field!(/** Next block to dispatch. */ next_block: next_block, SharedU32);
    shared_field!(/** `TaskState` tag. */ state: state, SharedU32);
    shared_field!(/** Id of the task. Never cleared, so it is stale after the slot has retired. */ shared_task_id: task_id, SharedU64);
    fixed_field!(/** Id of the task. */ task_id, u64);
    fixed_field!(/** Address of the payload. */ payload_addr, u64);
    fixed_field!(/** Kernel of each subtask slot. */ func_id, [u32; 3]);
    fixed_field!(/** Number of blocks. */ block_num, u32);
    fixed_field!(/** Mask of the active subtask slots. */ active, u8);
    fixed_field!(/** Tensors in the payload. */ tensor_count, u8);
    fixed_field!(/** Scalars in the payload. */ scalar_count, u8);
    fixed_field!(/** String id of the task's name. */ task_name, u32);
    fixed_field!(/** The scope it was submitted in. */ scope, u32);
    fixed_field!(/** Slots that own memory of the arguments. */ owners, [u32; 16]);
    fixed_field!(/** Role tag of each tensor argument. */ roles, [u8; MAX_PASSED_TENSORS]);
    fixed_field!(/** Mask of the marked arguments. */ dump_marks, u64);
    fixed_field!(/** Mask of the tensor arguments with registered metadata. */ tensor_info_mask, u32);
    fixed_field!(/** Address of that metadata. */ tensor_info_addr, u64);
    shared_field!(/** Whether the dump captures the task. */ captured: captured, SharedU32);
    shared_field!(/** Device time of the first dispatch. */ dispatched_ns: dispatched_ns, SharedU64);
    shared_field!(/** Number, plus one, of the core of the first dispatch. */ core: core, SharedU32);
    shared_field!(/** Time of its captures so far. */ capture_ns: capture_ns, SharedU64);
}

impl Table<'_, EdgeNode> {
    /// The slot of the waiting task.
    pub fn consumer(&self, node: u32) -> u32 {
        // SAFETY: the node is in the table, and the consumer's builder wrote it before pushing it.
        unsafe { (&raw const (*self.at(node)).consumer).read() }
    }
}

impl EdgeTable for Table<'_, EdgeNode> {
    fn next(&self, node: u32) -> &SharedU32 {
        // SAFETY: as for shared fields.
        unsafe { &*(&raw mut (*self.at(node)).next).cast::<SharedU32>() }
    }
}

/// The tensor arguments of a payload at a device address, whose bytes are all mapped.
fn descs_of(
    memory: &DeviceMemory,
    addr: u64,
    layout: PayloadLayout,
) -> Result<*mut TensorDesc, PlatformError> {
    assert!(addr.is_multiple_of(align_of::<TensorDesc>() as u64), "payloads are aligned to cache lines");
    #[expect(clippy::cast_ptr_alignment, reason = "just checked")]
    Ok(memory.ptr(addr, layout.bytes() as u64)?.cast::<TensorDesc>())
}

/// Writes the payload of one task.
pub struct PayloadWriter<'m> {
    descs: *mut TensorDesc,
    layout: PayloadLayout,
    memory: PhantomData<&'m ()>,
}

impl<'m> PayloadWriter<'m> {
    /// Creates a writer at a device address.
    pub fn new(memory: &'m DeviceMemory, addr: u64, layout: PayloadLayout) -> Result<Self, PlatformError> {
        Ok(PayloadWriter { descs: descs_of(memory, addr, layout)?, layout, memory: PhantomData })
    }

    /// Writes a tensor argument.
    pub fn tensor(&mut self, index: usize, desc: &TensorDesc) {
        assert!(index < self.layout.tensor_count);
        // SAFETY: `new` checked that the layout's bytes are mapped and aligned. No other thread sees the
        // payload yet.
        unsafe { self.descs.add(index).write(*desc) }
    }

    /// Writes a scalar argument.
    pub fn scalar(&mut self, index: usize, bits: u64, dtype: u8) {
        assert!(index < self.layout.scalar_count);
        // SAFETY: as above. According to `PayloadLayout`, scalars follow the descriptors, and their dtypes
        // follow the scalars.
        unsafe {
            let scalars = self.descs.add(self.layout.tensor_count).cast::<u64>();
            scalars.add(index).write(bits);
            scalars.add(self.layout.scalar_count).cast::<u8>().add(index).write(dtype);
        }
    }
}

/// Reads the payload of one task.
#[derive(Clone, Copy)]
pub struct PayloadReader<'m> {
    descs: *const TensorDesc,
    layout: PayloadLayout,
    memory: PhantomData<&'m ()>,
}

impl<'m> PayloadReader<'m> {
    /// Creates a reader at a device address.
    pub fn new(memory: &'m DeviceMemory, addr: u64, layout: PayloadLayout) -> Result<Self, PlatformError> {
        Ok(PayloadReader { descs: descs_of(memory, addr, layout)?, layout, memory: PhantomData })
    }

    /// The number of tensors and scalars.
    pub fn layout(&self) -> PayloadLayout {
        self.layout
    }

    /// A tensor argument.
    pub fn tensor(&self, index: usize) -> TensorDesc {
        assert!(index < self.layout.tensor_count);
        // SAFETY: `new` checked that the layout's bytes are mapped and aligned. Payloads are written once,
        // before the task is published.
        unsafe { self.descs.add(index).read() }
    }

    /// A scalar argument: raw bits and dtype tag.
    pub fn scalar(&self, index: usize) -> (u64, u8) {
        assert!(index < self.layout.scalar_count);
        // SAFETY: as above. According to `PayloadLayout`, scalars follow the descriptors, and their dtypes
        // follow the scalars.
        unsafe {
            let scalars = self.descs.add(self.layout.tensor_count).cast::<u64>();
            (scalars.add(index).read(), scalars.add(self.layout.scalar_count).cast::<u8>().add(index).read())
        }
    }
}

/// Fills newly allocated memory with a pattern that makes reads of uninitialized bytes visible.
pub fn poison(memory: &DeviceMemory, addr: u64, bytes: u64, pattern: u8) -> Result<(), PlatformError> {
    let base = memory.ptr(addr, bytes)?;
    // SAFETY: the range is mapped, and no task knows it yet.
    unsafe { base.write_bytes(pattern, usize::try_from(bytes).expect("mapped, so it fits")) }
    Ok(())
}

/// Opens the dump region of a launch. Must be called only once per launch.
pub fn open_region(memory: &DeviceMemory, base: u64) -> Result<Region<'_>, RegionError> {
    // SAFETY: device memory stays mapped, with exposed provenance, while the `DeviceMemory` is borrowed. A
    // launch opens its region once, and the host gave that range to nothing else on the device.
    let memory = unsafe { Memory::new(memory.range()) };
    Region::open(memory, base)
}

/// The control area: the words through which host and device observe a launch.
#[derive(Clone, Copy)]
pub struct Control<'m> {
    head: Table<'m, DeviceControl>,
    threads: Table<'m, ThreadControl>,
    cores: Table<'m, CoreControl>,
}

impl<'m> Control<'m> {
    /// Creates the view of a range with room for `cores`.
    pub fn new(memory: &'m DeviceMemory, range: DeviceRange, cores: usize) -> Result<Self, PlatformError> {
        let part = |offset: usize, bytes: usize| DeviceRange {
            addr: range.addr + offset as u64,
            bytes: bytes as u64,
        };
        let needed = ControlLayout { cores }.bytes();
        memory.ptr(range.addr, needed as u64)?;
        Ok(Control {
            head: Table::new(memory, part(0, size_of::<DeviceControl>()))?,
            threads: Table::new(
                memory,
                part(ControlLayout::thread_offset(0), MAX_DEVICE_THREADS * size_of::<ThreadControl>()),
            )?,
            cores: Table::new(memory, part(ControlLayout::core_offset(0), cores * size_of::<CoreControl>()))?,
        })
    }

    /// Number of cores.
    pub fn cores(&self) -> u32 {
        self.cores.len()
    }

    /// The mailbox of a core.
    pub fn core(&self, core: u32) -> CoreView<'m> {
        CoreView { at: self.cores.at(core), memory: PhantomData }
    }

    /// The published state of a thread.
    pub fn thread(&self, thread: u32) -> ThreadView<'m> {
        ThreadView { at: self.threads.at(thread), memory: PhantomData }
    }

    /// The head of the control area.
    pub fn head(&self) -> Table<'m, DeviceControl> {
        self.head
    }
}

impl<'m> Table<'m, DeviceControl> {
    shared_field!(/** `DeviceStatus` tag. */ status: status, SharedU32);
    shared_field!(/** `FailureKind` tag. Stored last, so that the other fields are complete when it is seen. */ failure: failure, SharedU32);
    shared_field!(/** Task at fault. */ failure_task: failure_task, SharedU64);
    shared_field!(/** Faulting address. */ failure_addr: failure_addr, SharedU64);
    shared_field!(/** Core at fault. */ failure_core: failure_core, SharedU32);
    shared_field!(/** Kernel at fault. */ failure_func_id: failure_func_id, SharedU32);
    shared_field!(/** Signal number. */ failure_signal: failure_signal, SharedU32);
    shared_field!(/** Device time at launch. */ started_ns: started_ns, SharedU64);
    shared_field!(/** Device time at the end. */ ended_ns: ended_ns, SharedU64);

    /// Stores the failure message. Only the thread that recorded the failure calls this.
    pub fn set_message(&self, text: &str) {
        let mut cut = text.len().min(DeviceControl::MAX_MESSAGE);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let head = self.at(0);
        // SAFETY: the message has room for MAX_MESSAGE bytes. One thread writes it, and the host reads it
        // after `failure`.
        unsafe {
            (&raw mut (*head).message).cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), cut);
            (&raw mut (*head).message_len).write(u32::try_from(cut).expect("cut above"));
        }
    }
}

/// The state of one thread, on its own cache line.
#[derive(Clone, Copy)]
pub struct ThreadView<'m> {
    at: *mut ThreadControl,
    memory: PhantomData<&'m ()>,
}
// SAFETY: all access is atomic.
unsafe impl Send for ThreadView<'_> {}
// SAFETY: as above.
unsafe impl Sync for ThreadView<'_> {}

impl<'m> ThreadView<'m> {
    /// The `ThreadState` tag.
    pub fn state(&self) -> &'m SharedU32 {
        // SAFETY: `Control::thread` checked the index, and all access is atomic.
        unsafe { &*(&raw mut (*self.at).state).cast::<SharedU32>() }
    }
    /// Tasks that the thread has submitted.
    pub fn submitted(&self) -> &'m SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).submitted).cast::<SharedU64>() }
    }
    /// Tasks that the thread has completed.
    pub fn completed(&self) -> &'m SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).completed).cast::<SharedU64>() }
    }
    /// Rounds in which the thread found nothing to do.
    pub fn idle_rounds(&self) -> &'m SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).idle_rounds).cast::<SharedU64>() }
    }
    /// Finished dispatches that the thread has collected.
    pub fn dispatches(&self) -> &'m SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).dispatches).cast::<SharedU64>() }
    }
}

/// The mailbox of one core. The scheduler writes the message while the core is idle, and the core reads it
/// after the post.
#[derive(Clone, Copy)]
pub struct CoreView<'m> {
    at: *mut CoreControl,
    memory: PhantomData<&'m ()>,
}
// SAFETY: the mailbox protocol orders all access.
unsafe impl Send for CoreView<'_> {}
// SAFETY: as above.
unsafe impl Sync for CoreView<'_> {}

impl MailboxWords for CoreView<'_> {
    fn posted(&self) -> &SharedU64 {
        // SAFETY: `Control::core` checked the index, and all access to the word is atomic.
        unsafe { &*(&raw mut (*self.at).posted).cast::<SharedU64>() }
    }
    fn done(&self) -> &SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).done).cast::<SharedU64>() }
    }
}

/// A dispatch as handed to a core, without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// Id of the task.
    pub task_id: u64,
    /// Slot of the task.
    pub task_slot: u32,
    /// Subtask slot.
    pub subtask: u32,
    /// The kernel.
    pub func_id: u32,
    /// The block.
    pub block: BlockContext,
    /// Number of active subtask slots of the task.
    pub subtask_count: u32,
}

impl CoreView<'_> {
    /// Writes the message for an idle core: the dispatch, and the final `args[]` from the payload.
    pub fn write(&self, dispatch: &Dispatch, payload_addr: u64, layout: PayloadLayout) {
        let Dispatch { task_id, task_slot, subtask, func_id, block, subtask_count } = *dispatch;
        let core = self.at;
        // SAFETY: the core is idle, so only this scheduler touches the message until it is posted. The
        // payload was checked to be mapped when it was built, has this layout, and does not change until the
        // task completes.
        unsafe {
            (&raw mut (*core).task_id).write(task_id);
            (&raw mut (*core).task_slot).write(task_slot);
            (&raw mut (*core).subtask).write(subtask);
            (&raw mut (*core).func_id).write(func_id);
            (&raw mut (*core).block).write(block);
            (&raw mut (*core).subtask_context).write(SubtaskContext { subtask_id: subtask, subtask_count });
            let args = (&raw mut (*core).args).cast::<u64>();
            for i in 0..layout.tensor_count {
                args.add(i).write(payload_addr + (i * size_of::<TensorDesc>()) as u64);
            }
            let scalars = (payload_addr + layout.scalars_offset() as u64) as *const u64;
            args.add(layout.tensor_count).copy_from_nonoverlapping(scalars, layout.scalar_count);
            args.add(BLOCK_CONTEXT_SLOT).write((&raw mut (*core).block).expose_provenance() as u64);
            args.add(SUBTASK_CONTEXT_SLOT)
                .write((&raw mut (*core).subtask_context).expose_provenance() as u64);
        }
        debug_assert!(layout.tensor_count + layout.scalar_count <= ARG_SLOTS - 2);
    }

    /// Replaces the contexts that slots 48 and 49 of the current message point to.
    pub fn set_context(&self, block: BlockContext, subtask: SubtaskContext) {
        // SAFETY: the core calls this between receiving and finishing the message, when no other thread
        // touches it.
        unsafe {
            (&raw mut (*self.at).block).write(block);
            (&raw mut (*self.at).subtask_context).write(subtask);
        }
    }

    /// Stores the duration of a kernel if it is the longest so far.
    pub fn note_kernel_ns(&self, kernel_ns: u64) {
        // SAFETY: only the core writes this word, and the host reads it after the launch.
        unsafe {
            let word = &raw mut (*self.at).kernel_ns;
            word.write(word.read().max(kernel_ns));
        }
    }

    /// Stores the times of a call. The scheduler reads them after the message is finished.
    pub fn note_times(&self, started_ns: u64, returned_ns: u64) {
        // SAFETY: the core calls this between receiving and finishing the message, when no other thread
        // touches these words.
        unsafe {
            (&raw mut (*self.at).started_ns).write(started_ns);
            (&raw mut (*self.at).returned_ns).write(returned_ns);
        }
    }

    /// The last finished message, with the times that the core stored. `core_id` is the number of the core.
    pub fn finished(&self, core_id: u32) -> FinishedDispatch {
        // SAFETY: called by the scheduler that observed the end and has not written another message, so no
        // other thread touches it.
        unsafe {
            FinishedDispatch {
                core_id,
                subtask: (&raw const (*self.at).subtask).read(),
                block_idx: (&raw const (*self.at).block).read().block_idx,
                started_ns: (&raw const (*self.at).started_ns).read(),
                returned_ns: (&raw const (*self.at).returned_ns).read(),
            }
        }
    }

    /// Kernel of the current message.
    pub fn func_id(&self) -> u32 {
        // SAFETY: read by the core after the post, or by an observer that accepts a torn value.
        unsafe { (&raw const (*self.at).func_id).read_volatile() }
    }

    /// Task of the current message.
    pub fn task_id(&self) -> u64 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.at).task_id).read_volatile() }
    }

    /// Slot of the task of the current message.
    pub fn task_slot(&self) -> u32 {
        // SAFETY: as above.
        unsafe { (&raw const (*self.at).task_slot).read_volatile() }
    }

    /// A copy of the array that the kernel will receive.
    pub fn args_written(&self) -> [u64; ARG_SLOTS] {
        // SAFETY: called by the scheduler that wrote the message and has not posted it yet, so no other
        // thread touches it.
        unsafe { (&raw const (*self.at).args).read() }
    }

    /// A copy of the contexts that the array points to.
    pub fn contexts_written(&self) -> (BlockContext, SubtaskContext) {
        // SAFETY: as above.
        unsafe { ((&raw const (*self.at).block).read(), (&raw const (*self.at).subtask_context).read()) }
    }

    /// The array that the kernel receives.
    pub fn args(&self) -> *mut u64 {
        // SAFETY: a field of a mapped struct.
        unsafe { (&raw mut (*self.at).args).cast() }
    }
}

impl CoreView<'_> {
    /// The same view without its lifetime, for a signal handler. It is dropped before the thread of the core
    /// ends.
    pub(super) fn forget_lifetime(self) -> CoreView<'static> {
        CoreView { at: self.at, memory: PhantomData }
    }
}
