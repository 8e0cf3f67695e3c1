//! NVTX ranges of the program, recorded as regions.
//!
//! NVTX is in the headers that a program was built with. On the first call, it loads the library that
//! `NVTX_INJECTION64_PATH` names, calls [`initialize`] in it, and lets it replace its functions. This works with and without
//! CUDA, and once for each library of the process that uses NVTX.
//!
//! | function | region |
//! | --- | --- |
//! | `nvtxRangePush…`, `nvtxRangePop` | contains what the thread submits in between |
//! | `nvtxRangeStart…`, `nvtxRangeEnd` | has a start and an end, and contains nothing: other threads may end it |
//! | the same of a domain | as above, with the attribute `domain`; each domain has ranges of its own |
//! | marks, categories, names of resources | not recorded |

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{CStr, c_char, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use crate::backend::NO_ROOM;

use tensortap_queue::ProcessSession;
use tensortap_record::{AttributeValue, Operation, RecordError, Task, TaskInfo, ThreadRecorder};

/// Number of the export table with the callbacks.
const CALLBACKS: u32 = 1;
/// Modules: functions of the first version, and functions of domains.
const CORE: i32 = 1;
const DOMAINS: i32 = 5;

/// A pointer to the place where NVTX keeps a pointer to a function.
type Slot = *mut *const c_void;
/// Finds an export table.
pub type GetExportTable = unsafe extern "C" fn(u32) -> *const Callbacks;

/// The export table with the callbacks.
#[repr(C)]
pub struct Callbacks {
    bytes: usize,
    functions: Option<unsafe extern "C" fn(i32, *mut *mut Slot, *mut u32) -> i32>,
}

/// What a range is described by. Later versions only add fields.
#[repr(C)]
pub struct EventAttributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: usize,
}
const _: () = assert!(size_of::<EventAttributes>() == 48);

/// Kinds of messages.
const TEXT: i32 = 1;
const WIDE_TEXT: i32 = 2;
const REGISTERED: i32 = 3;
/// Longer texts are cut off.
const MAX_TEXT: usize = 64 << 10;

/// The session, for processes that are recorded.
static SESSION: OnceLock<Option<ProcessSession>> = OnceLock::new();
/// Texts that the program registered, and names of its domains. A handle is a position plus one.
static TEXTS: Mutex<Vec<Box<str>>> = Mutex::new(Vec::new());
/// Ranges that were started and not ended, by number.
static STARTED: Mutex<Option<HashMap<u64, Task>>> = Mutex::new(None);

thread_local! {
    /// The pushed ranges of this thread, each with its domain. A range that is not recorded is `None`.
    static PUSHED: RefCell<Vec<(usize, Option<Task>)>> = const { RefCell::new(Vec::new()) };
}

/// Connects to NVTX: replaces the functions that record ranges, if the process is recorded.
///
/// # Safety
/// As NVTX calls it.
pub unsafe fn initialize(get: GetExportTable) {
    if SESSION.get_or_init(|| ProcessSession::attach("NVTX", NO_ROOM)).is_none() {
        return;
    }
    // SAFETY: the caller's guarantee.
    let Some(callbacks) = (unsafe { get(CALLBACKS).as_ref() }) else { return };
    if callbacks.bytes < size_of::<Callbacks>() {
        return;
    }
    let Some(functions) = callbacks.functions else { return };
    let of_module = |module| {
        let (mut table, mut count) = (ptr::null_mut(), 0);
        // SAFETY: the pointers are local variables.
        let found = unsafe { functions(module, &raw mut table, &raw mut count) };
        (found != 0 && !table.is_null()).then_some((table, count as usize))
    };
    for (module, replaced) in [(CORE, &core()[..]), (DOMAINS, &domains()[..])] {
        let Some((table, count)) = of_module(module) else { continue };
        for &(number, function) in replaced.iter().filter(|(number, _)| *number < count) {
            // SAFETY: the table has `count` slots, each null or valid, and the function has the type of its number.
            unsafe {
                let slot = *table.add(number);
                if !slot.is_null() {
                    *slot = function;
                }
            }
        }
    }
}

/// The process ends.
pub fn close() {
    if let Some(Some(session)) = SESSION.get() {
        session.close();
    }
}

/// The replaced functions of the first version, by number.
fn core() -> [(usize, *const c_void); 8] {
    [
        (4, range_start as *const c_void),
        (5, range_start_text as *const c_void),
        (6, range_start_wide as *const c_void),
        (7, range_end as *const c_void),
        (8, range_push as *const c_void),
        (9, range_push_text as *const c_void),
        (10, range_push_wide as *const c_void),
        (11, range_pop as *const c_void),
    ]
}

/// Those of domains.
fn domains() -> [(usize, *const c_void); 8] {
    [
        (2, domain_range_start as *const c_void),
        (3, domain_range_end as *const c_void),
        (4, domain_range_push as *const c_void),
        (5, domain_range_pop as *const c_void),
        (10, register_text as *const c_void),
        (11, register_wide as *const c_void),
        (12, domain_text as *const c_void),
        (13, domain_wide as *const c_void),
    ]
}

/// Runs `call`. A panic must not reach the program.
fn guarded<T: Default>(call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_default()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn record<T>(call: impl FnOnce(&mut ThreadRecorder) -> Result<T, RecordError>) -> Option<T> {
    SESSION.get()?.as_ref()?.record(call)
}

/// What a range is called, and its value.
#[derive(Default)]
struct Description {
    name: Option<String>,
    category: u32,
    payload: Option<AttributeValue<'static>>,
}

fn text_of(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the program passes a text that ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    let bytes = text.to_bytes();
    Some(String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_TEXT)]).into_owned())
}

fn wide_of(text: *const u32) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the program passes a text that ends with a zero.
    let characters =
        (0..MAX_TEXT / 4).map(|at| unsafe { *text.add(at) }).take_while(|&character| character != 0);
    Some(characters.map(|character| char::from_u32(character).unwrap_or('\u{fffd}')).collect())
}

fn registered(handle: usize) -> Option<String> {
    lock(&TEXTS).get(handle.checked_sub(1)?).map(|text| text.to_string())
}

fn register(text: Option<String>) -> usize {
    let mut texts = lock(&TEXTS);
    texts.push(text.unwrap_or_default().into());
    texts.len()
}

/// # Safety
/// The attributes are null or valid.
unsafe fn described(attributes: *const EventAttributes) -> Description {
    // SAFETY: the caller's guarantee.
    let Some(attributes) = (unsafe { attributes.as_ref() }) else { return Description::default() };
    let &EventAttributes { category, payload_type, payload, message_type, message, .. } = attributes;
    let name = match message_type {
        TEXT => text_of(ptr::with_exposed_provenance(message)),
        WIDE_TEXT => wide_of(ptr::with_exposed_provenance(message)),
        REGISTERED => registered(message),
        _ => None,
    };
    let [a, b, c, d, ..] = payload.to_le_bytes();
    let low = u32::from_le_bytes([a, b, c, d]);
    let payload = match payload_type {
        1 | 2 => Some(AttributeValue::Integer(payload.cast_signed())),
        3 => Some(AttributeValue::Float(f64::from_bits(payload))),
        4 => Some(AttributeValue::Integer(low.into())),
        5 => Some(AttributeValue::Integer(low.cast_signed().into())),
        6 => Some(AttributeValue::Float(f32::from_bits(low).into())),
        _ => None,
    };
    Description { name, category, payload }
}

fn begin(recorder: &mut ThreadRecorder, domain: usize, range: &Description) -> Result<Task, RecordError> {
    let name = recorder.string(range.name.as_deref().unwrap_or("NVTX range"))?;
    let info = TaskInfo { operation: Operation::Operator, name, ..TaskInfo::default() };
    let task = recorder.begin_region(&info)?;
    let mut attribute = |name: &str, value: AttributeValue<'_>| -> Result<(), RecordError> {
        let name = recorder.string(name)?;
        recorder.attribute(&task, name, value).map(drop)
    };
    attribute("by", AttributeValue::Text("NVTX"))?;
    if let Some(domain) = registered(domain) {
        attribute("domain", AttributeValue::Text(&domain))?;
    }
    if range.category != 0 {
        attribute("category", AttributeValue::Integer(range.category.into()))?;
    }
    if let Some(payload) = range.payload {
        attribute("payload", payload)?;
    }
    Ok(task)
}

/// Begins a range. Returns the number of ranges of this domain around it.
fn push(domain: usize, range: &Description) -> i32 {
    let task = record(|recorder| begin(recorder, domain, range));
    PUSHED.with_borrow_mut(|pushed| {
        let around = pushed.iter().filter(|(other, _)| *other == domain).count();
        pushed.push((domain, task));
        i32::try_from(around).unwrap_or(i32::MAX)
    })
}

/// Ends the innermost range of a domain. Returns as [`push`]; negative without a range.
fn pop(domain: usize) -> i32 {
    let popped = PUSHED.with_borrow_mut(|pushed| {
        let at = pushed.iter().rposition(|(other, _)| *other == domain)?;
        let (_, task) = pushed.remove(at);
        Some((task, pushed.iter().filter(|(other, _)| *other == domain).count()))
    });
    let Some((task, around)) = popped else { return -1 };
    if let Some(mut task) = task {
        record(|recorder| recorder.end(&mut task));
    }
    i32::try_from(around).unwrap_or(i32::MAX)
}

/// Starts a range that any thread may end. Returns its number; 0 if it is not recorded.
fn start(domain: usize, range: &Description) -> u64 {
    let task = record(|recorder| {
        let mut task = begin(recorder, domain, range)?;
        recorder.leave(&mut task)?;
        Ok(task)
    });
    let Some(task) = task else { return 0 };
    let number = task.id();
    lock(&STARTED).get_or_insert_default().insert(number, task);
    number
}

fn end(number: u64) {
    let task = lock(&STARTED).as_mut().and_then(|started| started.remove(&number));
    if let Some(mut task) = task {
        record(|recorder| recorder.end(&mut task));
    }
}

fn named(name: Option<String>) -> Description {
    Description { name, ..Description::default() }
}

unsafe extern "C" fn range_start(attributes: *const EventAttributes) -> u64 {
    // SAFETY: the program's guarantee.
    guarded(|| start(0, &unsafe { described(attributes) }))
}
extern "C" fn range_start_text(text: *const c_char) -> u64 {
    guarded(|| start(0, &named(text_of(text))))
}
extern "C" fn range_start_wide(text: *const u32) -> u64 {
    guarded(|| start(0, &named(wide_of(text))))
}
extern "C" fn range_end(number: u64) {
    guarded(|| end(number));
}
unsafe extern "C" fn range_push(attributes: *const EventAttributes) -> i32 {
    // SAFETY: the program's guarantee.
    guarded(|| push(0, &unsafe { described(attributes) }))
}
extern "C" fn range_push_text(text: *const c_char) -> i32 {
    guarded(|| push(0, &named(text_of(text))))
}
extern "C" fn range_push_wide(text: *const u32) -> i32 {
    guarded(|| push(0, &named(wide_of(text))))
}
extern "C" fn range_pop() -> i32 {
    guarded(|| pop(0))
}
unsafe extern "C" fn domain_range_start(domain: usize, attributes: *const EventAttributes) -> u64 {
    // SAFETY: the program's guarantee.
    guarded(|| start(domain, &unsafe { described(attributes) }))
}
extern "C" fn domain_range_end(_domain: usize, number: u64) {
    guarded(|| end(number));
}
unsafe extern "C" fn domain_range_push(domain: usize, attributes: *const EventAttributes) -> i32 {
    // SAFETY: the program's guarantee.
    guarded(|| push(domain, &unsafe { described(attributes) }))
}
extern "C" fn domain_range_pop(domain: usize) -> i32 {
    guarded(|| pop(domain))
}
extern "C" fn register_text(_domain: usize, text: *const c_char) -> usize {
    guarded(|| register(text_of(text)))
}
extern "C" fn register_wide(_domain: usize, text: *const u32) -> usize {
    guarded(|| register(wide_of(text)))
}
extern "C" fn domain_text(name: *const c_char) -> usize {
    guarded(|| register(text_of(name)))
}
extern "C" fn domain_wide(name: *const u32) -> usize {
    guarded(|| register(wide_of(name)))
}
