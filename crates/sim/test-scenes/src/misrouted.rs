//! A correct scene whose orchestration can make a mistake, for tests of blame when no kernel is wrong.

use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, Out};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, kernel_entry, scene_facts,
};

use tensortap_scenes::inputs::{SEED, fill_uniform, size};

/// Rows of the result.
const ROWS: u64 = 2;

/// Row `h` of `y` is `2 * (row 2h of x + row 2h+1 of x)`. The mistake is in the second row.
pub struct MisroutedScene;

impl Scene for MisroutedScene {
    scene_facts! {
        name: "misrouted",
        about: "correct kernels, and an orchestration that can use a wrong slice or source, or omit an edge",
        hidden: true,
        params: &[
            ParamSpec::int("n", "64", 1, 1 << 16, "elements of each row"),
            ParamSpec::choice(
                "mistake",
                "none",
                &["none", "slice", "part", "source", "edge"],
                "wrong rows of x, the wrong row of an intermediate, the wrong intermediate, no edge",
            ),
            SEED,
        ],
        kernels: &[DOUBLE, ADD],
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let n = params.int("n");
        vec![
            ArgSpec::input("x", DType::Float32, &[2 * ROWS, n]),
            ArgSpec::output("y", DType::Float32, &[ROWS, n]),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        fill_uniform::<f32>(params, args, "x", -1.0..1.0);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let (x, y) = (o.arg("x")?, o.arg("y")?);
        let mistake = |name: &str, row: u64| row + 1 == ROWS && params.word("mistake") == name;
        let mut doubles = Vec::new();
        for row in 0..ROWS {
            let doubled = o.tensor(DType::Float32, &[2, params.int("n")])?;
            let first = if mistake("slice", row) { 0 } else { 2 * row };
            let task = o.task(&DOUBLE).task_name(format_args!("double {row}"));
            let task = task.input(&x.slice(0, first, 2)?).output(&doubled).submit()?;
            doubles.push((doubled, task));
        }
        for (row, (doubled, task)) in (0..).zip(&doubles) {
            let first = if mistake("source", row) { &doubles[0].0 } else { doubled };
            let second = u64::from(!mistake("part", row));
            let add = o.task(&ADD).task_name(format_args!("add {row}"));
            let add = add.input(&first.select(0, 0)?).input(&doubled.select(0, second)?);
            let waits = (!mistake("edge", row)).then_some(*task);
            // The wrong source must be complete before it is read.
            let source = mistake("source", row).then_some(doubles[0].1);
            add.output(&y.select(0, row)?).after_all(waits).after_all(source).submit()?;
        }
        Ok(())
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let n = size(params, "n");
        let x = inputs.get("x").get::<f32>();
        #[expect(clippy::cast_possible_truncation, reason = "rounding to the result's dtype")]
        let sums: Vec<f32> = x
            .chunks_exact(2 * n)
            .flat_map(|rows| (0..n).map(|i| (2.0 * (f64::from(rows[i]) + f64::from(rows[n + i]))) as f32))
            .collect();
        Some(vec![HostTensor::new("y", &[ROWS, params.int("n")], &sums)])
    }
}

const DOUBLE: KernelDef = KernelDef {
    func_id: 0,
    name: "double",
    core_type: CoreType::Aiv,
    signature: &[In("x"), Out("doubled")],
    entry: kernel_entry::<Double>,
    reference: Some(&double_reference),
    tolerance: None,
    faults: &[],
};

const ADD: KernelDef = KernelDef {
    func_id: 1,
    name: "add",
    core_type: CoreType::Aiv,
    signature: &[In("a"), In("b"), Out("sum")],
    entry: kernel_entry::<Add>,
    reference: Some(&add_reference),
    tolerance: None,
    faults: &[],
};

struct Double;

impl KernelBody for Double {
    fn run(args: &Args) {
        let values = args.tensor(0).load::<f32>();
        args.tensor(1).store(&values.iter().map(|v| v + v).collect::<Vec<f32>>());
    }
}

fn double_reference(task: &mut RefTask) {
    task.compute(1, |task, i| 2.0 * task.tensors[0].values[i]);
}

struct Add;

impl KernelBody for Add {
    fn run(args: &Args) {
        let (a, b) = (args.tensor(0).load::<f32>(), args.tensor(1).load::<f32>());
        args.tensor(2).store(&a.iter().zip(&b).map(|(a, b)| a + b).collect::<Vec<f32>>());
    }
}

fn add_reference(task: &mut RefTask) {
    task.compute(2, |task, i| task.tensors[0].values[i] + task.tensors[1].values[i]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scenes::checks;

    #[test]
    fn meets_the_requirements_of_scenes_without_a_mistake() {
        checks::all(&MisroutedScene, &[&[], &[("n", "1")]]);
    }
}
