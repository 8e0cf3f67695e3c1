//! What a command has left is looked at together with what the next one of its stream is given: nothing runs between them, so that one moment shows both.
//!
//! A command whose stream was not asked yet waits here, one in the whole process, until the next call of the program. A launch into the same stream takes it
//! along. Any other call that could put something into a stream, wait for one or end it lets it be looked at first ([`look`]); where no call comes soon, the
//! thread that records does. Calls that overlap let nothing wait, so whoever enters finds all of it: whatever a call puts in comes behind.

use std::{
    ffi::CStr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tensortap_queue::Range;
use tensortap_record::DumpStage;

use super::{Asked, Device, NotSeen, Sight, end, enqueue};
use crate::{
    door::{Door, StreamState, Taken},
    enqueue::not_seen,
    probe::{Shared, Target},
};

/// A command that nobody has looked behind.
pub struct Behind {
    /// The command.
    pub shared: Arc<Shared>,
    /// What it may have left.
    pub ranges: Arc<[Range]>,
    /// The device.
    pub device: Arc<Device>,
    /// Its stream.
    pub target: Target,
}

/// The one that waits, and what the program calls.
#[derive(Default)]
pub struct Waiting(Mutex<State>);

#[derive(Default)]
struct State {
    /// Calls that began.
    begun: u64,
    /// Those of them that have not returned.
    inside: u64,
    /// The stream in which one waits, and since when. It stands here until somebody has looked, for calls must not overtake that.
    stream: Option<(Arc<StreamState>, Instant)>,
    /// Who waits, until somebody begins to look.
    behind: Option<Behind>,
}

/// A call by its number among all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn(u64);

impl Waiting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of the program begins.
    pub fn enter(&self) -> Turn {
        let mut state = self.state();
        (state.begun, state.inside) = (state.begun + 1, state.inside + 1);
        Turn(state.begun)
    }

    /// And returns.
    pub fn leave(&self) {
        let mut state = self.state();
        state.inside = state.inside.saturating_sub(1);
    }

    /// Lets a command wait whose call is this turn. It comes back where it cannot: calls overlap, or another waits.
    pub fn put(&self, turn: Turn, stream: &Arc<StreamState>, behind: Behind) -> Result<(), Behind> {
        let mut state = self.state();
        if state.begun != turn.0 || state.inside != 1 || state.stream.is_some() {
            return Err(behind);
        }
        state.stream = Some((Arc::clone(stream), Instant::now()));
        state.behind = Some(behind);
        Ok(())
    }

    /// The one that waits in a stream which the caller has taken. Once he has looked behind it, he [says so](Waiting::looked).
    pub fn take(&self, taken: &Taken) -> Option<Behind> {
        let mut state = self.state();
        let is_of_stream =
            state.stream.as_ref().is_some_and(|(stream, _)| Arc::ptr_eq(stream, &taken.stream));
        state.behind.take_if(|_| is_of_stream && !taken.passes())
    }

    /// Somebody has looked behind the one that he took.
    pub fn looked(&self) {
        self.state().stream = None;
    }

    /// The stream in which one waits, as long at least.
    fn stream(&self, waited: Duration) -> Option<Arc<StreamState>> {
        let state = self.state();
        let (stream, since) = state.stream.as_ref()?;
        (waited.is_zero() || since.elapsed() >= waited).then(|| Arc::clone(stream))
    }

    /// Whether one waits.
    pub fn is_any(&self) -> bool {
        self.state().stream.is_some()
    }
}

/// The thread that records looks behind a command after so long.
pub const SOON: Duration = Duration::from_micros(200);

/// Looks behind the command that waits, before a call does anything.
pub fn look(door: &Door) {
    let Some(stream) = door.contents.waiting.stream(Duration::ZERO) else { return };
    // Who has the stream looks this moment, or has just put the command there.
    look_in(door, &Taken::new(stream));
}

/// Looks behind the command that waits, if no call has come for a while.
pub fn look_if_late(door: &Door) {
    let stream = door.contents.waiting.stream(SOON);
    if let Some(taken) = stream.and_then(Taken::if_free) {
        look_in(door, &taken);
    }
}

fn look_in(door: &Door, taken: &Taken) {
    if let Some(behind) = door.contents.waiting.take(taken) {
        let Target { stream, context } = behind.target;
        let looked = door.driver.within(context, || {
            // Nothing of ours goes into a graph, where it would run with each launch of that. Whoever began to capture did it without a word.
            if door.driver.is_capturing(stream) {
                behind.is_not_seen(door, taken, NotSeen::Passed);
            } else {
                behind.look(door, taken);
            }
        });
        if looked.is_err() {
            behind.is_not_seen(door, taken, NotSeen::Refused);
        }
        door.contents.waiting.looked();
    }
}

impl Behind {
    /// As it is asked for.
    pub fn sight(&self) -> Sight<'_> {
        Sight { shared: &self.shared, stage: DumpStage::AfterCompletion, ranges: &self.ranges }
    }

    /// Looks behind it now, by itself.
    pub fn look(&self, door: &Door, taken: &Taken) {
        let asked = Asked { device: &self.device, target: self.target, sights: &[self.sight()] };
        if let Err(why) = enqueue(door, taken, &asked) {
            self.is_not_seen(door, taken, why);
        }
    }

    /// Nothing of what it left will be told.
    pub fn is_not_seen(&self, door: &Door, taken: &Taken, why: NotSeen) {
        not_seen(door, &self.shared, DumpStage::AfterCompletion, |_| Some(why.reason()));
        end(&door.contents, &self.device, taken.stream.line, &self.shared);
    }
}

/// Beginnings of names of functions that put nothing into any stream, wait for nothing and end nothing.
const HARMLESS: [&str; 32] = [
    "cuCtxGet",
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceCanAccessPeer",
    "cuDevicePrimaryCtxGetState",
    "cuDriverGetVersion",
    "cuEventCreate",
    "cuFuncGet",
    "cuFuncSet",
    "cuFuncIsLoaded",
    "cuGetError",
    "cuGetExportTable",
    "cuGetProcAddress",
    "cuKernelGet",
    "cuKernelSet",
    "cuLibraryGet",
    "cuMemGetAddressRange",
    "cuMemGetInfo",
    "cuMemPoolGet",
    "cuModuleGet",
    "cuOccupancy",
    "cuPointerGet",
    "cuStreamGetCaptureInfo",
    "cuStreamGetCtx",
    "cuStreamGetDevice",
    "cuStreamGetFlags",
    "cuStreamGetId",
    "cuStreamGetPriority",
    "cuStreamIsCapturing",
    "cuTensorMap",
];

/// Functions that CUPTI numbers.
pub const FUNCTIONS: u32 = 1024;

/// Whether a function of the driver, by its number and name, leaves alone whatever waits.
pub fn is_harmless(id: u32, name: Option<&CStr>) -> bool {
    static KNOWN: [OnceLock<bool>; FUNCTIONS as usize] = [const { OnceLock::new() }; FUNCTIONS as usize];
    let asked = || {
        let name = name.map_or(&b""[..], CStr::to_bytes);
        HARMLESS.iter().any(|beginning| name.starts_with(beginning.as_bytes()))
    };
    usize::try_from(id)
        .ok()
        .and_then(|id| KNOWN.get(id))
        .map_or_else(asked, |known| *known.get_or_init(asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_only_ask_are_harmless_and_no_others() {
        for name in [
            c"cuCtxGetCurrent",
            c"cuStreamIsCapturing_ptsz",
            c"cuFuncSetAttribute",
            c"cuPointerGetAttributes",
        ] {
            assert!(is_harmless(5000, Some(name)), "{name:?}");
        }
        let others = [
            c"cuLaunchKernel",
            c"cuStreamQuery",
            c"cuStreamSynchronize",
            c"cuEventRecord",
            c"cuEventQuery",
            c"cuMemFree_v2",
            c"cuCtxDestroy",
            c"cuModuleUnload",
            c"cuStreamBeginCapture",
            c"cuThreadExchangeStreamCaptureMode",
        ];
        for name in others {
            assert!(!is_harmless(5000, Some(name)), "{name:?}");
        }
        assert!(!is_harmless(5000, None));
    }
}
