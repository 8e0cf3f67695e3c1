//! Queues, barriers, and the host's wait for all of a queue.

use tensortap_queue::Mark;
use tensortap_record::{Operation, TaskInfo};

use super::behind;
use crate::{
    enqueue,
    ffi::{Bits, Context, Device, Event, Queue, SUCCESS, Status},
    layer::Layer,
    objects::key,
    raw,
};

pub unsafe extern "C" fn create(
    context: Context,
    device: Device,
    properties: Bits,
    status: *mut Status,
) -> Queue {
    // SAFETY: the program's promises.
    let queue = unsafe { behind!(clCreateCommandQueue)(context, device, properties, status) };
    met(queue)
}

pub unsafe extern "C" fn create_with_properties(
    context: Context,
    device: Device,
    properties: *const u64,
    status: *mut Status,
) -> Queue {
    // SAFETY: the program's promises.
    let queue = unsafe { behind!(clCreateCommandQueueWithProperties)(context, device, properties, status) };
    met(queue)
}

/// A new queue may have the handle of one that is gone.
fn met(queue: Queue) -> Queue {
    if !queue.is_null() {
        enqueue::meet_queue(Layer::get(), queue);
    }
    queue
}

pub unsafe extern "C" fn retain(queue: Queue) -> Status {
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clRetainCommandQueue)(queue) };
    if status == SUCCESS
        && let Some(known) = Layer::get().objects().queues.get_mut(&key(queue))
    {
        known.holds += 1;
    }
    status
}

/// With its last hold a queue is forgotten; its handle may then be that of another. What it has run is still known.
pub unsafe extern "C" fn release(queue: Queue) -> Status {
    let layer = Layer::get();
    layer.release_spent();
    let gone = {
        let mut objects = layer.objects();
        let known = objects.queues.get_mut(&key(queue));
        let is_last = known.is_some_and(|known| {
            known.holds = known.holds.saturating_sub(1);
            known.holds == 0
        });
        let gone = if is_last { objects.queues.remove(&key(queue)) } else { None };
        if let Some(gone) = &gone {
            objects.orders.forget(gone.state.number);
        }
        gone
    };
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clReleaseCommandQueue)(queue) };
    // With the last queue of a context that the program does not hold goes what was made for it there.
    drop(gone);
    status
}

pub unsafe extern "C" fn finish(queue: Queue) -> Status {
    let layer = Layer::get();
    let state = enqueue::queue_state(layer, queue);
    let submitted = state.map(|state| layer.objects().orders.submitted(state.number)).unwrap_or_default();
    // SAFETY: the program's promises.
    let status = unsafe { behind!(clFinish)(queue) };
    layer.release_spent();
    if status == SUCCESS {
        layer.objects().orders.host_waited(&submitted);
    }
    status
}

/// A barrier or marker: it goes in as it is, and its task says what it stands behind.
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
    let Some(state) = enqueue::queue_state(layer, queue) else { return call(event) };
    let _guard = state.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let status = call(event);
    if status != SUCCESS {
        return status;
    }
    let mark = layer.record(|recorder| {
        let name = recorder.string(name)?;
        let info = TaskInfo { operation: Operation::Barrier, name, queue: state.id, ..TaskInfo::default() };
        let mut task = recorder.begin(&info)?;
        recorder.end(&mut task)?;
        let submission = {
            let mut objects = layer.objects();
            let marks = objects.marks(waits);
            // Events that are no commands' order nothing that is known, and are no empty list.
            let knows_all = marks.len() == waits.len();
            let mut next = || recorder.next_task_id();
            match knows_all || !marks.is_empty() {
                true => objects.orders.submit_barrier(state.number, task.id(), &marks, blocks, &mut next),
                false => objects.orders.submit(state.number, task.id(), &[], &mut next),
            }
        };
        enqueue::record_order(recorder, &submission)?;
        Ok::<Mark, _>(submission.mark)
    });
    if let Some(mark) = mark
        && !event.is_null()
    {
        // SAFETY: the driver has written it.
        let given = unsafe { event.read() };
        layer.objects().give_event(given, mark, None);
    }
    status
}

pub unsafe extern "C" fn marker(queue: Queue, event: *mut Event) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        order((queue, "clEnqueueMarker"), &[], event, false, |event| behind!(clEnqueueMarker)(queue, event))
    }
}

pub unsafe extern "C" fn marker_with_wait_list(
    queue: Queue,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let name = "clEnqueueMarkerWithWaitList";
        order((queue, name), raw::list(count, waits), event, false, |event| {
            behind!(clEnqueueMarkerWithWaitList)(queue, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn barrier(queue: Queue) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        order((queue, "clEnqueueBarrier"), &[], std::ptr::null_mut(), true, |_| {
            behind!(clEnqueueBarrier)(queue)
        })
    }
}

pub unsafe extern "C" fn barrier_with_wait_list(
    queue: Queue,
    count: u32,
    waits: *const Event,
    event: *mut Event,
) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let name = "clEnqueueBarrierWithWaitList";
        order((queue, name), raw::list(count, waits), event, true, |event| {
            behind!(clEnqueueBarrierWithWaitList)(queue, count, waits, event)
        })
    }
}

pub unsafe extern "C" fn wait_for_events(queue: Queue, count: u32, waits: *const Event) -> Status {
    // SAFETY: the program's promises.
    unsafe {
        let (name, none) = ("clEnqueueWaitForEvents", std::ptr::null_mut());
        order((queue, name), raw::list(count, waits), none, true, |_| {
            behind!(clEnqueueWaitForEvents)(queue, count, waits)
        })
    }
}
