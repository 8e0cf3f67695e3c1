//! What is ordered with what: the order of queues, events, barriers, and what the host has waited for.

use tensortap_record::EdgeCause;

use crate::ByNumber;

/// A queue, by the driver's handle or any other number that no two live queues share.
pub type QueueKey = usize;

/// Why a task stands behind another.
pub type Cause = EdgeCause;

/// Waits that are known to a queue are folded into one task where there are more.
const MOST_WAITS: usize = 16;

/// One command in the order of its queue, as an event stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Number of its task.
    pub task: u64,
    /// Its queue.
    pub queue: QueueKey,
    /// Commands of the queue before it.
    pub place: u64,
}

/// A task that a submitted one stands behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// Number of the task that comes first.
    pub on: u64,
    /// Why.
    pub cause: Cause,
}

/// What became of a command that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Where it stands.
    pub mark: Mark,
    /// Those directly before it.
    pub waits: Vec<Wait>,
    /// Tasks that do nothing but stand between many and many, each with those before it. They are to be recorded first.
    pub barriers: Vec<(u64, Vec<Wait>)>,
}

/// The order of all commands of a process, as it is submitted. Two commands are ordered if and only if waits lead from one to the other; times play
/// no part.
///
/// ```
/// use tensortap_queue::Orders;
/// let (mut orders, mut next) = (Orders::default(), 1..);
/// orders.queue(7, true);
/// let first = orders.submit(7, 100, &[], &mut || next.next().unwrap());
/// let second = orders.submit(7, 101, &[], &mut || next.next().unwrap());
/// assert!(first.waits.is_empty() && second.waits[0].on == 100);
/// ```
#[derive(Debug, Default)]
pub struct Orders {
    queues: ByNumber<QueueKey, Line>,
    /// What the host has waited for, the latest last, numbered.
    host: Vec<(u64, Mark)>,
    host_waits: u64,
}

/// One queue.
#[derive(Debug, Default)]
struct Line {
    keeps_order: bool,
    submitted: u64,
    /// The command that was submitted last, if the queue keeps its order.
    last: Option<Mark>,
    /// Those directly before it.
    before_last: Vec<Mark>,
    /// Commands that were submitted while it was: which of them came first is not known.
    beside_last: Vec<Mark>,
    /// In a queue without order: what every later command stands behind.
    behind: Option<Wait>,
    /// Commands that had been submitted when it was set: later ones stand behind it.
    behind_since: u64,
    /// In a queue without order: commands behind which no other command of it stands.
    open: Vec<Mark>,
    /// The latest of the host's waits that its commands stand behind.
    host_waits: u64,
}

impl Orders {
    /// A queue was made, which keeps its order or does not.
    pub fn queue(&mut self, queue: QueueKey, keeps_order: bool) {
        let host_waits = 0;
        self.queues.insert(queue, Line { keeps_order, host_waits, ..Line::default() });
    }

    /// A queue is gone. What it has run is still waited for.
    pub fn forget(&mut self, queue: QueueKey) {
        self.queues.remove(&queue);
    }

    /// A command goes into a queue, behind those whose events it waits for. `next_task` numbers tasks that are needed to say it shortly.
    pub fn submit(
        &mut self,
        queue: QueueKey,
        task: u64,
        events: &[Mark],
        next_task: &mut impl FnMut() -> u64,
    ) -> Submission {
        let mut barriers = Vec::new();
        self.fold_host_waits(&mut barriers, next_task);
        let line = self.queues.entry(queue).or_insert_with(|| Line { keeps_order: true, ..Line::default() });
        let mark = Mark { task, queue, place: line.submitted };
        let waits = line.waits(queue, &self.host, events, &mut barriers, next_task);
        (line.host_waits, line.submitted) = (self.host_waits, line.submitted + 1);
        line.enter(mark, events);
        Submission { mark, waits, barriers }
    }

    /// A command goes into a queue that keeps its order while another thread's is going in, the one that was submitted last: it stands behind what that one does, and neither
    /// behind the other. Later commands stand behind both.
    pub fn submit_beside(
        &mut self,
        queue: QueueKey,
        task: u64,
        events: &[Mark],
        next_task: &mut impl FnMut() -> u64,
    ) -> Submission {
        let mut barriers = Vec::new();
        self.fold_host_waits(&mut barriers, next_task);
        let line = self.queues.entry(queue).or_insert_with(|| Line { keeps_order: true, ..Line::default() });
        // Whoever waits for it has not waited for the one beside it, so it stands for no other of its queue.
        let mark = Mark { task, queue: usize::MAX, place: task };
        // What the host has waited for since the one beside it was submitted concerns later commands as well.
        let waits = line.waits_beside(&self.host, events);
        line.beside_last.push(mark);
        Submission { mark, waits, barriers }
    }

    /// A barrier goes into a queue: behind these events or, without any, behind everything in it; later commands stand behind it. `blocks` is false
    /// for a marker, which later commands pass by.
    pub fn submit_barrier(
        &mut self,
        queue: QueueKey,
        task: u64,
        events: &[Mark],
        blocks: bool,
        next_task: &mut impl FnMut() -> u64,
    ) -> Submission {
        let waits_for_all = events.is_empty();
        let open = match self.queues.get(&queue) {
            Some(line) if waits_for_all && !line.keeps_order => line.open.clone(),
            _ => Vec::new(),
        };
        let before = if waits_for_all { &open[..] } else { events };
        let submission = self.submit(queue, task, before, next_task);
        if let Some(line) = self.queues.get_mut(&queue)
            && blocks
            && !line.keeps_order
        {
            line.set_behind(Wait { on: task, cause: Cause::Event });
        }
        submission
    }

    /// The host has waited for these commands, so all that is submitted from now on stands behind them.
    pub fn host_waited(&mut self, marks: &[Mark]) {
        for &mark in marks {
            self.host_waits += 1;
            let line = self.queues.get(&mark.queue);
            let keeps_order = line.is_some_and(|line| line.keeps_order);
            let behind = line.filter(|line| mark.place >= line.behind_since).and_then(|line| line.behind);
            // It stands for those that it stands behind.
            self.host.retain(|(_, known)| {
                let is_before = keeps_order && known.queue == mark.queue && known.place <= mark.place;
                known.task != mark.task && !is_before && behind.is_none_or(|behind| behind.on != known.task)
            });
            self.host.push((self.host_waits, mark));
            // Whatever comes stands behind it anyway.
            if let Some(line) = self.queues.get_mut(&mark.queue) {
                line.open.retain(|open| open.task != mark.task);
            }
        }
    }

    /// Commands of a queue that stand for all that was submitted to it so far: who has waited for them has waited for all.
    pub fn submitted(&self, queue: QueueKey) -> Vec<Mark> {
        let line = self.queues.get(&queue);
        let all = |line: &Line| {
            line.last
                .into_iter()
                .chain(line.beside_last.iter().copied())
                .chain(line.open.iter().copied())
                .collect()
        };
        line.map(all).unwrap_or_default()
    }

    /// Many waits become one, by a task between.
    fn fold_host_waits(&mut self, barriers: &mut Vec<(u64, Vec<Wait>)>, next_task: &mut impl FnMut() -> u64) {
        if self.host.len() <= MOST_WAITS {
            return;
        }
        let task = next_task();
        let waits =
            self.host.drain(..).map(|(_, mark)| Wait { on: mark.task, cause: Cause::HostWait }).collect();
        barriers.push((task, waits));
        self.host_waits += 1;
        // In no queue, so nothing stands for it but itself.
        self.host.push((self.host_waits, Mark { task, queue: usize::MAX, place: self.host_waits }));
    }
}

impl Line {
    /// What a new command stands directly behind.
    fn waits(
        &mut self,
        queue: QueueKey,
        host: &[(u64, Mark)],
        events: &[Mark],
        barriers: &mut Vec<(u64, Vec<Wait>)>,
        next_task: &mut impl FnMut() -> u64,
    ) -> Vec<Wait> {
        let mut waits = Vec::new();
        let new = host
            .iter()
            .filter(|(number, mark)| *number > self.host_waits && !(self.keeps_order && mark.queue == queue));
        let new: Vec<Mark> = new.map(|(_, mark)| *mark).collect();
        let of_host = |mark: &Mark| Wait { on: mark.task, cause: Cause::HostWait };
        if self.keeps_order {
            let last = self.last.iter().chain(&self.beside_last);
            waits.extend(last.map(|last| Wait { on: last.task, cause: Cause::QueueOrder }));
            waits.extend(new.iter().map(of_host));
        } else {
            self.stand_behind(queue, new, barriers, next_task);
            waits.extend(self.behind);
        }
        let of_events = events.iter().filter(|mark| !(self.keeps_order && mark.queue == queue));
        waits.extend(of_events.map(|mark| Wait { on: mark.task, cause: Cause::Event }));
        keep_first(&mut waits);
        waits
    }

    /// What a command stands directly behind that goes in beside the last.
    fn waits_beside(&self, host: &[(u64, Mark)], events: &[Mark]) -> Vec<Wait> {
        let queue = self.before_last.iter().map(|mark| (mark, Cause::QueueOrder));
        let host = host.iter().map(|(_, mark)| (mark, Cause::HostWait));
        let events = events.iter().map(|mark| (mark, Cause::Event));
        let waits = queue.chain(host).chain(events);
        let mut waits = waits.map(|(mark, cause)| Wait { on: mark.task, cause }).collect();
        keep_first(&mut waits);
        waits
    }

    /// In a queue without order every later command stands behind these.
    fn stand_behind(
        &mut self,
        queue: QueueKey,
        mut new: Vec<Mark>,
        barriers: &mut Vec<(u64, Vec<Wait>)>,
        next_task: &mut impl FnMut() -> u64,
    ) {
        let known = self.behind;
        new.retain(|mark| known.is_none_or(|known| known.on != mark.task));
        // What the queue stands behind anyway needs no task between, nor does one wait alone, or for one that stands behind all that is known.
        let stands_behind = |mark: &Mark| mark.queue == queue && mark.place >= self.behind_since;
        let wait = |mark: &Mark| Wait { on: mark.task, cause: Cause::HostWait };
        match &new[..] {
            [] => {}
            [one] if known.is_none() || stands_behind(one) => self.set_behind(wait(one)),
            _ => {
                let task = next_task();
                barriers.push((task, known.into_iter().chain(new.iter().map(wait)).collect()));
                self.set_behind(Wait { on: task, cause: Cause::HostWait });
            }
        }
    }

    fn set_behind(&mut self, wait: Wait) {
        (self.behind, self.behind_since) = (Some(wait), self.submitted);
    }

    fn enter(&mut self, mark: Mark, events: &[Mark]) {
        if self.keeps_order {
            self.before_last.clear();
            self.before_last.extend(self.last.replace(mark));
            self.before_last.append(&mut self.beside_last);
        } else {
            self.open.retain(|open| !events.iter().any(|event| event.task == open.task));
            self.open.push(mark);
        }
    }
}

/// Keeps the first wait for each task. A command of most queues has one or two, which are compared without more ado.
fn keep_first(waits: &mut Vec<Wait>) {
    if waits.len() <= MOST_WAITS {
        let mut at = 1;
        while at < waits.len() {
            if waits[..at].iter().any(|wait| wait.on == waits[at].on) {
                waits.remove(at);
            } else {
                at += 1;
            }
        }
        return;
    }
    let mut seen = std::collections::HashSet::new();
    waits.retain(|wait| seen.insert(wait.on));
}

#[cfg(test)]
mod tests;
