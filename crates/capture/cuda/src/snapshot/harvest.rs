//! The harvest thread: it records what devices have found.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use tensortap_device_kernels::Decision;
use tensortap_queue::{Command, ContentSource, StoredContent, WAIT_LIMIT};
use tensortap_record::{ContentDigest, DumpStage, RecordError, ThreadRecorder, UncapturedReason};

use super::{
    Snapshots,
    context::ContextResources,
    pending::{PendingSnapshot, RingSlot},
    transfers::{PayloadTransfers, give},
};
use crate::{backend::CudaBackend, host_snapshot::record_known};

/// Limits of the pause between two looks at the ticket words: short while results arrive, longer while none
/// do.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
/// If the device found that content is stored already, another snapshot brings it soon. After this time it
/// counts as lost.
const STORED_SOON: Duration = Duration::from_secs(1);

/// Records until the process ends.
pub fn run(backend: &'static CudaBackend) {
    crate::callback::stay_inside();
    // A stream may be captured at any time. Calls of this thread must not invalidate the capture.
    backend.driver.relaxed(|| Harvest::default().run(backend, &backend.snapshots));
}

/// The snapshots of one stream.
#[derive(Default)]
struct StreamQueue {
    /// The first one, once it is complete.
    first: Option<HeadSnapshot>,
    /// Those after it, in stream order.
    pending: VecDeque<PendingSnapshot>,
}

/// A complete snapshot whose new content is recorded. The rest of it may wait for content of other snapshots.
struct HeadSnapshot {
    snapshot: PendingSnapshot,
    findings: Findings,
    /// By result slot, the range that the new content was recorded with.
    recorded_with: Vec<Option<usize>>,
    /// Ranges that were recorded without content because of a size limit.
    recorded: Vec<usize>,
    since: Instant,
}

#[derive(Default)]
struct Harvest {
    queues: HashMap<u64, StreamQueue>,
    /// Reused buffer for new snapshots.
    accepted: Vec<PendingSnapshot>,
    transfers: PayloadTransfers,
    /// Which content the dump has, or will have.
    contents: StoredContent,
}

impl Harvest {
    fn run(&mut self, backend: &CudaBackend, snapshots: &Snapshots) {
        // Pinning takes a while, so it is done before the first content arrives.
        backend.snapshots.devices().iter().for_each(|device| self.transfers.register(backend, device));
        let (mut pause, mut still_since) = (SHORTEST, Instant::now());
        loop {
            self.accept_new(backend, snapshots);
            let has_moved = self.step(backend, snapshots, STORED_SOON);
            if has_moved {
                (pause, still_since) = (SHORTEST, Instant::now());
                snapshots.harvest_thread.finish_one();
                continue;
            }
            let is_idle = self.queues.is_empty() && self.transfers.is_empty();
            if snapshots.harvest_thread.is_closing() && (is_idle || still_since.elapsed() > WAIT_LIMIT) {
                // Snapshots that wait for content of others stop waiting. They may have new content
                // themselves.
                if self.step(backend, snapshots, Duration::ZERO) {
                    still_since = Instant::now();
                    continue;
                }
                self.end(backend, snapshots);
                return;
            }
            if is_idle {
                snapshots.harvest_thread.sleep();
                (pause, still_since) = (SHORTEST, Instant::now());
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST);
            }
        }
    }

    /// Takes new snapshots from the inbox.
    fn accept_new(&mut self, backend: &CudaBackend, snapshots: &Snapshots) {
        let mut pending = std::mem::take(&mut self.accepted);
        snapshots.harvest_thread.accept(&mut pending);
        for snapshot in pending.drain(..) {
            let mut running = snapshot.shared.running();
            if !running.is_over() {
                snapshots.record(backend, |recorder| record_known(&mut running, recorder));
            }
            drop(running);
            self.queues.entry(snapshot.stream).or_default().pending.push_back(snapshot);
        }
        self.accepted = pending;
    }

    /// Records what has arrived. Returns whether anything has. `patience` limits the wait for content of
    /// other snapshots.
    fn step(&mut self, backend: &CudaBackend, snapshots: &Snapshots, patience: Duration) -> bool {
        let mut lost = Vec::new();
        let mut has_moved = self.transfers.settle(backend, &mut lost);
        self.lose(backend, None, lost);
        let mut queues = std::mem::take(&mut self.queues);
        // A stream may wait for content that another stream brings in this turn. So nothing is treated as
        // lost before all streams were checked.
        loop {
            let mut moved = false;
            for queue in queues.values_mut() {
                while self.advance(backend, snapshots, queue) {
                    moved = true;
                }
            }
            if !moved {
                break;
            }
            has_moved = true;
        }
        for queue in queues.values_mut() {
            if let Some(first) = queue.first.take_if(|first| first.since.elapsed() >= patience) {
                let missing = self.missing(&first.findings);
                self.lose(backend, None, missing);
                self.finish(backend, snapshots, &first);
                has_moved = true;
            }
        }
        queues.retain(|_, queue| queue.first.is_some() || !queue.pending.is_empty());
        self.queues = queues;
        has_moved
    }

    /// Advances a stream by one step. Returns whether that was possible.
    ///
    /// New content of a snapshot is recorded as soon as the snapshot is the first of its stream, even if the
    /// rest of the snapshot waits. A device treats content as stored only if it was new in an earlier
    /// snapshot. So the oldest content that is waited for is always in a snapshot that is first in its stream
    /// or not complete yet. This is why streams never wait for each other in a circle.
    fn advance(&mut self, backend: &CudaBackend, snapshots: &Snapshots, queue: &mut StreamQueue) -> bool {
        if let Some(first) = queue.first.take_if(|first| self.missing(&first.findings).is_empty()) {
            self.finish(backend, snapshots, &first);
            return true;
        }
        let is_next = queue.first.is_none()
            && queue.pending.front().is_some_and(|snapshot| snapshot.is_complete(snapshots));
        let Some(snapshot) = queue.pending.pop_front_if(|_| is_next) else { return false };
        queue.first = Some(self.begin(backend, snapshots, snapshot));
        true
    }

    /// Hashes that the device treats as stored, but whose content has not arrived.
    fn missing(&self, findings: &Findings) -> Vec<u128> {
        let stored = findings.iter().filter(|(_, decision)| *decision == Decision::Stored);
        let hashes = stored.map(|(found, _)| found.hash);
        hashes.filter(|hash| !self.contents.is_stored(*hash) && !self.contents.is_lost(*hash)).collect()
    }

    /// Records the new content of a snapshot, and frees its working memory.
    fn begin(
        &mut self,
        backend: &CudaBackend,
        snapshots: &Snapshots,
        snapshot: PendingSnapshot,
    ) -> HeadSnapshot {
        let findings = snapshot.findings(snapshots);
        snapshot.give_back(snapshots);
        let (mut recorded_with, mut recorded) = (vec![None; snapshot.kept.len()], Vec::new());
        for (slot, (kept, recorded_with)) in snapshot.kept.iter().zip(&mut recorded_with).enumerate() {
            let Some(kept) = *kept else { continue };
            let (found, decision) = findings[snapshot.plan.slots.firsts()[slot]];
            if is_new(decision) {
                *recorded_with =
                    self.record_new(backend, &snapshot, (slot, kept), (&found, decision), &mut recorded);
            } else {
                give(&snapshot.device, kept);
            }
        }
        HeadSnapshot { snapshot, findings, recorded_with, recorded, since: Instant::now() }
    }

    /// Records the rest of a snapshot.
    fn finish(&mut self, backend: &CudaBackend, snapshots: &Snapshots, first: &HeadSnapshot) {
        let HeadSnapshot { snapshot, findings, recorded_with, recorded, .. } = first;
        let mut running = snapshot.shared.running();
        if running.is_over() {
            return;
        }
        if snapshots.wants_payloads {
            for (place, (found, _)) in findings.iter().enumerate() {
                let by = recorded_with.get(snapshot.plan.slots.of(place)).copied().flatten();
                if by != Some(place) && !recorded.contains(&place) {
                    let (command, is_brought) = (&mut running.command, by.is_some());
                    self.record_rest(backend, (snapshot.stage, place), command, found, is_brought);
                }
            }
        } else {
            let (command, found) = (&mut running.command, findings.iter().map(|(found, _)| *found));
            snapshots.record(backend, |recorder| command.record_hashes(recorder, snapshot.stage, found));
        }
        snapshots.recording(|| snapshot.shared.finish_stage(&backend.session, running, snapshot.stage));
    }

    /// Records new content with the first of its ranges that accepts it, and returns that range. Filters may
    /// accept one argument and not another.
    fn record_new(
        &mut self,
        backend: &CudaBackend,
        snapshot: &PendingSnapshot,
        (slot, kept): (usize, RingSlot),
        (found, decision): (&ContentDigest, Decision),
        recorded: &mut Vec<usize>,
    ) -> Option<usize> {
        let mut running = snapshot.shared.running();
        // If the driver refused the command, nothing is recorded.
        let is_over = running.is_over();
        for place in snapshot.ranges_of(slot).filter(|_| !is_over) {
            let command = &mut running.command;
            let pending = self.patiently(backend, |recorder| {
                command.record_found(recorder, (snapshot.stage, place), found, ContentSource::Device)
            });
            let Some(Some(partial)) = pending else {
                // A range that accepts no content has been recorded as far as it is wanted.
                if pending.is_some() {
                    recorded.push(place);
                    self.contents.leave_out(found.hash);
                }
                continue;
            };
            if decision == Decision::New {
                self.contents.insert(found.hash);
            }
            let mut lost = Vec::new();
            self.transfers.begin(backend, &snapshot.device, partial, (kept, found.hash), &mut lost);
            self.lose(backend, Some(&snapshot.device), lost);
            return Some(place);
        }
        drop(running);
        // A filter left it out, or no range accepts it.
        give(&snapshot.device, kept);
        self.lose(backend, Some(&snapshot.device), vec![found.hash]);
        None
    }

    /// Records a range whose content is stored, is also the content of another range (`is_brought`), or is
    /// not kept.
    fn record_rest(
        &mut self,
        backend: &CudaBackend,
        (stage, place): (DumpStage, usize),
        command: &mut Command,
        found: &ContentDigest,
        is_brought: bool,
    ) {
        let is_empty = command.captured_at(stage).nth(place).is_some_and(|range| range.span().1 == 0);
        let is_stored =
            self.contents.is_stored(found.hash) || is_brought && !self.contents.is_lost(found.hash);
        // Content that a size limit left out is left out again. The device would not bring it.
        let source = match is_stored && !is_empty {
            true => ContentSource::Dump,
            false if is_empty || self.contents.is_left_out(found.hash) => ContentSource::Device,
            false => ContentSource::None,
        };
        let pending =
            self.patiently(backend, |recorder| command.record_found(recorder, (stage, place), found, source));
        let Some(Some(mut partial)) = pending else { return };
        backend.record(|recorder| match recorder.next_space(&mut partial)? {
            // Content of zero bytes is complete at once.
            Some(ticket) if is_empty => recorder.commit(ticket.number, None).map(drop),
            Some(ticket) => recorder.give_up(ticket.number).map(drop),
            None => Ok(()),
        });
    }

    /// Repeats a call while only a commit of this thread can make room for it.
    fn patiently<T>(
        &mut self,
        backend: &CudaBackend,
        mut call: impl FnMut(&mut ThreadRecorder) -> Result<T, RecordError>,
    ) -> Option<T> {
        loop {
            match backend.snapshots.record(backend, |recorder| Ok(call(recorder)))? {
                Ok(answer) => return Some(answer),
                Err(RecordError::CommitFirst) if !self.transfers.is_empty() => {
                    let mut lost = Vec::new();
                    if !self.transfers.settle(backend, &mut lost) {
                        std::thread::sleep(SHORTEST);
                    }
                    self.lose(backend, None, lost);
                }
                Err(error) => {
                    backend.record(|recorder| {
                        recorder.count_refusal(&error);
                        Ok(())
                    });
                    return None;
                }
            }
        }
    }

    /// Content is not stored after all. The devices must not treat it as stored.
    fn lose(&mut self, backend: &CudaBackend, device: Option<&Arc<ContextResources>>, hashes: Vec<u128>) {
        if hashes.is_empty() {
            return;
        }
        for hash in hashes {
            self.contents.lose(hash);
        }
        let devices: Vec<Arc<ContextResources>> =
            device.map_or_else(|| backend.snapshots.devices(), |device| vec![Arc::clone(device)]);
        for device in devices {
            device.call(&backend.driver, || device.forget_stored(&backend.driver));
        }
    }

    /// Records snapshots that are not complete by now as not captured.
    fn end(&mut self, backend: &CudaBackend, snapshots: &Snapshots) {
        let queues = std::mem::take(&mut self.queues);
        if !queues.is_empty() {
            backend.note_once(
                "some commands were still running when the process ended: their results are not captured",
            );
        }
        for snapshot in queues.into_values().flat_map(|queue| queue.pending) {
            let reason = |_| Some(UncapturedReason::NoAccess);
            snapshots.recording(|| {
                snapshot.shared.record_uncaptured(&backend.session, snapshot.stage, reason);
            });
        }
    }
}

/// The result of each range of a snapshot, and the decision about its content.
type Findings = Vec<(ContentDigest, Decision)>;

fn is_new(decision: Decision) -> bool {
    matches!(decision, Decision::New | Decision::NewUnkept)
}
