//! The order of streams and events.

use tensortap_queue::{NumberMap, OrderToken, OrderTracker, QueueKey, Submission};

/// A number of a context that no other context of this process has or had.
pub type ContextId = u32;

/// A stream, as a call means it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The legacy default stream of a context. All blocking streams of the context are ordered with it.
    Legacy(ContextId),
    /// The default stream of a thread, in a context.
    OfThread(ContextId, u64),
    /// A stream that the program created.
    Made(usize),
}

/// Handle that explicitly means the legacy default stream.
pub const LEGACY: usize = 1;
/// Handle of the default stream of the calling thread.
pub const PER_THREAD: usize = 2;

impl Stream {
    /// The stream of a handle. For functions with per-thread default streams, null means the thread's own
    /// stream.
    pub fn of(handle: usize, means_thread: bool, context: ContextId, thread: u64) -> Stream {
        match handle {
            0 if means_thread => Stream::OfThread(context, thread),
            0 | LEGACY => Stream::Legacy(context),
            PER_THREAD => Stream::OfThread(context, thread),
            made => Stream::Made(made),
        }
    }

    /// A handle that means this stream in every function, in its own thread.
    pub fn handle(self) -> usize {
        match self {
            Stream::Legacy(_) => LEGACY,
            Stream::OfThread(..) => PER_THREAD,
            Stream::Made(handle) => handle,
        }
    }
}

/// The order of one stream.
#[derive(Clone, Debug)]
struct StreamOrder {
    key: QueueKey,
    context: ContextId,
    /// Whether it is ordered with the legacy stream of its context.
    is_blocking: bool,
    /// Commands that the stream waits for, until its next command is submitted.
    pending: Vec<OrderToken>,
    /// The last command of the legacy stream that it waits for.
    after_legacy: Option<OrderToken>,
}

/// The order of all streams and events.
#[derive(Debug, Default)]
pub struct Streams {
    orders: OrderTracker,
    lines: NumberMap<Stream, StreamOrder>,
    /// For each event: its context, and the commands that it follows.
    events: NumberMap<usize, (ContextId, Vec<OrderToken>)>,
    next_key: QueueKey,
}

impl Streams {
    /// Adds a stream. Returns whether it is new.
    pub fn meet(&mut self, stream: Stream, context: ContextId, is_blocking: bool) -> bool {
        if self.lines.contains_key(&stream) {
            return false;
        }
        self.next_key += 1;
        self.orders.add_queue(self.next_key, true);
        let line =
            StreamOrder { key: self.next_key, context, is_blocking, pending: Vec::new(), after_legacy: None };
        self.lines.insert(stream, line);
        true
    }

    /// A stream is destroyed. A new stream may get its handle.
    pub fn forget(&mut self, stream: Stream) {
        if let Some(line) = self.lines.remove(&stream) {
            self.orders.remove_queue(line.key);
        }
    }

    /// A context is destroyed with its streams and events. New ones may get their handles.
    pub fn forget_context(&mut self, context: ContextId) {
        let orders = &mut self.orders;
        self.lines.retain(|_, line| {
            let stays = line.context != context;
            if !stays {
                orders.remove_queue(line.key);
            }
            stays
        });
        self.events.retain(|_, (of, _)| *of != context);
    }

    /// Adds a command to a known stream. `passes` is true if another thread's command may enter the stream at
    /// the same time.
    pub fn submit(
        &mut self,
        (stream, passes): (Stream, bool),
        task: u64,
        next_task: &mut impl FnMut() -> u64,
    ) -> Option<Submission> {
        let others = self.implicit_waits(stream);
        let line = self.lines.get_mut(&stream)?;
        let mut before = std::mem::take(&mut line.pending);
        match stream {
            Stream::Legacy(_) => before.extend(others),
            // None of several concurrent commands implies the others.
            _ if others.len() > 1 => before.extend(others),
            _ => {
                // The stream waits for each command of the legacy stream only once.
                let new = others.last().copied().filter(|token| line.after_legacy != Some(*token));
                line.after_legacy = new.or(line.after_legacy);
                before.extend(new);
            }
        }
        Some(match passes {
            true => self.orders.submit_concurrent(line.key, task, &before, next_task),
            false => self.orders.submit(line.key, task, &before, next_task),
        })
    }

    /// The commands that a new command of a stream implicitly waits for. A command of the legacy stream waits
    /// for all blocking streams of its context, and a command of a blocking stream waits for the legacy
    /// stream.
    fn implicit_waits(&self, stream: Stream) -> Vec<OrderToken> {
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

    /// The commands to wait for in order to wait for everything that was submitted to a stream so far.
    fn submitted(&self, line: &StreamOrder) -> Vec<OrderToken> {
        self.orders.submitted(line.key).into_iter().chain(line.pending.iter().copied()).collect()
    }

    /// The task that was submitted last, to a stream or to any; 0 for none.
    pub fn last_task(&self, stream: Option<Stream>) -> u64 {
        match stream {
            Some(stream) => self.lines.get(&stream).map_or(0, |line| self.orders.last_task(Some(line.key))),
            None => self.orders.last_task(None),
        }
    }

    /// The commands that have run when a stream is idle.
    pub fn of_stream(&self, stream: Stream) -> Vec<OrderToken> {
        let Some(line) = self.lines.get(&stream) else { return Vec::new() };
        self.submitted(line).into_iter().chain(self.implicit_waits(stream)).collect()
    }

    /// An event is recorded in a stream.
    pub fn record(&mut self, event: usize, stream: Stream, context: ContextId) {
        let tokens = self.of_stream(stream);
        self.events.insert(event, (context, tokens));
    }

    /// A stream waits for an event.
    pub fn wait(&mut self, stream: Stream, event: usize) {
        let tokens = self.of_event(event);
        if let Some(line) = self.lines.get_mut(&stream) {
            line.pending.extend(tokens);
        }
    }

    /// An event is destroyed. A new event may get its handle.
    pub fn forget_event(&mut self, event: usize) {
        self.events.remove(&event);
    }

    /// The commands that have run when an event has occurred.
    pub fn of_event(&self, event: usize) -> Vec<OrderToken> {
        self.events.get(&event).map_or_else(Vec::new, |(_, tokens)| tokens.clone())
    }

    /// The commands that have run when a context is idle.
    pub fn of_context(&self, context: ContextId) -> Vec<OrderToken> {
        let lines = self.lines.values().filter(|line| line.context == context);
        lines.flat_map(|line| self.submitted(line)).collect()
    }

    /// The host has waited for these commands.
    pub fn host_waited(&mut self, tokens: &[OrderToken]) {
        self.orders.host_waited(tokens);
    }
}

#[cfg(test)]
mod tests;
