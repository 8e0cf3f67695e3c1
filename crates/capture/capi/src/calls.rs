//! The functions of the table.
//!
//! The header defines the contract of each function: which pointers are valid, and which may be null. The
//! `SAFETY` comments rely only on this contract.

use std::{
    borrow::Cow,
    ffi::{CStr, c_char, c_int, c_void},
    path::Path,
    ptr,
    time::Duration,
};

use tensortap_record::{
    ArgKind, DType, DumpLevel, DumpPolicy, DumpStage, EdgeCause, FolderOptions, KernelId, KernelInfo,
    MemorySpace, ModuleId, ModuleImage, ModuleKind, Operation, QueueId, RecordError, Role, ScopeId, Session,
    SessionCounters, StepId, StringId, Task, TaskInfo, Tensor, ThreadRecorder,
};
use zerocopy::FromZeros;

use crate::{
    handles::{self, Handle, RecorderHandle, SessionHandle},
    status::{self, DROPPED, FILTERED, NOT_FLUSHED, OFF, OK, answer, give, of_outcome},
    types::{
        Counts, FolderSettings, KernelArg, ModuleImageInfo, RecordedTask, ReservedSpace, TASK_HAS_PARENT,
        TASK_MARKED, TASK_REGION, TaskDescription, VIEW_DTYPE_GUESSED, VIEW_EXTENT_GUESSED, VIEW_MARKED,
        VIEW_ROLE_GUESSED, View,
    },
};

type S = *mut SessionHandle;
type R = *mut RecorderHandle;

pub(crate) fn bad(what: &'static str, value: u64, remedy: &'static str) -> RecordError {
    RecordError::BadArgument { what, value, remedy }
}

/// A text that ends with a zero; empty for a null pointer.
///
/// # Safety
/// It is null, or ends with a zero and does not change during the call.
pub(crate) unsafe fn text<'t>(at: *const c_char) -> Cow<'t, str> {
    if at.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(at) }.to_string_lossy()
}

/// The value at a pointer; an error for null.
///
/// # Safety
/// It is null, or points to a value that does not change during the call.
pub(crate) unsafe fn given<'t, T>(at: *const T, what: &'static str) -> Result<&'t T, RecordError> {
    // SAFETY: the caller's promise.
    unsafe { at.as_ref() }.ok_or_else(|| bad(what, 0, "it must not be NULL"))
}

/// Opens a session and writes its handle to `out`.
///
/// # Safety
/// `out` is writable.
unsafe fn open(out: *mut S, make: impl FnOnce() -> Result<Option<Session>, RecordError>) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { out.write(ptr::null_mut()) };
    answer(|| {
        let Some(session) = make()? else { return Ok(OFF) };
        // SAFETY: as above.
        unsafe { out.write(Handle::new(session)) };
        Ok(OK)
    })
}

pub(crate) unsafe extern "C" fn attach(out: *mut S) -> c_int {
    // SAFETY: the header's contract.
    unsafe { open(out, Session::attach) }
}

pub(crate) unsafe extern "C" fn attach_to(socket: *const c_char, out: *mut S) -> c_int {
    // SAFETY: the header's contract.
    unsafe { open(out, || Session::attach_to(Path::new(&*text(socket))).map(Some)) }
}

pub(crate) unsafe extern "C" fn open_folder(
    dir: *const c_char,
    settings: *const FolderSettings,
    out: *mut S,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        open(out, || {
            Session::in_folder(Path::new(&*text(dir)), &folder_options(settings.as_ref())?).map(Some)
        })
    }
}

fn folder_options(settings: Option<&FolderSettings>) -> Result<FolderOptions, RecordError> {
    let mut options = FolderOptions::default();
    let Some(settings) = settings else { return Ok(options) };
    if settings.level != 0 {
        let level = DumpLevel::from_tag(settings.level);
        options.level =
            level.ok_or_else(|| bad("level", settings.level.into(), "use a value of enum tt_level"))?;
    }
    if settings.drops != 0 {
        options.policy = DumpPolicy::Drop;
    }
    if settings.lanes != 0 {
        options.geometry.lanes = settings.lanes;
    }
    if settings.arena_bytes != 0 {
        options.geometry.arena_bytes = settings.arena_bytes;
    }
    Ok(options)
}

pub(crate) unsafe extern "C" fn close(session: S) -> c_int {
    if session.is_null() {
        return OFF;
    }
    // SAFETY: the header's contract: `open` returned it.
    answer(|| unsafe { handles::close_session(session) }.map(|()| OK))
}

pub(crate) unsafe extern "C" fn counters(session: S, out: *mut Counts) -> c_int {
    answer(|| {
        // SAFETY: the header's contract.
        let counters = unsafe { given(session, "session") }?.session()?.counters()?;
        let SessionCounters { recorded, dropped, bytes, lost_bytes, filtered, refused, uncaptured } =
            counters;
        let counts =
            Counts { recorded, dropped, bytes, lost_bytes, filtered, refused, uncaptured, reserved: 0 };
        // SAFETY: the header's contract.
        unsafe { out.write(counts) };
        Ok(OK)
    })
}

pub(crate) unsafe extern "C" fn level(session: S) -> c_int {
    // SAFETY: the header's contract.
    answer(|| Ok(unsafe { given(session, "session") }?.session()?.level()? as c_int))
}

pub(crate) unsafe extern "C" fn thread(session: S) -> R {
    // SAFETY: the header's contract.
    give(ptr::null_mut(), || handles::of_thread(&unsafe { given(session, "session") }?.session()?))
}

pub(crate) unsafe extern "C" fn recorder_open(session: S, name: *const c_char) -> R {
    give(ptr::null_mut(), || {
        // SAFETY: the header's contract.
        let (session, name) = unsafe { (given(session, "session")?.session()?, text(name)) };
        session.named_thread(&name).map(Handle::new)
    })
}

pub(crate) unsafe extern "C" fn recorder_close(r: R) -> c_int {
    if r.is_null() {
        return OFF;
    }
    // SAFETY: the header's contract.
    answer(|| unsafe { handles::close(r) }.map(|()| OK))
}

/// The recorder of a handle.
///
/// # Safety
/// `thread` or `recorder_open` returned it, and no other thread uses it during the call.
#[inline]
pub(crate) unsafe fn recorder_of<'t>(handle: &RecorderHandle) -> Result<&'t mut ThreadRecorder, RecordError> {
    // SAFETY: the caller's promise.
    unsafe { handle.recorder().as_mut() }.ok_or(RecordError::Closed)
}

/// Calls a function with the recorder of a handle.
///
/// # Safety
/// It is null, or as [`recorder_of`] requires.
#[inline]
pub(crate) unsafe fn with(
    r: R,
    call: impl FnOnce(&mut ThreadRecorder) -> Result<c_int, RecordError>,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { r.as_ref() } {
        Some(handle) => answer(|| {
            // SAFETY: the caller's promise.
            let recorder = unsafe { recorder_of(handle) }?;
            let status = call(recorder).inspect_err(|error| recorder.count_refusal(error))?;
            if status < OK {
                status::lost(status, recorder.is_recorder_gone());
            }
            Ok(status)
        }),
        None => OFF,
    }
}

/// Calls a function that returns the number of a name.
///
/// # Safety
/// As [`with`].
unsafe fn number(r: R, call: impl FnOnce(&mut ThreadRecorder) -> Result<u32, RecordError>) -> u32 {
    // SAFETY: the caller's promise.
    match unsafe { r.as_ref() } {
        Some(handle) => give(0, || {
            // SAFETY: the caller's promise.
            let recorder = unsafe { recorder_of(handle) }?;
            call(recorder).inspect_err(|error| recorder.count_refusal(error))
        }),
        None => 0,
    }
}

pub(crate) unsafe extern "C" fn string(r: R, at: *const c_char) -> u32 {
    // SAFETY: the header's contract.
    unsafe { number(r, |recorder| recorder.string(&text(at)).map(|id| id.0)) }
}

pub(crate) unsafe extern "C" fn scope_id(r: R, name: *const c_char, parent: u32) -> u32 {
    // SAFETY: the header's contract.
    unsafe { number(r, |recorder| recorder.scope(&text(name), ScopeId(parent)).map(|id| id.0)) }
}

pub(crate) unsafe extern "C" fn kernel_id(
    r: R,
    name: *const c_char,
    module: u32,
    args: *const KernelArg,
    count: u32,
) -> u32 {
    // SAFETY: the header's contract.
    unsafe {
        number(r, |recorder| {
            let names: Vec<_> = slice(args, count)?.iter().map(|arg| (text(arg.name), arg.role)).collect();
            let args = names.iter().map(|(name, role)| Ok((&**name, arg_kind(*role)?)));
            let args = args.collect::<Result<Vec<_>, RecordError>>()?;
            let kernel = KernelInfo { name: &text(name), module: ModuleId(module), args: &args };
            recorder.define_kernel(&kernel).map(|id| id.0)
        })
    }
}

fn arg_kind(role: u32) -> Result<Option<ArgKind>, RecordError> {
    Ok(match role {
        0 => None,
        1 => Some(ArgKind::In),
        2 => Some(ArgKind::Out),
        3 => Some(ArgKind::InOut),
        4 => Some(ArgKind::Scalar),
        other => return Err(bad("role", other.into(), "use a value of enum tt_role, 4 for a scalar, or 0")),
    })
}

pub(crate) unsafe extern "C" fn queue_id(r: R, name: *const c_char) -> u32 {
    // SAFETY: the header's contract.
    unsafe { number(r, |recorder| recorder.queue(&text(name)).map(|id| id.0)) }
}

pub(crate) unsafe extern "C" fn step_id(r: R, name: *const c_char) -> u32 {
    // SAFETY: the header's contract.
    unsafe { number(r, |recorder| recorder.step(&text(name)).map(|id| id.0)) }
}

pub(crate) unsafe extern "C" fn module_id(r: R, name: *const c_char, bytes: u64, hash: *const u8) -> u32 {
    // SAFETY: the header's contract.
    unsafe {
        number(r, |recorder| recorder.module(&text(name), bytes, hash_at(hash).unwrap_or(0)).map(|id| id.0))
    }
}

pub(crate) unsafe extern "C" fn module_image(r: R, module: *const ModuleImageInfo) -> u32 {
    // SAFETY: the header's contract.
    unsafe {
        number(r, |recorder| {
            let module = given(module, "module")?;
            let kind = u8::try_from(module.kind).ok().and_then(ModuleKind::from_tag);
            let kind = kind.ok_or_else(|| {
                bad("kind of image", module.kind.into(), "use a value of enum tt_image_kind")
            })?;
            let image = match usize::try_from(module.bytes) {
                Ok(0) => &[][..],
                Ok(bytes) if !module.image.is_null() => {
                    std::slice::from_raw_parts(module.image.cast(), bytes)
                }
                _ => return Err(bad("image at NULL", module.bytes, "pass its address, or a size of 0")),
            };
            let (name, options) = (text(module.name), text(module.options));
            let device = text(module.device);
            let module = ModuleImage { name: &name, kind, options: &options, device: &device, image };
            recorder.module_image(&module).map(|id| id.0)
        })
    }
}

/// The hash at a pointer.
///
/// # Safety
/// It is null, or points to 16 readable bytes.
unsafe fn hash_at(at: *const u8) -> Option<u128> {
    // SAFETY: the caller's promise.
    unsafe { at.cast::<[u8; 16]>().as_ref() }.map(|bytes| u128::from_le_bytes(*bytes))
}

/// An array.
///
/// # Safety
/// It is null with a count of 0, or points to this many values that do not change during the call.
pub(crate) unsafe fn slice<'t, T>(at: *const T, count: u32) -> Result<&'t [T], RecordError> {
    if count == 0 {
        return Ok(&[]);
    }
    if at.is_null() {
        return Err(bad("values at NULL", count.into(), "pass an address, or a count of 0"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(at, count as usize) })
}

/// The task at a pointer. The recorder checks that it has begun.
///
/// # Safety
/// It is null, or points to memory that only this call uses.
#[inline]
pub(crate) unsafe fn task_at<'t>(at: *mut RecordedTask) -> Result<&'t mut Task, RecordError> {
    const { assert!(align_of::<RecordedTask>() == align_of::<Task>()) };
    // SAFETY: the caller's promise; both types have the same size and alignment, and a task is plain data.
    unsafe { at.cast::<Task>().as_mut() }.ok_or_else(|| bad("task", 0, "it must not be NULL"))
}

pub(crate) unsafe extern "C" fn task_begin(
    r: R,
    out: *mut RecordedTask,
    info: *const TaskDescription,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let task = task_at(out)?;
            // After an error the memory must not look like a task.
            task.zero();
            let given = given(info, "task info")?;
            let info = task_info(given)?;
            let is_region = given.flags & TASK_REGION != 0;
            *task = if is_region { recorder.begin_region(&info) } else { recorder.begin(&info) }?;
            Ok(match (task.is_filtered(), task.is_dropped()) {
                (true, _) => FILTERED,
                (false, true) => DROPPED,
                (false, false) => OK,
            })
        })
    }
}

fn task_info(info: &TaskDescription) -> Result<TaskInfo, RecordError> {
    let operation = u8::try_from(info.operation).ok().and_then(Operation::from_tag);
    Ok(TaskInfo {
        id: info.id,
        operation: operation
            .ok_or_else(|| bad("operation", info.operation.into(), "use a value of enum tt_operation"))?,
        kernels: info.kernel.map(KernelId),
        name: StringId(info.name),
        scope: ScopeId(info.scope),
        queue: QueueId(info.queue),
        step: StepId(info.step),
        module: ModuleId(info.module),
        source: (StringId(info.source_file), info.source_line),
        parent: (info.flags & TASK_HAS_PARENT != 0).then_some(info.parent),
        blocks: info.blocks,
        grid: info.grid,
        group: info.group,
        work_dims: 0,
        global_size: [0; 3],
        global_offset: [0; 3],
        shared_bytes: 0,
        cluster: [0; 3],
        launch_flags: 0,
        submitted_ns: info.submitted_ns,
        marked: info.flags & TASK_MARKED != 0,
        records: info.records,
    })
}

fn stage_of(stage: u32) -> Result<DumpStage, RecordError> {
    let found = u8::try_from(stage).ok().and_then(DumpStage::from_tag);
    found.ok_or_else(|| bad("stage", stage.into(), "use TT_BEFORE or TT_AFTER"))
}

pub(crate) fn dtype_of(tag: u32) -> Result<DType, RecordError> {
    let found = u8::try_from(tag).ok().and_then(DType::from_tag);
    found.ok_or_else(|| bad("dtype", tag.into(), "use a value of enum tt_dtype"))
}

pub(crate) fn space_of(tag: u32) -> Result<MemorySpace, RecordError> {
    let found = u8::try_from(tag).ok().and_then(MemorySpace::from_tag);
    found.ok_or_else(|| bad("memory space", tag.into(), "use a value of enum tt_space_kind"))
}

/// The tensor of a view.
///
/// # Safety
/// Its bytes are readable during the call, unless it is in device memory.
#[inline]
unsafe fn tensor<'t>(view: &View) -> Result<Tensor<'t>, RecordError> {
    let (dtype, space) = (dtype_of(view.dtype.into())?, space_of(view.space.into())?);
    let dims = usize::from(view.ndims);
    let role = Role::from_tag(view.role);
    let role = role.ok_or_else(|| bad("role", view.role.into(), "use a value of enum tt_role"))?;
    let tensor = if space == MemorySpace::Device {
        Tensor::elsewhere(view.data.expose_provenance() as u64, view.bytes, dtype, space)
    } else {
        // SAFETY: the caller's promise.
        unsafe { Tensor::at(view.data.cast(), view.bytes, dtype) }.space(space)
    };
    let is = |flag: u16| view.flags & flag != 0;
    // The structure has no room for the sizes of more dimensions. The dump lists such a view as uncaptured.
    let (shape, strides) = match (view.shape.get(..dims), view.strides.get(..dims)) {
        (Some(shape), Some(strides)) => (shape, strides),
        _ => (&[0; u8::MAX as usize][..dims], &[0; u8::MAX as usize][..dims]),
    };
    let tensor = tensor
        .view(shape, strides, view.start)?
        .arg(view.arg)
        .role(role)
        .name(StringId(view.name))
        .guessed(is(VIEW_DTYPE_GUESSED), is(VIEW_ROLE_GUESSED), is(VIEW_EXTENT_GUESSED));
    Ok(if is(VIEW_MARKED) { tensor.marked() } else { tensor })
}

pub(crate) unsafe extern "C" fn record(
    r: R,
    task: *mut RecordedTask,
    stage: u32,
    views: *const View,
    count: u32,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let (stage, views) = (stage_of(stage)?, slice(views, count)?);
            let describe = |at: usize| tensor(&views[at]);
            recorder.tensors_of(task_at(task)?, stage, views.len(), describe).map(of_outcome)
        })
    }
}

pub(crate) unsafe extern "C" fn record_scalar(
    r: R,
    task: *mut RecordedTask,
    arg: u16,
    dtype: u32,
    bits: u64,
    name: u32,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let dtype = dtype_of(dtype)?;
            recorder.scalar(task_at(task)?, arg, dtype, bits, StringId(name)).map(of_outcome)
        })
    }
}

pub(crate) unsafe extern "C" fn task_end(r: R, task: *mut RecordedTask) -> c_int {
    // SAFETY: the header's contract.
    unsafe { with(r, |recorder| recorder.end(task_at(task)?).map(of_outcome)) }
}

pub(crate) unsafe extern "C" fn record_edge(
    r: R,
    producer: u64,
    consumer: u64,
    cause: u32,
    arg: u16,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let found = EdgeCause::from_tag(cause);
            let cause =
                found.ok_or_else(|| bad("cause", cause.into(), "use a value of enum tt_edge_cause"))?;
            recorder.edge(producer, consumer, cause, arg).map(of_outcome)
        })
    }
}

pub(crate) unsafe extern "C" fn wrote(r: R, start: *const c_void, bytes: u64, name: u32) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let written = Tensor::at(start.cast(), bytes, DType::UInt8).shape(&[bytes])?;
            recorder.wrote(&written.guessed(true, false, false), StringId(name)).map(of_outcome)
        })
    }
}

pub(crate) unsafe extern "C" fn allocation(r: R, address: u64, bytes: u64, space: u32, freed: u32) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| recorder.allocation(address, bytes, space_of(space)?, freed != 0).map(of_outcome))
    }
}

pub(crate) unsafe extern "C" fn reserve(
    r: R,
    task: *mut RecordedTask,
    stage: u32,
    view: *const View,
    out: *mut ReservedSpace,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let out = out.as_mut().ok_or_else(|| bad("space", 0, "it must not be NULL"))?;
            *out = ReservedSpace { number: 0, start: ptr::null_mut(), bytes: 0 };
            let (stage, view) = (stage_of(stage)?, given(view, "view")?);
            let reserved = recorder.reserve(task_at(task)?, stage, &tensor(view)?)?;
            let Some(ticket) = reserved else {
                return Ok(if recorder.is_recorder_gone() { DROPPED } else { OK });
            };
            *out = ReservedSpace { number: ticket.number, start: ticket.start.cast(), bytes: ticket.bytes };
            Ok(OK)
        })
    }
}

pub(crate) unsafe extern "C" fn commit(r: R, number: u64, hash: *const u8) -> c_int {
    // SAFETY: the header's contract.
    unsafe { with(r, |recorder| recorder.commit(number, hash_at(hash)).map(of_outcome)) }
}

pub(crate) unsafe extern "C" fn give_up(r: R, number: u64) -> c_int {
    // SAFETY: the header's contract.
    unsafe { with(r, |recorder| recorder.give_up(number).map(|_| OK)) }
}

pub(crate) unsafe extern "C" fn flush(r: R) -> c_int {
    // SAFETY: the header's contract.
    unsafe { with(r, |recorder| recorder.flush().map(|is_safe| if is_safe { OK } else { NOT_FLUSHED })) }
}

pub(crate) unsafe extern "C" fn set_max_wait(r: R, milliseconds: u64) -> c_int {
    // SAFETY: the header's contract.
    unsafe {
        with(r, |recorder| {
            let most = (milliseconds != u64::MAX).then(|| Duration::from_millis(milliseconds));
            recorder.set_max_wait(most);
            Ok(OK)
        })
    }
}

pub(crate) extern "C" fn status_text(status: c_int) -> *const c_char {
    status::text_of(status).as_ptr()
}

pub(crate) extern "C" fn last_error() -> *const c_char {
    status::last_error()
}
