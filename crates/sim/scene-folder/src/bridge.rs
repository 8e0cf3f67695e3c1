//! The functions that an orchestration in C calls (`tt_orch_api` in `include/tensortap.h`).

use std::ffi::{CString, c_char, c_int};

use tensortap_scene::{GraphError, KernelDef, Orch, Params};

use crate::graph::{Step, StepExecutor, TaskStep, View};
use crate::library::ABI_VERSION;
use crate::load::text_at;

/// The type of an orchestration: `int orchestrate(tt_orch *)`.
pub type OrchestrationEntry = unsafe extern "C" fn(*mut COrch) -> c_int;

/// `tt_orch` of the header. C code sees only the first field.
#[repr(C)]
pub struct COrch {
    api: *const Api,
    state: State<'static, 'static>,
}

/// The state of a running orchestration.
struct State<'o, 'b> {
    player: StepExecutor<'o, 'b>,
    params: Vec<(&'static str, CString)>,
    task: Option<TaskStep>,
    error: Option<GraphError>,
    /// All steps so far, if they are recorded for another process.
    steps: Option<Vec<Step>>,
}

/// Runs an orchestration of a loaded library. With `record`, returns its steps.
///
/// # Errors
///
/// The first error of a step, or a non-zero result of the orchestration.
pub fn orchestrate(
    entry: OrchestrationEntry,
    orch: &mut Orch<'_>,
    kernels: &'static [KernelDef],
    params: &Params,
    record: bool,
) -> Result<Vec<Step>, GraphError> {
    let state = State {
        player: StepExecutor::new(orch, kernels),
        params: params.iter().map(|(name, value)| (name, CString::new(value).unwrap_or_default())).collect(),
        task: None,
        error: None,
        steps: record.then(Vec::new),
    };
    // SAFETY: only the lifetimes change. The value lives in this frame and is used only by the call below.
    let state = unsafe { std::mem::transmute::<State<'_, '_>, State<'static, 'static>>(state) };
    let mut c = COrch { api: &raw const API, state };
    // SAFETY: the description declares that this is an orchestration. The table has the layout of the header,
    // and libraries that were compiled with another version of the header were refused.
    let code = unsafe { entry(&raw mut c) };
    let State { player, error, steps, task, .. } = c.state;
    if let Some(error) = error {
        // Closes open scopes. Their error does not matter, because the first error is already known.
        let _ = player.finish();
        return Err(error);
    }
    if code != 0 {
        return Err(GraphError::Other(format!("the orchestration returned {code}")));
    }
    if task.is_some() {
        return Err(GraphError::Other("the last task was begun but neither submitted nor added".into()));
    }
    player.finish()?;
    Ok(steps.unwrap_or_default())
}

impl State<'_, '_> {
    fn take(&mut self, step: Step) -> u32 {
        if self.error.is_some() {
            return 0;
        }
        match self.player.take(&step) {
            Ok(handle) => {
                if let Some(steps) = &mut self.steps {
                    steps.push(step);
                }
                handle
            }
            Err(error) => {
                self.error = Some(error);
                0
            }
        }
    }

    fn fail(&mut self, why: String) {
        self.error.get_or_insert(GraphError::Other(why));
    }

    fn task(&mut self, change: impl FnOnce(&mut TaskStep)) {
        match &mut self.task {
            Some(task) => change(task),
            None => self.fail("an argument needs a task; call tt_begin first".into()),
        }
    }

    fn param(&mut self, name: *const c_char) -> Option<&CString> {
        let name = text_at(name).unwrap_or_default();
        let place = self.params.iter().position(|(known, _)| *known == name);
        if place.is_none() {
            self.fail(format!("the scene has no parameter `{name}`"));
        }
        place.map(|place| &self.params[place].1)
    }
}

/// The state that the pointer of C code refers to.
fn state<'s>(o: *mut COrch) -> &'s mut State<'static, 'static> {
    // SAFETY: according to the header, functions of the table are called with the orchestration's pointer,
    // during its call and on its thread. No other reference exists then.
    unsafe { &mut (*o).state }
}

fn sizes(ndims: u32, shape: *const u64) -> Vec<u64> {
    if shape.is_null() {
        return Vec::new();
    }
    // SAFETY: according to the header, there are this many sizes. More dimensions than the maximum are
    // refused later and need not be read.
    let read = |place: usize| unsafe { shape.add(place).read() };
    (0..(ndims as usize).min(tensortap_abi::MAX_DIMS + 1)).map(read).collect()
}

fn name_of(text: *const c_char) -> String {
    text_at(text).unwrap_or_default()
}

/// `tt_orch_api` of the header.
#[repr(C)]
struct Api {
    abi_version: u32,
    bytes: u32,
    arg: extern "C" fn(*mut COrch, *const c_char) -> u32,
    tensor: extern "C" fn(*mut COrch, u32, u32, *const u64) -> u32,
    slice: extern "C" fn(*mut COrch, u32, u32, u64, u64, i64) -> u32,
    transpose: extern "C" fn(*mut COrch, u32, u32, u32) -> u32,
    select: extern "C" fn(*mut COrch, u32, u32, u64) -> u32,
    broadcast: extern "C" fn(*mut COrch, u32, u32, u64) -> u32,
    reshape: extern "C" fn(*mut COrch, u32, u32, *const u64) -> u32,
    dim: extern "C" fn(*mut COrch, u32, u32) -> u64,
    param: extern "C" fn(*mut COrch, *const c_char) -> u64,
    param_word: extern "C" fn(*mut COrch, *const c_char) -> *const c_char,
    scalar_arg: extern "C" fn(*mut COrch, *const c_char) -> u64,
    begin: extern "C" fn(*mut COrch, *const c_char),
    with: extern "C" fn(*mut COrch, *const c_char),
    name: extern "C" fn(*mut COrch, *const c_char),
    use_: extern "C" fn(*mut COrch, u32, u32),
    scalar: extern "C" fn(*mut COrch, u32, u64),
    blocks: extern "C" fn(*mut COrch, u32),
    dump: extern "C" fn(*mut COrch, u64),
    after: extern "C" fn(*mut COrch, u32),
    submit: extern "C" fn(*mut COrch, u32) -> u32,
    edge: extern "C" fn(*mut COrch, u32, u32),
    publish: extern "C" fn(*mut COrch, u32),
    scope_begin: extern "C" fn(*mut COrch, *const c_char),
    scope_end: extern "C" fn(*mut COrch),
    log: extern "C" fn(*mut COrch, u32, *const c_char),
    fail: extern "C" fn(*mut COrch, *const c_char),
    failed: extern "C" fn(*mut COrch) -> u32,
}

const API_BYTES: u32 = 8 + 27 * 8;
const _: () = assert!(size_of::<Api>() == API_BYTES as usize && std::mem::offset_of!(COrch, api) == 0);

static API: Api = Api {
    abi_version: ABI_VERSION,
    bytes: API_BYTES,
    arg,
    tensor,
    slice,
    transpose,
    select,
    broadcast,
    reshape,
    dim,
    param,
    param_word,
    scalar_arg,
    begin,
    with,
    name,
    use_,
    scalar,
    blocks,
    dump,
    after,
    submit,
    edge,
    publish,
    scope_begin,
    scope_end,
    log,
    fail,
    failed,
};

extern "C" fn arg(o: *mut COrch, name: *const c_char) -> u32 {
    state(o).take(Step::Arg(name_of(name)))
}

extern "C" fn tensor(o: *mut COrch, dtype: u32, ndims: u32, shape: *const u64) -> u32 {
    state(o).take(Step::New(u8::try_from(dtype).unwrap_or(0), sizes(ndims, shape)))
}

extern "C" fn slice(o: *mut COrch, tensor: u32, dim: u32, start: u64, len: u64, step: i64) -> u32 {
    state(o).take(Step::View(tensor, View::Slice(dim, start, len, step)))
}

extern "C" fn transpose(o: *mut COrch, tensor: u32, a: u32, b: u32) -> u32 {
    state(o).take(Step::View(tensor, View::Transpose(a, b)))
}

extern "C" fn select(o: *mut COrch, tensor: u32, dim: u32, index: u64) -> u32 {
    state(o).take(Step::View(tensor, View::Select(dim, index)))
}

extern "C" fn broadcast(o: *mut COrch, tensor: u32, dim: u32, len: u64) -> u32 {
    state(o).take(Step::View(tensor, View::Broadcast(dim, len)))
}

extern "C" fn reshape(o: *mut COrch, tensor: u32, ndims: u32, shape: *const u64) -> u32 {
    state(o).take(Step::View(tensor, View::Reshape(sizes(ndims, shape))))
}

extern "C" fn dim(o: *mut COrch, tensor: u32, dim: u32) -> u64 {
    let state = state(o);
    if state.error.is_some() {
        return 0;
    }
    let size = state.player.size(tensor, dim);
    if size.is_none() {
        state.fail(format!("tensor {tensor} has no dimension {dim}"));
    }
    size.unwrap_or(0)
}

extern "C" fn param(o: *mut COrch, name: *const c_char) -> u64 {
    let state = state(o);
    let Some(value) = state.param(name) else { return 0 };
    let number = value.to_str().ok().and_then(|value| value.parse().ok());
    if number.is_none() {
        state.fail(format!("parameter `{}` is not a whole number; use tt_param_word", name_of(name)));
    }
    number.unwrap_or(0)
}

extern "C" fn param_word(o: *mut COrch, name: *const c_char) -> *const c_char {
    state(o).param(name).map_or(c"".as_ptr(), |value| value.as_ptr())
}

extern "C" fn scalar_arg(o: *mut COrch, name: *const c_char) -> u64 {
    let state = state(o);
    match state.player.scalar_arg(&name_of(name)) {
        Ok(bits) => bits,
        Err(error) => {
            state.error.get_or_insert(error);
            0
        }
    }
}

extern "C" fn begin(o: *mut COrch, kernel: *const c_char) {
    let state = state(o);
    let kernel = name_of(kernel);
    if state.task.is_some() {
        return state.fail(format!(
            "a task of kernel `{kernel}` was begun before the previous task was submitted or added"
        ));
    }
    state.task = Some(TaskStep { kernels: vec![kernel], blocks: 1, ..TaskStep::default() });
}

extern "C" fn with(o: *mut COrch, kernel: *const c_char) {
    state(o).task(|task| task.kernels.push(name_of(kernel)));
}

extern "C" fn name(o: *mut COrch, text: *const c_char) {
    state(o).task(|task| task.name = Some(name_of(text)));
}

extern "C" fn use_(o: *mut COrch, tensor: u32, role: u32) {
    state(o).task(|task| task.tensors.push((tensor, u8::try_from(role).unwrap_or(0))));
}

extern "C" fn scalar(o: *mut COrch, dtype: u32, bits: u64) {
    state(o).task(|task| task.scalars.push((u8::try_from(dtype).unwrap_or(0), bits)));
}

extern "C" fn blocks(o: *mut COrch, block_num: u32) {
    state(o).task(|task| task.blocks = block_num);
}

extern "C" fn dump(o: *mut COrch, args: u64) {
    state(o).task(|task| task.marks |= args);
}

extern "C" fn after(o: *mut COrch, earlier: u32) {
    state(o).task(|task| task.after.push(earlier));
}

extern "C" fn submit(o: *mut COrch, publish: u32) -> u32 {
    let state = state(o);
    match state.task.take() {
        Some(task) => state.take(Step::Task(TaskStep { publish: publish != 0, ..task })),
        None => {
            state.fail("no task to submit; call tt_begin first".into());
            0
        }
    }
}

extern "C" fn edge(o: *mut COrch, from: u32, to: u32) {
    state(o).take(Step::Edge(from, to));
}

extern "C" fn publish(o: *mut COrch, task: u32) {
    state(o).take(Step::Publish(task));
}

extern "C" fn scope_begin(o: *mut COrch, name: *const c_char) {
    state(o).take(Step::ScopeBegin(name_of(name)));
}

extern "C" fn scope_end(o: *mut COrch) {
    state(o).take(Step::ScopeEnd);
}

extern "C" fn log(_o: *mut COrch, _level: u32, text: *const c_char) {
    eprintln!("{}", name_of(text));
}

extern "C" fn fail(o: *mut COrch, text: *const c_char) {
    state(o).fail(name_of(text));
}

extern "C" fn failed(o: *mut COrch) -> u32 {
    u32::from(state(o).error.is_some())
}
