//! The function table, which is the library's only symbol.

use std::ffi::{c_char, c_int, c_void};

use crate::{
    calls, facts,
    handles::{RecorderHandle, SessionHandle},
    types::{
        Counts, FolderSettings, KernelArg, MemoryEvent, ModuleImageInfo, RecordedTask, ReservedSpace,
        TaskDescription, Value, View,
    },
};

type S = *mut SessionHandle;
type R = *mut RecorderHandle;
type Text = *const c_char;

/// `tt_record_api`. New functions are added at the end; existing entries never change.
#[repr(C)]
#[expect(missing_docs, reason = "the header documents them")]
pub struct RecordApi {
    pub version: u32,
    pub bytes: u32,
    pub attach: unsafe extern "C" fn(*mut S) -> c_int,
    pub attach_to: unsafe extern "C" fn(Text, *mut S) -> c_int,
    pub open_folder: unsafe extern "C" fn(Text, *const FolderSettings, *mut S) -> c_int,
    pub close: unsafe extern "C" fn(S) -> c_int,
    pub counters: unsafe extern "C" fn(S, *mut Counts) -> c_int,
    pub level: unsafe extern "C" fn(S) -> c_int,
    pub thread: unsafe extern "C" fn(S) -> R,
    pub recorder_open: unsafe extern "C" fn(S, Text) -> R,
    pub recorder_close: unsafe extern "C" fn(R) -> c_int,
    pub string: unsafe extern "C" fn(R, Text) -> u32,
    pub scope_id: unsafe extern "C" fn(R, Text, u32) -> u32,
    pub kernel_id: unsafe extern "C" fn(R, Text, u32, *const KernelArg, u32) -> u32,
    pub queue_id: unsafe extern "C" fn(R, Text) -> u32,
    pub step_id: unsafe extern "C" fn(R, Text) -> u32,
    pub module_id: unsafe extern "C" fn(R, Text, u64, *const u8) -> u32,
    pub task_begin: unsafe extern "C" fn(R, *mut RecordedTask, *const TaskDescription) -> c_int,
    pub record: unsafe extern "C" fn(R, *mut RecordedTask, u32, *const View, u32) -> c_int,
    pub record_scalar: unsafe extern "C" fn(R, *mut RecordedTask, u16, u32, u64, u32) -> c_int,
    pub task_end: unsafe extern "C" fn(R, *mut RecordedTask) -> c_int,
    pub record_edge: unsafe extern "C" fn(R, u64, u64, u32, u16) -> c_int,
    pub wrote: unsafe extern "C" fn(R, *const c_void, u64, u32) -> c_int,
    pub allocation: unsafe extern "C" fn(R, u64, u64, u32, u32) -> c_int,
    pub reserve: unsafe extern "C" fn(R, *mut RecordedTask, u32, *const View, *mut ReservedSpace) -> c_int,
    pub commit: unsafe extern "C" fn(R, u64, *const u8) -> c_int,
    pub give_up: unsafe extern "C" fn(R, u64) -> c_int,
    pub flush: unsafe extern "C" fn(R) -> c_int,
    pub set_max_wait: unsafe extern "C" fn(R, u64) -> c_int,
    pub status_text: extern "C" fn(c_int) -> Text,
    pub last_error: extern "C" fn() -> Text,
    pub module_image: unsafe extern "C" fn(R, *const ModuleImageInfo) -> u32,
    pub attribute: unsafe extern "C" fn(R, *const RecordedTask, u32, *const Value, u32, u32) -> c_int,
    pub current_region: unsafe extern "C" fn(R) -> u64,
    pub collective: unsafe extern "C" fn(R, *const RecordedTask, u32, u64, u32) -> c_int,
    pub memory: unsafe extern "C" fn(R, *const MemoryEvent) -> c_int,
}

const TABLE_BYTES: u32 = 8 + 34 * 8;
const _: () = assert!(size_of::<RecordApi>() == TABLE_BYTES as usize);

/// The symbol that programs look up.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub static tensortap_record_1: RecordApi = RecordApi {
    version: 1,
    bytes: TABLE_BYTES,
    attach: calls::attach,
    attach_to: calls::attach_to,
    open_folder: calls::open_folder,
    close: calls::close,
    counters: calls::counters,
    level: calls::level,
    thread: calls::thread,
    recorder_open: calls::recorder_open,
    recorder_close: calls::recorder_close,
    string: calls::string,
    scope_id: calls::scope_id,
    kernel_id: calls::kernel_id,
    queue_id: calls::queue_id,
    step_id: calls::step_id,
    module_id: calls::module_id,
    task_begin: calls::task_begin,
    record: calls::record,
    record_scalar: calls::record_scalar,
    task_end: calls::task_end,
    record_edge: calls::record_edge,
    wrote: calls::wrote,
    allocation: calls::allocation,
    reserve: calls::reserve,
    commit: calls::commit,
    give_up: calls::give_up,
    flush: calls::flush,
    set_max_wait: calls::set_max_wait,
    status_text: calls::status_text,
    last_error: calls::last_error,
    module_image: calls::module_image,
    attribute: facts::attribute,
    current_region: facts::current_region,
    collective: facts::collective,
    memory: facts::memory,
};
