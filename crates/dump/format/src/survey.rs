//! One walk over an index that determines its content, its end and its gaps.

use std::collections::{BTreeMap, HashMap, HashSet};

use tensortap_abi::{NO_KERNEL, RECORD_IN_FLIGHT, RecordKind, SLOTS_PER_TASK, TaskRecord};

use crate::{
    Footer, FormatError, InFlightTask, IndexRecord, Loss, Status, TaskKey, Totals,
    index::{Frame, Index, IndexPart, InvalidRecord, WalkEnd},
    layout::FrameHeader,
};

/// Sequence numbers of a thread that no frame accounts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Device thread.
    pub thread: u32,
    /// First missing sequence number.
    pub first_seq: u64,
    /// Number of missing records.
    pub records: u64,
}

/// Where and why an index stops being readable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) offset: u64,
    pub(crate) reason: String,
    /// The file ended here. A live writer may still continue it.
    pub(crate) at_end: bool,
}

/// The result of a walk over an index.
#[derive(Default)]
pub(crate) struct Survey {
    pub(crate) totals: Totals,
    pub(crate) gaps: Vec<Gap>,
    /// First sequence number of each thread that no good frame accounts for.
    pub(crate) next_seq: BTreeMap<u32, u64>,
    /// Offset after the last good frame of records.
    pub(crate) end: u64,
    pub(crate) footer: Option<Footer>,
    /// `None` if the index is closed and complete.
    pub(crate) damage: Option<Damage>,
}

impl Survey {
    /// Walks the index and calls `each` with thread, offset and record, for every good frame.
    pub(crate) fn of(
        index: &Index,
        mut each: impl FnMut(u32, u64, &IndexRecord),
    ) -> Result<Survey, FormatError> {
        let mut survey = Survey { end: index.first_frame(), ..Survey::default() };
        let mut frames = index.frames();
        loop {
            match frames.next()? {
                IndexPart::Records(frame) => {
                    if let Err(reason) = survey.take(&frame, index.is_windowed(), &mut each) {
                        survey.damaged(index, reason, false);
                        break;
                    }
                    survey.end = frames.at;
                }
                IndexPart::Footer { footer, loose_end } => {
                    survey.footer = Some(*footer);
                    if let Some(reason) = loose_end {
                        survey.damaged(index, reason, false);
                    }
                    break;
                }
                IndexPart::Stop(WalkEnd::End) => {
                    survey.damaged(index, "the dump was never closed", true);
                    break;
                }
                IndexPart::Stop(WalkEnd::Partial) => {
                    survey.damaged(index, "the last frame is truncated", true);
                    break;
                }
                IndexPart::Stop(WalkEnd::Bad(reason)) => {
                    survey.damaged(index, &format!("a frame is damaged: {reason}"), false);
                    break;
                }
            }
        }
        Ok(survey)
    }

    /// Counts a frame, or returns why it cannot be trusted. In that case nothing of it is counted.
    fn take(
        &mut self,
        frame: &Frame<'_>,
        windowed: bool,
        each: &mut impl FnMut(u32, u64, &IndexRecord),
    ) -> Result<(), &'static str> {
        let senseless = |InvalidRecord(reason)| reason;
        frame.for_each(|_, _| Ok(())).map_err(senseless)?;
        self.advance(frame, windowed)?;
        let counted = frame.for_each_again(|at, record| {
            self.totals.add(record);
            each(frame.header.thread, at, record);
            Ok(())
        });
        counted.map_err(senseless)
    }

    fn damaged(&mut self, index: &Index, reason: &str, at_end: bool) {
        self.damage = Some(Damage { offset: self.end, reason: reason.to_owned(), at_end });
        if self.footer.is_none() {
            self.footer = index.footer_at_end();
        }
    }

    fn advance(&mut self, frame: &Frame<'_>, windowed: bool) -> Result<(), &'static str> {
        let FrameHeader { thread, first_seq, next_seq, .. } = frame.header;
        let next = self.next_seq.entry(thread).or_insert(if windowed { first_seq } else { 0 });
        let missing =
            first_seq.checked_sub(*next).ok_or("a frame is damaged: its sequence numbers go back")?;
        if missing > 0 {
            self.gaps.push(Gap { thread, first_seq: *next, records: missing });
        }
        *next = next_seq;
        Ok(())
    }

    /// Records missing in the sequence of each thread: in gaps, and before the end that the footer states.
    pub(crate) fn missing(&self) -> Vec<Loss> {
        let mut missing: BTreeMap<u32, u64> = BTreeMap::new();
        let ends = self.footer.iter().flat_map(|footer| &footer.threads).map(|end| {
            let next_seq = self.next_seq.get(&end.thread).copied().unwrap_or(0);
            (end.thread, end.next_seq.saturating_sub(next_seq))
        });
        for (thread, records) in self.gaps.iter().map(|gap| (gap.thread, gap.records)).chain(ends) {
            let count = missing.entry(thread).or_default();
            *count = count.saturating_add(records);
        }
        let lost = missing.into_iter().filter(|(_, records)| *records > 0);
        lost.map(|(thread, records)| Loss { thread, reason: Loss::MISSING.into(), records, bytes: 0 })
            .collect()
    }

    /// Records per thread that are missing but not listed in the footer.
    pub(crate) fn unlisted_missing(&self) -> Vec<(u32, u64)> {
        let stated = self.footer.iter().flat_map(|footer| &footer.losses);
        let stated: BTreeMap<u32, u64> = stated
            .filter(|loss| loss.reason == Loss::MISSING)
            .map(|loss| (loss.thread, loss.records))
            .collect();
        let unsaid = |loss: Loss| {
            (
                loss.thread,
                loss.records - stated.get(&loss.thread).map_or(0, |stated| (*stated).min(loss.records)),
            )
        };
        self.missing().into_iter().map(unsaid).filter(|(_, records)| *records > 0).collect()
    }

    /// Whether the footer's counters match the index and it lists all missing records.
    pub(crate) fn footer_is_right(&self) -> bool {
        self.footer.as_ref().is_some_and(|footer| footer.totals == self.totals)
            && self.unlisted_missing().is_empty()
    }
}

/// Tasks that were dispatched and have not completed, according to their records. Also holds tasks whose
/// completion was indexed before their dispatch.
#[derive(Default)]
pub(crate) struct OpenTasks {
    open: HashMap<TaskKey, TaskRecord>,
    completed_early: HashSet<TaskKey>,
}

impl OpenTasks {
    pub(crate) fn see(&mut self, record: &IndexRecord) {
        let Some(task) = record.as_task() else { return };
        let key = TaskKey { step: task.step, task_id: task.task_id };
        if task.completed_ns != 0 {
            if self.open.remove(&key).is_none() {
                self.completed_early.insert(key);
            }
        } else if task.flags & RECORD_IN_FLIGHT != 0 || !self.completed_early.remove(&key) {
            self.open.insert(key, *task);
        }
    }

    /// The tasks in the order of their dispatch.
    pub(crate) fn into_sorted(self) -> Vec<TaskRecord> {
        let mut tasks: Vec<_> = self.open.into_values().collect();
        tasks.sort_by_key(|task| (task.started_ns, task.step, task.task_id));
        tasks
    }
}

/// The active kernels of a task, in slot order.
pub(crate) fn active(func_id: &[u32; SLOTS_PER_TASK]) -> impl Iterator<Item = u32> {
    func_id.iter().copied().filter(|id| *id != NO_KERNEL)
}

/// The tasks in flight, if the footer leaves them to the index.
pub(crate) fn in_flight(index: &Index, end: u64, footer: &Footer) -> Result<Vec<InFlightTask>, FormatError> {
    if footer.in_flight.is_some() || footer.status == Status::Complete {
        return Ok(footer.in_flight.clone().unwrap_or_default());
    }
    let mut open = OpenTasks::default();
    index.for_each(&[RecordKind::Task], end, |_, record| {
        open.see(record);
        Ok::<_, FormatError>(())
    })?;
    let in_flight = open.into_sorted().into_iter().map(|task| InFlightTask {
        task_id: task.task_id,
        func_id: active(&task.func_id).collect(),
        block_num: task.block_num,
    });
    Ok(in_flight.collect())
}
