//! Graphs that can never finish are detected and reported, with every runtime.

use tensortap::scene::KernelArg::{InOut, Scalar};
use tensortap::scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Registry, Runtimes, Scene, kernel_entry,
};
use tensortap::{CoreType, DType, DeviceMode, FailureKind};

use crate::config;

/// Tasks that wait for each other, or for a task that is never published.
struct Circle;

impl Scene for Circle {
    fn name(&self) -> &'static str {
        "circle"
    }

    fn about(&self) -> &'static str {
        "a graph that can never finish"
    }

    fn runtimes(&self) -> Runtimes {
        Runtimes::Only(&["aicpu_build_graph", "host_build_graph"])
    }

    fn params(&self) -> &'static [ParamSpec] {
        const PARAMS: &[ParamSpec] =
            &[ParamSpec::int("publish", "1", 0, 1, "whether every task is published")];
        PARAMS
    }

    fn kernels(&self) -> &'static [KernelDef] {
        const KERNELS: &[KernelDef] = &[ADD];
        KERNELS
    }

    fn args(&self, _: &Params) -> Vec<ArgSpec> {
        vec![ArgSpec::inout("value", DType::UInt32, &[1])]
    }

    fn fill(&self, _: &Params, _: &mut HostArgs) {}

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let value = o.arg("value")?;
        o.task(&ADD).inout(&value).scalar(1_u32).submit()?;
        let first = o.task(&ADD).inout(&value).scalar(2_u32).add()?;
        let second = o.task(&ADD).inout(&value).scalar(3_u32).after(first).add()?;
        o.publish(second)?;
        if params.int("publish") == 1 {
            o.add_edge(second, first)?;
            o.publish(first)?;
        }
        Ok(())
    }

    fn golden(&self, _: &Params, _: &HostArgs) -> Option<Vec<HostTensor>> {
        None
    }
}

const ADD: KernelDef = KernelDef {
    func_id: 0,
    name: "add",
    core_type: CoreType::Aiv,
    signature: &[InOut("value"), Scalar("addend")],
    entry: kernel_entry::<Add>,
    reference: Some(&add_reference),
    tolerance: None,
    faults: &[],
};

struct Add;

impl KernelBody for Add {
    fn run(args: &Args) {
        let value = args.tensor(0);
        value.store(&[value.load_one::<u32>(0) + args.scalar::<u32>(1)]);
    }
}

fn add_reference(task: &mut RefTask) {
    task.tensors[0].values[0] += f64::from(task.scalar::<u32>(1));
}

#[test]
fn tasks_that_wait_in_a_cycle_or_for_an_unpublished_task_are_a_deadlock() {
    for runtime in tensortap::runtimes_of(&Circle) {
        for (publish, said) in [(1, "in a cycle"), (0, "never published")] {
            let mut config = config("circle").param("publish", publish);
            config.registry = Registry::new(&[&Circle]);
            config.device_mode = DeviceMode::Thread;
            config.runtime = Some(runtime.into());
            let report = tensortap::run(&config).or_else(tensortap::Error::into_report);
            let report = report.unwrap_or_else(|error| panic!("{runtime}: {error}"));
            let failure = report.failure.expect("it cannot finish");
            assert_eq!(failure.kind, Some(FailureKind::GraphDeadlock), "{runtime}: {failure}");
            assert!(failure.to_string().contains(said), "{runtime}: {failure}");
            assert_eq!(report.tasks, 1, "{runtime}");
        }
    }
}
