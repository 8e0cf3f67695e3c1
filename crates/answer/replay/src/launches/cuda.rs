//! Replays CUDA launches.

use tensortap_cuda_host::{Launch, Pointer, Span, Target};
use tensortap_format::{Module, Task};
use tensortap_launch_host::{LaunchError, Worker};

use super::choice::{Devices, choose_device};
use super::contents::{Contents, LaunchArg, LaunchInputs, Range, graded};
use super::{LaunchBackend, LaunchPlan, LaunchResult, worker_options};
use crate::{ArgReport, Grade, LaunchDevice, Placement, ReplayConfig, ReplayError};

/// Moves memory even if its captured addresses are free, for tests.
const MOVE_VARIABLE: &str = "TENSORTAP_REPLAY_MOVE";

/// The CUDA backend.
pub struct Cuda {
    worker: Worker<tensortap_cuda_host::Cuda>,
    wanted: LaunchDevice,
    allow_inexact: bool,
    must_move: bool,
    /// Fill byte of unwritten memory. It changes per launch, so that reads of uninitialized memory change the
    /// result.
    filler: u8,
}

/// A CUDA launch.
pub struct CudaLaunch {
    launch: Launch,
    /// The first argument whose memory may contain pointers into the launch's memory.
    holds_pointers: Option<u16>,
}

impl Cuda {
    /// Starts the worker process. The error is a message for the user.
    pub fn start(config: &ReplayConfig) -> Result<Cuda, String> {
        Ok(Cuda {
            worker: Worker::start(worker_options(config))?,
            wanted: config.launch_device.clone(),
            allow_inexact: config.allow_inexact,
            must_move: std::env::var_os(MOVE_VARIABLE).is_some_and(|set| !set.is_empty() && set != "0"),
            filler: 0,
        })
    }
}

impl LaunchBackend for Cuda {
    type Launch = CudaLaunch;

    fn gather(
        contents: &Contents<'_>,
        task: Task<'_>,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<LaunchInputs, String>, ReplayError> {
        let is_variable = |arg_index| matches!(Kind::of(task.arg_name(arg_index)), Kind::Variable(_));
        // Memory that a pointer refers to, and variables, may be missing. Missing parameters are detected by the
        // parameter sizes.
        LaunchInputs::of(contents, task, is_variable, true, grades)
    }

    fn devices(&self) -> Devices {
        let names: Vec<String> = self.worker.devices().iter().map(|device| device.name.clone()).collect();
        Devices { searched: names.clone(), names }
    }

    fn plan(
        &self,
        contents: &Contents<'_>,
        task: Task<'_>,
        module: &Module,
        image: &[u8],
        inputs: &LaunchInputs,
        grades: &mut Vec<ArgReport>,
    ) -> Result<LaunchPlan<CudaLaunch>, String> {
        let devices = self.devices();
        let device = choose_device("CUDA", &devices, &self.wanted, &module.device)?;
        let [kernel] = &task.kernel_names()[..] else {
            return Err("it launches several kernels instead of one".into());
        };
        let sizes = task.launch.as_deref().copied().unwrap_or_default();
        let mut launch = Launch {
            device,
            kernel: kernel.clone(),
            grid: sizes.grid,
            group: sizes.group,
            shared_bytes: sizes.shared_bytes,
            cluster: sizes.cluster,
            is_cooperative: sizes.is_cooperative,
            must_move: self.must_move,
            ..Launch::default()
        };
        pass(task, inputs, &mut launch)?;
        let known = ProgramMemory::of(contents, inputs);
        known.grade(task, inputs, grades);
        // If the image is known, its variables are arguments of the launch.
        if contents.module_of(task) == 0 && tensortap_driver::cubin::has_variables(image) {
            let reason = "the dump does not name the image of its kernel, and this image has variables that were not captured";
            let next = u16::try_from(inputs.args.len()).unwrap_or(u16::MAX);
            grades.push(graded(next, Grade::Zero, Some(reason.into())));
        }
        let holds_pointers = known.pointers_inside(inputs);
        launch.may_move = holds_pointers.is_none() || self.allow_inexact;
        let on = devices.names[device].clone();
        let by_bits = on == module.device;
        Ok(LaunchPlan { launch: CudaLaunch { launch, holds_pointers }, on, by_bits })
    }

    fn run(
        &mut self,
        plan: &CudaLaunch,
        image: &[u8],
        memories: &[Vec<u8>],
    ) -> Result<LaunchResult, LaunchError> {
        self.filler = self.filler.wrapping_add(0x35);
        let launch = Launch { filler: self.filler, ..plan.launch.clone() };
        let (left, how) = self.worker.launch(launch, image, memories)?;
        let doubt = plan.holds_pointers.filter(|_| how.is_moved).map(|arg_index| {
            let reason = "its memory was moved, and it may contain pointers";
            graded(arg_index, Grade::Partial, Some(reason.into()))
        });
        let placement = if how.is_moved { Placement::Relocated } else { Placement::Captured };
        Ok(LaunchResult { left, placement, doubt })
    }
}

/// Kind of an argument, derived from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind<'n> {
    /// A parameter of the kernel.
    Parameter,
    /// Memory that a pointer in a parameter points into: index of the parameter and byte offset of the
    /// pointer.
    Inside(usize, usize),
    /// A variable of the image.
    Variable(&'n str),
}

impl Kind<'_> {
    fn of(name: Option<&str>) -> Kind<'_> {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Kind::Parameter };
        let word = name.split_once('+').and_then(|(of, at)| Some((of.parse().ok()?, at.parse().ok()?)));
        match word {
            Some((of, at)) => Kind::Inside(of, at),
            None => Kind::Variable(name),
        }
    }
}

/// Converts inputs into parameters, memory and variables.
fn pass(task: Task<'_>, inputs: &LaunchInputs, launch: &mut Launch) -> Result<(), String> {
    let (shared, alone) = inputs.memories.split_at(inputs.shared);
    launch.memories = shared
        .iter()
        .map(|memory| Span { address: memory.address, bytes: memory.content.len() as u64 })
        .collect();
    launch.variables = vec![String::new(); alone.len()];
    for (arg_index, passed) in (0..).zip(&inputs.args) {
        match (Kind::of(task.arg_name(arg_index)), passed) {
            (_, LaunchArg::Unknown) => {}
            (_, LaunchArg::Local(_)) => {
                return Err(format!("argument {arg_index} is local memory, which CUDA does not have"));
            }
            (Kind::Parameter, _) if launch.parameters.len() != usize::from(arg_index) => {
                return Err(format!("parameter {arg_index} follows an argument that is not a parameter"));
            }
            (Kind::Parameter, LaunchArg::Value(bytes)) => launch.parameters.push(bytes.clone()),
            (Kind::Parameter, LaunchArg::Memory(address, part)) => {
                let target = Target { memory: part.memory, offset: part.offset };
                launch.pointers.push(Pointer { parameter: arg_index.into(), at: 0, target });
                launch.parameters.push(address.to_le_bytes().to_vec());
            }
            (Kind::Inside(parameter, at), LaunchArg::Memory(address, part)) => {
                let bytes = launch.parameters.get(parameter);
                let word = bytes.and_then(|bytes| bytes.get(at..at.checked_add(8)?));
                if word != Some(&address.to_le_bytes()) {
                    return Err(format!(
                        "argument {arg_index} is not at the address in parameter {parameter}"
                    ));
                }
                let target = Target { memory: part.memory, offset: part.offset };
                launch.pointers.push(Pointer { parameter, at, target });
            }
            (Kind::Variable(name), LaunchArg::Memory(_, part)) => {
                let variable = part.memory.checked_sub(inputs.shared);
                *variable.and_then(|at| launch.variables.get_mut(at)).ok_or("a variable without memory")? =
                    name.to_owned();
            }
            (Kind::Inside(..) | Kind::Variable(_), LaunchArg::Value(_)) => {
                return Err(format!("argument {arg_index} is a value instead of memory"));
            }
        }
    }
    Ok(())
}

/// All memory that the recorded program ever allocated: start and end addresses.
struct ProgramMemory {
    all: Vec<(u64, u64)>,
    /// Memory of the launch: start and end addresses.
    own: Vec<(u64, u64)>,
}

impl ProgramMemory {
    fn of(contents: &Contents<'_>, inputs: &LaunchInputs) -> ProgramMemory {
        let allocated = contents.capture.tasks().renewed().iter().filter(|memory| !memory.freed);
        let mut all: Vec<(u64, u64)> =
            allocated.map(|memory| (memory.address, memory.address.saturating_add(memory.bytes))).collect();
        all.sort_unstable();
        all.dedup();
        let shared = inputs.memories[..inputs.shared].iter();
        let own = shared.map(|memory| (memory.address, memory.address + memory.content.len() as u64));
        ProgramMemory { all, own: own.collect() }
    }

    /// Lowers the grade of memory that was captured only partly, or that may point to memory that was not
    /// captured.
    fn grade(&self, task: Task<'_>, inputs: &LaunchInputs, grades: &mut [ArgReport]) {
        for range in &inputs.ranges {
            let Some(grade) = grades.iter_mut().find(|grade| grade.arg_index == range.arg_index) else {
                continue;
            };
            if grade.grade != Grade::Exact {
                continue;
            }
            let memory = &inputs.memories[range.part.memory];
            let (from, end) =
                (memory.address + range.part.offset, memory.address + range.part.offset + range.part.bytes);
            let is_guess = task.argument(range.arg_index).is_some_and(|argument| !argument.extent_known);
            let reason = if is_guess && self.is_cut(end) {
                Some(format!(
                    "only {} bytes of its memory were captured, and its allocation is larger; record with a larger --max-range",
                    range.part.bytes
                ))
            } else {
                self.leads_out(from, bytes(inputs, range)).map(|(at, address)| {
                    format!(
                        "byte {at} contains {address:#x}, which may be a pointer to memory that was not captured with the launch"
                    )
                })
            };
            if reason.is_some() {
                (grade.grade, grade.reason) = (Grade::Partial, reason);
            }
        }
    }

    /// Whether an allocation continues after the end of a range.
    fn is_cut(&self, end: u64) -> bool {
        let ends_there = self.all.iter().any(|(_, last)| *last == end);
        !ends_there && self.all.iter().any(|(start, last)| (*start..*last).contains(&end))
    }

    /// The first word that points to memory outside of the launch's own.
    fn leads_out(&self, from: u64, content: &[u8]) -> Option<(usize, u64)> {
        let holds = |ranges: &[(u64, u64)], word: u64| {
            ranges.iter().any(|(start, end)| (*start..*end).contains(&word))
        };
        words(from, content, self.bounds())
            .find(|(_, word)| holds(&self.all, *word) && !holds(&self.own, *word))
    }

    /// The first argument whose memory contains a pointer into the launch's memory.
    fn pointers_inside(&self, inputs: &LaunchInputs) -> Option<u16> {
        let holds = |word: u64| self.own.iter().any(|(start, end)| (*start..*end).contains(&word));
        let range = inputs.ranges.iter().find(|range| {
            let from = inputs.memories[range.part.memory].address + range.part.offset;
            words(from, bytes(inputs, range), self.bounds()).any(|(_, word)| holds(word))
        });
        range.map(|range| range.arg_index)
    }

    /// Lowest and highest address of all memory.
    fn bounds(&self) -> (u64, u64) {
        let every = || self.all.iter().chain(&self.own);
        let first = every().map(|(start, _)| *start).min().unwrap_or(u64::MAX);
        (first, every().map(|(_, end)| *end).max().unwrap_or(0))
    }
}

/// Content of an argument before the launch.
fn bytes<'g>(inputs: &'g LaunchInputs, range: &Range) -> &'g [u8] {
    let content = &inputs.memories[range.part.memory].content;
    let at = usize::try_from(range.part.offset).unwrap_or(usize::MAX);
    let end = at.saturating_add(usize::try_from(range.part.bytes).unwrap_or(usize::MAX));
    content.get(at..end).unwrap_or(&[])
}

/// Aligned words of the content whose value is between two addresses, with their byte offset.
fn words(from: u64, content: &[u8], (first, end): (u64, u64)) -> impl Iterator<Item = (usize, u64)> {
    let skipped = usize::try_from(from.next_multiple_of(8) - from).unwrap_or(0);
    let aligned = content.get(skipped..).unwrap_or(&[]).as_chunks::<8>().0;
    let all = aligned.iter().enumerate().map(move |(at, word)| (skipped + 8 * at, u64::from_le_bytes(*word)));
    all.filter(move |(_, word)| (first..end).contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_the_kind_of_an_argument_from_its_name() {
        assert_eq!(Kind::of(None), Kind::Parameter);
        assert_eq!(Kind::of(Some("")), Kind::Parameter);
        assert_eq!(Kind::of(Some("2+16")), Kind::Inside(2, 16));
        assert_eq!(Kind::of(Some("_ZN1aE")), Kind::Variable("_ZN1aE"));
        assert_eq!(Kind::of(Some("a+b")), Kind::Variable("a+b"));
    }

    #[test]
    fn finds_possible_pointers_at_aligned_addresses() {
        let known =
            ProgramMemory { all: vec![(0x1000, 0x2000), (0x8000, 0x9000)], own: vec![(0x1000, 0x2000)] };
        let content = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let (inside, outside) = (content(&[7, 0x1800, 0x2000]), content(&[0x1000, 0x8fff]));
        assert_eq!(known.leads_out(0x1000, &inside), None);
        assert_eq!(known.leads_out(0x1000, &outside), Some((8, 0x8fff)));
        // The range starts in the middle of a word.
        assert_eq!(known.leads_out(0x1004, &outside), None);
        let shifted = [&[0; 4][..], &outside].concat();
        assert_eq!(known.leads_out(0x1004, &shifted), Some((12, 0x8fff)));
        assert!(known.is_cut(0x1800) && !known.is_cut(0x2000) && !known.is_cut(0x7000));
    }
}
