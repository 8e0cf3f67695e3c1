//! Launches of CUDA.

use tensortap_cuda_host::{Launch, Pointer, Span, Target};
use tensortap_format::{Module, Task};
use tensortap_launch_host::{LaunchError, Worker};

use super::choice::{Devices, by_wish};
use super::contents::{Contents, Gathered, Passed, Range, graded};
use super::{Door, Planned, Ran, worker_options};
use crate::{ArgReport, Grade, LaunchDevice, Placement, ReplayConfig, ReplayError};

/// Moves memory even where its addresses are free: for trying what that does.
const MOVE_VARIABLE: &str = "TENSORTAP_REPLAY_MOVE";

/// Runs launches of CUDA.
pub struct Cuda {
    worker: Worker<tensortap_cuda_host::Cuda>,
    wish: LaunchDevice,
    allow_inexact: bool,
    must_move: bool,
    /// Changes from launch to launch: whoever reads what nobody wrote comes out otherwise when run again.
    filler: u8,
}

/// A launch, and what its arguments are.
pub struct CudaLaunch {
    launch: Launch,
    /// The first argument whose memory may hold pointers into the launch's own.
    holds_pointers: Option<u16>,
}

impl Cuda {
    /// Starts a process that does. The error is in words.
    pub fn start(config: &ReplayConfig) -> Result<Cuda, String> {
        Ok(Cuda {
            worker: Worker::start(worker_options(config))?,
            wish: config.launch_device.clone(),
            allow_inexact: config.allow_inexact,
            must_move: std::env::var_os(MOVE_VARIABLE).is_some_and(|set| !set.is_empty() && set != "0"),
            filler: 0,
        })
    }
}

impl Door for Cuda {
    type Launch = CudaLaunch;

    fn gather(
        contents: &Contents<'_>,
        task: Task<'_>,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Result<Gathered, String>, ReplayError> {
        let is_variable = |arg_index| matches!(Kind::of(task.arg_name(arg_index)), Kind::Variable(_));
        // Memory that a word points into, or a variable, may not be there; that no parameter is missing is seen by the sizes of those which are.
        Gathered::of(contents, task, is_variable, true, grades)
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
        gathered: &Gathered,
        grades: &mut Vec<ArgReport>,
    ) -> Result<Planned<CudaLaunch>, String> {
        let devices = self.devices();
        let device = by_wish("CUDA", &devices, &self.wish, &module.device)?;
        let [kernel] = &task.kernel_names()[..] else {
            return Err("it launches not one kernel but several".into());
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
        pass(task, gathered, &mut launch)?;
        let known = Known::of(contents, gathered);
        known.grade(task, gathered, grades);
        // Where the image is known, its variables are arguments of the launch.
        if contents.module_of(task) == 0 && tensortap_cuda_host::has_variables(image) {
            let reason = "the dump does not say which image its kernel is of, and this one has variables";
            let behind = u16::try_from(gathered.passed.len()).unwrap_or(u16::MAX);
            grades.push(graded(behind, Grade::Zero, Some(reason.into())));
        }
        let holds_pointers = known.pointers_inside(gathered);
        launch.may_move = holds_pointers.is_none() || self.allow_inexact;
        let on = devices.names[device].clone();
        let by_bits = on == module.device;
        Ok(Planned { launch: CudaLaunch { launch, holds_pointers }, on, by_bits })
    }

    fn run(&mut self, planned: &CudaLaunch, image: &[u8], memories: &[Vec<u8>]) -> Result<Ran, LaunchError> {
        self.filler = self.filler.wrapping_add(0x35);
        let launch = Launch { filler: self.filler, ..planned.launch.clone() };
        let (left, how) = self.worker.launch(launch, image, memories)?;
        let doubt = planned.holds_pointers.filter(|_| how.is_moved).map(|arg_index| {
            let reason = "its memory was moved, and it holds what may be pointers";
            graded(arg_index, Grade::Partial, Some(reason.into()))
        });
        let placement = if how.is_moved { Placement::Relocated } else { Placement::Captured };
        Ok(Ran { left, placement, doubt })
    }
}

/// What an argument of a launch is, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind<'n> {
    /// A parameter of the kernel.
    Parameter,
    /// Memory that a word in a parameter points into: which parameter, and bytes before the word.
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

/// Makes parameters, memory and variables of what was gathered.
fn pass(task: Task<'_>, gathered: &Gathered, launch: &mut Launch) -> Result<(), String> {
    let (shared, alone) = gathered.memories.split_at(gathered.shared);
    launch.memories = shared
        .iter()
        .map(|memory| Span { address: memory.address, bytes: memory.content.len() as u64 })
        .collect();
    launch.variables = vec![String::new(); alone.len()];
    for (arg_index, passed) in (0..).zip(&gathered.passed) {
        match (Kind::of(task.arg_name(arg_index)), passed) {
            (_, Passed::Nothing) => {}
            (_, Passed::Local(_)) => return Err(format!("argument {arg_index} is none of CUDA's")),
            (Kind::Parameter, _) if launch.parameters.len() != usize::from(arg_index) => {
                return Err(format!("argument {arg_index} stands behind what is no parameter"));
            }
            (Kind::Parameter, Passed::Value(bytes)) => launch.parameters.push(bytes.clone()),
            (Kind::Parameter, Passed::Memory(address, part)) => {
                let target = Target { memory: part.memory, offset: part.offset };
                launch.pointers.push(Pointer { parameter: arg_index.into(), at: 0, target });
                launch.parameters.push(address.to_le_bytes().to_vec());
            }
            (Kind::Inside(parameter, at), Passed::Memory(address, part)) => {
                let bytes = launch.parameters.get(parameter);
                let word = bytes.and_then(|bytes| bytes.get(at..at.checked_add(8)?));
                if word != Some(&address.to_le_bytes()) {
                    return Err(format!("argument {arg_index} is not where parameter {parameter} points"));
                }
                let target = Target { memory: part.memory, offset: part.offset };
                launch.pointers.push(Pointer { parameter, at, target });
            }
            (Kind::Variable(name), Passed::Memory(_, part)) => {
                let variable = part.memory.checked_sub(gathered.shared);
                *variable
                    .and_then(|at| launch.variables.get_mut(at))
                    .ok_or("a variable that is nowhere")? = name.to_owned();
            }
            (Kind::Inside(..) | Kind::Variable(_), Passed::Value(_)) => {
                return Err(format!("argument {arg_index} is a value where memory is expected"));
            }
        }
    }
    Ok(())
}

/// Memory that the recorded program had at any time: first address and the one behind the last.
struct Known {
    all: Vec<(u64, u64)>,
    /// Memory of the launch.
    own: Vec<(u64, u64)>,
}

impl Known {
    fn of(contents: &Contents<'_>, gathered: &Gathered) -> Known {
        let allocated = contents.capture.tasks().renewed().iter().filter(|memory| !memory.freed);
        let mut all: Vec<(u64, u64)> =
            allocated.map(|memory| (memory.address, memory.address.saturating_add(memory.bytes))).collect();
        all.sort_unstable();
        all.dedup();
        let shared = gathered.memories[..gathered.shared].iter();
        let own = shared.map(|memory| (memory.address, memory.address + memory.content.len() as u64));
        Known { all, own: own.collect() }
    }

    /// Grades memory down that may be more than was captured, or lead to some that was not.
    fn grade(&self, task: Task<'_>, gathered: &Gathered, grades: &mut [ArgReport]) {
        for range in &gathered.ranges {
            let Some(grade) = grades.iter_mut().find(|grade| grade.arg_index == range.arg_index) else {
                continue;
            };
            if grade.grade != Grade::Exact {
                continue;
            }
            let memory = &gathered.memories[range.part.memory];
            let (from, end) =
                (memory.address + range.part.offset, memory.address + range.part.offset + range.part.bytes);
            let is_guess = task.argument(range.arg_index).is_some_and(|argument| !argument.extent_known);
            let reason = if is_guess && self.is_cut(end) {
                Some(format!(
                    "only {} bytes of what it points to were captured, and there is more of it; record with a larger --max-range",
                    range.part.bytes
                ))
            } else {
                self.leads_out(from, bytes(gathered, range)).map(|(at, address)| {
                    format!(
                        "at byte {at} it holds {address:#x}, which may be a pointer into memory that was not captured with the launch"
                    )
                })
            };
            if reason.is_some() {
                (grade.grade, grade.reason) = (Grade::Partial, reason);
            }
        }
    }

    /// Whether memory goes on where a range ends.
    fn is_cut(&self, end: u64) -> bool {
        let ends_there = self.all.iter().any(|(_, last)| *last == end);
        !ends_there && self.all.iter().any(|(start, last)| (*start..*last).contains(&end))
    }

    /// The first word that points into memory which is none of the launch's.
    fn leads_out(&self, from: u64, content: &[u8]) -> Option<(usize, u64)> {
        let holds = |ranges: &[(u64, u64)], word: u64| {
            ranges.iter().any(|(start, end)| (*start..*end).contains(&word))
        };
        words(from, content, self.bounds())
            .find(|(_, word)| holds(&self.all, *word) && !holds(&self.own, *word))
    }

    /// The first argument whose memory holds a word that points into memory of the launch.
    fn pointers_inside(&self, gathered: &Gathered) -> Option<u16> {
        let holds = |word: u64| self.own.iter().any(|(start, end)| (*start..*end).contains(&word));
        let range = gathered.ranges.iter().find(|range| {
            let from = gathered.memories[range.part.memory].address + range.part.offset;
            words(from, bytes(gathered, range), self.bounds()).any(|(_, word)| holds(word))
        });
        range.map(|range| range.arg_index)
    }

    /// Between these all memory lies.
    fn bounds(&self) -> (u64, u64) {
        let every = || self.all.iter().chain(&self.own);
        let first = every().map(|(start, _)| *start).min().unwrap_or(u64::MAX);
        (first, every().map(|(_, end)| *end).max().unwrap_or(0))
    }
}

/// What an argument held.
fn bytes<'g>(gathered: &'g Gathered, range: &Range) -> &'g [u8] {
    let content = &gathered.memories[range.part.memory].content;
    let at = usize::try_from(range.part.offset).unwrap_or(usize::MAX);
    let end = at.saturating_add(usize::try_from(range.part.bytes).unwrap_or(usize::MAX));
    content.get(at..end).unwrap_or(&[])
}

/// Aligned words of memory that lie between two addresses, with the bytes before each.
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
    fn names_say_what_arguments_are() {
        assert_eq!(Kind::of(None), Kind::Parameter);
        assert_eq!(Kind::of(Some("")), Kind::Parameter);
        assert_eq!(Kind::of(Some("2+16")), Kind::Inside(2, 16));
        assert_eq!(Kind::of(Some("_ZN1aE")), Kind::Variable("_ZN1aE"));
        assert_eq!(Kind::of(Some("a+b")), Kind::Variable("a+b"));
    }

    #[test]
    fn words_that_may_be_pointers_are_found_where_they_are_aligned() {
        let known = Known { all: vec![(0x1000, 0x2000), (0x8000, 0x9000)], own: vec![(0x1000, 0x2000)] };
        let content = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let (inside, outside) = (content(&[7, 0x1800, 0x2000]), content(&[0x1000, 0x8fff]));
        assert_eq!(known.leads_out(0x1000, &inside), None);
        assert_eq!(known.leads_out(0x1000, &outside), Some((8, 0x8fff)));
        // The range begins in the middle of a word.
        assert_eq!(known.leads_out(0x1004, &outside), None);
        let shifted = [&[0; 4][..], &outside].concat();
        assert_eq!(known.leads_out(0x1004, &shifted), Some((12, 0x8fff)));
        assert!(known.is_cut(0x1800) && !known.is_cut(0x2000) && !known.is_cut(0x7000));
    }
}
