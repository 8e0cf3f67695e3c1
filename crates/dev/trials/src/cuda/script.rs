//! Writes the plan that the CUDA program performs, while the machine executes it.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::ops::Range;

use super::layout::Layout;
use crate::machine::Observer;
use crate::memory::{Caching, Memory};
use crate::program::{Access, Deviation, HostData, Launch, Plan, View};

/// By identity: the lanes that a command waits for.
pub type Waits = HashMap<usize, BTreeSet<usize>>;

/// The plan of one run.
pub struct Script<'p> {
    plan: &'p Plan,
    layouts: &'p [Layout],
    caching: Caching,
    /// Differs if a kernel was built from other code, although it computes the same in most launches.
    rebuilt: &'p HashMap<usize, u64>,
    text: String,
    segments: usize,
    /// Kernels of the program by kernel and code.
    kernels: HashMap<(usize, u64), usize>,
    order: Order,
    /// What commands wait for in any case.
    agreed: &'p Waits,
    pub waits: Waits,
    live: Vec<usize>,
}

/// Memory that commands used, so that streams wait for each other where it matters.
#[derive(Default)]
struct Order {
    /// Lane, range, and whether it was written.
    uses: Vec<(usize, Range<usize>, bool)>,
    /// For a lane and another one: how many of all uses the lane is ordered after.
    seen: HashMap<(usize, usize), usize>,
}

impl Order {
    /// The lanes that a command must wait for. Snapshots read the whole `captured` memory.
    fn waits(
        &mut self,
        lane: usize,
        lanes: usize,
        captured: &[Range<usize>],
        written: &[Range<usize>],
    ) -> Vec<usize> {
        let overlaps = |ranges: &[Range<usize>], other: &Range<usize>| {
            ranges.iter().any(|range| range.start < other.end && other.start < range.end)
        };
        let conflicts = |other: usize, from: usize| {
            self.uses[from..].iter().any(|(of, range, is_written)| {
                *of == other && (overlaps(written, range) || *is_written && overlaps(captured, range))
            })
        };
        let from = |other: usize| self.seen.get(&(lane, other)).copied().unwrap_or(0);
        let waits: Vec<usize> =
            (0..lanes).filter(|&other| other != lane && conflicts(other, from(other))).collect();
        waits.iter().for_each(|&other| _ = self.seen.insert((lane, other), self.uses.len()));
        self.uses.extend(captured.iter().map(|range| (lane, range.clone(), false)));
        self.uses.extend(written.iter().map(|range| (lane, range.clone(), true)));
        waits
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl<'p> Script<'p> {
    pub fn new(
        plan: &'p Plan,
        layouts: &'p [Layout],
        caching: Caching,
        rebuilt: &'p HashMap<usize, u64>,
        agreed: &'p Waits,
    ) -> Script<'p> {
        let mut script = Script {
            plan,
            layouts,
            caching,
            rebuilt,
            text: String::new(),
            segments: 0,
            kernels: HashMap::new(),
            order: Order::default(),
            agreed,
            waits: Waits::new(),
            live: Vec::new(),
        };
        if caching.reports_blocks {
            script.line("torch");
        }
        (0..plan.program.style.lanes).for_each(|lane| script.line(&format!("stream {lane}")));
        script
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// The plan. If the host reads, it reads all allocated blocks at the end.
    pub fn finish(mut self, memory: &Memory, reads: bool) -> String {
        self.line("syncall");
        for block in self.live.clone().into_iter().filter(|_| reads) {
            let (segment, offset) = memory.in_segment(memory.region(block).0);
            let bytes = memory.block(block).len();
            self.line(&format!("read {segment} {offset} {bytes}"));
        }
        self.text
    }

    fn wait(&mut self, id: usize, lane: usize, captured: &[Range<usize>], written: &[Range<usize>]) {
        let lanes = self.plan.program.style.lanes;
        let mut waits = BTreeSet::from_iter(self.order.waits(lane, lanes, captured, written));
        waits.extend(self.agreed.get(&id).into_iter().flatten());
        for other in &waits {
            self.line(&format!("wait {lane} {other}"));
        }
        self.waits.insert(id, waits);
    }

    /// The number of the kernel of a launch. Its code is defined before the first launch.
    fn kernel(&mut self, id: usize, launch: &Launch) -> usize {
        let kernel = &self.plan.program.kernels[launch.kernel];
        let other = self.plan.deviations_of(id).find_map(|deviation| match deviation {
            Deviation::Code { salt } => Some(salt),
            _ => None,
        });
        let code = other.unwrap_or_else(|| *self.rebuilt.get(&launch.kernel).unwrap_or(&kernel.salt));
        let number = self.kernels.len();
        if let Some(&known) = self.kernels.get(&(launch.kernel, code)) {
            return known;
        }
        self.kernels.insert((launch.kernel, code), number);
        let parameters = self.layouts[launch.kernel].parameters(kernel);
        let mut line = format!("kernel {number} {} {code} {}", kernel.name, parameters.len());
        parameters.iter().for_each(|(offset, size)| _ = write!(line, " {offset} {size}"));
        self.line(&line);
        number
    }

    /// The bytes of an argument's elements in flat memory: those that its pointer reaches, or those that the kernel uses.
    fn range(&self, memory: &Memory, view: &View, elements: Range<usize>) -> Range<usize> {
        let bytes = self.plan.program.style.element_bytes;
        let start = memory.region(view.block).0 + view.start * bytes;
        start + elements.start * bytes..start + elements.end * bytes
    }

    /// The lines of the accesses of a launch, by reading or by writing.
    fn accesses(&mut self, launch: &Launch, memory: &Memory, writes: bool) {
        let program = &self.plan.program;
        let kernel = &program.kernels[launch.kernel];
        let layout = &self.layouts[launch.kernel];
        let mut text = String::new();
        for (position, (arg, param)) in launch.args.iter().zip(&kernel.params).enumerate() {
            let is_wanted = if writes { param.access.writes() } else { param.access != Access::Write };
            if is_wanted && !arg.used.is_empty() {
                let content = hex(memory.bytes(self.range(memory, &arg.view, arg.used.clone())));
                let offset = arg.used.start * program.style.element_bytes;
                let what = if writes { "writes" } else { "reads" };
                let pointer = layout.pointer(kernel, position);
                let _ = writeln!(text, "{what} {pointer} {offset} {content}");
            }
        }
        self.text.push_str(&text);
    }
}

impl Observer for Script<'_> {
    fn allocated(&mut self, memory: &Memory, block: usize, freed: bool) {
        for segment in &memory.segments()[self.segments..] {
            let _ = writeln!(self.text, "segment {}", hex(memory.bytes(segment.clone())));
        }
        self.segments = memory.segments().len();
        self.live.retain(|&live| live != block);
        if !freed {
            self.live.push(block);
        }
        if self.caching.reports_blocks {
            let (start, bytes) = memory.region(block);
            let (segment, offset) = memory.in_segment(start);
            self.line(&format!("block {segment} {offset} {}{bytes}", if freed { "-" } else { "" }));
        }
    }

    fn host_wrote(&mut self, id: usize, memory: &Memory, data: &HostData) {
        let &HostData { ref view, lane, .. } = data;
        let range = self.range(memory, view, 0..view.len());
        self.wait(id, lane, &[], std::slice::from_ref(&range));
        let (segment, offset) = memory.in_segment(range.start);
        self.line(&format!("write {lane} {segment} {offset} {}", hex(memory.bytes(range))));
    }

    fn before(&mut self, id: usize, launch: &Launch, scalars: &[u64], memory: &Memory) {
        let plan = self.plan;
        let kernel = &plan.program.kernels[launch.kernel];
        let captured: Vec<_> =
            launch.args.iter().map(|arg| self.range(memory, &arg.view, 0..arg.view.len())).collect();
        let args = launch.args.iter().zip(&kernel.params).filter(|(_, param)| param.access.writes());
        let written: Vec<_> = args.map(|(arg, _)| self.range(memory, &arg.view, arg.used.clone())).collect();
        self.kernel(id, launch);
        self.wait(id, launch.lane, &captured, &written);
        let layout = &self.layouts[launch.kernel];
        let content = layout.content(kernel, &launch.args, scalars, plan.garbage ^ (id as u64) << 8);
        self.line(&format!("parameters {}", hex(&content)));
        for (position, range) in captured.iter().enumerate() {
            let (segment, offset) = memory.in_segment(range.start);
            self.line(&format!("pointer {} {segment} {offset}", layout.pointer(kernel, position)));
        }
        self.accesses(launch, memory, false);
    }

    fn after(&mut self, id: usize, launch: &Launch, memory: &Memory) {
        // A launch that writes nothing leaves the content as it was. To write it again is the same.
        self.accesses(launch, memory, true);
        let kernel = self.kernel(id, launch);
        self.line(&format!("launch {} {kernel}", launch.lane));
    }
}

/// Checks that the segments contain at the end what the machine computed. A result has one line per segment.
pub fn compare(memory: &Memory, result: &str) -> Result<(), String> {
    let lines: Vec<&str> = result.lines().collect();
    if lines.len() != memory.segments().len() {
        return Err(format!("{} of {} segments were allocated", lines.len(), memory.segments().len()));
    }
    for (number, (segment, line)) in memory.segments().iter().zip(lines).enumerate() {
        let expected = hex(memory.bytes(segment.clone()));
        if let Some(at) =
            (0..expected.len()).find(|&at| expected.as_bytes()[at..=at] != line.as_bytes()[at..=at])
        {
            return Err(format!("byte {} of segment {number} is not as expected", at / 2));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
