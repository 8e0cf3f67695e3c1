//! Core threads, and the scheduler's side of their mailboxes.

use tensortap_abi::{FailureKind, KernelAbi, KernelEntry, NO_KERNEL, PayloadLayout, SLOTS_PER_TASK, TaskId};
use tensortap_platform::AltStack;
use tensortap_scene::{FaultKind, KernelArg, KernelDef, Scene, run_damaged, run_kernel};
use tensortap_sync::mailbox::{Poster, Receiver};

use super::adapt::ForeignArgs;
use super::call::SpecialCall;
use super::crash;
use super::memory::{CoreView, Dispatch};
use super::run::{Failure, Run};
use super::scheduler::{Cores, FinishedDispatch};

/// The cores of the blocks that one scheduler owns. Each core is a thread of this process.
pub struct CoreMailboxes<'r, 'm> {
    run: &'r Run<'m>,
    posters: Vec<Poster<CoreView<'m>>>,
    /// The number of each core within the device.
    numbers: Vec<u32>,
}

impl<'r, 'm> CoreMailboxes<'r, 'm> {
    /// The mailboxes of the cores of `blocks`, in the scheduler's numbering.
    pub fn new(run: &'r Run<'m>, blocks: impl Iterator<Item = u32>) -> CoreMailboxes<'r, 'm> {
        let numbers: Vec<u32> = blocks.flat_map(|block| (0..3).map(move |place| block * 3 + place)).collect();
        let posters = numbers.iter().map(|&core| Poster::new(run.control.core(core), 0)).collect();
        CoreMailboxes { run, posters, numbers }
    }
}

impl Cores for CoreMailboxes<'_, '_> {
    fn post(
        &mut self,
        core: u32,
        dispatch: &Dispatch,
        payload_addr: u64,
        layout: PayloadLayout,
        written: impl FnOnce(u32, &CoreView<'_>),
    ) {
        let (poster, number) = (&mut self.posters[core as usize], self.numbers[core as usize]);
        poster.words().write(dispatch, payload_addr, layout);
        written(number, poster.words());
        poster.post();
        self.run.core_parkers[number as usize].wake();
    }

    fn poll_done(&mut self, core: u32) -> bool {
        self.posters[core as usize].poll_done()
    }

    fn finished(&self, core: u32) -> FinishedDispatch {
        let (poster, number) = (&self.posters[core as usize], self.numbers[core as usize]);
        poster.words().finished(number)
    }
}

/// The kernels of a run by `func_id`, and the injected fault.
pub struct KernelTable {
    kernels: &'static [KernelDef],
    entries: Vec<Option<(KernelEntry, KernelAbi)>>,
    fault: Option<(u32, FaultKind)>,
    /// Signature of the damaged kernel, if its memory must be damaged from outside because the kernel comes
    /// from a library.
    damaged_from_outside: Option<&'static [KernelArg]>,
    special: Option<SpecialCall>,
}

impl KernelTable {
    /// Creates the table for a scene. `fault` damages one kernel.
    pub fn new(
        scene: &dyn Scene,
        fault: Option<(u32, FaultKind)>,
        special: Option<SpecialCall>,
    ) -> KernelTable {
        let kernels = scene.kernels();
        let len = kernels.iter().map(|k| k.func_id as usize + 1).max().unwrap_or(0);
        let mut entries = vec![None; len];
        for kernel in kernels {
            entries[kernel.func_id as usize] = Some((kernel.entry, scene.abi(kernel.func_id)));
        }
        let damaged = kernels.iter().find(|k| fault.is_some_and(|(func_id, _)| func_id == k.func_id));
        let from_outside = damaged.filter(|kernel| scene.library(kernel.func_id).is_some());
        let damaged_from_outside = from_outside.map(|kernel| kernel.signature);
        KernelTable { kernels, entries, fault, damaged_from_outside, special }
    }

    fn find(&self, func_id: u32) -> Option<(KernelEntry, KernelAbi, Option<FaultKind>)> {
        let (entry, abi) = (*self.entries.get(func_id as usize)?)?;
        Some((entry, abi, self.fault.filter(|&(damaged, _)| damaged == func_id).map(|(_, kind)| kind)))
    }
}

/// Runs posted dispatches on a core until the run is over.
pub fn run_core(run: &Run<'_>, kernels: &KernelTable, core: u32, scheduler: u32) {
    // Without an alternate stack a stack overflow is not reported. Nothing else is lost, so an error is
    // ignored.
    let _alt_stack = AltStack::install();
    let view = run.control.core(core);
    let _watched = crash::watch_core(core, view, kernels.kernels);
    let mut receiver = Receiver::new(view, 0);
    let parker = &run.core_parkers[core as usize];
    loop {
        let mut posted = None;
        parker.wait(|| {
            posted = receiver.poll();
            posted.is_none() && !run.stopped()
        });
        if posted.is_none() {
            return;
        }
        if let Err(failure) = execute(run, kernels, core, &view) {
            // The dispatch stays unfinished, so no successor starts.
            run.fail(&failure);
            return;
        }
        receiver.finish();
        run.scheduler_parkers[scheduler as usize].wake();
    }
}

fn execute(run: &Run<'_>, kernels: &KernelTable, core: u32, view: &CoreView<'_>) -> Result<(), Failure> {
    let func_id = view.func_id();
    let failure = |message: String| Failure {
        kind: FailureKind::Panic,
        task: Some(TaskId(view.task_id())),
        func_id: (func_id != NO_KERNEL).then_some(func_id),
        core: Some(core),
        address: None,
        message,
    };
    let (entry, abi, fault) =
        kernels.find(func_id).ok_or_else(|| failure(format!("no kernel has func_id {func_id}")))?;
    // SAFETY: the scheduler built `args` for this kernel from a payload. The views in it were checked to be
    // inside their buffers, and dependencies keep other tasks from using the same bytes.
    let call = || unsafe {
        match (abi, fault, kernels.damaged_from_outside) {
            (KernelAbi::Tensortap, Some(fault), Some(signature)) => {
                run_damaged(entry, view.args(), signature, fault)
            }
            (KernelAbi::Tensortap, ..) => run_kernel(entry, view.args(), fault),
            (KernelAbi::Simpler | KernelAbi::Raw, ..) => {
                let tensors = run.slots.read(view.task_slot()).tensor_count;
                let mut foreign = ForeignArgs::new(abi, view.args(), usize::from(tensors))?;
                run_kernel(entry, foreign.args(), None)
            }
        }
    };
    let Some(special) = &kernels.special else { return call().map_err(failure) };
    let Some(guard) = &run.guard else { return special.around(run, entry, view, call).map_err(failure) };
    let tensors = guard.tensors_of(&run.slots, view.task_slot());
    let watched = crash::watch_tensors(tensors);
    special.around(run, entry, view, call).map_err(failure)?;
    drop(watched);
    guard.broken(&tensors).map_or(Ok(()), |broken| {
        let message = broken.describe(&tensors, |overrun| overrun.named(kernels.kernels, func_id));
        Err(Failure { kind: FailureKind::Overrun, address: Some(broken.addr), ..failure(message) })
    })
}

/// The scheduler that owns a block. Blocks are assigned round-robin.
pub fn owner_of_block(block: u32, schedulers: u32) -> u32 {
    block % schedulers
}

/// The scheduler that owns a core.
pub fn owner_of_core(core: u32, schedulers: u32) -> u32 {
    owner_of_block(core / u32::try_from(SLOTS_PER_TASK).expect("three"), schedulers)
}
