//! A hidden scene with empty kernels, to measure submitting, scheduling and dispatching.

use tensortap::scene::KernelArg::{In, InOut, Scalar};
use tensortap::scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, Tensor, kernel_entry, scene_facts,
};
use tensortap::{CoreType, DType};

/// Elements of the tensors passed around: one cache line.
const CELL: [u64; 1] = [16];

/// Empty tasks in graphs of three shapes.
pub struct BenchDispatch;

impl Scene for BenchDispatch {
    scene_facts! {
        name: "bench_dispatch",
        about: "empty tasks that are independent, a chain, or fan out, for measuring dispatch",
        hidden: true,
        params: &[
            ParamSpec::choice(
                "shape",
                "independent",
                &["independent", "chain", "fanout"],
                "shape of the graph",
            ),
            ParamSpec::int(
                "tasks",
                "10000",
                1,
                10_000_000,
                "number of tasks; runtimes with a task array take at most 131072",
            ),
            ParamSpec::int(
                "scope",
                "16",
                1,
                16_384,
                "tasks per scope; in a fanout: a producer and its readers",
            ),
        ],
        kernels: &[EMPTY, EMPTY_READER],
    }

    fn args(&self, _params: &Params) -> Vec<ArgSpec> {
        vec![ArgSpec::input("shared", DType::UInt32, &CELL), ArgSpec::inout("cell", DType::UInt32, &CELL)]
    }

    fn fill(&self, _params: &Params, _args: &mut HostArgs) {}

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let tasks = u32::try_from(params.int("tasks")).expect("bounded by the parameter");
        let scope = u32::try_from(params.int("scope")).expect("bounded by the parameter");
        let sizes = (0..tasks).step_by(scope as usize).map(|first| scope.min(tasks - first));
        match params.word("shape") {
            "chain" => chain(o, sizes),
            "fanout" => fanout(o, sizes),
            _ => independent(o, sizes),
        }
    }

    /// The kernels compute nothing.
    fn golden(&self, _params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        None
    }
}

/// Every task reads the same tensor, which no task writes.
fn independent(o: &mut Orch<'_>, mut sizes: impl Iterator<Item = u32>) -> Result<(), GraphError> {
    let shared = o.arg("shared")?;
    sizes.try_for_each(|tasks| o.scope("batch", |o| (0..tasks).try_for_each(|i| read(o, &shared, i))))
}

fn read(o: &mut Orch<'_>, tensor: &Tensor, number: u32) -> Result<(), GraphError> {
    o.task(&EMPTY_READER).input(tensor).scalar(number).submit().map(|_| ())
}

/// Every task changes the same cell.
fn chain(o: &mut Orch<'_>, mut sizes: impl Iterator<Item = u32>) -> Result<(), GraphError> {
    let cell = o.arg("cell")?;
    let mut last = None;
    sizes.try_for_each(|tasks| {
        o.scope("batch", |o| {
            for _ in 0..tasks {
                last = Some(o.task(&EMPTY).inout(&cell).after_all(last).submit()?);
            }
            Ok(())
        })
    })
}

/// In each scope, one task produces a cell and the others read it.
fn fanout(o: &mut Orch<'_>, mut sizes: impl Iterator<Item = u32>) -> Result<(), GraphError> {
    sizes.try_for_each(|tasks| {
        o.scope("batch", |o| {
            let cell = o.tensor(DType::UInt32, &CELL)?;
            let producer = o.task(&EMPTY).inout(&cell).submit()?;
            for number in 1..tasks {
                o.task(&EMPTY_READER).input(&cell).scalar(number).after(producer).submit()?;
            }
            Ok(())
        })
    })
}

/// Writes nothing, so its argument must be in-out.
const EMPTY: KernelDef = KernelDef {
    func_id: 0,
    name: "empty",
    core_type: CoreType::Aiv,
    signature: &[InOut("cell")],
    entry: kernel_entry::<Empty>,
    reference: Some(&nothing),
    tolerance: None,
    faults: &[],
};

const EMPTY_READER: KernelDef =
    KernelDef { func_id: 1, name: "empty_reader", signature: &[In("cell"), Scalar("number")], ..EMPTY };

struct Empty;

impl KernelBody for Empty {
    fn run(_args: &Args) {}
}

fn nothing(_task: &mut RefTask) {}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap::checks::{self, recorded, ring_use};

    fn given(shape: &'static str) -> [(&'static str, &'static str); 3] {
        [("shape", shape), ("tasks", "50"), ("scope", "8")]
    }

    #[test]
    fn shapes_have_the_expected_edges() {
        for (shape, edges) in [("independent", 0), ("chain", 49), ("fanout", 43)] {
            let graph = recorded(&BenchDispatch, &given(shape));
            assert_eq!((graph.len(), graph.edges().len()), (50, edges), "{shape}");
            checks::edges_order_conflicts(&BenchDispatch, &given(shape));
            checks::tasks_equal_references(&BenchDispatch, &given(shape));
        }
    }

    #[test]
    fn holds_at_most_one_scope_at_a_time() {
        for shape in ["independent", "chain", "fanout"] {
            assert_eq!(ring_use(&BenchDispatch, &given(shape)).tasks, 8, "{shape}");
        }
    }

    #[test]
    fn is_well_formed_and_hidden() {
        checks::is_well_formed(&BenchDispatch);
        assert!(BenchDispatch.hidden());
    }

    #[test]
    fn rejects_parameters_out_of_range() {
        checks::refused(&BenchDispatch, &[("shape", "ring")], "shape");
        checks::refused(&BenchDispatch, &[("scope", "0")], "scope");
    }
}
