//! The thread that records what devices have found.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use tensortap_device_kernels::Decision;
use tensortap_queue::Command;
use tensortap_record::{DumpStage, Found, Incoming, RecordError, Role, ThreadRecorder, UncapturedReason};

use super::{
    Contents, PATIENCE,
    device::Device,
    moving::{Moving, give},
    pending::{InRing, Pending},
};
use crate::door::Door;

/// How long it waits for the next word: a little while words come, longer while none does.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(1);
/// Content that was decided to be stored comes from another side that is seen soon. After this it is taken for lost.
const STORED_SOON: Duration = Duration::from_secs(1);

/// Records until the process ends.
pub fn run(door: &'static Door) {
    crate::callback::stay_inside();
    let contents = &door.contents;
    let mut harvest = Harvest::default();
    // A stream may be captured at any time, and what this thread calls is no part of that.
    let recorded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        door.driver.relaxed(|| harvest.run(door, contents));
    }));
    if recorded.is_err() {
        door.tell_once("the thread that records content has failed: what comes from now on is not recorded");
    }
    door.record_no_more();
    contents.inbox().is_over = true;
    contents.changed.notify_all();
}

/// A stream.
#[derive(Default)]
struct Line {
    /// Its first side, once that was seen.
    first: Option<First>,
    /// Those behind it, in their order.
    sides: VecDeque<Pending>,
}

/// A side that was seen, and of which all that is new is recorded.
struct First {
    side: Pending,
    findings: Findings,
    /// By findings, the range with which new content was recorded.
    brought: Vec<Option<usize>>,
    /// Ranges that were recorded without their content, as a limit wants it.
    recorded: Vec<usize>,
    since: Instant,
}

#[derive(Default)]
struct Harvest {
    lines: HashMap<u64, Line>,
    /// Where sides are taken over.
    taken_in: Vec<Pending>,
    moving: Moving,
    /// Hashes of content that came in, or is coming.
    stored: HashSet<u128>,
    /// Hashes that a device may take for stored and that are not.
    lost: HashSet<u128>,
    /// Those of them that a limit left out.
    left_out: HashSet<u128>,
}

impl Harvest {
    fn run(&mut self, door: &Door, contents: &Contents) {
        // Memory is made known before anything comes, for that takes a while.
        door.contents.devices().iter().for_each(|device| self.moving.register(door, device));
        let (mut pause, mut still_since) = (SHORTEST, Instant::now());
        loop {
            self.take_in(door, contents);
            let has_moved = self.step(door, contents, STORED_SOON);
            if has_moved {
                (pause, still_since) = (SHORTEST, Instant::now());
                contents.inbox().progress += 1;
                continue;
            }
            let is_idle = self.lines.is_empty() && self.moving.is_empty();
            if contents.closing.is_raised() && (is_idle || still_since.elapsed() > PATIENCE) {
                // What waits for others does so no longer, and may bring content itself.
                if self.step(door, contents, Duration::ZERO) {
                    still_since = Instant::now();
                    continue;
                }
                self.end(door, contents);
                return;
            }
            if is_idle {
                self.sleep(contents);
                (pause, still_since) = (SHORTEST, Instant::now());
            } else {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST);
            }
        }
    }

    /// Takes over what has been put into streams.
    fn take_in(&mut self, door: &Door, contents: &Contents) {
        // What was taken over last time leaves its room to what comes next.
        let mut sides = std::mem::take(&mut self.taken_in);
        std::mem::swap(&mut contents.inbox().sides, &mut sides);
        for side in sides.drain(..) {
            let mut running = side.shared.running();
            if !running.is_over {
                contents.record(door, |recorder| running.record_known(recorder));
            }
            drop(running);
            self.lines.entry(side.line).or_default().sides.push_back(side);
        }
        self.taken_in = sides;
    }

    /// Waits until there is something to wait for.
    fn sleep(&mut self, contents: &Contents) {
        let mut inbox = contents.inbox();
        inbox.sleeps = true;
        while inbox.sides.is_empty() && !contents.closing.is_raised() {
            inbox = contents.changed.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        inbox.sleeps = false;
    }

    /// Records what has come; whether anything has. Content that others bring is waited for so long.
    fn step(&mut self, door: &Door, contents: &Contents, patience: Duration) -> bool {
        let mut lost = Vec::new();
        let mut has_moved = self.moving.settle(door, &mut lost);
        self.lose(door, None, lost);
        let mut lines = std::mem::take(&mut self.lines);
        // A stream may wait for what another has brought in this very turn: nothing is given up before that was looked at.
        loop {
            let mut moved = false;
            for line in lines.values_mut() {
                while self.advance(door, contents, line) {
                    moved = true;
                }
            }
            if !moved {
                break;
            }
            has_moved = true;
        }
        for line in lines.values_mut() {
            if let Some(first) = line.first.take_if(|first| first.since.elapsed() >= patience) {
                let missing = self.missing(&first.findings);
                self.lose(door, None, missing);
                self.finish(door, contents, &first);
                has_moved = true;
            }
        }
        lines.retain(|_, line| line.first.is_some() || !line.sides.is_empty());
        self.lines = lines;
        has_moved
    }

    /// Goes one step further in a stream; whether that could be.
    ///
    /// What is new in a side is recorded as soon as it is the first, whatever else the side waits for. A device takes for stored only what was new before, so that the oldest of all
    /// that is waited for is always in a side that is the first or not seen yet: streams do not wait for one another in a circle.
    fn advance(&mut self, door: &Door, contents: &Contents, line: &mut Line) -> bool {
        if let Some(first) = line.first.take_if(|first| self.missing(&first.findings).is_empty()) {
            self.finish(door, contents, &first);
            return true;
        }
        let is_next = line.first.is_none() && line.sides.front().is_some_and(|side| side.is_seen(contents));
        let Some(side) = line.sides.pop_front_if(|_| is_next) else { return false };
        line.first = Some(self.begin(door, contents, side));
        true
    }

    /// Hashes that the device has taken for stored and that have not come.
    fn missing(&self, findings: &Findings) -> Vec<u128> {
        let stored = findings.iter().filter(|(_, decision)| *decision == Decision::Stored);
        let hashes = stored.map(|(found, _)| found.hash);
        hashes.filter(|hash| !self.stored.contains(hash) && !self.lost.contains(hash)).collect()
    }

    /// Records what is new in a side, and gives back what it needs no more.
    fn begin(&mut self, door: &Door, contents: &Contents, side: Pending) -> First {
        let findings = side.findings(contents);
        side.give_back(contents);
        let (mut brought, mut recorded) = (vec![None; side.kept.len()], Vec::new());
        for (slot, (kept, brought)) in side.kept.iter().zip(&mut brought).enumerate() {
            let Some(kept) = *kept else { continue };
            let (found, decision) = findings[side.sight.slots.firsts()[slot]];
            if is_new(decision) {
                *brought = self.record_new(door, &side, (slot, kept), (&found, decision), &mut recorded);
            } else {
                give(&side.device, kept);
            }
        }
        First { side, findings, brought, recorded, since: Instant::now() }
    }

    /// Records the rest of a side.
    fn finish(&mut self, door: &Door, contents: &Contents, first: &First) {
        let First { side, findings, brought, recorded, .. } = first;
        let mut running = side.shared.running();
        if running.is_over {
            return;
        }
        if contents.wants_payloads {
            for (place, (found, _)) in findings.iter().enumerate() {
                let by = brought.get(side.sight.slots.of(place)).copied().flatten();
                if by != Some(place) && !recorded.contains(&place) {
                    let (command, is_brought) = (&mut running.command, by.is_some());
                    self.record_rest(door, contents, (side.stage, place), command, found, is_brought);
                }
            }
        } else {
            let (command, found) = (&mut running.command, findings.iter().map(|(found, _)| *found));
            contents.record(door, |recorder| command.found(recorder, side.stage, found));
        }
        let command = &mut running.command;
        contents.record(door, |recorder| command.seen(recorder, side.stage));
        // Whoever waits for it looks for the device's word.
        running.is_over = side.stage == DumpStage::AfterCompletion;
    }

    /// Records content that is new, with the first of its ranges that takes it; which that is. Filters may want one argument and not another.
    fn record_new(
        &mut self,
        door: &Door,
        side: &Pending,
        (slot, kept): (usize, InRing),
        (found, decision): (&Found, Decision),
        recorded: &mut Vec<usize>,
    ) -> Option<usize> {
        let mut running = side.shared.running();
        // Of a command that the driver did not take nothing is recorded.
        let is_over = running.is_over;
        for place in side.ranges_of(slot).filter(|_| !is_over) {
            let Ok(Some((task, tensor))) = running.command.elsewhere(side.stage, place) else { continue };
            let begun = self.patiently(door, |recorder| recorder.incoming(task, side.stage, &tensor, found));
            let Some(Some(incoming)) = begun else {
                // Whoever takes nothing of it has recorded it as far as it is wanted.
                if begun.is_some() {
                    recorded.push(place);
                    self.left_out.insert(found.hash);
                }
                continue;
            };
            if decision == Decision::New {
                self.stored.insert(found.hash);
                self.lost.remove(&found.hash);
                self.left_out.remove(&found.hash);
            }
            let mut lost = Vec::new();
            self.moving.begin(door, &side.device, incoming, (kept, found.hash), &mut lost);
            self.lose(door, Some(&side.device), lost);
            return Some(place);
        }
        drop(running);
        // A filter, or nobody who takes it.
        give(&side.device, kept);
        self.lose(door, Some(&side.device), vec![found.hash]);
        None
    }

    /// Records a range whose content is stored, is another range's as well (`is_brought`), or is not kept.
    fn record_rest(
        &mut self,
        door: &Door,
        contents: &Contents,
        (stage, place): (DumpStage, usize),
        command: &mut Command,
        found: &Found,
        is_brought: bool,
    ) {
        let Ok(Some((task, tensor))) = command.elsewhere(stage, place) else { return };
        let is_stored = self.stored.contains(&found.hash) || is_brought && !self.lost.contains(&found.hash);
        if tensor.content_bytes() == Some(0) {
            self.record_nothing(door, |recorder| recorder.incoming(task, stage, &tensor, found));
        } else if is_stored {
            self.patiently(door, |recorder| recorder.found_again(task, stage, &tensor, found));
        } else if self.left_out.contains(&found.hash) {
            // What a limit has left out it leaves out again; nothing would come.
            let begun = self.patiently(door, |recorder| recorder.incoming(task, stage, &tensor, found));
            if let Some(Some(mut incoming)) = begun {
                door.record(|recorder| match recorder.next_space(&mut incoming)? {
                    Some(ticket) => recorder.give_up(ticket.number).map(|_| ()),
                    None => Ok(()),
                });
            }
        } else {
            contents.record(door, |recorder| recorder.found(task, stage, &tensor, found));
        }
    }

    /// Content of no bytes has come as soon as it is asked for.
    fn record_nothing(
        &mut self,
        door: &Door,
        begin: impl FnMut(&mut ThreadRecorder) -> Result<Option<Incoming>, RecordError>,
    ) {
        let Some(Some(mut incoming)) = self.patiently(door, begin) else { return };
        door.record(|recorder| match recorder.next_space(&mut incoming)? {
            Some(ticket) => recorder.commit(ticket.number, None).map(|_| ()),
            None => Ok(()),
        });
    }

    /// Asks again where only a commit of our own makes room.
    fn patiently<T>(
        &mut self,
        door: &Door,
        mut call: impl FnMut(&mut ThreadRecorder) -> Result<T, RecordError>,
    ) -> Option<T> {
        loop {
            match door.contents.record(door, |recorder| Ok(call(recorder)))? {
                Ok(answer) => return Some(answer),
                Err(RecordError::CommitFirst) if !self.moving.is_empty() => {
                    let mut lost = Vec::new();
                    if !self.moving.settle(door, &mut lost) {
                        std::thread::sleep(SHORTEST);
                    }
                    self.lose(door, None, lost);
                }
                Err(error) => {
                    door.record(|recorder| {
                        recorder.count_refusal(&error);
                        Ok(())
                    });
                    return None;
                }
            }
        }
    }

    /// Content is not stored after all: no device may take it for that.
    fn lose(&mut self, door: &Door, device: Option<&Arc<Device>>, hashes: Vec<u128>) {
        if hashes.is_empty() {
            return;
        }
        for hash in hashes {
            self.stored.remove(&hash);
            self.lost.insert(hash);
        }
        let devices: Vec<Arc<Device>> =
            device.map_or_else(|| door.contents.devices(), |device| vec![Arc::clone(device)]);
        for device in devices {
            device.call(&door.driver, || device.forget_stored(&door.driver));
        }
    }

    /// What was not seen by now is not captured.
    fn end(&mut self, door: &Door, contents: &Contents) {
        let lines = std::mem::take(&mut self.lines);
        if !lines.is_empty() {
            door.tell_once(
                "some commands were under way when the process ended: what they left was not seen",
            );
        }
        for side in lines.into_values().flat_map(|line| line.sides) {
            let mut running = side.shared.running();
            if running.is_over {
                continue;
            }
            let ranges: Vec<_> = running
                .command
                .seen_at(side.stage)
                .map(|range| (range.arg, Role::InOut, range.name))
                .collect();
            let task = running.command.task();
            contents.record(door, |recorder| {
                ranges.into_iter().try_for_each(|range| {
                    recorder.not_captured(task, side.stage, range, UncapturedReason::NoAccess).map(|_| ())
                })
            });
        }
    }
}

/// What was found of each range of a side, and decided.
type Findings = Vec<(Found, Decision)>;

fn is_new(decision: Decision) -> bool {
    matches!(decision, Decision::New | Decision::NewUnkept)
}
