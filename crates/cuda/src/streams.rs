//! Streams and events: what is ordered with what.

use tensortap_queue::{ByNumber, Mark, Orders, QueueKey, Submission};

/// A context, by a number that no other of this process has.
pub type ContextId = u32;

/// A stream, as a call means it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The one of a context that waits for all its blocking streams, and they for it.
    Legacy(ContextId),
    /// A thread's own, of a context.
    OfThread(ContextId, u64),
    /// One that was made.
    Made(usize),
}

/// Handle of the legacy stream that says so.
pub const LEGACY: usize = 1;
/// Handle of the stream that each thread has.
pub const PER_THREAD: usize = 2;

impl Stream {
    /// The stream of a handle. Null is the thread's own in functions that say so by their names.
    pub fn of(handle: usize, means_thread: bool, context: ContextId, thread: u64) -> Stream {
        match handle {
            0 if means_thread => Stream::OfThread(context, thread),
            0 | LEGACY => Stream::Legacy(context),
            PER_THREAD => Stream::OfThread(context, thread),
            made => Stream::Made(made),
        }
    }

    /// A handle that means it wherever it is given, in its own thread.
    pub fn handle(self) -> usize {
        match self {
            Stream::Legacy(_) => LEGACY,
            Stream::OfThread(..) => PER_THREAD,
            Stream::Made(handle) => handle,
        }
    }
}

/// A stream that was met.
#[derive(Clone, Debug)]
struct Line {
    key: QueueKey,
    context: ContextId,
    /// Whether it waits for the legacy stream of its context, which waits for it.
    is_blocking: bool,
    /// What it was told to wait for, and no command has waited for yet.
    pending: Vec<Mark>,
    /// The last command of the legacy stream that it stands behind.
    behind_legacy: Option<Mark>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Streams {
    orders: Orders,
    lines: ByNumber<Stream, Line>,
    /// With the contexts that they are of.
    events: ByNumber<usize, (ContextId, Vec<Mark>)>,
    next_key: QueueKey,
}

impl Streams {
    /// Meets a stream; whether it is new.
    pub fn meet(&mut self, stream: Stream, context: ContextId, is_blocking: bool) -> bool {
        if self.lines.contains_key(&stream) {
            return false;
        }
        self.next_key += 1;
        self.orders.queue(self.next_key, true);
        let line =
            Line { key: self.next_key, context, is_blocking, pending: Vec::new(), behind_legacy: None };
        self.lines.insert(stream, line);
        true
    }

    /// A stream is destroyed. Its handle may be that of another from now on.
    pub fn forget(&mut self, stream: Stream) {
        if let Some(line) = self.lines.remove(&stream) {
            self.orders.forget(line.key);
        }
    }

    /// A context goes, and with it its streams and events. Their handles may be those of others from now on.
    pub fn forget_context(&mut self, context: ContextId) {
        let orders = &mut self.orders;
        self.lines.retain(|_, line| {
            let stays = line.context != context;
            if !stays {
                orders.forget(line.key);
            }
            stays
        });
        self.events.retain(|_, (of, _)| *of != context);
    }

    /// A command goes into a stream that was met; `passes` where another thread's may be going in at the same time.
    pub fn submit(
        &mut self,
        (stream, passes): (Stream, bool),
        task: u64,
        next_task: &mut impl FnMut() -> u64,
    ) -> Option<Submission> {
        let others = self.beside(stream);
        let line = self.lines.get_mut(&stream)?;
        let mut before = std::mem::take(&mut line.pending);
        match stream {
            Stream::Legacy(_) => before.extend(others),
            // Several that no one of them stands for.
            _ if others.len() > 1 => before.extend(others),
            _ => {
                // One that it stands behind already is not waited for again.
                let new = others.last().copied().filter(|mark| line.behind_legacy != Some(*mark));
                line.behind_legacy = new.or(line.behind_legacy);
                before.extend(new);
            }
        }
        Some(match passes {
            true => self.orders.submit_beside(line.key, task, &before, next_task),
            false => self.orders.submit(line.key, task, &before, next_task),
        })
    }

    /// What a command of a stream stands behind without being told: of the legacy stream all blocking ones, of a blocking one the legacy stream.
    fn beside(&self, stream: Stream) -> Vec<Mark> {
        let Some(line) = self.lines.get(&stream) else { return Vec::new() };
        match stream {
            Stream::Legacy(context) => {
                let blocking = self.lines.iter().filter(|(other, line)| {
                    line.context == context && line.is_blocking && !matches!(other, Stream::Legacy(_))
                });
                blocking.flat_map(|(_, line)| self.submitted(line)).collect()
            }
            _ if line.is_blocking => self
                .lines
                .get(&Stream::Legacy(line.context))
                .map_or(Vec::new(), |legacy| self.submitted(legacy)),
            _ => Vec::new(),
        }
    }

    /// Commands that stand for all a stream was given so far, and for what it waits for.
    fn submitted(&self, line: &Line) -> Vec<Mark> {
        self.orders.submitted(line.key).into_iter().chain(line.pending.iter().copied()).collect()
    }

    /// Commands that have run when a stream is empty.
    pub fn of_stream(&self, stream: Stream) -> Vec<Mark> {
        let Some(line) = self.lines.get(&stream) else { return Vec::new() };
        self.submitted(line).into_iter().chain(self.beside(stream)).collect()
    }

    /// An event of a context is recorded in a stream.
    pub fn record(&mut self, event: usize, stream: Stream, context: ContextId) {
        let marks = self.of_stream(stream);
        self.events.insert(event, (context, marks));
    }

    /// A stream is told to wait for an event.
    pub fn wait(&mut self, stream: Stream, event: usize) {
        let marks = self.of_event(event);
        if let Some(line) = self.lines.get_mut(&stream) {
            line.pending.extend(marks);
        }
    }

    /// An event goes; its handle may be that of another.
    pub fn forget_event(&mut self, event: usize) {
        self.events.remove(&event);
    }

    /// Commands that have run when an event has happened.
    pub fn of_event(&self, event: usize) -> Vec<Mark> {
        self.events.get(&event).map_or_else(Vec::new, |(_, marks)| marks.clone())
    }

    /// Commands that have run when a context is idle.
    pub fn of_context(&self, context: ContextId) -> Vec<Mark> {
        let lines = self.lines.values().filter(|line| line.context == context);
        lines.flat_map(|line| self.submitted(line)).collect()
    }

    /// The host has waited for these commands.
    pub fn host_waited(&mut self, marks: &[Mark]) {
        self.orders.host_waited(marks);
    }
}

#[cfg(test)]
mod tests;
