//! Drives a collector in background threads while the host waits for the device.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
    time::{Duration, Instant},
};

use tensortap_sync::signs::{self, Heartbeat};

use crate::{
    CollectError, Collector, RegionMemory, RunEnd, Sink, Summary,
    lane_offsets::{DISCARD, HEARTBEAT},
    memory::RegionWord,
};

/// The default maximum interval between two drains of the region.
const LOOK: Duration = Duration::from_millis(50);
/// The device expects a heartbeat at least every 50 ms; this is half of that.
const BEAT: Duration = Duration::from_millis(25);

/// A collector that runs in the background.
///
/// It has two threads: one collects. The other sends the heartbeat, so that a device sees a live host even
/// during a long write.
pub struct Collection<M, S> {
    signals: Arc<Signals>,
    collecting: Option<JoinHandle<Result<Collector<M, S>, CollectError>>>,
    beating: Option<JoinHandle<()>>,
}

/// State shared by the two threads and the owner.
#[derive(Default)]
struct Signals {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The device has woken the host.
    woken: bool,
    /// The collector must stop.
    stop: bool,
    /// Collecting has ended.
    over: bool,
}

impl<M, S> Collection<M, S>
where
    M: RegionMemory + Clone + Send + Sync + 'static,
    S: Sink + Send + 'static,
{
    /// Starts to collect.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(collector: Collector<M, S>) -> Result<Collection<M, S>, CollectError> {
        Collection::start_looking(collector, LOOK)
    }

    /// As [`Collection::start`], but drains the region at least every `look`.
    ///
    /// # Errors
    /// If a thread cannot be started.
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
        // If the next thread cannot be started, dropping this value ends the first.
        let mut collection = Collection { signals, collecting: Some(collecting), beating: None };
        let signals = collection.signals.clone();
        collection.beating = Some(spawn("tt-heartbeat", move || beat(&memory, &signals))?);
        Ok(collection)
    }

    /// Drains the region now. Call it when the device has woken the host.
    pub fn notify(&self) {
        self.signals.tell(|state| state.woken = true);
    }

    /// Ends the threads and returns the collector, which may not have drained everything yet.
    ///
    /// # Errors
    /// The error that ended collecting early.
    pub fn stop(mut self) -> Result<Collector<M, S>, CollectError> {
        self.signals.tell(|state| state.stop = true);
        let collecting = self.collecting.take();
        let ended = collecting.map(JoinHandle::join);
        ended.unwrap_or_else(|| Err(Box::new("did not start"))).unwrap_or_else(|_| {
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
        // The threads' results were already reported or are not needed.
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

    /// Sleeps until `wanted` holds or `limit` has passed.
    fn sleep(&self, limit: Duration, mut wanted: impl FnMut(&State) -> bool) -> MutexGuard<'_, State> {
        let slept = self.changed.wait_timeout_while(self.lock(), limit, |state| !wanted(state));
        slept.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Ends the heartbeat when collecting ends, also if its thread panics. Orders producers to discard data,
/// unless the collector was returned to its owner.
struct CollectionGuard<'a, M: RegionMemory> {
    signals: &'a Signals,
    memory: M,
    given_back: bool,
}

impl<M: RegionMemory> Drop for CollectionGuard<'_, M> {
    fn drop(&mut self) {
        if !self.given_back {
            // If this fails too, the missing heartbeat has the same effect.
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
    let mut over = CollectionGuard { signals, memory: collector.memory().clone(), given_back: false };
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
    let mut heart = Heartbeat::new(RegionWord { memory, offset: HEARTBEAT });
    loop {
        // If the region cannot be reached, the collector ends, and this thread with it.
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
