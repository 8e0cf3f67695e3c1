//! Queues, barriers, and host waits for a whole queue.

use tensortap_queue::OrderToken;
use tensortap_record::{Operation, TaskInfo};

use super::{driver_fn, retain_function};
use crate::{
    ffi::{Bits, Context, Device, Event, Queue, SUCCESS, Status},
    layer::Layer,
    objects::drop_reference,
    queue_state::{add_queue, queue_state},
    raw,
};

pub unsafe extern "C" fn create(
    context: Context,
    device: Device,
    properties: Bits,
    status: *mut Status,
) -> Queue {
    // SAFETY: the program's guarantees.
    let queue = unsafe { driver_fn!(clCreateCommandQueue)(context, device, properties, status) };
    add(queue)
}

pub unsafe extern "C" fn create_with_properties(
    context: Context,
    device: Device,
    properties: *const u64,
    status: *mut Status,
) -> Queue {
    // SAFETY: the program's guarantees.
    let queue =
        unsafe { driver_fn!(clCreateCommandQueueWithProperties)(context, device, properties, status) };
    add(queue)
}

/// Replaces the entry of an older queue with the same handle.
fn add(queue: Queue) -> Queue {
    if !queue.is_null() {
        add_queue(Layer::get(), queue);
    }
    queue
}

retain_function!(clRetainCommandQueue, queues);

/// With the last reference the queue is forgotten, because a new queue may get its handle. The order of its commands
/// stays known.
pub unsafe extern "C" fn release(queue: Queue) -> Status {
    let layer = Layer::get();
    layer.release_queued_events();
    let gone = {
        let mut objects = layer.objects();
        let gone = drop_reference(&mut objects.queues, queue);
        if let Some(gone) = &gone {
            objects.orders.remove_queue(gone.state.number);
        }
        gone
    };
    // SAFETY: the program's guarantees.
    let status = unsafe { driver_fn!(clReleaseCommandQueue)(queue) };
    // If the program does not hold the context, the last queue of the context releases its staging memory.
    drop(gone);
    status
}

pub unsafe extern "C" fn finish(queue: Queue) -> Status {
    let layer = Layer::get();
    let state = queue_state(layer, queue);
    let submitted = state.map(|state| layer.objects().orders.submitted(state.number)).unwrap_or_default();
    // SAFETY: the program's guarantees.
    let status = unsafe { driver_fn!(clFinish)(queue) };
    layer.release_queued_events();
    if status == SUCCESS {
        layer.objects().orders.host_waited(&submitted);
    }
    status
}

/// Submits a barrier or a marker unchanged, and records a task with the commands that it waits for.
///
/// # Safety
/// As the program's call.
unsafe fn order(
    (queue, name): (Queue, &'static str),
    waits: &[Event],
    event: *mut Event,
    blocks: bool,
    call: impl FnOnce(*mut Event) -> Status,
) -> Status {
    let layer = Layer::get();
    let Some(state) = queue_state(layer, queue) else { return call(event) };
    let _guard = state.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let status = call(event);
    if status != SUCCESS {
        return status;
    }
    let token = layer.record(|recorder| {
        let name = recorder.string(name)?;
        let info = TaskInfo { operation: Operation::Barrier, name, queue: state.id, ..TaskInfo::default() };
        let mut task = recorder.begin(&info)?;
        recorder.end(&mut task)?;
        let submission = {
            let mut objects = layer.objects();
            let tokens = objects.tokens(waits);
            // A list of events that belong to no recorded command orders nothing, but is not an empty list.
            let knows_all = tokens.len() == waits.len();
            let mut next = || recorder.next_task_id();
            match knows_all || !tokens.is_empty() {
                true => objects.orders.submit_barrier(state.number, task.id(), &tokens, blocks, &mut next),
                false => objects.orders.submit(state.number, task.id(), &[], &mut next),
            }
        };
        submission.record(recorder)?;
        Ok::<OrderToken, _>(submission.token)
    });
    if let Some(token) = token
        && !event.is_null()
    {
        // SAFETY: the driver has written it.
        let created = unsafe { event.read() };
        layer.objects().add_event(created, token, None);
    }
    status
}

pub unsafe extern "C" fn marker(queue: Queue, event: *mut Event) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        order((queue, "clEnqueueMarker"), &[], event, false, |event| {
            driver_fn!(clEnqueueMarker)(queue, event)
        })
    }
}

pub unsafe extern "C" fn marker_with_wait_list(
    queue: Queue,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let name = "clEnqueueMarkerWithWaitList";
        order((queue, name), raw::list(count, waits), event, false, |event| {
            driver_fn!(clEnqueueMarkerWithWaitList)(queue, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn barrier(queue: Queue) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        order((queue, "clEnqueueBarrier"), &[], std::ptr::null_mut(), true, |_| {
            driver_fn!(clEnqueueBarrier)(queue)
        })
    }
}

pub unsafe extern "C" fn barrier_with_wait_list(
    queue: Queue,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let name = "clEnqueueBarrierWithWaitList";
        order((queue, name), raw::list(count, waits), event, true, |event| {
            driver_fn!(clEnqueueBarrierWithWaitList)(queue, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn wait_for_events(queue: Queue, count: u32, waits: *const Event) -> Status {
    // SAFETY: the program's guarantees.
    unsafe {
        let (name, none) = ("clEnqueueWaitForEvents", std::ptr::null_mut());
        order((queue, name), raw::list(count, waits), none, true, |_| {
            driver_fn!(clEnqueueWaitForEvents)(queue, count, waits)
        })
    }
}
