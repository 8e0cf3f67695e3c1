//! A hidden scene with arguments that are hard to capture: zero, negative and transposed strides, steps, and empty views, as
//! inputs, outputs and in-outs.

use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, InOut, Out};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, Params, RefTask, Scene,
    kernel_entry, scene_facts,
};

use tensortap_scenes::inputs::{SEED, fill_uniform};

const ROWS: usize = 6;
const COLS: usize = 10;

/// Copies and negations of one matrix, each through a different kind of view.
pub struct OddViews;

impl Scene for OddViews {
    scene_facts! {
        name: "odd_views",
        about: "tasks over zero-stride, reversed, transposed, stepped and empty views",
        hidden: true,
        params: &[SEED],
        kernels: &[COPY, NEGATE],
    }

    fn args(&self, _params: &Params) -> Vec<ArgSpec> {
        let (rows, cols) = (ROWS as u64, COLS as u64);
        vec![
            ArgSpec::input("matrix", DType::Float32, &[rows, cols]),
            ArgSpec::output("repeated", DType::Float32, &[rows, cols]),
            ArgSpec::output("reversed", DType::Float32, &[rows, cols]),
            ArgSpec::output("transposed", DType::Float32, &[cols, rows]),
            ArgSpec::inout("striped", DType::Float32, &[rows, cols]),
        ]
    }

    fn fill(&self, params: &Params, args: &mut HostArgs) {
        fill_uniform::<f32>(params, args, "matrix", -1.0..1.0);
        fill_uniform::<f32>(params, args, "striped", 1.0..2.0);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, _params: &Params) -> Result<(), GraphError> {
        let (rows, cols) = (ROWS as u64, COLS as u64);
        let (matrix, striped) = (o.arg("matrix")?, o.arg("striped")?);
        let (repeated, reversed, transposed) = (o.arg("repeated")?, o.arg("reversed")?, o.arg("transposed")?);
        let first_row = matrix.slice(0, 0, 1)?.broadcast(0, rows)?;
        o.task(&COPY).task_name("repeat a row").input(&first_row).output(&repeated).submit()?;
        let backwards = matrix.slice_step(0, rows - 1, rows, -1)?.slice_step(1, cols - 1, cols, -1)?;
        o.task(&COPY).task_name("reverse").input(&backwards).output(&reversed).submit()?;
        o.task(&COPY).task_name("transpose").input(&matrix).output(&transposed.transpose(0, 1)?).submit()?;
        let none = matrix.slice(0, 2, 0)?;
        o.task(&COPY).task_name("copy nothing").input(&none).output(&striped.slice(0, 3, 0)?).submit()?;
        o.task(&NEGATE)
            .task_name("negate stripes")
            .inout(&striped.slice_step(1, 1, cols / 2, 2)?)
            .submit()?;
        Ok(())
    }

    fn golden(&self, _params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let (matrix, striped) = (inputs.get("matrix").get::<f32>(), inputs.get("striped").get::<f32>());
        let place = |row: usize, col: usize| row * COLS + col;
        let mut repeated = Vec::new();
        let mut reversed = Vec::new();
        let mut stripes = Vec::new();
        for row in 0..ROWS {
            for col in 0..COLS {
                repeated.push(matrix[place(0, col)]);
                reversed.push(matrix[place(ROWS - 1 - row, COLS - 1 - col)]);
                let value = striped[place(row, col)];
                stripes.push(if col % 2 == 1 { -value } else { value });
            }
        }
        let mut transposed = Vec::new();
        for col in 0..COLS {
            transposed.extend((0..ROWS).map(|row| matrix[place(row, col)]));
        }
        let (rows, cols) = (ROWS as u64, COLS as u64);
        Some(vec![
            HostTensor::new("repeated", &[rows, cols], &repeated),
            HostTensor::new("reversed", &[rows, cols], &reversed),
            HostTensor::new("transposed", &[cols, rows], &transposed),
            HostTensor::new("striped", &[rows, cols], &stripes),
        ])
    }
}

pub(crate) const COPY: KernelDef = KernelDef {
    func_id: 0,
    name: "copy",
    core_type: CoreType::Aiv,
    signature: &[In("from"), Out("to")],
    entry: kernel_entry::<Copy>,
    reference: Some(&copy_reference),
    tolerance: None,
    faults: &[],
};

const NEGATE: KernelDef = KernelDef {
    func_id: 1,
    name: "negate",
    core_type: CoreType::Aiv,
    signature: &[InOut("values")],
    entry: kernel_entry::<Negate>,
    reference: Some(&negate_reference),
    tolerance: None,
    faults: &[],
};

struct Copy;

impl KernelBody for Copy {
    fn run(args: &Args) {
        args.tensor(1).store(&args.tensor(0).load::<f32>());
    }
}

fn copy_reference(task: &mut RefTask) {
    task.tensors[1].values = task.tensors[0].values.clone();
}

struct Negate;

impl KernelBody for Negate {
    fn run(args: &Args) {
        let tensor = args.tensor(0);
        let negated: Vec<f32> = tensor.load::<f32>().iter().map(|v| -v).collect();
        tensor.store(&negated);
    }
}

fn negate_reference(task: &mut RefTask) {
    task.tensors[0].values.iter_mut().for_each(|v| *v = 0.0 - *v);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scenes::checks;

    #[test]
    fn graph_golden_and_references_agree() {
        for seed in ["1", "2"] {
            checks::graph_equals_golden(&OddViews, &[("seed", seed)]);
            checks::tasks_equal_references(&OddViews, &[("seed", seed)]);
        }
    }
}
