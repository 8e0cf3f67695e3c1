//! Drives a collector from a thread of its own, while the host waits for the device.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use tensortap_sync::signs::{self, Heart};

use crate::{
    CollectError, Collector, RegionMemory, RunEnd, Sink, Summary,
    lane_offsets::{DISCARD, HEARTBEAT},
    memory::RegionWord,
};

/// The region is looked at no less often than this, unless told otherwise.
const LOOK: Duration = Duration::from_millis(50);
/// Half of what the device may expect.
const BEAT: Duration = Duration::from_millis(25);

/// A collector at work in the background.
///
/// Two threads: one collects; the other counts the heartbeat up, so that a device sees a living host however long a
/// write takes.
pub struct Collection<M, S> {
    signals: Arc<Signals>,
    collecting: Option<JoinHandle<Result<Collector<M, S>, CollectError>>>,
    beating: Option<JoinHandle<()>>,
}

/// What the threads tell one another.
#[derive(Default)]
struct Signals {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The device woke the host.
    woken: bool,
    /// The run is over.
    stop: bool,
    /// Nobody collects any more.
    over: bool,
}

impl<M, S> Collection<M, S>
where
    M: RegionMemory + Clone + Send + Sync + 'static,
    S: Sink + Send + 'static,
{
    /// Starts collecting.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(collector: Collector<M, S>) -> Result<Collection<M, S>, CollectError> {
        Collection::start_looking(collector, LOOK)
    }

    /// [`Collection::start`], looking at the region no less often than every `look`.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start_looking(
        collector: Collector<M, S>,
        look: Duration,
    ) -> Result<Collection<M, S>, CollectError> {
        let signals = Arc::new(Signals::default());
        let memory = collector.memory().clone();
        let collecting = spawn("tt-collector", {
            let signals = signals.clone();
            move || collect(collector, &signals, look)
        })?;
        // Dropped when the next thread cannot be started, which ends the first.
        let mut collection = Collection { signals, collecting: Some(collecting), beating: None };
        let signals = collection.signals.clone();
        collection.beating = Some(spawn("tt-heartbeat", move || beat(&memory, &signals))?);
        Ok(collection)
    }

    /// Looks at the region now. To be called when the device has woken the host.
    pub fn notify(&self) {
        self.signals.tell(|state| state.woken = true);
    }

    /// Ends the threads and gives the collector back, which may not have taken everything yet.
    ///
    /// # Errors
    /// What ended collecting before its time.
    pub fn stop(mut self) -> Result<Collector<M, S>, CollectError> {
        self.signals.tell(|state| state.stop = true);
        let collecting = self.collecting.take();
        let ended = collecting.map(JoinHandle::join);
        ended.unwrap_or_else(|| Err(Box::new("was never started"))).unwrap_or_else(|_| {
            Err(CollectError::Thread("has panicked; the dump is readable up to its last frame".to_owned()))
        })
    }

    /// [`Collection::stop`], then [`Collector::finish`].
    ///
    /// # Errors
    /// Those of both.
    pub fn finish(self, end: &RunEnd) -> Result<Summary, CollectError> {
        self.stop()?.finish(end)
    }
}

impl<M, S> Drop for Collection<M, S> {
    fn drop(&mut self) {
        self.signals.tell(|state| state.stop = true);
        // What they have to say was heard, or nobody wants to hear it.
        let _ = self.collecting.take().map(JoinHandle::join);
        let _ = self.beating.take().map(JoinHandle::join);
    }
}

impl Signals {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Sleeps until `wanted` or for `limit`.
    fn sleep(&self, limit: Duration, mut wanted: impl FnMut(&State) -> bool) -> MutexGuard<'_, State> {
        let slept = self.changed.wait_timeout_while(self.lock(), limit, |state| !wanted(state));
        slept.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Ends the heartbeat when nobody collects any more, and lets producers go unless the collector was given back: even
/// when its thread panics.
struct Over<'a, M: RegionMemory> {
    signals: &'a Signals,
    memory: M,
    given_back: bool,
}

impl<M: RegionMemory> Drop for Over<'_, M> {
    fn drop(&mut self) {
        if !self.given_back {
            // If even this fails, the silent heart says the same.
            let _ = signs::order_discard(RegionWord { memory: &self.memory, offset: DISCARD });
            self.memory.wake();
        }
        self.signals.tell(|state| state.over = true);
    }
}

fn collect<M: RegionMemory + Clone + Send + Sync + 'static, S: Sink>(
    mut collector: Collector<M, S>,
    signals: &Signals,
    look: Duration,
) -> Result<Collector<M, S>, CollectError> {
    let mut over = Over { signals, memory: collector.memory().clone(), given_back: false };
    let mut looked = Instant::now();
    loop {
        let progress = collector.step()?;
        if progress.records == 0 {
            collector.idle(looked.elapsed())?;
        }
        looked = Instant::now();
        let limit = if progress.records > 0 { Duration::ZERO } else { look };
        let mut state = signals.sleep(limit, |state| state.woken || state.stop);
        state.woken = false;
        if state.stop {
            drop(state);
            over.given_back = true;
            return Ok(collector);
        }
    }
}

fn beat(memory: &impl RegionMemory, signals: &Signals) {
    let mut heart = Heart::new(RegionWord { memory, offset: HEARTBEAT });
    loop {
        // A region that cannot be reached ends the collector, and with it this thread.
        let _ = heart.beat();
        if signals.sleep(BEAT, |state| state.over).over {
            return;
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CollectError> {
    let spawned = Builder::new().name(name.to_owned()).spawn(run);
    spawned.map_err(|error| CollectError::Thread(format!("could not be started: {error}")))
}
