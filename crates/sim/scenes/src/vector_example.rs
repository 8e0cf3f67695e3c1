//! `vector_example`: `f = (c + 1) * (c + 2) + c` with `c = a + b`, in five tasks. The last four are in a
//! nested scope.

use tensortap_abi::{CoreType, DType};
use tensortap_scene::FaultKind::{Last, Nan, Overflow, Race, Shift, Sign, Stale};
use tensortap_scene::KernelArg::{In, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, kernel_entry, scene_facts,
};

use crate::inputs::{SEED, fill_uniform};

/// The scene `vector_example`: element-wise arithmetic on vectors. Two of its kernels take scalars.
pub struct VectorExample;

impl Scene for VectorExample {
    scene_facts! {
        name: "vector_example",
        about: "f = (c+1)*(c+2)+c with c = a+b: five element-wise tasks, four in a nested scope",
        params: &[ParamSpec::int("n", "16384", 1, 1 << 26, "elements of each vector"), SEED],
        kernels: &[ADD, ADD_SCALAR, MUL],
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let shape = [params.int("n")];
        vec![
            ArgSpec::input("a", DType::Float32, &shape),
            ArgSpec::input("b", DType::Float32, &shape),
            ArgSpec::output("f", DType::Float32, &shape),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        fill_uniform::<f32>(params, args, "a", -1.0..1.0);
        fill_uniform::<f32>(params, args, "b", -1.0..1.0);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let n = params.int("n");
        let count = u32::try_from(n).expect("bounded by the parameter");
        let (a, b, f) = (o.arg("a")?, o.arg("b")?, o.arg("f")?);
        let c = o.tensor(DType::Float32, &[n])?;
        let t0 = o.task(&ADD).task_name("t0").input(&a).input(&b).output(&c).submit()?;
        o.scope("inner", |o| {
            let d = o.tensor(DType::Float32, &[n])?;
            let e = o.tensor(DType::Float32, &[n])?;
            let g = o.tensor(DType::Float32, &[n])?;
            let plus = &ADD_SCALAR;
            let t1 = o
                .task(plus)
                .task_name("t1")
                .input(&c)
                .output(&d)
                .scalar(1.0_f32)
                .scalar(count)
                .after(t0)
                .submit()?;
            let t2 = o
                .task(plus)
                .task_name("t2")
                .input(&c)
                .output(&e)
                .scalar(2.0_f32)
                .scalar(count)
                .after(t0)
                .submit()?;
            let t3 = o
                .task(&MUL)
                .task_name("t3")
                .input(&d)
                .input(&e)
                .output(&g)
                .scalar(count)
                .after(t1)
                .after(t2)
                .submit()?;
            o.task(&ADD).task_name("t4").input(&g).input(&c).output(&f).after(t3).submit()?;
            Ok(())
        })
    }

    fn golden(&self, _params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let (a, b) = (inputs.get("a").get::<f32>(), inputs.get("b").get::<f32>());
        let f: Vec<f32> = a.iter().zip(&b).map(|(&a, &b)| expected(a.into(), b.into())).collect();
        Some(vec![HostTensor::new("f", &inputs.get("a").shape, &f)])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the result is stored as f32")]
fn expected(a: f64, b: f64) -> f32 {
    let c = a + b;
    ((c + 1.0) * (c + 2.0) + c) as f32
}

const ADD: KernelDef = KernelDef {
    func_id: 0,
    name: "add",
    core_type: CoreType::Aiv,
    signature: &[In("left"), In("right"), Out("sum")],
    entry: kernel_entry::<Add>,
    reference: Some(&add_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Shift, Overflow, Race],
};

// Two negated factors have the same product, so the fault `sign` does not change the result.
const ADD_SCALAR: KernelDef = KernelDef {
    func_id: 1,
    name: "add_scalar",
    core_type: CoreType::Aiv,
    signature: &[In("x"), Out("sum"), Scalar("addend"), Scalar("count")],
    entry: kernel_entry::<AddScalar>,
    reference: Some(&add_scalar_reference),
    tolerance: None,
    faults: &[Last, Stale, Nan, Shift, Overflow, Race],
};

const MUL: KernelDef = KernelDef {
    func_id: 2,
    name: "mul",
    core_type: CoreType::Aiv,
    signature: &[In("left"), In("right"), Out("product"), Scalar("count")],
    entry: kernel_entry::<Mul>,
    reference: Some(&mul_reference),
    tolerance: None,
    faults: &[Sign, Last, Stale, Nan, Shift, Overflow, Race],
};

/// `sum = left + right`.
struct Add;

impl KernelBody for Add {
    fn run(args: &Args) {
        let mut sum = args.tensor(0).load::<f32>();
        let right = args.tensor(1).load::<f32>();
        for (sum, right) in sum.iter_mut().zip(&right) {
            *sum += right;
        }
        args.tensor(2).store(&sum);
    }
}

fn add_reference(task: &mut RefTask) {
    task.compute(2, |task, i| task.tensors[0].values[i] + task.tensors[1].values[i]);
}

/// `sum = input + addend` for the first `count` elements.
struct AddScalar;

impl KernelBody for AddScalar {
    fn run(args: &Args) {
        let (addend, count) = (args.scalar::<f32>(2), args.scalar::<u32>(3) as usize);
        let mut sum = args.tensor(0).load_range::<f32>(0, count);
        for sum in &mut sum {
            *sum += addend;
        }
        args.tensor(1).store_range(0, &sum);
    }
}

fn add_scalar_reference(task: &mut RefTask) {
    let (addend, count) = (task.scalar::<f32>(2), task.scalar::<u32>(3));
    for i in 0..count as usize {
        task.tensors[1].values[i] = task.tensors[0].values[i] + f64::from(addend);
    }
}

/// `product = left * right` for the first `count` elements.
struct Mul;

impl KernelBody for Mul {
    fn run(args: &Args) {
        let count = args.scalar::<u32>(3) as usize;
        let mut product = args.tensor(0).load_range::<f32>(0, count);
        let right = args.tensor(1).load_range::<f32>(0, count);
        for (product, right) in product.iter_mut().zip(&right) {
            *product *= right;
        }
        args.tensor(2).store_range(0, &product);
    }
}

fn mul_reference(task: &mut RefTask) {
    let count = task.scalar::<u32>(3);
    for i in 0..count as usize {
        task.tensors[2].values[i] = task.tensors[0].values[i] * task.tensors[1].values[i];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{self, recorded};

    #[test]
    fn passes_all_scene_checks() {
        checks::all(&VectorExample, &[&[], &[("n", "1")], &[("n", "777"), ("seed", "5")]]);
    }

    #[test]
    fn carries_13_tensors_and_5_scalars() {
        let graph = recorded(&VectorExample, &[]);
        let tensors: usize = (0..graph.len()).map(|task| graph.tensors(task).len()).sum();
        let mut graph = graph;
        let mut scalars = 0;
        graph.run_observed(|step| scalars += step.before.scalars.len()).unwrap();
        assert_eq!((tensors, scalars), (13, 5));
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        checks::refused(&VectorExample, &[("n", "0")], "n");
        checks::refused(&VectorExample, &[("n", "67108865")], "n");
    }
}
