//! What a replay wants of the call of a kernel: how long it took, a place for a debugger to stop, a context of its own. What a run
//! wants whose tensors are guarded: a look at them behind it. What one wants whose dispatches are recorded: when each began and ended.
//! Other launches want none of it and pay for none.

use std::time::Instant;

use tensortap_abi::{
    BlockContext, CALL_ANNOUNCED, CALL_CONTEXT, CALL_TIMED, DUMP_ARGS, KernelArgs, KernelEntry,
    SubtaskContext,
};
use tensortap_sync::SharedU64;

use super::memory::CoreView;
use super::run::Run;

/// The wishes of one launch.
#[derive(Clone, Copy, Debug)]
pub struct SpecialCall {
    timed: bool,
    announced: bool,
    /// Whether each call leaves its times for the scheduler that records the dispatch.
    stamped: bool,
    context: Option<(BlockContext, SubtaskContext)>,
}

impl SpecialCall {
    /// `None` when the launch has no wishes. That tensors are guarded or dispatches recorded is one.
    pub fn of(args: &KernelArgs) -> Option<SpecialCall> {
        let wants = |flag: u32| args.call_flags & flag != 0;
        let context = wants(CALL_CONTEXT).then_some((args.call_block, args.call_subtask));
        let (timed, announced) = (wants(CALL_TIMED), wants(CALL_ANNOUNCED));
        let stamped = args.dump_enable & DUMP_ARGS != 0;
        let call = SpecialCall { timed, announced, stamped, context };
        (args.call_flags != 0 || args.guard_flags != 0 || stamped).then_some(call)
    }

    /// Calls a kernel through `call`.
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

/// Address of the kernel that is about to run, for a debugger.
// SAFETY: no other item of the program has this name; a debugger looks for it.
#[unsafe(no_mangle)]
static TENSORTAP_KERNEL: SharedU64 = SharedU64::new(0);

/// Address of the `args[]` it is about to receive.
// SAFETY: as above.
#[unsafe(no_mangle)]
static TENSORTAP_ARGS: SharedU64 = SharedU64::new(0);

fn announce(entry: KernelEntry, args: *mut u64) {
    TENSORTAP_KERNEL.set(entry as usize as u64);
    TENSORTAP_ARGS.set(args.expose_provenance() as u64);
    tensortap_before_kernel();
}

/// A debugger stops here, reads the two addresses above, and goes on to the kernel's first instruction.
// SAFETY: as above.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn tensortap_before_kernel() {
    // Something must be left to stop at.
    std::hint::black_box(TENSORTAP_KERNEL.get());
}
