//! Structures shared with programs, in the layout of the header.

use std::{
    ffi::{c_char, c_void},
    mem::offset_of,
};

use tensortap_record::MAX_DIMS;

/// `tt_task_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct TaskDescription {
    pub id: u64,
    pub operation: u32,
    pub kernel: [u32; 3],
    pub name: u32,
    pub scope: u32,
    pub queue: u32,
    pub step: u32,
    pub module: u32,
    pub source_file: u32,
    pub source_line: u32,
    pub blocks: u32,
    pub grid: [u32; 3],
    pub group: [u32; 3],
    pub flags: u32,
    pub records: u32,
    pub parent: u64,
    pub submitted_ns: u64,
    pub reserved: [u64; 4],
}
const _: () = assert!(size_of::<TaskDescription>() == 136 && offset_of!(TaskDescription, parent) == 88);

/// `TT_TASK_MARKED`.
pub(crate) const TASK_MARKED: u32 = 1;
/// `TT_TASK_HAS_PARENT`.
pub(crate) const TASK_HAS_PARENT: u32 = 2;
/// `TT_TASK_REGION`.
pub(crate) const TASK_REGION: u32 = 4;

/// `tt_recorded_task`: the bytes of a [`Task`](tensortap_record::Task).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct RecordedTask {
    pub words: [u64; 32],
}
const _: () = assert!(size_of::<RecordedTask>() == size_of::<tensortap_record::Task>());

/// `tt_view`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct View {
    pub data: *const c_void,
    pub bytes: u64,
    pub start: u64,
    pub shape: [u64; MAX_DIMS],
    pub strides: [i64; MAX_DIMS],
    pub arg: u16,
    pub dtype: u8,
    pub ndims: u8,
    pub role: u8,
    pub space: u8,
    pub flags: u16,
    pub name: u32,
    pub reserved0: u32,
    pub reserved: [u64; 3],
}
const _: () =
    assert!(size_of::<View>() == 192 && offset_of!(View, arg) == 152 && offset_of!(View, name) == 160);

/// `TT_VIEW_MARKED`.
pub(crate) const VIEW_MARKED: u16 = 1;
/// `TT_VIEW_DTYPE_GUESSED`.
pub(crate) const VIEW_DTYPE_GUESSED: u16 = 2;
/// `TT_VIEW_ROLE_GUESSED`.
pub(crate) const VIEW_ROLE_GUESSED: u16 = 4;
/// `TT_VIEW_EXTENT_GUESSED`.
pub(crate) const VIEW_EXTENT_GUESSED: u16 = 8;

/// `tt_reserved_space`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct ReservedSpace {
    pub number: u64,
    pub start: *mut c_void,
    pub bytes: u64,
}
const _: () = assert!(size_of::<ReservedSpace>() == 24);

/// `tt_counts`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct Counts {
    pub recorded: u64,
    pub dropped: u64,
    pub bytes: u64,
    pub lost_bytes: u64,
    pub filtered: u64,
    pub refused: u64,
    pub uncaptured: u64,
    pub reserved: u64,
}
const _: () = assert!(size_of::<Counts>() == 64);

/// `tt_folder_options`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct FolderSettings {
    pub level: u32,
    pub drops: u32,
    pub lanes: u32,
    pub reserved0: u32,
    pub arena_bytes: u64,
    pub reserved: [u64; 5],
}
const _: () = assert!(size_of::<FolderSettings>() == 64);

/// `tt_module_image_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct ModuleImageInfo {
    pub name: *const c_char,
    pub options: *const c_char,
    pub device: *const c_char,
    pub image: *const c_void,
    pub bytes: u64,
    pub kind: u32,
    pub reserved0: u32,
    pub reserved: [u64; 2],
}
const _: () = assert!(size_of::<ModuleImageInfo>() == 64);

/// `tt_allocation_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct MemoryEvent {
    pub address: u64,
    pub bytes: u64,
    pub storage: u64,
    pub after_task: u64,
    pub space: u32,
    pub freed: u32,
    pub pool: u32,
    pub queue: u32,
    pub reserved: [u64; 2],
}
const _: () = assert!(size_of::<MemoryEvent>() == 64);

/// `tt_value`.
#[derive(Clone, Copy)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct Value {
    pub ty: u32,
    pub reserved0: u32,
    pub value: ValueBits,
}
const _: () = assert!(size_of::<Value>() == 16 && offset_of!(Value, value) == 8);

/// The union of `tt_value`.
#[derive(Clone, Copy)]
#[repr(C)]
pub union ValueBits {
    pub integer: i64,
    pub number: f64,
    pub text: *const c_char,
}

/// `tt_kernel_arg`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct KernelArg {
    pub name: *const c_char,
    pub role: u32,
    pub reserved: u32,
}
const _: () = assert!(size_of::<KernelArg>() == 16);
