//! Trials with CUDA programs on the fake driver of the tests, recorded by the CUDA backend. No GPU is needed. A kernel of the
//! fake driver checks that it reads what the machine of this crate read, and writes what the machine wrote. All memory is
//! compared at the end, so that the truth is checked too.
//!
//! Blocks come from a caching allocator like PyTorch's: pieces of large segments, which contain what earlier pieces left.
//! If the program reports its blocks, a pointer reaches to the end of its block. Otherwise it reaches to the end of its
//! segment, into memory of other blocks. No role is declared, and pointers and scalars may be in structures with padding.
//!
//! A recording of CUDA has bytes of unknown type, which must be equal. So noise and errors below a tolerance are wrong
//! here, and every launch with noise is at fault.

pub mod driver;
mod layout;
mod script;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use self::layout::Layout;
use self::script::{Script, Waits};
use crate::device::DeviceCapture;
use crate::faults::{self, Fault, Guilt, chosen, name_of};
use crate::machine::{TaskTrace, Unobserved, execute_in};
use crate::memory::{Caching, Memory};
use crate::oracle::{Case, Run};
use crate::program::{Action, Element, Plan, Program, View};
use crate::recording::Facts;
use crate::{answer, device, generate, recorded, story, trial::Verdict};

const FAULTS: &[Fault] = &[
    Fault::None,
    Fault::Noise,
    Fault::Below,
    Fault::Value,
    Fault::Last,
    Fault::Nan,
    Fault::Stale,
    Fault::Code,
    Fault::Scalar,
    Fault::WrongBuffer,
    Fault::Swapped,
    Fault::WrongOutput,
    Fault::Missing,
    Fault::Extra,
    Fault::Uninitialized,
    Fault::Host,
    Fault::Two,
];

/// Both runs of a trial, before they are recorded.
struct Runs {
    /// The fault as bytes of unknown type are judged.
    judged: Fault,
    guilt: Guilt,
    layouts: Vec<Layout>,
    caching: Caching,
    /// The code of kernels that were built again for the wrong run, by kernel.
    rebuilt: HashMap<usize, u64>,
    /// Whether the host reads all blocks at the end.
    reads: bool,
    actual: Plan,
    golden: Plan,
}

/// Plans a trial. A plan whose fault has no place or no effect is planned again.
fn plan(random: &mut fastrand::Rng, fault: Fault) -> Runs {
    loop {
        let mut program = generate::cuda_program(random);
        let layouts = layout::choose(&mut program, random);
        let caching = caching(random);
        layout::set_stale_pointers(&mut program, &layouts, random);
        let golden =
            Plan { program, deviations: Vec::new(), garbage: random.u64(..), padding: 0, noise: None };
        let mut actual = golden.clone();
        if random.bool() {
            actual.garbage = random.u64(..);
        }
        if random.u8(..6) == 0 {
            actual.padding = caching.granularity * random.usize(1..4);
        }
        let Some(guilt) = faults::apply(fault, &mut actual, random) else { continue };
        if random.bool() {
            layout::set_stale_pointers(&mut actual.program, &layouts, random);
        }
        let (judged, guilt) = judged(fault, &actual, guilt);
        let rebuilt = rebuilt(fault, &actual, &guilt, random);
        let mut runs =
            Runs { judged, guilt, layouts, caching, rebuilt, reads: random.bool(), actual, golden };
        runs.reach();
        let [left, right] = [&runs.actual, &runs.golden].map(|plan| runs.truth(plan));
        if crate::api::is_clear(&left, &right, runs.judged) {
            return runs;
        }
    }
}

fn caching(random: &mut fastrand::Rng) -> Caching {
    let reports_blocks = random.bool();
    Caching {
        granularity: if reports_blocks { 512 } else { *random.choice([64, 512].iter()).expect("not empty") },
        segment_bytes: 1024 * random.usize(4..=16),
        reports_blocks,
    }
}

/// The fault as bytes of unknown type are judged, and who is guilty then.
fn judged(fault: Fault, actual: &Plan, guilt: Guilt) -> (Fault, Guilt) {
    match fault {
        Fault::Below => {
            let guilty = actual.deviations.iter().map(|(id, _)| *id).collect();
            (Fault::Value, Guilt { guilty, race: None })
        }
        Fault::Noise => {
            let launches = actual.program.actions.iter().filter_map(|action| match action {
                Action::Launch { id, .. } => Some(*id),
                _ => None,
            });
            (Fault::Code, Guilt { guilty: launches.collect(), race: None })
        }
        _ => (fault, guilt),
    }
}

/// Half of the kernels that deviate in single launches were built from other code.
fn rebuilt(fault: Fault, actual: &Plan, guilt: &Guilt, random: &mut fastrand::Rng) -> HashMap<usize, u64> {
    let is_of_code = matches!(
        fault,
        Fault::Noise | Fault::Below | Fault::Value | Fault::Last | Fault::Nan | Fault::Stale | Fault::Two
    );
    if !is_of_code || random.bool() {
        return HashMap::new();
    }
    let launches = actual.program.actions.iter().filter_map(|action| match action {
        Action::Launch { id, launch } if guilt.guilty.contains(id) => Some(launch.kernel),
        _ => None,
    });
    launches.map(|kernel| (kernel, !actual.program.kernels[kernel].salt)).collect()
}

impl Runs {
    fn memory(&self, plan: &Plan) -> Memory {
        Memory::caching(&plan.program, plan.garbage, plan.padding, self.caching)
    }

    /// Lets every pointer reach to the end of its memory, as the recording shows it.
    fn reach(&mut self) {
        for is_actual in [true, false] {
            let mut plan = if is_actual { self.actual.clone() } else { self.golden.clone() };
            let mut memory = self.memory(&plan);
            reach(&mut plan.program, &mut memory, self.caching.reports_blocks);
            *if is_actual { &mut self.actual } else { &mut self.golden } = plan;
        }
    }

    fn truth(&self, plan: &Plan) -> Vec<TaskTrace> {
        as_bytes(execute_in(plan, &mut self.memory(plan), &mut Unobserved))
    }
}

fn reach(program: &mut Program, memory: &mut Memory, reports_blocks: bool) {
    let bytes = program.style.element_bytes;
    for action in &mut program.actions {
        match action {
            Action::Alloc { block } => memory.allocate(*block),
            Action::Free { block } => memory.free(*block),
            Action::Host { .. } => {}
            Action::Launch { launch, .. } => {
                for arg in &mut launch.args {
                    let View { block, start, .. } = arg.view;
                    let reached = memory.reach(block, reports_blocks) - memory.region(block).0;
                    arg.view = View::dense(block, start..reached / bytes);
                }
            }
        }
    }
}

/// Traces as the recording shows them: elements of unknown type, which are equal or not.
fn as_bytes(mut traces: Vec<TaskTrace>) -> Vec<TaskTrace> {
    for arg in traces.iter_mut().flat_map(|trace| &mut trace.args) {
        arg.element = if arg.element.bytes() == 8 { Element::I64 } else { Element::I32 };
    }
    traces
}

impl Runs {
    /// What the commands of either run wait for. Both runs wait in the same way, as two runs of a program do, although
    /// their pointers may differ.
    fn waits(&self) -> Waits {
        let (none, no_waits) = (HashMap::new(), Waits::new());
        let mut all = Waits::new();
        for plan in [&self.actual, &self.golden] {
            let mut script = Script::new(plan, &self.layouts, self.caching, &none, &no_waits);
            execute_in(plan, &mut self.memory(plan), &mut script);
            for (id, waits) in script.waits {
                all.entry(id).or_default().extend(waits);
            }
        }
        all
    }

    /// Records a run in a folder.
    fn record(
        &self,
        plan: &Plan,
        capture: &DeviceCapture,
        tools: &Tools<'_>,
        dir: &Path,
    ) -> Result<(Vec<TaskTrace>, Facts), String> {
        let none = HashMap::new();
        let is_actual = std::ptr::eq(plan, &raw const self.actual);
        let rebuilt = if is_actual { &self.rebuilt } else { &none };
        let agreed = self.waits();
        let mut script = Script::new(plan, &self.layouts, self.caching, rebuilt, &agreed);
        let mut memory = self.memory(plan);
        let traces = as_bytes(execute_in(plan, &mut memory, &mut script));
        let name = |extension: &str| dir.with_extension(extension);
        std::fs::write(name("plan"), script.finish(&memory, self.reads))
            .map_err(|error| error.to_string())?;
        let driver = driver::built(tools.dir)?;
        let mut command = Command::new(tools.tensortap);
        command.args(["record", "--quiet", "--out"]).arg(dir).args(&capture.options).arg("--");
        command.arg(driver.join("cuda")).args([name("plan"), name("result")]);
        command.env("TENSORTAP_CUPTI", driver.join("libcupti.so.13")).env_remove("CUDA_INJECTION64_PATH");
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run: {error}"))?;
        if !output.status.success() {
            return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
        let result = std::fs::read_to_string(name("result")).map_err(|error| error.to_string())?;
        script::compare(&memory, &result)?;
        let facts = recorded::facts(&traces, dir, capture)?;
        Ok((traces, facts))
    }
}

/// What a trial needs: the tensortap binary, and a folder for the fake driver.
pub struct Tools<'t> {
    pub tensortap: &'t Path,
    pub dir: &'t Path,
}

/// Runs one trial in an empty folder.
pub fn trial(seed: u64, only: &[String], tools: &Tools<'_>, dir: &Path) -> Result<Verdict, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let faults = chosen(FAULTS, only);
    let fault = *random.choice(faults.iter()).ok_or("CUDA programs have none of these faults")?;
    let runs = plan(&mut random, fault);
    let captures = device::captures(&mut random, &runs.golden.program);
    let [wrong, right] = ["wrong", "right"].map(|name| dir.join(name));
    let (actual, actual_facts) = runs.record(&runs.actual, &captures[0], tools, &wrong)?;
    let (golden, golden_facts) = runs.record(&runs.golden, &captures[1], tools, &right)?;
    let case = Case {
        fault: runs.judged,
        guilt: &runs.guilt,
        style: &runs.golden.program.style,
        has_names: false,
        actual: Run { traces: &actual, facts: &actual_facts, capture: captures[0].capture },
        golden: Run { traces: &golden, facts: &golden_facts, capture: captures[1].capture },
    };
    let answer = answer::ask(tools.tensortap, &wrong, &right, seed);
    let judgment = answer.as_ref().map(|answer| case.judge(answer)).map_err(Clone::clone);
    let story = format!(
        "  {:?}\n  {:?}, {} garbage, padding {}, rebuilt {:?}, layouts {:?}\n{}",
        captures.each_ref().map(|one| &one.options),
        runs.caching,
        if runs.actual.garbage == runs.golden.garbage { "same" } else { "other" },
        runs.actual.padding,
        runs.rebuilt.keys(),
        runs.layouts,
        story::tell(&case, &runs.actual, answer.as_ref().ok())
    );
    let levels = device::levels(&captures);
    Ok(Verdict { cell: ("cuda", levels, name_of(fault)), is_right: runs.judged.is_right(), judgment, story })
}

#[cfg(test)]
mod tests;
