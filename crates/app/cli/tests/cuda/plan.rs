//! Plans of programs, and what must be captured before and after each command: an execution of the plan on
//! the host.

use std::fmt::Write as _;

/// Number of words of each buffer.
pub const WORDS: [usize; 4] = [3000, 3000, 1500, 256];

/// A part of a buffer: the buffer, the first word and the number of words.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub buffer: usize,
    pub at: usize,
    pub words: usize,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub enum DeviceCommand {
    Mix {
        x: Part,
        y: Part,
        k: u32,
        how: usize,
    },
    Put {
        y: Part,
        k: u32,
        how: usize,
    },
    Fold {
        x: Part,
        y: Part,
        k: u32,
        how: usize,
    },
    Write {
        to: Part,
        seed: u32,
        waits: bool,
    },
    Read {
        from: Part,
        waits: bool,
    },
    Copy {
        to: Part,
        from: Part,
        any: bool,
    },
    Fill {
        to: Part,
        word: u32,
    },
    /// Two buffers, and the width and rows of a box. The rows of both are 64 words apart.
    Box {
        to: usize,
        from: usize,
        width: usize,
        rows: usize,
    },
}

/// What must be captured of an argument.
#[derive(Debug, PartialEq, Eq)]
pub struct CaptureExpectation {
    pub arg: u16,
    pub before: Option<Vec<u32>>,
    pub after: Option<Vec<u32>>,
}

/// Content that the program writes.
pub fn content(seed: u32, words: usize) -> Vec<u32> {
    (0..)
        .take(words)
        .map(|at: u32| seed.wrapping_mul(2_654_435_761).wrapping_add(at.wrapping_mul(40_503)))
        .collect()
}

/// What the program prints when it reads these words.
pub fn printed(words: &[u32]) -> String {
    let sum = words.iter().fold(14_695_981_039_346_656_037_u64, |sum, &word| {
        (sum ^ u64::from(word)).wrapping_mul(1_099_511_628_211)
    });
    format!("{sum:016x}\n")
}

impl DeviceCommand {
    /// The buffers that it accesses.
    pub fn buffers(&self) -> Vec<usize> {
        match *self {
            DeviceCommand::Mix { x, y, .. } | DeviceCommand::Fold { x, y, .. } => vec![x.buffer, y.buffer],
            DeviceCommand::Put { y: part, .. }
            | DeviceCommand::Write { to: part, .. }
            | DeviceCommand::Read { from: part, .. }
            | DeviceCommand::Fill { to: part, .. } => {
                vec![part.buffer]
            }
            DeviceCommand::Copy { to, from, .. } => vec![to.buffer, from.buffer],
            DeviceCommand::Box { to, from, .. } => vec![to, from],
        }
    }

    /// Whether it launches a kernel.
    pub fn is_kernel(&self) -> bool {
        matches!(self, DeviceCommand::Mix { .. } | DeviceCommand::Put { .. } | DeviceCommand::Fold { .. })
    }

    /// Whether it uses the legacy stream, whatever stream the plan names.
    pub fn is_legacy(&self) -> bool {
        matches!(self, DeviceCommand::Write { waits: true, .. } | DeviceCommand::Read { waits: true, .. })
    }

    /// Its line of the plan.
    pub fn line(&self, stream: usize) -> String {
        let at = |part: &Part| format!("{} {}", part.buffer, part.at);
        match self {
            DeviceCommand::Mix { x, y, k, how } => {
                format!("mix {stream} {} {} {k} {} {how}", at(x), at(y), y.words)
            }
            DeviceCommand::Put { y, k, how } => format!("put {stream} {} {k} {} {how}", at(y), y.words),
            DeviceCommand::Fold { x, y, k, how } => {
                format!("fold {stream} {} {} {k} {} {how}", at(x), at(y), y.words)
            }
            DeviceCommand::Write { to, seed, waits } => {
                format!("write {stream} {} {} {seed} {}", at(to), to.words, u8::from(*waits))
            }
            DeviceCommand::Read { from, waits } => {
                format!("read {stream} {} {} {}", at(from), from.words, u8::from(*waits))
            }
            DeviceCommand::Copy { to, from, any } => {
                format!("copy {stream} {} {} {} {}", at(to), at(from), to.words, u8::from(*any))
            }
            DeviceCommand::Fill { to, word } => format!("fill {stream} {} {word} {}", at(to), to.words),
            DeviceCommand::Box { to, from, width, rows } => {
                format!("box {stream} {to} {from} {width} {rows}")
            }
        }
    }
}

/// The device memory, and what the program has printed.
#[derive(Default)]
pub struct World {
    pub buffers: Vec<Vec<u32>>,
    pub printed: String,
}

impl World {
    /// Memory before anything was written.
    pub fn new() -> World {
        let buffers = WORDS.iter().map(|&words| vec![0xA5A5_A5A5; words]).collect();
        World { buffers, printed: String::new() }
    }

    fn words(&self, part: Part) -> Vec<u32> {
        self.buffers[part.buffer][part.at..part.at + part.words].to_vec()
    }

    /// The memory that a pointer reaches.
    fn reach(&self, part: Part) -> Vec<u32> {
        self.buffers[part.buffer][part.at..].to_vec()
    }

    fn set(&mut self, part: Part, words: &[u32]) {
        self.buffers[part.buffer][part.at..part.at + part.words].copy_from_slice(words);
    }

    fn boxed(&self, buffer: usize, x: usize, width: usize, rows: usize) -> Vec<u32> {
        let row = |row: usize| &self.buffers[buffer][64 * (row + 1) + x..][..width];
        (0..rows).flat_map(row).copied().collect()
    }

    /// Runs a kernel. Returns the memory that its pointers reach before and after it, by the position of the
    /// argument.
    fn kernel(&mut self, pointers: &[(u16, Part)], run: impl FnOnce(&mut World)) -> Vec<CaptureExpectation> {
        let before: Vec<_> = pointers.iter().map(|&(_, part)| self.reach(part)).collect();
        run(self);
        let seen = pointers.iter().zip(before);
        seen.map(|(&(arg, part), before)| CaptureExpectation {
            arg,
            before: Some(before),
            after: Some(self.reach(part)),
        })
        .collect()
    }

    /// Executes a command.
    pub fn run(&mut self, what: DeviceCommand) -> Vec<CaptureExpectation> {
        let only = |arg, before, after| CaptureExpectation { arg, before, after };
        match what {
            DeviceCommand::Mix { x, y, k, .. } => self.kernel(&[(0, x), (1, y)], |world| {
                for at in 0..y.words {
                    let x = world.buffers[x.buffer][x.at + at];
                    let y = &mut world.buffers[y.buffer][y.at + at];
                    *y = y.wrapping_mul(3).wrapping_add(x).wrapping_add(k);
                }
            }),
            DeviceCommand::Put { y, k, .. } => self.kernel(&[(0, y)], |world| {
                let words: Vec<u32> = (0..).take(y.words).map(|at: u32| k.wrapping_add(at)).collect();
                world.set(y, &words);
            }),
            // The pointers are inside of a structure. Their positions are after the only parameter.
            DeviceCommand::Fold { x, y, k, .. } => self.kernel(&[(1, x), (2, y)], |world| {
                for at in 0..y.words {
                    let x = world.buffers[x.buffer][x.at + at];
                    world.buffers[y.buffer][y.at + at] ^= x.wrapping_add(k);
                }
            }),
            DeviceCommand::Write { to, seed, .. } => {
                let words = content(seed, to.words);
                self.set(to, &words);
                vec![only(0, None, Some(words))]
            }
            DeviceCommand::Read { from, .. } => {
                let words = self.words(from);
                self.printed.push_str(&printed(&words));
                vec![only(0, Some(words), None)]
            }
            DeviceCommand::Copy { to, from, .. } => {
                let words = self.words(from);
                self.set(to, &words);
                vec![only(0, Some(words.clone()), None), only(1, None, Some(words))]
            }
            DeviceCommand::Fill { to, word } => {
                let words = vec![word; to.words];
                self.set(to, &words);
                vec![only(0, None, Some(words))]
            }
            DeviceCommand::Box { to, from, width, rows } => {
                let words = self.boxed(from, 1, width, rows);
                for row in 0..rows {
                    let part = Part { buffer: to, at: 64 * (row + 1) + 2, words: width };
                    self.set(part, &words[row * width..][..width]);
                }
                vec![only(0, Some(words.clone()), None), only(1, None, Some(words))]
            }
        }
    }
}

/// The plan as the program reads it: buffers, streams with their flags (1: not ordered with the legacy
/// stream), and commands with their streams. If two conflicting commands are not ordered by their streams, an
/// event orders them.
pub fn text(flags: &[u32], commands: &[(usize, DeviceCommand)]) -> String {
    let mut text = String::new();
    for (stream, flags) in flags.iter().enumerate() {
        writeln!(text, "stream {} {flags}", stream + 1).unwrap();
    }
    for (buffer, words) in WORDS.iter().enumerate() {
        writeln!(text, "alloc {buffer} {words}").unwrap();
    }
    let blocks = |stream: usize| stream == 0 || flags[stream - 1] == 0;
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); WORDS.len()];
    let mut events = 0;
    for (stream, what) in commands {
        let stream = if what.is_legacy() { 0 } else { *stream };
        let others = what.buffers().into_iter().flat_map(|buffer| users[buffer].clone());
        let mut others: Vec<usize> = others.filter(|&other| other != stream).collect();
        others.sort_unstable();
        others.dedup();
        for other in others {
            let is_ordered = (stream == 0 || other == 0) && blocks(stream) && blocks(other);
            if !is_ordered {
                writeln!(text, "record {other} {events}\nwait {stream} {events}").unwrap();
                events += 1;
            }
        }
        for buffer in what.buffers() {
            users[buffer] = vec![stream];
        }
        writeln!(text, "{}", what.line(stream)).unwrap();
    }
    text
}
