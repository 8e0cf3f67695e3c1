//! The thread that records what devices have found.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use tensortap_device_kernels::Decision;
use tensortap_record::{Found, Incoming, RecordError, ThreadRecorder};

use super::{
    Contents, PATIENCE, Pending,
    device::Device,
    moving::{Moving, give},
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

#[derive(Default)]
struct Harvest {
    /// Sides by their streams, in the order of each.
    lines: HashMap<u64, VecDeque<Pending>>,
    moving: Moving,
    /// Hashes of content that came in, or is coming.
    stored: HashSet<u128>,
    /// Hashes that a device may take for stored and that are not.
    lost: HashSet<u128>,
    waiting: Option<Instant>,
}

impl Harvest {
    fn run(&mut self, door: &Door, contents: &Contents) {
        // Memory is made known before anything comes, for that takes a while.
        door.contents.devices().iter().for_each(|device| self.moving.register(door, device));
        let (mut pause, mut still_since) = (SHORTEST, Instant::now());
        loop {
            self.take_in(contents);
            let has_moved = self.step(door, contents);
            if has_moved {
                (pause, still_since) = (SHORTEST, Instant::now());
                contents.inbox().progress += 1;
                continue;
            }
            let is_idle = self.lines.values().all(VecDeque::is_empty) && self.moving.is_empty();
            if contents.closing.is_raised() && (is_idle || still_since.elapsed() > PATIENCE) {
                self.end(door);
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
    fn take_in(&mut self, contents: &Contents) {
        let sides = std::mem::take(&mut contents.inbox().sides);
        for side in sides {
            self.lines.entry(side.line).or_default().push_back(side);
        }
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

    /// Records what has come; whether anything has.
    fn step(&mut self, door: &Door, contents: &Contents) -> bool {
        let mut lost = Vec::new();
        let mut has_moved = self.moving.settle(door, &mut lost);
        self.lose(door, None, lost);
        let lines: Vec<u64> = self.lines.keys().copied().collect();
        for line in lines {
            while let Some((side, findings)) = self.next_seen(line, contents) {
                self.record(door, contents, &side, &findings);
                has_moved = true;
            }
        }
        self.lines.retain(|_, sides| !sides.is_empty());
        has_moved
    }

    /// The next side of a stream that was seen and can be recorded.
    fn next_seen(&mut self, line: u64, contents: &Contents) -> Option<(Pending, Findings)> {
        let sides = self.lines.get_mut(&line)?;
        let first = sides.front().filter(|side| side.is_seen(contents))?;
        let findings = first.findings(contents);
        let is_known = |hash: &u128| {
            let comes_with_it =
                |(found, decision): &(Found, Decision)| is_new(*decision) && found.hash == *hash;
            self.stored.contains(hash) || self.lost.contains(hash) || findings.iter().any(comes_with_it)
        };
        let waits =
            findings.iter().any(|(found, decision)| *decision == Decision::Stored && !is_known(&found.hash));
        if waits && self.waiting.get_or_insert_with(Instant::now).elapsed() < STORED_SOON {
            return None;
        }
        self.waiting = None;
        Some((sides.pop_front()?, findings))
    }

    /// Records a side.
    fn record(&mut self, door: &Door, contents: &Contents, side: &Pending, findings: &Findings) {
        side.give_back(contents);
        let mut running = side.shared.running();
        if running.is_over {
            // The driver did not take its command.
            for (kept, (found, decision)) in side.kept.iter().zip(findings) {
                kept.iter().for_each(|kept| give(&side.device, *kept));
                if is_new(*decision) {
                    self.lose(door, Some(&side.device), vec![found.hash]);
                }
            }
            return;
        }
        // What is new first: other ranges may have the same content.
        let mut order: Vec<usize> = (0..findings.len()).collect();
        order.sort_by_key(|&place| !is_new(findings[place].1));
        for place in order {
            let (found, decision) = findings[place];
            self.record_range(door, contents, side, &mut running.command, place, &found, decision);
        }
        let command = &mut running.command;
        contents.record(door, |recorder| command.seen(recorder, side.stage));
        if side.stage == tensortap_record::DumpStage::AfterCompletion {
            running.is_over = true;
            drop(running);
            side.shared.told();
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a range and what was found of it")]
    fn record_range(
        &mut self,
        door: &Door,
        contents: &Contents,
        side: &Pending,
        command: &mut tensortap_queue::Command,
        place: usize,
        found: &Found,
        decision: Decision,
    ) {
        let Ok(Some((task, tensor))) = command.elsewhere(side.stage, place) else { return };
        let kept = side.kept.get(place).copied().flatten();
        if let Some(kept) = kept.filter(|_| is_new(decision)) {
            let begun = self.patiently(door, |recorder| recorder.incoming(task, side.stage, &tensor, found));
            let mut lost = Vec::new();
            match begun {
                Some(Some(incoming)) => {
                    if decision == Decision::New {
                        self.stored.insert(found.hash);
                        self.lost.remove(&found.hash);
                    }
                    self.moving.begin(door, &side.device, incoming, (kept, found.hash), &mut lost);
                }
                // A filter, or nobody who takes it.
                _ => {
                    give(&side.device, kept);
                    lost.push(found.hash);
                }
            }
            self.lose(door, Some(&side.device), lost);
            return;
        }
        kept.iter().for_each(|kept| give(&side.device, *kept));
        if contents.wants_payloads && tensor.content_bytes() == Some(0) {
            self.record_nothing(door, |recorder| recorder.incoming(task, side.stage, &tensor, found));
        } else if contents.wants_payloads && self.stored.contains(&found.hash) {
            self.patiently(door, |recorder| recorder.found_again(task, side.stage, &tensor, found));
        } else {
            contents.record(door, |recorder| recorder.found(task, side.stage, &tensor, found));
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

    /// What has not come by now does not.
    fn end(&mut self, door: &Door) {
        let in_flight: usize = self.lines.values().map(VecDeque::len).sum();
        if in_flight > 0 {
            door.tell_once(
                "some commands were under way when the process ended: what they left was not seen",
            );
        }
    }
}

/// What was found of each range of a side, and decided.
type Findings = Vec<(Found, Decision)>;

fn is_new(decision: Decision) -> bool {
    matches!(decision, Decision::New | Decision::NewUnkept)
}
