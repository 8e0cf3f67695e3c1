//! `dump_tensor_example`: `f = a + b + 1` from constants. The second task works in place. This is the
//! smallest scene with an in-out argument, and it uses both ways of registering tensor metadata for the dump.

use tensortap_abi::{CoreType, DType, Role};
use tensortap_scene::FaultKind::{Last, Nan, Overflow, Race, Sign, Stale};
use tensortap_scene::KernelArg::{In, InOut, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    ScalarArg, Scene, kernel_entry, scene_facts,
};

use crate::inputs::size;

const A: f32 = 2.0;
const B: f32 = 3.0;

/// The scene `dump_tensor_example`.
pub struct DumpTensorExample;

impl Scene for DumpTensorExample {
    scene_facts! {
        name: "dump_tensor_example",
        about: "f = a+b+1 from constants 2 and 3, the second task in place; metadata registered both ways",
        params: &[ParamSpec::int("n", "16384", 1, 1 << 26, "elements of each vector")],
        kernels: &[ADD, INCREMENT],
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let shape = [params.int("n")];
        vec![
            ArgSpec::input("a", DType::Float32, &shape),
            ArgSpec::input("b", DType::Float32, &shape),
            ArgSpec::output("f", DType::Float32, &shape),
        ]
    }

    fn scalar_args(&self, _params: &Params) -> Vec<(&'static str, ScalarArg)> {
        vec![("increment", 1.0_f32.into())]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        let n = size(params, "n");
        args.get_mut("a").set(&vec![A; n]);
        args.get_mut("b").set(&vec![B; n]);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, _params: &Params) -> Result<(), GraphError> {
        let (a, b, f) = (o.arg("a")?, o.arg("b")?, o.arg("f")?);
        let sum = o.task(&ADD).task_name("a + b").input(&a).input(&b).output(&f);
        let sum = sum.add_task_with_tensor_info()?;
        o.publish(sum)?;
        let increment = o.scalar_arg("increment")?;
        let increment = o
            .task(&INCREMENT)
            .task_name("+ 1")
            .inout(&f)
            .scalar(increment)
            .after(sum)
            .without_tensor_info()
            .add()?;
        o.set_tensor_info_to_task(increment, &[(f, Role::InOut)])?;
        o.publish(increment)
    }

    fn golden(&self, params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        Some(vec![HostTensor::new("f", &[params.int("n")], &vec![6.0_f32; size(params, "n")])])
    }
}

// Neither kernel lists the fault `shift`: all elements are equal, so reading one element off changes nothing.
const ADD: KernelDef = KernelDef {
    func_id: 0,
    name: "add",
    core_type: CoreType::Aiv,
    signature: &[In("left"), In("right"), Out("sum")],
    entry: kernel_entry::<Add>,
    reference: Some(&add_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Overflow, Race],
};

const INCREMENT: KernelDef = KernelDef {
    func_id: 1,
    name: "increment",
    core_type: CoreType::Aiv,
    signature: &[InOut("value"), Scalar("addend")],
    entry: kernel_entry::<Increment>,
    reference: Some(&increment_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Overflow],
};

/// `sum = left + right`.
struct Add;

impl KernelBody for Add {
    fn run(args: &Args) {
        let left = args.tensor(0).load::<f32>();
        let right = args.tensor(1).load::<f32>();
        let sum: Vec<f32> = left.iter().zip(&right).map(|(l, r)| l + r).collect();
        args.tensor(2).store(&sum);
    }
}

fn add_reference(task: &mut RefTask) {
    task.compute(2, |task, i| task.tensors[0].values[i] + task.tensors[1].values[i]);
}

/// `value += addend`, in place.
struct Increment;

impl KernelBody for Increment {
    fn run(args: &Args) {
        let (tensor, addend) = (args.tensor(0), args.scalar::<f32>(1));
        let mut values = tensor.load::<f32>();
        for value in &mut values {
            *value += addend;
        }
        tensor.store(&values);
    }
}

fn increment_reference(task: &mut RefTask) {
    let addend = f64::from(task.scalar::<f32>(1));
    for value in &mut task.tensors[0].values {
        *value += addend;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks;

    #[test]
    fn passes_all_scene_checks() {
        checks::all(&DumpTensorExample, &[&[], &[("n", "1")], &[("n", "100")]]);
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        checks::refused(&DumpTensorExample, &[("n", "0")], "n");
    }
}
