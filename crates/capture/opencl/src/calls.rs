//! The functions that replace the driver's in the loader's table. The loader calls each as the OpenCL specification
//! says: the program guarantees that its handles live and that its pointers are valid. The `unsafe` blocks here pass
//! these guarantees on to the driver.

pub mod contexts;
pub mod events;
pub mod extensions;
pub mod images;
pub mod kernels;
pub mod launches;
pub mod memory;
pub mod programs;
pub mod queues;
pub mod svm;
pub mod transfers;

/// The driver's function with this name. The layer replaces only functions that the driver has.
macro_rules! driver_fn {
    ($name:ident) => {
        crate::layer::Layer::get()
            .target
            .$name
            .expect("the layer replaces only functions that the driver has")
    };
}

/// Defines functions that replace `clEnqueue…` functions whose memory ranges follow from their arguments.
///
/// `fn NAME = API(ARGUMENTS) OPERATION |objects| { RANGE => ROLE, … }`. `ARGUMENTS` are those of the API without the
/// queue, the wait list and the event, which all these functions have. If the function may block, the position of its
/// `blocking` argument is between semicolons: the layer passes 0 to the driver, and waits itself.
macro_rules! enqueue_functions {
    ($(
        $(#[$doc:meta])*
        fn $name:ident = $api:ident(
            $($before:ident: $before_type:ty),* $(; $blocks:ident; $($after:ident: $after_type:ty),*)?
        ) $operation:ident |$objects:ident| { $($range:expr => $role:ident),* $(,)? }
    )*) => { $(
        $(#[$doc])*
        pub unsafe extern "C" fn $name(
            queue: crate::ffi::Queue,
            $($before: $before_type,)*
            $($blocks: u32, $($after: $after_type,)*)?
            count: u32,
            waits: *const crate::ffi::Event,
            event: *mut crate::ffi::Event,
        ) -> crate::ffi::Status {
            let blocks = 0 $(| $blocks)?;
            // SAFETY: the program's guarantees.
            unsafe {
                let target = crate::enqueue::QueueTarget::new(queue, blocks, (count, waits), event);
                let spec = |$objects: &mut crate::objects::Objects, _: &mut tensortap_record::ThreadRecorder| {
                    let operation = tensortap_record::Operation::$operation;
                    let spec = crate::enqueue::CommandSpec::transfer(operation, stringify!($api));
                    Ok(spec$(.with($range, tensortap_record::Role::$role))*)
                };
                crate::enqueue::enqueue(&target, spec, |count, waits, event| {
                    driver_fn!($api)(queue, $($before,)* $(0, $($after,)*)? count, waits, event)
                })
            }
        }
    )* };
}

/// Defines the function that replaces a `clRetain…` function: it counts the program's references in a table of
/// [`Objects`](crate::objects::Objects).
macro_rules! retain_function {
    ($api:ident, $table:ident) => {
        pub unsafe extern "C" fn retain(handle: crate::ffi::Handle) -> crate::ffi::Status {
            // SAFETY: the program's guarantees.
            let status = unsafe { driver_fn!($api)(handle) };
            if status == crate::ffi::SUCCESS {
                crate::objects::add_reference(&mut crate::layer::Layer::get().objects().$table, handle);
            }
            status
        }
    };
}

pub(crate) use {driver_fn, enqueue_functions, retain_function};
