//! The table of functions that the loader gets.

use std::sync::OnceLock;

use crate::{
    calls::{
        contexts, events, extensions, images, kernels, launches, memory, programs, queues, svm, transfers,
    },
    ffi::Dispatch,
    layer::Layer,
};

/// Addresses of functions that threads share.
struct Table(Dispatch);

// SAFETY: the addresses of functions never change.
unsafe impl Sync for Table {}
// SAFETY: as above.
unsafe impl Send for Table {}

/// The functions that replace those of the driver. The table is empty if the process is not recorded.
pub fn replacements(target: Dispatch) -> *const Dispatch {
    static EMPTY: Table = Table(Dispatch::EMPTY);
    static TABLE: OnceLock<Table> = OnceLock::new();
    match Layer::start(target) {
        Some(layer) => &raw const TABLE.get_or_init(|| Table(table(&layer.target))).0,
        None => &raw const EMPTY.0,
    }
}

/// Replaces each function that the driver has.
macro_rules! replace_functions {
    ($target:ident: $($module:ident { $($api:ident => $function:ident),+ $(,)? })+) => {
        Dispatch {
            $($($api: $target.$api.map(|_| $module::$function as _),)+)+
            ..Dispatch::EMPTY
        }
    };
}

fn table(target: &Dispatch) -> Dispatch {
    replace_functions! { target:
        contexts {
            clCreateContext => create,
            clCreateContextFromType => create_from_type,
            clRetainContext => retain,
            clReleaseContext => release,
        }
        queues {
            clCreateCommandQueue => create,
            clCreateCommandQueueWithProperties => create_with_properties,
            clRetainCommandQueue => retain,
            clReleaseCommandQueue => release,
            clFinish => finish,
            clEnqueueMarker => marker,
            clEnqueueMarkerWithWaitList => marker_with_wait_list,
            clEnqueueBarrier => barrier,
            clEnqueueBarrierWithWaitList => barrier_with_wait_list,
            clEnqueueWaitForEvents => wait_for_events,
        }
        memory {
            clCreateBuffer => create_buffer,
            clCreateBufferWithProperties => create_buffer_with_properties,
            clCreateSubBuffer => create_sub_buffer,
            clCreatePipe => create_pipe,
            clRetainMemObject => retain,
            clReleaseMemObject => release,
            clGetMemObjectInfo => info,
        }
        images {
            clCreateImage2D => create_2d,
            clCreateImage3D => create_3d,
            clCreateImage => create,
            clCreateImageWithProperties => create_with_properties,
            clEnqueueReadImage => read,
            clEnqueueWriteImage => write,
            clEnqueueCopyImage => copy,
            clEnqueueCopyImageToBuffer => copy_to_buffer,
            clEnqueueCopyBufferToImage => copy_from_buffer,
            clEnqueueFillImage => fill,
            clEnqueueMapImage => map,
        }
        programs {
            clBuildProgram => build,
            clCompileProgram => compile,
            clLinkProgram => link,
            clGetProgramBuildInfo => build_info,
        }
        kernels {
            clCreateKernel => create,
            clCreateKernelsInProgram => create_all,
            clCloneKernel => clone,
            clRetainKernel => retain,
            clReleaseKernel => release,
            clSetKernelArg => set_arg,
            clSetKernelArgSVMPointer => set_shared,
            clSetKernelExecInfo => set_exec_info,
        }
        launches {
            clEnqueueNDRangeKernel => nd_range,
            clEnqueueTask => task,
            clEnqueueNativeKernel => native,
        }
        transfers {
            clEnqueueReadBuffer => read,
            clEnqueueWriteBuffer => write,
            clEnqueueCopyBuffer => copy,
            clEnqueueFillBuffer => fill,
            clEnqueueReadBufferRect => read_rect,
            clEnqueueWriteBufferRect => write_rect,
            clEnqueueCopyBufferRect => copy_rect,
            clEnqueueMapBuffer => map,
            clEnqueueUnmapMemObject => unmap,
            clEnqueueMigrateMemObjects => migrate,
        }
        svm {
            clSVMAlloc => alloc,
            clSVMFree => free,
            clEnqueueSVMFree => enqueue_free,
            clEnqueueSVMMemcpy => copy,
            clEnqueueSVMMemFill => fill,
            clEnqueueSVMMap => map,
            clEnqueueSVMUnmap => unmap,
            clEnqueueSVMMigrateMem => migrate,
        }
        extensions {
            clGetExtensionFunctionAddress => address,
            clGetExtensionFunctionAddressForPlatform => address_for_platform,
        }
        events {
            clWaitForEvents => wait,
            clGetEventInfo => info,
            clGetEventProfilingInfo => profiling,
            clRetainEvent => retain,
            clReleaseEvent => release,
            clSetEventCallback => set_callback,
        }
    }
}
