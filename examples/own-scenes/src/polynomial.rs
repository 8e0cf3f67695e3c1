//! `y = x² + x` in pieces: two kernels, each with the f64 reference that `blame --reference` and `replay --reference` use.

use tensortap::scene::FaultKind::{Last, Nan, Shift, Sign, Stale};
use tensortap::scene::KernelArg::{In, Out};
use tensortap::scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, kernel_entry,
};
use tensortap::{CoreType, DType};

/// The scene that `run polynomial` runs.
pub struct Polynomial;

impl Scene for Polynomial {
    fn name(&self) -> &'static str {
        "polynomial"
    }

    fn about(&self) -> &'static str {
        "y = x*x + x, in pieces of equal size"
    }

    fn params(&self) -> &'static [ParamSpec] {
        const PARAMS: &[ParamSpec] = &[
            ParamSpec::int("pieces", "4", 1, 1024, "pieces"),
            ParamSpec::int("n", "64", 2, 1 << 20, "elements of a piece"),
        ];
        PARAMS
    }

    fn kernels(&self) -> &'static [KernelDef] {
        const KERNELS: &[KernelDef] = &[SQUARE, ADD];
        KERNELS
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let shape = [params.int("pieces"), params.int("n")];
        vec![ArgSpec::input("x", DType::Float32, &shape), ArgSpec::output("y", DType::Float32, &shape)]
    }

    fn fill(&self, _params: &Params, args: &mut HostArgs) {
        let x = args.get_mut("x");
        let values: Vec<f32> =
            (0_u8..=250).cycle().map(|i| f32::from(i) / 8.0 + 0.5).take(x.bytes.len() / 4).collect();
        x.set(&values);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let (x, y) = (o.arg("x")?, o.arg("y")?);
        for piece in 0..params.int("pieces") {
            o.scope(format!("piece {piece}"), |o| {
                let (x, y) = (x.select(0, piece)?, y.select(0, piece)?);
                let squares = o.tensor(DType::Float32, &[params.int("n")])?;
                let squared = o.task(&SQUARE).task_name("x * x").input(&x).output(&squares).submit()?;
                o.task(&ADD).task_name("+ x").input(&squares).input(&x).output(&y).after(squared).submit()?;
                Ok(())
            })?;
        }
        Ok(())
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let x = inputs.get("x").get::<f32>();
        let y: Vec<f32> = x.iter().map(|x| x * (x + 1.0)).collect();
        Some(vec![HostTensor::new("y", &[params.int("pieces"), params.int("n")], &y)])
    }
}

const SQUARE: KernelDef = KernelDef {
    func_id: 0,
    name: "square",
    core_type: CoreType::Aiv,
    signature: &[In("value"), Out("square")],
    entry: kernel_entry::<Square>,
    reference: Some(&square_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Shift],
};

struct Square;

impl KernelBody for Square {
    fn run(args: &Args) {
        let squares: Vec<f32> = args.tensor(0).load::<f32>().iter().map(|value| value * value).collect();
        args.tensor(1).store(&squares);
    }
}

fn square_reference(task: &mut RefTask) {
    task.tensors[1].values = task.tensors[0].values.iter().map(|value| value.powi(2)).collect();
}

const ADD: KernelDef = KernelDef {
    func_id: 1,
    name: "add",
    core_type: CoreType::Aiv,
    signature: &[In("left"), In("right"), Out("sum")],
    entry: kernel_entry::<Add>,
    reference: Some(&add_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Shift],
};

struct Add;

impl KernelBody for Add {
    fn run(args: &Args) {
        let (left, right) = (args.tensor(0).load::<f32>(), args.tensor(1).load::<f32>());
        let sums: Vec<f32> = left.iter().zip(&right).map(|(left, right)| left + right).collect();
        args.tensor(2).store(&sums);
    }
}

fn add_reference(task: &mut RefTask) {
    let (left, right) = (task.tensors[0].values.clone(), &task.tensors[1].values);
    task.tensors[2].values = left.iter().zip(right).map(|(left, right)| left + right).collect();
}

#[cfg(test)]
mod tests {
    use tensortap::checks;

    use super::Polynomial;

    #[test]
    fn the_scene_meets_the_requirements_of_scenes() {
        checks::is_well_formed(&Polynomial);
        checks::all(&Polynomial, &[&[], &[("pieces", "2"), ("n", "5")]]);
    }
}
