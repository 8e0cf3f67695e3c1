//! A program that runs its own scene: `cargo run --release -p tensortap --example embed`.
//!
//! The device is a separate process, started from this executable. Host and device know the same scenes.

use std::process::ExitCode;

use tensortap::scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelArg, KernelBody, KernelDef, Orch, ParamSpec,
    Params, RefTask, Registry, Scene, kernel_entry,
};
use tensortap::{CoreType, DType, GoldenVerdict, RunConfig};

fn main() -> ExitCode {
    let registry = Registry::new(&[&Doubling]);
    // Must be the first call: in the device process it never returns.
    tensortap::become_device_if_asked_with(registry.clone());

    let mut config = RunConfig::new("doubling").param("n", 1000);
    config.registry = registry;
    match tensortap::run(&config) {
        Ok(report) => {
            println!("{} task on {}, golden: {}", report.tasks, report.platform, report.golden.name());
            ExitCode::from(u8::from(report.golden != GoldenVerdict::Pass))
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// y = 2x in one task.
struct Doubling;

impl Scene for Doubling {
    fn name(&self) -> &'static str {
        "doubling"
    }

    fn about(&self) -> &'static str {
        "y = 2x"
    }

    fn params(&self) -> &'static [ParamSpec] {
        const PARAMS: &[ParamSpec] = &[ParamSpec::int("n", "16", 1, 1 << 20, "elements")];
        PARAMS
    }

    fn kernels(&self) -> &'static [KernelDef] {
        const KERNELS: &[KernelDef] = &[DOUBLE];
        KERNELS
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let shape = [params.int("n")];
        vec![ArgSpec::input("x", DType::Float32, &shape), ArgSpec::output("y", DType::Float32, &shape)]
    }

    fn fill(&self, _params: &Params, args: &mut HostArgs) {
        let x = args.get_mut("x");
        let values: Vec<f32> = (0_u16..).map(f32::from).take(x.bytes.len() / 4).collect();
        x.set(&values);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, _params: &Params) -> Result<(), GraphError> {
        let (x, y) = (o.arg("x")?, o.arg("y")?);
        o.task(&DOUBLE).task_name("double x").input(&x).output(&y).submit()?;
        Ok(())
    }

    fn golden(&self, params: &Params, inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let y: Vec<f32> = inputs.get("x").get::<f32>().iter().map(|x| x + x).collect();
        Some(vec![HostTensor::new("y", &[params.int("n")], &y)])
    }
}

const DOUBLE: KernelDef = KernelDef {
    func_id: 0,
    name: "double",
    core_type: CoreType::Aiv,
    signature: &[KernelArg::In("x"), KernelArg::Out("doubled")],
    entry: kernel_entry::<Double>,
    reference: Some(&double_reference),
    tolerance: None,
    faults: &[],
};

struct Double;

impl KernelBody for Double {
    fn run(args: &Args) {
        let doubled: Vec<f32> = args.tensor(0).load::<f32>().iter().map(|x| 2.0 * x).collect();
        args.tensor(1).store(&doubled);
    }
}

fn double_reference(task: &mut RefTask) {
    task.tensors[1].values = task.tensors[0].values.iter().map(|x| 2.0 * x).collect();
}
