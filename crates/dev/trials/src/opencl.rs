//! Trials with OpenCL programs on PoCL, recorded by the OpenCL backend. The device executes the same kernels
//! as the machine of this crate, and both results are compared, so that the truth is checked too.
//!
//! No role is declared, every buffer is shown whole, and uninitialized memory differs between both runs.
//! A kernel that deviates is built from other source, as a wrong kernel is.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::device::DeviceCapture;
use crate::faults::{self, Fault, name_of};
use crate::kernels::host_data;
use crate::machine::{Source, TaskTrace, Unobserved, execute_in, scalars_of};
use crate::memory::Memory;
use crate::oracle::{Case, Run};
use crate::program::{Action, Deviation, Form, Kernel, Launch, Plan, Program, View};
use crate::recording::Facts;
use crate::{answer, device, generate, recorded, story, trial::Verdict};

const FAULTS: &[Fault] = &[
    Fault::None,
    Fault::Value,
    Fault::Last,
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

/// What all kernels share: the mixing function of this crate's own machine.
const PRELUDE: &str = "ulong mix3(ulong a, ulong b, ulong c) {
    ulong s = 0x9e3779b97f4a7c15ul;
    s = (s ^ a) * 0xff51afd7ed558ccdul; s ^= s >> 29;
    s = (s ^ b) * 0xff51afd7ed558ccdul; s ^= s >> 29;
    s = (s ^ c) * 0xff51afd7ed558ccdul; s ^= s >> 29;
    return s;
}
";

/// The source of a kernel, which may deviate in single results.
fn source(kernel: &Kernel, salt: u64, wrong: &[usize], is_stale: bool) -> String {
    let params = kernel.params.len();
    let buffers = (0..params).map(|at| format!("global uint *p{at}, uint s{at}, uint n{at}"));
    let scalars = (0..kernel.scalars).map(|at| format!("ulong x{at}"));
    let declared: Vec<String> = buffers.chain(scalars).collect();
    let mut text = PRELUDE.to_owned();
    let _ = writeln!(text, "kernel void {}({}) {{", kernel.name, declared.join(", "));
    if is_stale {
        text.push_str("    return;\n");
    }
    let read = |at: &usize| kernel.params[*at].access.reads();
    let meant = kernel.scalars - usize::from(kernel.garbage_scalar);
    text.push_str("    if (get_global_id(0)) return;\n    ulong scalars = 0; uint result = 0;\n");
    for at in 0..meant {
        let _ = writeln!(text, "    scalars += mix3(x{at}, 4, 5);");
    }
    for at in (0..params).filter(read) {
        let _ = writeln!(
            text,
            "    uint r{at}[64]; for (uint i = 0; i < n{at}; i++) r{at}[i] = p{at}[s{at} + i];"
        );
    }
    for out in (0..params).filter(|at| kernel.params[*at].access.writes()) {
        let _ =
            writeln!(text, "    for (uint i = 0; i < n{out}; i++) {{\n        ulong at = s{out} + i, k = 0;");
        let _ = writeln!(text, "        ulong c = mix3({salt}ul, {out}, at) + scalars, sum = c, most = 0;");
        for from in (0..params).filter(read) {
            let mut term = |index: &str| {
                let value =
                    format!("ulong v = r{from}[{index}]; sum += v * (2 * k++ + 1); most = max(most, v);");
                let _ = writeln!(text, "        {{ {value} }}");
            };
            if from == out {
                term("i");
            } else {
                term(&format!("at % n{from}"));
                term(&format!("(at + (n{from} > 1 ? mix3({salt}ul, {from}, 7) % n{from} : 0)) % n{from}"));
            }
        }
        let value = match kernel.form {
            Form::Mix | Form::Amplify => "sum",
            Form::Greatest => "most + c",
            Form::Clamp => "sum & ~3ul",
        };
        let _ = writeln!(text, "        uint value = (uint)({value});");
        for wrong in wrong {
            let _ = writeln!(text, "        if (result == {wrong}) value ^= 0x10;");
        }
        let _ = writeln!(text, "        result++; p{out}[at] = value;\n    }}");
    }
    text.push_str("}\n");
    text
}

/// The source of the kernel of a launch, with its deviations.
fn source_of(plan: &Plan, id: usize, launch: &Launch) -> String {
    let kernel = &plan.program.kernels[launch.kernel];
    let written = launch.args.iter().zip(&kernel.params).filter(|(_, param)| param.access.writes());
    let results: usize = written.map(|(arg, _)| arg.used.len()).sum();
    let (mut salt, mut wrong, mut is_stale) = (kernel.salt, Vec::new(), false);
    for deviation in plan.deviations_of(id) {
        match deviation {
            Deviation::Value { element, .. } => wrong.push(element % results),
            Deviation::Last => wrong.push(results - 1),
            Deviation::Stale => is_stale = true,
            Deviation::Code { salt: other } => salt = other,
            Deviation::OutOfBounds { .. } => {}
        }
    }
    source(kernel, salt, &wrong, is_stale)
}

/// The plan as the Python program reads it.
fn document(plan: &Plan) -> Value {
    let mut sources: Vec<String> = Vec::new();
    let mut actions = Vec::new();
    for action in &plan.program.actions {
        actions.push(match action {
            Action::Alloc { block } => json!({"kind": "alloc", "block": block, "bytes": plan.program.blocks[*block] * 4}),
            Action::Free { block } => json!({"kind": "free", "block": block}),
            Action::Host { data, .. } => {
                let view = &data.view;
                let bytes: Vec<u8> = host_data(data.element, data.seed, view.len()).concat();
                let data: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                json!({"kind": "write", "block": view.block, "data": data})
            }
            Action::Launch { id, launch } => {
                let source = source_of(plan, *id, launch);
                let known = sources.iter().position(|known| *known == source);
                let program = known.unwrap_or(sources.len());
                if known.is_none() {
                    sources.push(source);
                }
                let used = launch.args.iter().map(|arg| json!([arg.view.block, arg.used.start, arg.used.len()]));
                let kernel = &plan.program.kernels[launch.kernel].name;
                json!({"kind": "launch", "program": program, "kernel": kernel, "args": used.collect::<Vec<_>>(),
                       "scalars": scalars_of(plan, *id, launch)})
            }
        });
    }
    json!({"sources": sources, "actions": actions})
}

/// Shows every buffer whole, as the backend does.
fn show_whole_buffers(program: &mut Program) {
    for action in &mut program.actions {
        if let Action::Launch { launch, .. } = action {
            for arg in &mut launch.args {
                arg.view = View::dense(arg.view.block, 0..program.blocks[arg.view.block]);
            }
        }
    }
}

fn record(
    plan: &Plan,
    capture: &DeviceCapture,
    tools: &Tools,
    dir: &Path,
) -> Result<(Vec<TaskTrace>, Facts), String> {
    let name = |extension: &str| dir.with_extension(extension);
    let write = |path: &Path, text: &str| std::fs::write(path, text).map_err(|error| error.to_string());
    write(&name("plan"), &document(plan).to_string())?;
    write(&name("py"), include_str!("../py/opencl.py"))?;
    let mut command = Command::new(tools.tensortap);
    command.args(["record", "--quiet", "--out"]).arg(dir).args(&capture.options).arg("--");
    command.arg(tools.python).args([name("py"), name("plan"), name("result")]);
    let perturb = 1 + plan.garbage % 255;
    let output = command.env("MALLOC_PERTURB_", perturb.to_string()).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run: {error}"))?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let mut memory = Memory::new(&plan.program, plan.garbage, plan.padding);
    let traces = execute_in(plan, &mut memory, &mut Unobserved);
    let result: Value = recorded::read_json(&name("result"))?;
    compare(plan, &memory, &derived_from_garbage(&traces), &result)?;
    let facts = recorded::facts(&traces, dir, capture)?;
    Ok((traces, facts))
}

/// Launches that read uninitialized memory, or what such launches wrote. The device has other garbage.
fn derived_from_garbage(traces: &[TaskTrace]) -> HashSet<usize> {
    let mut derived = HashSet::new();
    for trace in traces {
        let mut read = trace.args.iter().flat_map(|arg| arg.sources.iter().zip(&arg.read));
        let is_derived = read.any(|(source, is_read)| match source {
            Source::Garbage => *is_read,
            Source::Launch(id) => *is_read && derived.contains(id),
            Source::Host(_) | Source::Stray(_) => false,
        });
        if is_derived {
            derived.insert(trace.id);
        }
    }
    derived
}

/// Checks that the device computed what the machine computed, wherever something was written.
fn compare(plan: &Plan, memory: &Memory, derived: &HashSet<usize>, result: &Value) -> Result<(), String> {
    for (block, content) in result.as_object().ok_or("no result")? {
        let block: usize = block.parse().map_err(|_| "a result has no block")?;
        let view = View::dense(block, 0..plan.program.blocks[block]);
        let content = content.as_str().ok_or("a result has no content")?;
        for (at, place) in memory.places(&view).into_iter().enumerate() {
            let expected: String = memory.gather(&[place]).iter().map(|byte| format!("{byte:02x}")).collect();
            let is_known = match memory.source(place) {
                Source::Garbage => false,
                Source::Launch(id) => !derived.contains(&id),
                Source::Host(_) | Source::Stray(_) => true,
            };
            if is_known && content[at * 8..at * 8 + 8] != expected {
                return Err(format!(
                    "element {at} of block {block} is {}, expected {expected}",
                    &content[at * 8..at * 8 + 8]
                ));
            }
        }
    }
    Ok(())
}

/// The programs that a trial needs.
pub struct Tools<'t> {
    pub tensortap: &'t Path,
    pub python: &'t Path,
}

/// Runs one trial in an empty folder.
pub fn trial(seed: u64, only: &[String], tools: &Tools, dir: &Path) -> Result<Verdict, String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let faults = faults::chosen(FAULTS, only);
    let fault = *random.choice(faults.iter()).ok_or("OpenCL programs have none of these faults")?;
    let (golden, actual, guilt) = loop {
        let program = generate::opencl_program(&mut random);
        let garbage = random.u64(..);
        let golden = Plan { program, deviations: Vec::new(), garbage, padding: 0, noise: None };
        let mut actual = Plan { garbage: garbage.wrapping_add(1 + random.u64(..100)), ..golden.clone() };
        let Some(guilt) = faults::apply(fault, &mut actual, &mut random) else { continue };
        show_whole_buffers(&mut actual.program);
        let traces = [&actual, &golden].map(|plan| crate::machine::execute(plan, &mut Unobserved));
        if crate::api::is_clear(&traces[0], &traces[1], fault) {
            break (golden, actual, guilt);
        }
    };
    let captures = device::captures(&mut random, &golden.program);
    let [wrong, right] = ["wrong", "right"].map(|name| dir.join(name));
    let (actual_traces, actual_facts) = record(&actual, &captures[0], tools, &wrong)?;
    let (golden_traces, golden_facts) = record(&golden, &captures[1], tools, &right)?;
    let case = Case {
        fault,
        guilt: &guilt,
        style: &golden.program.style,
        has_names: false,
        actual: Run { traces: &actual_traces, facts: &actual_facts, capture: captures[0].capture },
        golden: Run { traces: &golden_traces, facts: &golden_facts, capture: captures[1].capture },
    };
    let answer = answer::ask(tools.tensortap, &wrong, &right, seed);
    let judgment = answer.as_ref().map(|answer| case.judge(answer)).map_err(Clone::clone);
    let options = captures.each_ref().map(|one| &one.options);
    let story = format!("  {options:?}\n{}", story::tell(&case, &actual, answer.as_ref().ok()));
    let levels = device::levels(&captures);
    Ok(Verdict { cell: ("opencl", levels, name_of(fault)), is_right: fault.is_right(), judgment, story })
}
