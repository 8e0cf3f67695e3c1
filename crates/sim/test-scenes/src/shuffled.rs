//! Independent chains of identical tasks, submitted in the order of the parameter `order`, for tests that match the tasks of
//! two runs.

use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, InOut, Out};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, kernel_entry, scene_facts,
};

use tensortap_scenes::inputs::{SEED, fill_uniform, size};

/// Number of chains.
const LANES: u64 = 9;

/// `y = x * x + y` for each lane. Two lanes of `x` are equal, and all lanes of `y` are equal at the start.
pub struct ShuffledScene;

impl Scene for ShuffledScene {
    scene_facts! {
        name: "shuffled",
        about: "independent chains of identical tasks, submitted in any order",
        hidden: true,
        params: &[
            ParamSpec::int("n", "64", 1, 1 << 16, "elements of each lane"),
            ParamSpec::int("order", "0", 0, 1 << 32, "seed of the order of submission; 0 keeps it"),
            SEED,
        ],
        kernels: &[SQUARE, ADD],
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let shape = [LANES, params.int("n")];
        vec![ArgSpec::input("x", DType::Float32, &shape), ArgSpec::inout("y", DType::Float32, &shape)]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        fill_uniform::<f32>(params, args, "x", -1.0..1.0);
        let bytes = 4 * size(params, "n");
        // Two indistinguishable lanes.
        args.get_mut("x").bytes.copy_within(..bytes, bytes);
        let ones = vec![1.0_f32; args.get("y").bytes.len() / 4];
        args.get_mut("y").set(&ones);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let (x, y) = (o.arg("x")?, o.arg("y")?);
        let mut rng = fastrand::Rng::with_seed(params.int("order"));
        let mut shuffled = || {
            let mut lanes: Vec<u64> = (0..LANES).collect();
            if params.int("order") != 0 {
                rng.shuffle(&mut lanes);
            }
            lanes
        };
        let mut squares = vec![None; usize::try_from(LANES).expect("few")];
        for lane in shuffled() {
            let square = o.tensor(DType::Float32, &[params.int("n")])?;
            let task = o.task(&SQUARE).input(&x.select(0, lane)?).output(&square).submit()?;
            squares[usize::try_from(lane).expect("few")] = Some((square, task));
        }
        for lane in shuffled() {
            let (square, task) = squares[usize::try_from(lane).expect("few")].expect("every lane has one");
            o.task(&ADD).input(&square).inout(&y.select(0, lane)?).after(task).submit()?;
        }
        Ok(())
    }

    fn golden(&self, _params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let mut y = inputs.get("y").clone();
        let x = inputs.get("x").get::<f32>();
        #[expect(clippy::cast_possible_truncation, reason = "rounding to the result's dtype")]
        let sums: Vec<f32> = x
            .iter()
            .zip(y.get::<f32>())
            .map(|(&x, y)| (f64::from(x).powi(2) + f64::from(y)) as f32)
            .collect();
        y.set(&sums);
        Some(vec![y])
    }
}

const SQUARE: KernelDef = KernelDef {
    func_id: 0,
    name: "square",
    core_type: CoreType::Aiv,
    signature: &[In("x"), Out("square")],
    entry: kernel_entry::<Square>,
    reference: Some(&square_reference),
    tolerance: None,
    faults: &[],
};

const ADD: KernelDef = KernelDef {
    func_id: 1,
    name: "add",
    core_type: CoreType::Aiv,
    signature: &[In("square"), InOut("y")],
    entry: kernel_entry::<Add>,
    reference: Some(&add_reference),
    tolerance: None,
    faults: &[],
};

/// `out = in * in`.
struct Square;

impl KernelBody for Square {
    fn run(args: &Args) {
        let values = args.tensor(0).load::<f32>();
        args.tensor(1).store(&values.iter().map(|v| v * v).collect::<Vec<f32>>());
    }
}

fn square_reference(task: &mut RefTask) {
    task.compute(1, |task, i| task.tensors[0].values[i].powi(2));
}

/// `sum += term`, in place.
struct Add;

impl KernelBody for Add {
    fn run(args: &Args) {
        let (terms, sum) = (args.tensor(0).load::<f32>(), args.tensor(1));
        sum.store(&sum.load::<f32>().iter().zip(&terms).map(|(s, t)| s + t).collect::<Vec<f32>>());
    }
}

fn add_reference(task: &mut RefTask) {
    for i in 0..task.tensors[1].values.len() {
        task.tensors[1].values[i] += task.tensors[0].values[i];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scenes::checks;

    #[test]
    fn every_order_gives_the_golden() {
        for order in ["0", "1", "2"] {
            let given = [("order", order)];
            checks::graph_equals_golden(&ShuffledScene, &given);
            checks::tasks_equal_references(&ShuffledScene, &given);
            checks::edges_order_conflicts(&ShuffledScene, &given);
        }
    }
}
