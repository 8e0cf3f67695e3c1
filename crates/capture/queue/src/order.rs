//! Which commands are ordered with which: by their queue, by events, by barriers, or because the host waited.

use tensortap_record::EdgeCause;

use crate::NumberMap;

/// Identifies a queue: the driver's handle, or any other number that no two live queues share.
pub type QueueKey = usize;

/// Why a task waits for another.
pub type Cause = EdgeCause;

/// If a command waits for more tasks than this, they are joined by a task in between.
const MAX_WAITS: usize = 16;

/// Position of a command in the order of its queue. An event refers to a command by this token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OrderToken {
    /// Number of its task.
    pub task: u64,
    /// Its queue.
    pub queue: QueueKey,
    /// Number of commands in the queue before it.
    pub position: u64,
}

/// A task that a submitted command waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    /// Number of the task that runs first.
    pub on: u64,
    /// Why the command waits for it.
    pub cause: Cause,
}

/// The order of a command that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Position of the command.
    pub token: OrderToken,
    /// Its direct predecessors.
    pub waits: Vec<Wait>,
    /// Tasks that only join many predecessors with many successors, each with its own predecessors. Record them before
    /// the command.
    pub barriers: Vec<(u64, Vec<Wait>)>,
}

/// The order of all commands of a process, as they are submitted. Two commands are ordered if and only if a chain of
/// waits leads from one to the other. Times are not used.
///
/// ```
/// use tensortap_queue::OrderTracker;
/// let (mut orders, mut next) = (OrderTracker::default(), 1..);
/// orders.add_queue(7, true);
/// let first = orders.submit(7, 100, &[], &mut || next.next().unwrap());
/// let second = orders.submit(7, 101, &[], &mut || next.next().unwrap());
/// assert!(first.waits.is_empty() && second.waits[0].on == 100);
/// ```
#[derive(Debug, Default)]
pub struct OrderTracker {
    queues: NumberMap<QueueKey, QueueOrder>,
    /// The task that was submitted last, to any queue.
    last_task: u64,
    /// Commands that the host has waited for, numbered, the latest last.
    host: Vec<(u64, OrderToken)>,
    host_waits: u64,
}

/// One queue.
#[derive(Debug, Default)]
struct QueueOrder {
    is_in_order: bool,
    submitted: u64,
    /// The task that was submitted last.
    last_task: u64,
    /// In-order queue: the command that was submitted last.
    last: Option<OrderToken>,
    /// In-order queue: the direct predecessors of `last`.
    before_last: Vec<OrderToken>,
    /// In-order queue: commands that other threads submitted at the same time as `last`. Their order is unknown.
    concurrent_with_last: Vec<OrderToken>,
    /// Out-of-order queue: the task that every later command waits for.
    barrier: Option<Wait>,
    /// Number of commands that had been submitted when `barrier` was set. Later ones wait for it.
    barrier_position: u64,
    /// Out-of-order queue: commands that no other command of the queue waits for.
    tail: Vec<OrderToken>,
    /// The latest host wait that its commands wait for.
    host_waits: u64,
}

impl OrderTracker {
    /// The program created a queue.
    pub fn add_queue(&mut self, queue: QueueKey, is_in_order: bool) {
        self.queues.insert(queue, QueueOrder { is_in_order, ..QueueOrder::default() });
    }

    /// The program released a queue. Tokens of its commands stay valid.
    pub fn remove_queue(&mut self, queue: QueueKey) {
        self.queues.remove(&queue);
    }

    /// Adds a command to a queue. It waits for the commands of `events`. `next_task` numbers tasks that join many
    /// waits.
    pub fn submit(
        &mut self,
        queue: QueueKey,
        task: u64,
        events: &[OrderToken],
        next_task: &mut impl FnMut() -> u64,
    ) -> Submission {
        let mut barriers = Vec::new();
        self.join_host_waits(&mut barriers, next_task);
        let order = self.queues.entry(queue).or_insert_with(QueueOrder::in_order);
        (self.last_task, order.last_task) = (task, task);
        let token = OrderToken { task, queue, position: order.submitted };
        let waits = order.waits(queue, &self.host, events, &mut barriers, next_task);
        (order.host_waits, order.submitted) = (self.host_waits, order.submitted + 1);
        order.append(token, events);
        Submission { token, waits, barriers }
    }

    /// Adds a command to an in-order queue while another thread submits the last command of the queue. Both wait for
    /// the predecessors of that command, and neither waits for the other. Later commands wait for both.
    pub fn submit_concurrent(
        &mut self,
        queue: QueueKey,
        task: u64,
        events: &[OrderToken],
        next_task: &mut impl FnMut() -> u64,
    ) -> Submission {
        let mut barriers = Vec::new();
        self.join_host_waits(&mut barriers, next_task);
        let order = self.queues.entry(queue).or_insert_with(QueueOrder::in_order);
        (self.last_task, order.last_task) = (task, task);
        // A wait for this command implies no wait for the concurrent one. So its token is in no queue.
        let token = OrderToken { task, queue: usize::MAX, position: task };
        // `order.host_waits` stays: host waits since the concurrent command was submitted also concern later commands.
        let waits = order.waits_of_concurrent(&self.host, events);
        order.concurrent_with_last.push(token);
        Submission { token, waits, barriers }
    }

    /// Adds a barrier to a queue. It waits for `events`, or for the whole queue if there are none. Later commands wait
    /// for it if `blocks` is true; a marker has `blocks` false.
    pub fn submit_barrier(
        &mut self,
        queue: QueueKey,
        task: u64,
        events: &[OrderToken],
        blocks: bool,
        next_task: &mut impl FnMut() -> u64,
    ) -> Submission {
        let waits_for_all = events.is_empty();
        let tail = match self.queues.get(&queue) {
            Some(order) if waits_for_all && !order.is_in_order => order.tail.clone(),
            _ => Vec::new(),
        };
        let before = if waits_for_all { &tail[..] } else { events };
        let submission = self.submit(queue, task, before, next_task);
        if let Some(order) = self.queues.get_mut(&queue)
            && blocks
            && !order.is_in_order
        {
            order.set_barrier(Wait { on: task, cause: Cause::Event });
        }
        submission
    }

    /// The host has waited for these commands. Every command that is submitted later waits for them.
    pub fn host_waited(&mut self, tokens: &[OrderToken]) {
        for &token in tokens {
            self.host_waits += 1;
            let order = self.queues.get(&token.queue);
            let is_in_order = order.is_some_and(|order| order.is_in_order);
            let barrier = order
                .filter(|order| token.position >= order.barrier_position)
                .and_then(|order| order.barrier);
            // A wait for this command implies waits for its predecessors.
            self.host.retain(|(_, known)| {
                let is_before = is_in_order && known.queue == token.queue && known.position <= token.position;
                known.task != token.task
                    && !is_before
                    && barrier.is_none_or(|barrier| barrier.on != known.task)
            });
            self.host.push((self.host_waits, token));
            // Every later command waits for it through the host.
            if let Some(order) = self.queues.get_mut(&token.queue) {
                order.tail.retain(|last| last.task != token.task);
            }
        }
    }

    /// The task that was submitted last, to a queue or to any; 0 for none.
    pub fn last_task(&self, queue: Option<QueueKey>) -> u64 {
        match queue {
            Some(queue) => self.queues.get(&queue).map_or(0, |order| order.last_task),
            None => self.last_task,
        }
    }

    /// The commands to wait for in order to wait for everything that was submitted to a queue so far.
    pub fn submitted(&self, queue: QueueKey) -> Vec<OrderToken> {
        let all = |order: &QueueOrder| {
            order
                .last
                .into_iter()
                .chain(order.concurrent_with_last.iter().copied())
                .chain(order.tail.iter().copied())
                .collect()
        };
        self.queues.get(&queue).map(all).unwrap_or_default()
    }

    /// Joins many host waits into one, by a task in between.
    fn join_host_waits(&mut self, barriers: &mut Vec<(u64, Vec<Wait>)>, next_task: &mut impl FnMut() -> u64) {
        if self.host.len() <= MAX_WAITS {
            return;
        }
        let task = next_task();
        let waits = self.host.drain(..).map(|(_, token)| Wait { on: token.task, cause: Cause::HostWait });
        barriers.push((task, waits.collect()));
        self.host_waits += 1;
        // The joining task is in no queue.
        self.host.push((self.host_waits, OrderToken { task, queue: usize::MAX, position: self.host_waits }));
    }
}

impl QueueOrder {
    fn in_order() -> QueueOrder {
        QueueOrder { is_in_order: true, ..QueueOrder::default() }
    }

    /// The direct predecessors of a new command.
    fn waits(
        &mut self,
        queue: QueueKey,
        host: &[(u64, OrderToken)],
        events: &[OrderToken],
        barriers: &mut Vec<(u64, Vec<Wait>)>,
        next_task: &mut impl FnMut() -> u64,
    ) -> Vec<Wait> {
        let mut waits = Vec::new();
        let is_implied = |token: &OrderToken| self.is_in_order && token.queue == queue;
        let new = host.iter().filter(|(number, token)| *number > self.host_waits && !is_implied(token));
        let new: Vec<OrderToken> = new.map(|(_, token)| *token).collect();
        let of_host = |token: &OrderToken| Wait { on: token.task, cause: Cause::HostWait };
        if self.is_in_order {
            let last = self.last.iter().chain(&self.concurrent_with_last);
            waits.extend(last.map(|last| Wait { on: last.task, cause: Cause::QueueOrder }));
            waits.extend(new.iter().map(of_host));
        } else {
            self.add_host_waits(queue, new, barriers, next_task);
            waits.extend(self.barrier);
        }
        let of_events = events.iter().filter(|token| !(self.is_in_order && token.queue == queue));
        waits.extend(of_events.map(|token| Wait { on: token.task, cause: Cause::Event }));
        remove_duplicates(&mut waits);
        waits
    }

    /// The direct predecessors of a command that is submitted at the same time as the last one.
    fn waits_of_concurrent(&self, host: &[(u64, OrderToken)], events: &[OrderToken]) -> Vec<Wait> {
        let queue = self.before_last.iter().map(|token| (token, Cause::QueueOrder));
        let host = host.iter().map(|(_, token)| (token, Cause::HostWait));
        let events = events.iter().map(|token| (token, Cause::Event));
        let waits = queue.chain(host).chain(events);
        let mut waits = waits.map(|(token, cause)| Wait { on: token.task, cause }).collect();
        remove_duplicates(&mut waits);
        waits
    }

    /// Makes every later command of an out-of-order queue wait for `new`.
    fn add_host_waits(
        &mut self,
        queue: QueueKey,
        mut new: Vec<OrderToken>,
        barriers: &mut Vec<(u64, Vec<Wait>)>,
        next_task: &mut impl FnMut() -> u64,
    ) {
        let known = self.barrier;
        new.retain(|token| known.is_none_or(|known| known.on != token.task));
        // A single wait needs no joining task if there is no barrier yet, or if it waits for the barrier itself.
        let waits_for_barrier =
            |token: &OrderToken| token.queue == queue && token.position >= self.barrier_position;
        let wait = |token: &OrderToken| Wait { on: token.task, cause: Cause::HostWait };
        match &new[..] {
            [] => {}
            [one] if known.is_none() || waits_for_barrier(one) => self.set_barrier(wait(one)),
            _ => {
                let task = next_task();
                barriers.push((task, known.into_iter().chain(new.iter().map(wait)).collect()));
                self.set_barrier(Wait { on: task, cause: Cause::HostWait });
            }
        }
    }

    fn set_barrier(&mut self, wait: Wait) {
        (self.barrier, self.barrier_position) = (Some(wait), self.submitted);
    }

    fn append(&mut self, token: OrderToken, events: &[OrderToken]) {
        if self.is_in_order {
            self.before_last.clear();
            self.before_last.extend(self.last.replace(token));
            self.before_last.append(&mut self.concurrent_with_last);
        } else {
            self.tail.retain(|last| !events.iter().any(|event| event.task == last.task));
            self.tail.push(token);
        }
    }
}

/// Keeps the first wait for each task. Most commands have one or two waits, which are compared one by one.
fn remove_duplicates(waits: &mut Vec<Wait>) {
    if waits.len() <= MAX_WAITS {
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
