//! Hidden scenes whose last task crashes, aborts, overflows its stack or hangs. The tasks before it are correct, so a dump
//! of the run has records.

use std::hint::black_box;
use std::time::Duration;

use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, kernel_entry,
};

/// A chain of correct tasks, then one that never completes.
pub struct FailingScene {
    name: &'static str,
    about: &'static str,
    kernels: &'static [KernelDef; 3],
}

/// The last kernel writes to an unmapped address.
pub static CRASH_SEGV: FailingScene = FailingScene {
    name: "crash_segv",
    about: "the last task writes to an unmapped address",
    kernels: &[FILL, INCREMENT, faulty_kernel::<Segv>("segv")],
};

/// The last kernel aborts.
pub static CRASH_ABORT: FailingScene = FailingScene {
    name: "crash_abort",
    about: "the last task aborts its process",
    kernels: &[FILL, INCREMENT, faulty_kernel::<Abort>("abort")],
};

/// The last kernel recurses until its stack is used up.
pub static CRASH_STACK: FailingScene = FailingScene {
    name: "crash_stack",
    about: "the last task overflows its stack",
    kernels: &[FILL, INCREMENT, faulty_kernel::<Stack>("stack")],
};

/// The last kernel writes half of its output and then waits forever.
pub static HANG: FailingScene = FailingScene {
    name: "hang",
    about: "the last task writes half of its output and never returns",
    kernels: &[FILL, INCREMENT, faulty_kernel::<Hang>("hang")],
};

impl Scene for FailingScene {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn hidden(&self) -> bool {
        true
    }

    fn params(&self) -> &'static [ParamSpec] {
        const PARAMS: &[ParamSpec] = &[
            ParamSpec::int("tasks", "4", 1, 100_000, "correct tasks before the failing one"),
            ParamSpec::int("n", "1024", 2, 1 << 24, "elements of each tensor"),
        ];
        PARAMS
    }

    fn kernels(&self) -> &'static [KernelDef] {
        self.kernels
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let (tasks, n) = (params.int("tasks"), params.int("n"));
        vec![
            ArgSpec::output("history", DType::Float32, &[tasks, n]),
            ArgSpec::output("result", DType::Float32, &[n]),
        ]
    }

    fn fill(&self, _params: &Params, _args: &mut HostArgs) {}

    /// Task i fills row i of `history` with i + 1. The failing task would write the next row to `result`.
    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let [fill, increment, faulty] = self.kernels;
        let (history, result) = (o.arg("history")?, o.arg("result")?);
        let mut row = history.select(0, 0)?;
        let mut last = o.task(fill).output(&row).scalar(1.0_f32).submit()?;
        for task in 1..params.int("tasks") {
            let next = history.select(0, task)?;
            last = o.scope(format_args!("row {task}"), |o| {
                o.task(increment).input(&row).output(&next).after(last).submit()
            })?;
            row = next;
        }
        o.scope("the end", |o| {
            o.task(faulty).task_name("goes wrong").input(&row).output(&result).after(last).submit()
        })?;
        Ok(())
    }

    /// The run always fails, so there is no golden.
    fn golden(&self, _params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        None
    }
}

const FILL: KernelDef = KernelDef {
    func_id: 0,
    name: "fill",
    core_type: CoreType::Aiv,
    signature: &[Out("row"), Scalar("value")],
    entry: kernel_entry::<Fill>,
    reference: Some(&fill_reference),
    tolerance: None,
    faults: &[],
};

const INCREMENT: KernelDef = KernelDef {
    func_id: 1,
    name: "increment",
    core_type: CoreType::Aiv,
    signature: &[In("row"), Out("next")],
    entry: kernel_entry::<Increment>,
    reference: Some(&increment_reference),
    tolerance: None,
    faults: &[],
};

/// A kernel that should do what `increment` does.
const fn faulty_kernel<K: KernelBody>(name: &'static str) -> KernelDef {
    KernelDef { func_id: 2, name, entry: kernel_entry::<K>, ..INCREMENT }
}

struct Fill;

impl KernelBody for Fill {
    fn run(args: &Args) {
        let (tensor, value) = (args.tensor(0), args.scalar::<f32>(1));
        tensor.store(&vec![value; tensor.numel()]);
    }
}

fn fill_reference(task: &mut RefTask) {
    let value = task.scalar::<f32>(1);
    task.tensors[0].values.fill(value.into());
}

struct Increment;

impl KernelBody for Increment {
    fn run(args: &Args) {
        args.tensor(1).store(&incremented(args));
    }
}

fn incremented(args: &Args) -> Vec<f32> {
    args.tensor(0).load::<f32>().iter().map(|v| v + 1.0).collect()
}

fn increment_reference(task: &mut RefTask) {
    task.compute(1, |task, i| 1.0 + task.tensors[0].values[i]);
}

struct Segv;

impl KernelBody for Segv {
    fn run(_args: &Args) {
        write_to_unmapped_memory();
    }
}

#[expect(unsafe_code, reason = "the scene exists to crash its process")]
fn write_to_unmapped_memory() {
    let unmapped = std::ptr::without_provenance_mut::<u64>(black_box(8));
    // SAFETY: none. The first page is never mapped, so the write faults and ends the process, which is the purpose of
    // this scene. The compiler keeps a volatile write.
    unsafe { unmapped.write_volatile(0) };
}

struct Abort;

impl KernelBody for Abort {
    fn run(_args: &Args) {
        std::process::abort();
    }
}

struct Stack;

impl KernelBody for Stack {
    fn run(_args: &Args) {
        black_box(descend(black_box(u64::MAX)));
    }
}

/// Recurses until the stack overflows. The frame is used after the call, so the compiler cannot turn it into a loop.
fn descend(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == 0 { 0 } else { descend(depth - 1).wrapping_add(black_box(frame)[0]) }
}

struct Hang;

impl KernelBody for Hang {
    fn run(args: &Args) {
        let values = incremented(args);
        args.tensor(1).store_range(0, &values[..values.len() / 2]);
        loop {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scenes::checks::{self, recorded};

    #[test]
    fn correct_tasks_come_first() {
        for scene in [&CRASH_SEGV, &CRASH_ABORT, &CRASH_STACK, &HANG] {
            let given = [("tasks", "3"), ("n", "4")];
            assert_eq!(recorded(scene, &given).len(), 4);
            checks::edges_order_conflicts(scene, &given);
            assert!(scene.hidden());
        }
    }

    #[test]
    fn a_scene_with_a_correct_kernel_counts_up() {
        static SOUND: FailingScene = FailingScene {
            name: "sound",
            about: "",
            kernels: &[FILL, INCREMENT, faulty_kernel::<Increment>("sound")],
        };
        let given = [("tasks", "3"), ("n", "2")];
        checks::tasks_equal_references(&SOUND, &given);
        let mut graph = recorded(&SOUND, &given);
        graph.run().unwrap();
        let expected: Vec<u8> =
            [1.0_f32, 1.0, 2.0, 2.0, 3.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        assert_eq!(graph.arg_bytes("history").unwrap(), expected);
        assert_eq!(graph.arg_bytes("result").unwrap(), [4.0_f32, 4.0].map(f32::to_le_bytes).concat());
    }

    #[test]
    fn rejects_sizes_out_of_range() {
        checks::refused(&HANG, &[("tasks", "0")], "tasks");
        checks::refused(&HANG, &[("n", "1")], "n");
    }
}
