//! Device memory as the device itself sees it: shared structs at known addresses.
//!
//! Fields that threads share are reached as atomics laid over the struct's bytes; the rest is written by one
//! thread before the task is published (or, for a core's message, before it is posted) and only read afterwards.
//! The protocols in `tensortap-sync` carry that order.

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

use super::scheduler::Finished;

/// An array of `T` in device memory. Lives as long as the mapping, which outlasts every launch.
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

// SAFETY: a table is an address range; each access says which fields are atomic and which are ordered by a protocol.
unsafe impl<T> Send for Table<'_, T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Table<'_, T> {}

impl<'m, T: FromBytes + IntoBytes> Table<'m, T> {
    /// The table over a range of device memory, checked to be mapped and aligned.
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

    /// A copy of an entry that no thread writes at the moment.
    pub fn read(&self, index: u32) -> T {
        // SAFETY: `at` is in the table; T takes any bytes.
        unsafe { self.at(index).read() }
    }

    /// Replaces an entry that no other thread looks at yet.
    pub fn write(&self, index: u32, value: T) {
        // SAFETY: `at` is in the table; the caller owns the entry until it publishes it.
        unsafe { self.at(index).write(value) }
    }

    /// Device address of an entry.
    pub fn addr(&self, index: u32) -> u64 {
        self.at(index).expose_provenance() as u64
    }

    fn at(&self, index: u32) -> *mut T {
        assert!(index < self.len, "index {index} outside a table of {}", self.len);
        // SAFETY: index < len, and `new` checked that len entries are mapped.
        unsafe { self.base.add(index as usize) }
    }
}

/// Lays an atomic over a field of an entry.
macro_rules! shared_field {
    ($(#[$doc:meta])* $name:ident: $field:ident, $atomic:ty) => {
        $(#[$doc])*
        pub fn $name(&self, index: u32) -> &'m $atomic {
            // SAFETY: the field lies in the table and is aligned; every thread reaches it through atomics while the
            // entry is shared, and 'm is the life of the mapping.
            unsafe { &*(&raw mut (*self.at(index)).$field).cast::<$atomic>() }
        }
    };
}

/// Reads a field that was written before the entry was published.
macro_rules! fixed_field {
    ($(#[$doc:meta])* $name:ident, $ty:ty) => {
        $(#[$doc])*
        pub fn $name(&self, index: u32) -> $ty {
            // SAFETY: the field lies in the table; it was written before the task was published and is read after
            // the publication was seen.
            unsafe { (&raw const (*self.at(index)).$name).read() }
        }
    };
}

impl<'m> Table<'m, TaskSlot> {
    shared_field!(/** Predecessors not yet complete. */ pending: pending, SharedU32);
    shared_field!(/** Head of the list of successors. */ fanout: fanout, SharedU32);
    shared_field!(/** Dispatches not yet finished. */ remaining: remaining, SharedU32);
    shared_field!(/** Who still needs the slot. */ refs: refs, SharedU32);
    shared_field!(/** Next block to dispatch. */ next_block: next_block, SharedU32);
    shared_field!(/** `TaskState` tag. */ state: state, SharedU32);
    shared_field!(/** Identity, zeroed by nobody: stale after the slot retired. */ shared_task_id: task_id, SharedU64);
    fixed_field!(/** Identity. */ task_id, u64);
    fixed_field!(/** Where the payload lies. */ payload_addr, u64);
    fixed_field!(/** Kernel of each subtask slot. */ func_id, [u32; 3]);
    fixed_field!(/** Times the task is dispatched. */ block_num, u32);
    fixed_field!(/** Active subtask slots, a bit each. */ active, u8);
    fixed_field!(/** Tensors in the payload. */ tensor_count, u8);
    fixed_field!(/** Scalars in the payload. */ scalar_count, u8);
    fixed_field!(/** String id of the task's name. */ task_name, u32);
    fixed_field!(/** The scope it was submitted in. */ scope, u32);
    fixed_field!(/** Slots that own memory of the arguments. */ owners, [u32; 16]);
    fixed_field!(/** Role tag of each tensor argument. */ roles, [u8; MAX_PASSED_TENSORS]);
    fixed_field!(/** Marked arguments, a bit each. */ dump_marks, u64);
    fixed_field!(/** Tensor arguments with registered metadata, a bit each. */ tensor_info_mask, u32);
    fixed_field!(/** Where that metadata lies. */ tensor_info_addr, u64);
    shared_field!(/** Whether the dump captures the task. */ captured: captured, SharedU32);
    shared_field!(/** Device time of the first dispatch. */ dispatched_ns: dispatched_ns, SharedU64);
    shared_field!(/** Number, plus one, of the core of the first dispatch. */ core: core, SharedU32);
    shared_field!(/** How long the capture took so far. */ capture_ns: capture_ns, SharedU64);
}

impl Table<'_, EdgeNode> {
    /// Task slot that waits.
    pub fn consumer(&self, node: u32) -> u32 {
        // SAFETY: the node lies in the table; the consumer's builder wrote it before pushing it.
        unsafe { (&raw const (*self.at(node)).consumer).read() }
    }
}

impl EdgeTable for Table<'_, EdgeNode> {
    fn next(&self, node: u32) -> &SharedU32 {
        // SAFETY: as for shared fields.
        unsafe { &*(&raw mut (*self.at(node)).next).cast::<SharedU32>() }
    }
}

/// The payload area of one task, being written.
pub struct PayloadWriter<'m> {
    descs: *mut TensorDesc,
    layout: PayloadLayout,
    memory: PhantomData<&'m ()>,
}

impl<'m> PayloadWriter<'m> {
    /// Room for a payload at a device address.
    pub fn new(memory: &'m DeviceMemory, addr: u64, layout: PayloadLayout) -> Result<Self, PlatformError> {
        assert!(addr.is_multiple_of(align_of::<TensorDesc>() as u64), "payloads lie on cache lines");
        #[expect(clippy::cast_ptr_alignment, reason = "just checked")]
        let descs = memory.ptr(addr, layout.bytes() as u64)?.cast::<TensorDesc>();
        Ok(PayloadWriter { descs, layout, memory: PhantomData })
    }

    /// Writes a tensor argument.
    pub fn tensor(&mut self, index: usize, desc: &TensorDesc) {
        assert!(index < self.layout.tensor_count);
        // SAFETY: `new` checked that the layout's bytes are mapped and aligned; nobody else sees the payload yet.
        unsafe { self.descs.add(index).write(*desc) }
    }

    /// Writes a scalar argument.
    pub fn scalar(&mut self, index: usize, bits: u64, dtype: u8) {
        assert!(index < self.layout.scalar_count);
        // SAFETY: as above; scalars follow descriptors, and their dtypes follow them, as `PayloadLayout` says.
        unsafe {
            let scalars = self.descs.add(self.layout.tensor_count).cast::<u64>();
            scalars.add(index).write(bits);
            scalars.add(self.layout.scalar_count).cast::<u8>().add(index).write(dtype);
        }
    }
}

/// The payload area of one task, being read.
#[derive(Clone, Copy)]
pub struct PayloadReader<'m> {
    descs: *const TensorDesc,
    layout: PayloadLayout,
    memory: PhantomData<&'m ()>,
}

impl<'m> PayloadReader<'m> {
    /// The payload at a device address.
    pub fn new(memory: &'m DeviceMemory, addr: u64, layout: PayloadLayout) -> Result<Self, PlatformError> {
        assert!(addr.is_multiple_of(align_of::<TensorDesc>() as u64), "payloads lie on cache lines");
        #[expect(clippy::cast_ptr_alignment, reason = "just checked")]
        let descs = memory.ptr(addr, layout.bytes() as u64)?.cast::<TensorDesc>();
        Ok(PayloadReader { descs, layout, memory: PhantomData })
    }

    /// How many tensors and scalars it holds.
    pub fn layout(&self) -> PayloadLayout {
        self.layout
    }

    /// A tensor argument.
    pub fn tensor(&self, index: usize) -> TensorDesc {
        assert!(index < self.layout.tensor_count);
        // SAFETY: `new` checked that the layout's bytes are mapped and aligned; payloads are written once, before the
        // task is published.
        unsafe { self.descs.add(index).read() }
    }

    /// A scalar argument: raw bits and dtype tag.
    pub fn scalar(&self, index: usize) -> (u64, u8) {
        assert!(index < self.layout.scalar_count);
        // SAFETY: as above; scalars follow descriptors, and their dtypes follow them, as `PayloadLayout` says.
        unsafe {
            let scalars = self.descs.add(self.layout.tensor_count).cast::<u64>();
            (scalars.add(index).read(), scalars.add(self.layout.scalar_count).cast::<u8>().add(index).read())
        }
    }
}

/// Fills memory that was just handed out, so that reads of unwritten bytes show.
pub fn poison(memory: &DeviceMemory, addr: u64, bytes: u64, pattern: u8) -> Result<(), PlatformError> {
    let base = memory.ptr(addr, bytes)?;
    // SAFETY: the range is mapped, and no task knows of it yet.
    unsafe { base.write_bytes(pattern, usize::try_from(bytes).expect("mapped, so it fits")) }
    Ok(())
}

/// The dump region of a launch. Opened once per launch.
pub fn open_region(memory: &DeviceMemory, base: u64) -> Result<Region<'_>, RegionError> {
    // SAFETY: device memory stays mapped, with exposed provenance, while the `DeviceMemory` is borrowed; a launch opens
    // its region once, and the host gave that range to nothing else on the device.
    let memory = unsafe { Memory::new(memory.range()) };
    Region::open(memory, base)
}

/// The control area.
#[derive(Clone, Copy)]
pub struct Control<'m> {
    head: Table<'m, DeviceControl>,
    threads: Table<'m, ThreadControl>,
    cores: Table<'m, CoreControl>,
}

impl<'m> Control<'m> {
    /// The control area over a range that has room for `cores`.
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

    /// A thread's published state.
    pub fn thread(&self, thread: u32) -> ThreadView<'m> {
        ThreadView { at: self.threads.at(thread), memory: PhantomData }
    }

    /// Copy of the head, for inspection by the device itself.
    pub fn head(&self) -> Table<'m, DeviceControl> {
        self.head
    }
}

impl<'m> Table<'m, DeviceControl> {
    shared_field!(/** `DeviceStatus` tag. */ status: status, SharedU32);
    shared_field!(/** `FailureKind` tag, stored last. */ failure: failure, SharedU32);
    shared_field!(/** Task at fault. */ failure_task: failure_task, SharedU64);
    shared_field!(/** Faulting address. */ failure_addr: failure_addr, SharedU64);
    shared_field!(/** Core at fault. */ failure_core: failure_core, SharedU32);
    shared_field!(/** Kernel at fault. */ failure_func_id: failure_func_id, SharedU32);
    shared_field!(/** Signal number. */ failure_signal: failure_signal, SharedU32);
    shared_field!(/** Device time at launch. */ started_ns: started_ns, SharedU64);
    shared_field!(/** Device time at the end. */ ended_ns: ended_ns, SharedU64);

    /// Stores the explanation; only the thread that claimed the failure calls this.
    pub fn set_message(&self, text: &str) {
        let mut cut = text.len().min(DeviceControl::MAX_MESSAGE);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let head = self.at(0);
        // SAFETY: the message has room for MAX_MESSAGE bytes; one thread writes it, the host reads it after `failure`.
        unsafe {
            (&raw mut (*head).message).cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), cut);
            (&raw mut (*head).message_len).write(u32::try_from(cut).expect("cut above"));
        }
    }
}

/// One thread's line.
#[derive(Clone, Copy)]
pub struct ThreadView<'m> {
    at: *mut ThreadControl,
    memory: PhantomData<&'m ()>,
}
// SAFETY: reached through atomics only.
unsafe impl Send for ThreadView<'_> {}
// SAFETY: as above.
unsafe impl Sync for ThreadView<'_> {}

impl<'m> ThreadView<'m> {
    /// `ThreadState` tag.
    pub fn state(&self) -> &'m SharedU32 {
        // SAFETY: `Control::thread` checked the index; all access is atomic.
        unsafe { &*(&raw mut (*self.at).state).cast::<SharedU32>() }
    }
    /// Tasks submitted by the thread.
    pub fn submitted(&self) -> &'m SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).submitted).cast::<SharedU64>() }
    }
    /// Tasks completed by the thread.
    pub fn completed(&self) -> &'m SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).completed).cast::<SharedU64>() }
    }
    /// Rounds in which the thread found nothing to do.
    pub fn idle_rounds(&self) -> &'m SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).idle_rounds).cast::<SharedU64>() }
    }
    /// Dispatches seen finished by the thread.
    pub fn dispatches(&self) -> &'m SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).dispatches).cast::<SharedU64>() }
    }
}

/// One core's mailbox. The scheduler writes the message while the core is idle; the core reads it after the post.
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
        // SAFETY: `Control::core` checked the index; all access to the word is atomic.
        unsafe { &*(&raw mut (*self.at).posted).cast::<SharedU64>() }
    }
    fn done(&self) -> &SharedU64 {
        // SAFETY: as above.
        unsafe { &*(&raw mut (*self.at).done).cast::<SharedU64>() }
    }
}

/// What is handed to a core, besides the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// Task.
    pub task_id: u64,
    /// Its slot.
    pub task_slot: u32,
    /// Subtask slot.
    pub subtask: u32,
    /// Kernel.
    pub func_id: u32,
    /// Block.
    pub block: BlockContext,
    /// Active subtask slots of the task.
    pub subtask_count: u32,
}

impl CoreView<'_> {
    /// Writes the message of an idle core: the dispatch, and the final `args[]` from the payload.
    pub fn write(&self, dispatch: &Dispatch, payload_addr: u64, layout: PayloadLayout) {
        let Dispatch { task_id, task_slot, subtask, func_id, block, subtask_count } = *dispatch;
        let core = self.at;
        // SAFETY: the core is idle, so this scheduler alone touches the message until it posts it. The payload was
        // checked to be mapped when it was built, holds `layout`, and lies still until the task completes.
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

    /// Replaces what slots 48 and 49 of the current message point to.
    pub fn set_context(&self, block: BlockContext, subtask: SubtaskContext) {
        // SAFETY: called by the core between receiving and finishing the message: nobody else touches it.
        unsafe {
            (&raw mut (*self.at).block).write(block);
            (&raw mut (*self.at).subtask_context).write(subtask);
        }
    }

    /// Notes how long a kernel took, if none took longer.
    pub fn note_kernel_ns(&self, kernel_ns: u64) {
        // SAFETY: only the core writes this word; the host reads it after the launch.
        unsafe {
            let word = &raw mut (*self.at).kernel_ns;
            word.write(word.read().max(kernel_ns));
        }
    }

    /// Leaves the times of a call for the scheduler, which reads them once the message is finished.
    pub fn note_times(&self, started_ns: u64, returned_ns: u64) {
        // SAFETY: called by the core between receiving and finishing the message: nobody else touches these words.
        unsafe {
            (&raw mut (*self.at).started_ns).write(started_ns);
            (&raw mut (*self.at).returned_ns).write(returned_ns);
        }
    }

    /// What the message that was finished last was about, and the times that the core left. `core_id` is its number.
    pub fn finished(&self, core_id: u32) -> Finished {
        // SAFETY: for the scheduler that saw the message finished and has not written another: nobody else touches it.
        unsafe {
            Finished {
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
        // SAFETY: read by the core after the post, or by an observer to whom a torn value is acceptable.
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

    /// A copy of the array the kernel receives.
    pub fn args_written(&self) -> [u64; ARG_SLOTS] {
        // SAFETY: for the scheduler that wrote the message and has not posted it yet: nobody else touches it.
        unsafe { (&raw const (*self.at).args).read() }
    }

    /// What the context slots of that array point to.
    pub fn contexts_written(&self) -> (BlockContext, SubtaskContext) {
        // SAFETY: as above.
        unsafe { ((&raw const (*self.at).block).read(), (&raw const (*self.at).subtask_context).read()) }
    }

    /// The array the kernel receives.
    pub fn args(&self) -> *mut u64 {
        // SAFETY: a field of a mapped struct.
        unsafe { (&raw mut (*self.at).args).cast() }
    }
}

impl CoreView<'_> {
    /// The same view for a signal handler, which has no lifetimes. It is dropped with the thread that is the core.
    pub(super) fn forget_lifetime(self) -> CoreView<'static> {
        CoreView { at: self.at, memory: PhantomData }
    }
}
