//! Plans of OpenCL programs. `execute.py` executes a plan on the device, and this module executes it on the
//! host.

use serde_json::{Value, json};

/// A range of words of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordRange {
    /// The buffer, by its number in the plan.
    pub buffer: usize,
    /// The first word.
    pub at: usize,
    /// The number of words.
    pub words: usize,
}

/// The action of a step.
#[derive(Clone, Debug)]
pub enum DeviceCommand {
    /// `y = y * 1664525 + x + k`, for a number of work items from an offset on.
    Mix {
        x: usize,
        y: usize,
        k: u32,
        launch: Launch,
    },
    /// `y = i * 2654435761 ^ k`.
    Put {
        y: usize,
        k: u32,
        launch: Launch,
    },
    /// Each group rotates its words by one.
    Rotate {
        y: usize,
        launch: Launch,
    },
    /// Receives a buffer, but neither reads nor writes it.
    Look {
        x: usize,
    },
    Write {
        to: WordRange,
        seed: u64,
        blocks: bool,
    },
    Read {
        from: WordRange,
        blocks: bool,
    },
    Copy {
        from: WordRange,
        to: WordRange,
    },
    Fill {
        to: WordRange,
        word: u32,
    },
    /// Reads and writes through a mapping.
    Map {
        at: WordRange,
        seed: u64,
    },
    Barrier,
    Gate,
    Open {
        gate: usize,
    },
    Finish,
    Wait,
}

/// The size of a launch. The driver chooses a group size of 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    pub size: usize,
    pub group: usize,
    pub offset: usize,
}

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    pub queue: usize,
    pub what: DeviceCommand,
    /// The steps that it waits for.
    pub waits: Vec<usize>,
    /// Whether the program sets a callback for it.
    pub callback: bool,
}

/// A buffer: its own memory with noise, or a part of another buffer.
#[derive(Clone, Copy, Debug)]
pub enum Buffer {
    Own { words: usize, seed: u64 },
    Part { of: usize, at: usize, words: usize },
}

/// A plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// For each queue, whether it is out of order.
    pub queues: Vec<bool>,
    pub buffers: Vec<Buffer>,
    pub steps: Vec<Step>,
}

/// The initial content of buffers, as the program computes it.
pub fn noise(seed: u64, count: usize) -> Vec<u32> {
    (0..count as u64)
        .map(|at| u32::try_from((at + seed * 7919).wrapping_mul(2_654_435_761) % (1 << 32)).unwrap())
        .collect()
}

/// A range of a step, with its words before and after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeState {
    pub arg: u16,
    pub before: Option<Vec<u32>>,
    pub after: Option<Vec<u32>>,
}

/// The ranges of a step, by task. A mapping has two tasks, all other steps have one.
pub type Tasks = Vec<Vec<RangeState>>;

impl Plan {
    pub fn words(&self, buffer: usize) -> usize {
        match self.buffers[buffer] {
            Buffer::Own { words, .. } | Buffer::Part { words, .. } => words,
        }
    }

    /// The memory of a buffer: the buffer that owns it, and the first word in it.
    pub fn place(&self, buffer: usize) -> (usize, usize) {
        match self.buffers[buffer] {
            Buffer::Own { .. } => (buffer, 0),
            Buffer::Part { of, at, .. } => (of, at),
        }
    }

    fn all(&self, buffer: usize) -> WordRange {
        WordRange { buffer, at: 0, words: self.words(buffer) }
    }

    /// The ranges that a step accesses, and whether it may write them. Kernels access whole buffers.
    pub fn touched(&self, what: &DeviceCommand) -> Vec<(WordRange, bool)> {
        match *what {
            DeviceCommand::Mix { x, y, .. } => vec![(self.all(x), false), (self.all(y), true)],
            DeviceCommand::Put { y, .. } | DeviceCommand::Rotate { y, .. } => vec![(self.all(y), true)],
            DeviceCommand::Look { x } => vec![(self.all(x), false)],
            DeviceCommand::Write { to, .. } | DeviceCommand::Fill { to, .. } => vec![(to, true)],
            DeviceCommand::Read { from, .. } => vec![(from, false)],
            DeviceCommand::Copy { from, to } => vec![(from, false), (to, true)],
            DeviceCommand::Map { at, .. } => vec![(at, true)],
            DeviceCommand::Barrier
            | DeviceCommand::Gate
            | DeviceCommand::Open { .. }
            | DeviceCommand::Finish
            | DeviceCommand::Wait => Vec::new(),
        }
    }

    /// Whether two steps must not run at the same time.
    pub fn conflicts(&self, one: &DeviceCommand, other: &DeviceCommand) -> bool {
        let place = |range: &WordRange| {
            let (memory, first) = self.place(range.buffer);
            (memory, first + range.at, first + range.at + range.words)
        };
        self.touched(one).iter().any(|(mine, writes)| {
            self.touched(other).iter().any(|(theirs, others_write)| {
                let (mine, theirs) = (place(mine), place(theirs));
                (*writes || *others_write) && mine.0 == theirs.0 && mine.1 < theirs.2 && theirs.1 < mine.2
            })
        })
    }

    /// The plan as the program reads it.
    pub fn json(&self) -> Value {
        let buffers = self.buffers.iter().map(|buffer| match *buffer {
            Buffer::Own { words, seed } => json!({"words": words, "seed": seed}),
            Buffer::Part { of, at, words } => json!({"of": of, "at": at, "words": words}),
        });
        let queues = self.queues.iter().map(|out_of_order| json!({"out_of_order": out_of_order}));
        json!({
            "queues": queues.collect::<Vec<_>>(),
            "buffers": buffers.collect::<Vec<_>>(),
            "steps": self.steps.iter().map(Step::json).collect::<Vec<_>>(),
        })
    }

    /// Executes the plan step by step. Returns what the tasks of each step see, and what was read.
    pub fn execute(&self) -> (Vec<Tasks>, Vec<Vec<u32>>) {
        let mut memory: Vec<Vec<u32>> = self
            .buffers
            .iter()
            .map(|buffer| match *buffer {
                Buffer::Own { words, seed } => noise(seed, words),
                Buffer::Part { .. } => Vec::new(),
            })
            .collect();
        let mut read = Vec::new();
        let tasks =
            self.steps.iter().map(|step| self.execute_step(&step.what, &mut memory, &mut read)).collect();
        (tasks, read)
    }

    fn get(&self, memory: &[Vec<u32>], range: WordRange) -> Vec<u32> {
        let (own, first) = self.place(range.buffer);
        memory[own][first + range.at..][..range.words].to_vec()
    }

    fn put(&self, memory: &mut [Vec<u32>], range: WordRange, words: &[u32]) {
        let (own, first) = self.place(range.buffer);
        memory[own][first + range.at..][..range.words].copy_from_slice(words);
    }

    fn execute_step(&self, what: &DeviceCommand, memory: &mut [Vec<u32>], read: &mut Vec<Vec<u32>>) -> Tasks {
        match *what {
            DeviceCommand::Mix { x, y, k, launch } => self.launched(&[x, y], memory, |words| {
                for i in launch.items() {
                    words[1][i] =
                        words[1][i].wrapping_mul(1_664_525).wrapping_add(words[0][i]).wrapping_add(k);
                }
            }),
            DeviceCommand::Put { y, k, launch } => self.launched(&[y], memory, |words| {
                for i in launch.items() {
                    words[0][i] = u32::try_from(i).unwrap().wrapping_mul(2_654_435_761) ^ k;
                }
            }),
            DeviceCommand::Rotate { y, launch } => self.launched(&[y], memory, |words| {
                for group in words[0][launch.offset..][..launch.size].chunks_exact_mut(launch.group) {
                    group.rotate_left(1);
                }
            }),
            DeviceCommand::Look { x } => self.launched(&[x], memory, |_| {}),
            DeviceCommand::Write { to, seed, .. } => vec![self.wrote(to, noise(seed, to.words), memory, 0)],
            DeviceCommand::Fill { to, word } => vec![self.wrote(to, vec![word; to.words], memory, 0)],
            DeviceCommand::Read { from, .. } => {
                let words = self.get(memory, from);
                read.push(words.clone());
                vec![vec![RangeState { arg: 0, before: Some(words), after: None }]]
            }
            DeviceCommand::Copy { from, to } => {
                let words = self.get(memory, from);
                let source = RangeState { arg: 0, before: Some(words.clone()), after: None };
                vec![[vec![source], self.wrote(to, words, memory, 1)].concat()]
            }
            DeviceCommand::Map { at, seed } => {
                let before = RangeState { arg: 0, before: Some(self.get(memory, at)), after: None };
                vec![vec![before], self.wrote(at, noise(seed, at.words), memory, 0)]
            }
            DeviceCommand::Barrier
            | DeviceCommand::Gate
            | DeviceCommand::Open { .. }
            | DeviceCommand::Finish
            | DeviceCommand::Wait => Vec::new(),
        }
    }

    fn wrote(&self, to: WordRange, words: Vec<u32>, memory: &mut [Vec<u32>], arg: u16) -> Vec<RangeState> {
        self.put(memory, to, &words);
        vec![RangeState { arg, before: None, after: Some(words) }]
    }

    fn launched(
        &self,
        buffers: &[usize],
        memory: &mut [Vec<u32>],
        kernel: impl FnOnce(&mut [Vec<u32>]),
    ) -> Tasks {
        let ranges: Vec<WordRange> = buffers.iter().map(|&buffer| self.all(buffer)).collect();
        let before: Vec<Vec<u32>> = ranges.iter().map(|&range| self.get(memory, range)).collect();
        let mut after = before.clone();
        kernel(&mut after);
        for (&range, words) in ranges.iter().zip(&after) {
            self.put(memory, range, words);
        }
        let seen = (0..).zip(before.into_iter().zip(after));
        vec![
            seen.map(|(arg, (before, after))| RangeState { arg, before: Some(before), after: Some(after) })
                .collect(),
        ]
    }
}

impl Launch {
    fn items(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.size
    }
}

impl Step {
    fn json(&self) -> Value {
        let word = |word: u32| json!({"word": word});
        let buffer = |buffer: usize| json!({"buffer": buffer});
        let kernel = |name: &str, args: Value, launch: Launch| {
            let Launch { size, group, offset } = launch;
            json!({"do": "kernel", "name": name, "args": args, "size": size, "group": group, "offset": offset})
        };
        let range = |range: WordRange| (range.buffer, range.at, range.words);
        let mut step = match self.what {
            DeviceCommand::Mix { x, y, k, launch } => {
                kernel("blend", json!([buffer(x), buffer(y), word(k)]), launch)
            }
            DeviceCommand::Put { y, k, launch } => kernel("put", json!([buffer(y), word(k)]), launch),
            DeviceCommand::Rotate { y, launch } => {
                kernel("turn", json!([buffer(y), {"local": launch.group * 4}]), launch)
            }
            DeviceCommand::Look { x } => {
                let args = json!([buffer(x), {"far": [1, 2, 3, 0xffff_ffff_u32]}]);
                kernel("look", args, Launch { size: 3, group: 0, offset: 0 })
            }
            DeviceCommand::Write { to, seed, blocks } => {
                let (buffer, at, words) = range(to);
                json!({"do": "write", "buffer": buffer, "at": at, "words": words, "seed": seed, "blocks": blocks})
            }
            DeviceCommand::Read { from, blocks } => {
                let (buffer, at, words) = range(from);
                json!({"do": "read", "buffer": buffer, "at": at, "words": words, "blocks": blocks})
            }
            DeviceCommand::Copy { from, to } => {
                let (buffer, at, words) = range(from);
                json!({"do": "copy", "buffer": buffer, "at": at, "words": words, "to": to.buffer, "to_at": to.at})
            }
            DeviceCommand::Fill { to, word } => {
                let (buffer, at, words) = range(to);
                json!({"do": "fill", "buffer": buffer, "at": at, "words": words, "word": word})
            }
            DeviceCommand::Map { at: to, seed } => {
                let (buffer, at, words) = range(to);
                json!({"do": "map", "buffer": buffer, "at": at, "words": words, "seed": seed})
            }
            DeviceCommand::Barrier => json!({"do": "barrier"}),
            DeviceCommand::Gate => json!({"do": "gate"}),
            DeviceCommand::Open { gate } => json!({"do": "open", "gate": gate}),
            DeviceCommand::Finish => json!({"do": "finish"}),
            DeviceCommand::Wait => json!({"do": "wait"}),
        };
        step["queue"] = json!(self.queue);
        step["waits"] = json!(self.waits);
        step["callback"] = json!(self.callback);
        step
    }
}
