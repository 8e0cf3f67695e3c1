//! Uninitialized buffers, for tests of blame: an accumulator that is not initialized, and a result that is passed through
//! every step and written by the last one. The parameter `garbage` sets their initial content.

use tensortap_abi::{CoreType, DType};
use tensortap_scene::FaultKind::{Last, Sign};
use tensortap_scene::KernelArg::{In, InOut, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, kernel_entry, scene_facts,
};

use tensortap_scenes::inputs::{SEED, fill_uniform, size};

/// Rows that are accumulated.
const ROWS: u64 = 4;

/// `result = 2 * (sum of the rows of x) + 1`, with uninitialized buffers.
pub struct GarbageScene;

impl Scene for GarbageScene {
    scene_facts! {
        name: "garbage",
        about: "uninitialized in-out buffers: an accumulator, and a result passed through every step",
        hidden: true,
        params: &[
            ParamSpec::int("n", "256", 1, 1 << 20, "elements of each buffer"),
            ParamSpec::int("garbage", "1", 0, 1000, "initial content of the buffers"),
            SEED,
        ],
        kernels: &[ACCUMULATE, DOUBLE, FINISH],
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let n = params.int("n");
        vec![
            ArgSpec::input("x", DType::Float32, &[ROWS, n]),
            ArgSpec::inout("sum", DType::Float32, &[n]),
            ArgSpec::inout("result", DType::Float32, &[n]),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        fill_uniform::<f32>(params, args, "x", 0.5..1.5);
        let garbage = u16::try_from(params.int("garbage")).expect("bounded by the parameter");
        for (name, sign) in [("sum", 1.0), ("result", -1.0)] {
            let values = (0..size(params, "n")).map(|i| sign * (f32::from(garbage) + 0.25 * (i % 7) as f32));
            args.get_mut(name).set(&values.collect::<Vec<f32>>());
        }
    }

    fn orchestrate(&self, o: &mut Orch<'_>, _params: &Params) -> Result<(), GraphError> {
        let (x, sum, result) = (o.arg("x")?, o.arg("sum")?, o.arg("result")?);
        let mut last = None;
        for row in 0..ROWS {
            let task = o.task(&ACCUMULATE).input(&x.select(0, row)?).inout(&sum).inout(&result);
            last = Some(task.scalar(row == 0).after_all(last).submit()?);
        }
        let doubled = o.tensor(DType::Float32, sum.shape())?;
        let task = o.task(&DOUBLE).input(&sum).output(&doubled).inout(&result);
        let double = task.after_all(last).submit()?;
        o.task(&FINISH).input(&doubled).inout(&result).after(double).submit()?;
        Ok(())
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let n = size(params, "n");
        let x = inputs.get("x").get::<f32>();
        let sums: Vec<f64> =
            (0..n).map(|i| x.iter().skip(i).step_by(n).map(|&v| f64::from(v)).sum()).collect();
        let rounded = |of: fn(f64) -> f64| -> Vec<f32> {
            #[expect(clippy::cast_possible_truncation, reason = "rounding to the result's dtype")]
            sums.iter().map(|&s| of(s) as f32).collect()
        };
        let shape = [params.int("n")];
        let sum = HostTensor::new("sum", &shape, &rounded(|s| s));
        Some(vec![sum, HostTensor::new("result", &shape, &rounded(|s| 2.0 * s + 1.0))])
    }
}

const ACCUMULATE: KernelDef = KernelDef {
    func_id: 0,
    name: "accumulate",
    core_type: CoreType::Aiv,
    signature: &[In("row"), InOut("sum"), InOut("result"), Scalar("first")],
    entry: kernel_entry::<Accumulate>,
    reference: Some(&accumulate_reference),
    tolerance: None,
    faults: &[Sign, Last],
};

const DOUBLE: KernelDef = KernelDef {
    func_id: 1,
    name: "double",
    core_type: CoreType::Aiv,
    signature: &[In("sum"), Out("doubled"), InOut("result")],
    entry: kernel_entry::<Double>,
    reference: Some(&double_reference),
    tolerance: None,
    faults: &[Sign, Last],
};

const FINISH: KernelDef = KernelDef {
    func_id: 2,
    name: "finish",
    core_type: CoreType::Aiv,
    signature: &[In("doubled"), InOut("result")],
    entry: kernel_entry::<Finish>,
    reference: Some(&finish_reference),
    tolerance: None,
    faults: &[Sign, Last],
};

/// `sum += row`, or `sum = row` in the first task; does not change the result.
struct Accumulate;

impl KernelBody for Accumulate {
    fn run(args: &Args) {
        let (row, sum) = (args.tensor(0).load::<f32>(), args.tensor(1));
        let before = if args.scalar::<u8>(3) != 0 { vec![0.0; row.len()] } else { sum.load::<f32>() };
        sum.store(&row.iter().zip(&before).map(|(r, b)| r + b).collect::<Vec<f32>>());
    }
}

fn accumulate_reference(task: &mut RefTask) {
    let is_first = task.scalar::<u8>(3) != 0;
    for i in 0..task.tensors[1].values.len() {
        let before = if is_first { 0.0 } else { task.tensors[1].values[i] };
        task.tensors[1].values[i] = before + task.tensors[0].values[i];
    }
}

/// `doubled = 2 * sum`; does not change the result.
struct Double;

impl KernelBody for Double {
    fn run(args: &Args) {
        let sum = args.tensor(0).load::<f32>();
        args.tensor(1).store(&sum.iter().map(|s| s + s).collect::<Vec<f32>>());
    }
}

fn double_reference(task: &mut RefTask) {
    task.compute(1, |task, i| 2.0 * task.tensors[0].values[i]);
}

/// `result = doubled + 1`, independent of its previous content.
struct Finish;

impl KernelBody for Finish {
    fn run(args: &Args) {
        let doubled = args.tensor(0).load::<f32>();
        args.tensor(1).store(&doubled.iter().map(|d| d + 1.0).collect::<Vec<f32>>());
    }
}

fn finish_reference(task: &mut RefTask) {
    task.compute(1, |task, i| task.tensors[0].values[i] + 1.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scenes::checks;

    #[test]
    fn meets_the_requirements_of_scenes() {
        checks::all(&GarbageScene, &[&[], &[("garbage", "77")], &[("n", "1")]]);
    }
}
