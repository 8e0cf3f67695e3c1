//! What the layer knows of a queue, and how it takes snapshots in it.

use std::{
    ptr,
    sync::{Arc, Mutex, Weak},
};

use crate::{
    calls::programs::device_name,
    ffi::{self, Context, Device, Queue},
    harvest_thread,
    layer::Layer,
    objects::{QueueEntry, QueueState, key},
    raw::{self, info},
    ring::Ring,
    snapshot::SnapshotMethod,
};

/// Selects how snapshots are taken. `device` uses device kernels and copies also on devices that run native kernels.
/// `copies` uses only copies, without code on the device.
const METHOD_VARIABLE: &str = "TENSORTAP_OPENCL_PROBES";

/// The state of a queue. If the layer did not see its creation, it asks the driver about it.
pub fn queue_state(layer: &'static Layer, queue: Queue) -> Option<Arc<QueueState>> {
    let known = layer.objects().queues.get(&key(queue)).map(|known| Arc::clone(&known.state));
    known.or_else(|| add_queue(layer, queue))
}

/// Adds a new queue.
pub fn add_queue(layer: &'static Layer, queue: Queue) -> Option<Arc<QueueState>> {
    let ask = |what| info!(layer.target, clGetCommandQueueInfo(queue, what));
    let properties = raw::value::<u64>(ask(ffi::QUEUE_PROPERTIES))?;
    let device = raw::value::<usize>(ask(ffi::QUEUE_DEVICE)).map(ptr::with_exposed_provenance_mut)?;
    let capabilities = info!(layer.target, clGetDeviceInfo(device, ffi::DEVICE_EXECUTION_CAPABILITIES));
    let capabilities = raw::value::<u64>(capabilities).unwrap_or(0);
    let device_name = device_name(layer, device);
    let is_in_order = properties & ffi::QUEUE_OUT_OF_ORDER == 0;
    let context = raw::value::<usize>(ask(ffi::QUEUE_CONTEXT)).map(ptr::with_exposed_provenance_mut)?;
    let method = method(layer, (context, device), capabilities & ffi::EXEC_NATIVE_KERNEL != 0);
    let number = layer.objects().next_queue_number();
    let order = if is_in_order { "" } else { ", out of order" };
    let id = layer.record(|recorder| recorder.queue(&format!("queue {number} ({device_name}{order})")))?;
    let state = Arc::new(QueueState { number, id, method, lock: Mutex::default() });
    let mut objects = layer.objects();
    objects.orders.add_queue(number, is_in_order);
    objects.queues.insert(key(queue), QueueEntry { references: 1, state: Arc::clone(&state) });
    Some(state)
}

/// How snapshots of a device's memory are taken. Queues of the same context and device share a ring.
fn method(
    layer: &'static Layer,
    (context, device): (Context, Device),
    runs_native_kernels: bool,
) -> SnapshotMethod {
    let wanted = std::env::var(METHOD_VARIABLE).unwrap_or_default();
    if runs_native_kernels && wanted != "copies" && wanted != "device" {
        return SnapshotMethod::NativeKernels;
    }
    if !layer.wants_content {
        return SnapshotMethod::MetadataOnly;
    }
    let place = (key(context), key(device));
    let known = layer.objects().rings.get(&place).and_then(Weak::upgrade);
    let ring = known.or_else(|| {
        let ring = Arc::new(Ring::new(layer, (context, device), wanted != "copies")?);
        let mut objects = layer.objects();
        objects.rings.retain(|_, ring| ring.strong_count() > 0);
        objects.rings.insert(place, Arc::downgrade(&ring));
        // The ring stays as long as the program holds the context, because creating a ring takes longer than creating
        // a queue.
        if let Some(known) = objects.contexts.get_mut(&place.0) {
            known.rings.push(Arc::clone(&ring));
        }
        Some(ring)
    });
    match ring.filter(|_| harvest_thread::start(layer).is_some()) {
        Some(ring) => SnapshotMethod::Copies(ring),
        None => SnapshotMethod::Unavailable,
    }
}
