//! Extra work around the call of a kernel, for launches that need it.
//!
//! A replay can measure the call, give a debugger a place to stop, and set the contexts. A run with guarded
//! tensors checks them after the call. A run that records dispatches stores the start and end of each call.
//! All other launches skip this code.

use std::time::Instant;

use tensortap_abi::{
    BlockContext, CALL_ANNOUNCED, CALL_CONTEXT, CALL_TIMED, DUMP_ARGS, KernelArgs, KernelEntry,
    SubtaskContext,
};
use tensortap_sync::SharedU64;

use super::memory::CoreView;
use super::run::Run;

/// The extra work that one launch needs.
#[derive(Clone, Copy, Debug)]
pub struct SpecialCall {
    timed: bool,
    announced: bool,
    /// Whether each call stores its times for the scheduler that records the dispatch.
    stamped: bool,
    context: Option<(BlockContext, SubtaskContext)>,
}

impl SpecialCall {
    /// Returns `None` if the launch needs nothing extra.
    pub fn of(args: &KernelArgs) -> Option<SpecialCall> {
        let wants = |flag: u32| args.call_flags & flag != 0;
        let context = wants(CALL_CONTEXT).then_some((args.call_block, args.call_subtask));
        let (timed, announced) = (wants(CALL_TIMED), wants(CALL_ANNOUNCED));
        let stamped = args.dump_enable & DUMP_ARGS != 0;
        let call = SpecialCall { timed, announced, stamped, context };
        (args.call_flags != 0 || args.guard_flags != 0 || stamped).then_some(call)
    }

    /// Runs `call`, which calls the kernel, with the extra work around it.
    pub fn around<R>(
        &self,
        run: &Run<'_>,
        entry: KernelEntry,
        view: &CoreView<'_>,
        call: impl FnOnce() -> R,
    ) -> R {
        if let Some((block, subtask)) = self.context {
            view.set_context(block, subtask);
        }
        if self.announced {
            announce(entry, view.args());
        }
        let started = self.timed.then(Instant::now);
        let started_ns = if self.stamped { run.now_ns() } else { 0 };
        let result = call();
        if self.stamped {
            view.note_times(started_ns, run.now_ns());
        }
        if let Some(started) = started {
            view.note_kernel_ns(u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        result
    }
}

/// The address of the kernel that is about to run, for a debugger.
// SAFETY: no other item of the program has this name. A debugger looks it up.
#[unsafe(no_mangle)]
static TENSORTAP_KERNEL: SharedU64 = SharedU64::new(0);

/// The address of the `args[]` that the kernel is about to receive.
// SAFETY: as above.
#[unsafe(no_mangle)]
static TENSORTAP_ARGS: SharedU64 = SharedU64::new(0);

fn announce(entry: KernelEntry, args: *mut u64) {
    TENSORTAP_KERNEL.set(entry as usize as u64);
    TENSORTAP_ARGS.set(args.expose_provenance() as u64);
    tensortap_before_kernel();
}

/// A breakpoint for debuggers. The debugger stops here, reads the two addresses above, and continues to the
/// first instruction of the kernel.
// SAFETY: as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tensortap_before_kernel() {
    // Keeps the function from being optimized away.
    std::hint::black_box(TENSORTAP_KERNEL.get());
}
