//! Programs for OpenCL as plans: what they do, said once for the program that does it and once for an execution of its own here.

use serde_json::{Value, json};

/// Words of a buffer that a step is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// Which buffer, as the plan numbers them.
    pub buffer: usize,
    /// First word in it.
    pub at: usize,
    /// How many.
    pub words: usize,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Do {
    /// `y = y * 1664525 + x + k`, of so many work items from an offset.
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
    /// Each group moves its words by one.
    Rotate {
        y: usize,
        launch: Launch,
    },
    /// Reads nothing and writes nothing, though it is given something.
    Look {
        x: usize,
    },
    Write {
        to: Given,
        seed: u64,
        blocks: bool,
    },
    Read {
        from: Given,
        blocks: bool,
    },
    Copy {
        from: Given,
        to: Given,
    },
    Fill {
        to: Given,
        word: u32,
    },
    /// Read and written through a mapping.
    Map {
        at: Given,
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

/// How large a launch is; a group of 0 is the driver's to choose.
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
    pub what: Do,
    /// Steps it waits for.
    pub waits: Vec<usize>,
    /// Whether it is asked to be called back.
    pub callback: bool,
}

/// A buffer: memory of its own with noise in it, or part of another.
#[derive(Clone, Copy, Debug)]
pub enum Buffer {
    Own { words: usize, seed: u64 },
    Part { of: usize, at: usize, words: usize },
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Whether each queue is out of order.
    pub queues: Vec<bool>,
    pub buffers: Vec<Buffer>,
    pub steps: Vec<Step>,
}

/// Noise, as the program makes it.
pub fn noise(seed: u64, count: usize) -> Vec<u32> {
    (0..count as u64)
        .map(|at| u32::try_from((at + seed * 7919).wrapping_mul(2_654_435_761) % (1 << 32)).unwrap())
        .collect()
}

/// A range that a step was given, with the words it held before and behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub arg: u16,
    pub before: Option<Vec<u32>>,
    pub after: Option<Vec<u32>>,
}

/// What came of a step: its ranges, in one task or, for a mapping, in two.
pub type Tasks = Vec<Vec<Seen>>;

impl Plan {
    pub fn words(&self, buffer: usize) -> usize {
        match self.buffers[buffer] {
            Buffer::Own { words, .. } | Buffer::Part { words, .. } => words,
        }
    }

    /// Where a buffer's memory is: whose it is, and the first word in it.
    pub fn place(&self, buffer: usize) -> (usize, usize) {
        match self.buffers[buffer] {
            Buffer::Own { .. } => (buffer, 0),
            Buffer::Part { of, at, .. } => (of, at),
        }
    }

    fn all(&self, buffer: usize) -> Given {
        Given { buffer, at: 0, words: self.words(buffer) }
    }

    /// What a step touches, and whether it may write there. Kernels are given whole buffers.
    pub fn touched(&self, what: &Do) -> Vec<(Given, bool)> {
        match *what {
            Do::Mix { x, y, .. } => vec![(self.all(x), false), (self.all(y), true)],
            Do::Put { y, .. } | Do::Rotate { y, .. } => vec![(self.all(y), true)],
            Do::Look { x } => vec![(self.all(x), false)],
            Do::Write { to, .. } | Do::Fill { to, .. } => vec![(to, true)],
            Do::Read { from, .. } => vec![(from, false)],
            Do::Copy { from, to } => vec![(from, false), (to, true)],
            Do::Map { at, .. } => vec![(at, true)],
            Do::Barrier | Do::Gate | Do::Open { .. } | Do::Finish | Do::Wait => Vec::new(),
        }
    }

    /// Whether two steps may not run at the same time.
    pub fn conflicts(&self, one: &Do, other: &Do) -> bool {
        let place = |given: &Given| {
            let (memory, first) = self.place(given.buffer);
            (memory, first + given.at, first + given.at + given.words)
        };
        self.touched(one).iter().any(|(mine, writes)| {
            self.touched(other).iter().any(|(theirs, others_write)| {
                let (mine, theirs) = (place(mine), place(theirs));
                (*writes || *others_write) && mine.0 == theirs.0 && mine.1 < theirs.2 && theirs.1 < mine.2
            })
        })
    }

    /// The plan for the program.
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

    /// Does the same here, one step after the other: what each step's tasks saw, and what was read.
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

    fn get(&self, memory: &[Vec<u32>], given: Given) -> Vec<u32> {
        let (own, first) = self.place(given.buffer);
        memory[own][first + given.at..][..given.words].to_vec()
    }

    fn put(&self, memory: &mut [Vec<u32>], given: Given, words: &[u32]) {
        let (own, first) = self.place(given.buffer);
        memory[own][first + given.at..][..given.words].copy_from_slice(words);
    }

    fn execute_step(&self, what: &Do, memory: &mut [Vec<u32>], read: &mut Vec<Vec<u32>>) -> Tasks {
        match *what {
            Do::Mix { x, y, k, launch } => self.launched(&[x, y], memory, |words| {
                for i in launch.items() {
                    words[1][i] =
                        words[1][i].wrapping_mul(1_664_525).wrapping_add(words[0][i]).wrapping_add(k);
                }
            }),
            Do::Put { y, k, launch } => self.launched(&[y], memory, |words| {
                for i in launch.items() {
                    words[0][i] = u32::try_from(i).unwrap().wrapping_mul(2_654_435_761) ^ k;
                }
            }),
            Do::Rotate { y, launch } => self.launched(&[y], memory, |words| {
                for group in words[0][launch.offset..][..launch.size].chunks_exact_mut(launch.group) {
                    group.rotate_left(1);
                }
            }),
            Do::Look { x } => self.launched(&[x], memory, |_| {}),
            Do::Write { to, seed, .. } => vec![self.wrote(to, noise(seed, to.words), memory, 0)],
            Do::Fill { to, word } => vec![self.wrote(to, vec![word; to.words], memory, 0)],
            Do::Read { from, .. } => {
                let words = self.get(memory, from);
                read.push(words.clone());
                vec![vec![Seen { arg: 0, before: Some(words), after: None }]]
            }
            Do::Copy { from, to } => {
                let words = self.get(memory, from);
                let source = Seen { arg: 0, before: Some(words.clone()), after: None };
                vec![[vec![source], self.wrote(to, words, memory, 1)].concat()]
            }
            Do::Map { at, seed } => {
                let before = Seen { arg: 0, before: Some(self.get(memory, at)), after: None };
                vec![vec![before], self.wrote(at, noise(seed, at.words), memory, 0)]
            }
            Do::Barrier | Do::Gate | Do::Open { .. } | Do::Finish | Do::Wait => Vec::new(),
        }
    }

    fn wrote(&self, to: Given, words: Vec<u32>, memory: &mut [Vec<u32>], arg: u16) -> Vec<Seen> {
        self.put(memory, to, &words);
        vec![Seen { arg, before: None, after: Some(words) }]
    }

    fn launched(
        &self,
        buffers: &[usize],
        memory: &mut [Vec<u32>],
        kernel: impl FnOnce(&mut [Vec<u32>]),
    ) -> Tasks {
        let given: Vec<Given> = buffers.iter().map(|&buffer| self.all(buffer)).collect();
        let before: Vec<Vec<u32>> = given.iter().map(|&given| self.get(memory, given)).collect();
        let mut after = before.clone();
        kernel(&mut after);
        for (&given, words) in given.iter().zip(&after) {
            self.put(memory, given, words);
        }
        let seen = (0..).zip(before.into_iter().zip(after));
        vec![
            seen.map(|(arg, (before, after))| Seen { arg, before: Some(before), after: Some(after) })
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
        let given = |given: Given| (given.buffer, given.at, given.words);
        let mut step = match self.what {
            Do::Mix { x, y, k, launch } => kernel("blend", json!([buffer(x), buffer(y), word(k)]), launch),
            Do::Put { y, k, launch } => kernel("put", json!([buffer(y), word(k)]), launch),
            Do::Rotate { y, launch } => {
                kernel("turn", json!([buffer(y), {"local": launch.group * 4}]), launch)
            }
            Do::Look { x } => {
                let args = json!([buffer(x), {"far": [1, 2, 3, 0xffff_ffff_u32]}]);
                kernel("look", args, Launch { size: 3, group: 0, offset: 0 })
            }
            Do::Write { to, seed, blocks } => {
                let (buffer, at, words) = given(to);
                json!({"do": "write", "buffer": buffer, "at": at, "words": words, "seed": seed, "blocks": blocks})
            }
            Do::Read { from, blocks } => {
                let (buffer, at, words) = given(from);
                json!({"do": "read", "buffer": buffer, "at": at, "words": words, "blocks": blocks})
            }
            Do::Copy { from, to } => {
                let (buffer, at, words) = given(from);
                json!({"do": "copy", "buffer": buffer, "at": at, "words": words, "to": to.buffer, "to_at": to.at})
            }
            Do::Fill { to, word } => {
                let (buffer, at, words) = given(to);
                json!({"do": "fill", "buffer": buffer, "at": at, "words": words, "word": word})
            }
            Do::Map { at: to, seed } => {
                let (buffer, at, words) = given(to);
                json!({"do": "map", "buffer": buffer, "at": at, "words": words, "seed": seed})
            }
            Do::Barrier => json!({"do": "barrier"}),
            Do::Gate => json!({"do": "gate"}),
            Do::Open { gate } => json!({"do": "open", "gate": gate}),
            Do::Finish => json!({"do": "finish"}),
            Do::Wait => json!({"do": "wait"}),
        };
        step["queue"] = json!(self.queue);
        step["waits"] = json!(self.waits);
        step["callback"] = json!(self.callback);
        step
    }
}
