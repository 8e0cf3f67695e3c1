use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, Out};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params,
    Registry, kernel_entry,
};
use tensortap_sync::Flag;

use super::*;
use crate::DeviceMode;

/// Once raised, the kernel computes the right result.
static MENDED: Flag = Flag::new();

struct Double;

impl KernelBody for Double {
    fn run(args: &Args) {
        let more = if MENDED.is_raised() { 0.0 } else { 1.0 };
        let doubled: Vec<f32> = args.tensor(0).load::<f32>().iter().map(|x| x + x + more).collect();
        args.tensor(1).store(&doubled);
    }
}

const DOUBLE: KernelDef = KernelDef {
    func_id: 0,
    name: "double",
    core_type: CoreType::Aiv,
    signature: &[In("x"), Out("doubled")],
    entry: kernel_entry::<Double>,
    reference: None,
    tolerance: None,
    faults: &[],
};

struct Fourfold;

impl Scene for Fourfold {
    fn name(&self) -> &'static str {
        "fourfold"
    }
    fn about(&self) -> &'static str {
        "y = 4x, in two tasks"
    }
    fn params(&self) -> &'static [ParamSpec] {
        &[]
    }
    fn kernels(&self) -> &'static [KernelDef] {
        const { &[DOUBLE] }
    }
    fn args(&self, _: &Params) -> Vec<ArgSpec> {
        vec![ArgSpec::input("x", DType::Float32, &[3]), ArgSpec::output("y", DType::Float32, &[3])]
    }
    fn fill(&self, _: &Params, args: &mut HostArgs) {
        args.get_mut("x").set(&[1.0_f32, 2.0, 3.0]);
    }
    fn orchestrate(&self, o: &mut Orch<'_>, _: &Params) -> Result<(), GraphError> {
        let (x, y, half_way) = (o.arg("x")?, o.arg("y")?, o.tensor(DType::Float32, &[3])?);
        let first = o.task(&DOUBLE).task_name("twofold").input(&x).output(&half_way).submit()?;
        o.task(&DOUBLE).task_name("fourfold").input(&half_way).output(&y).after(first).submit()?;
        Ok(())
    }
    fn golden(&self, _: &Params, _: &HostArgs) -> Option<Vec<HostTensor>> {
        Some(vec![HostTensor::new("y", &[3], &[4.0_f32, 8.0, 12.0])])
    }
}

#[test]
fn without_a_reference_the_same_case_that_passed_elsewhere_is_the_golden() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = RunConfig::new("");
    (run.registry, run.device_mode) = (Registry::new(&[&Fourfold]), DeviceMode::Thread);
    let mut config = SuiteConfig::new(run, folder.path());
    (config.runtimes, config.jobs) = (vec!["host_build_graph".into()], Some(1));
    let trials = trials(&config).unwrap();
    assert_eq!(trials.len(), 2);
    // The first trial, and its repetition with a dump, find the kernel wrong.
    let mend = |_: &TrialReport| {
        MENDED.raise();
    };
    let reports = run_suite(&config, &trials, &mend, &|| true);
    assert_eq!([0, 1].map(|place: usize| reports[place].passed()), [false, true]);
    let found = reports[0].explanation.as_ref().expect("the failure was examined");
    assert!(
        matches!(&found.against, TrialReference::Dump(golden) if golden.starts_with(folder.path())),
        "{found:?}"
    );
    let names: Vec<_> = found.culprits.iter().map(|culprit| culprit.task.task_name.as_deref()).collect();
    assert_eq!((names, found.culprit_count), (vec![Some("twofold")], 1), "{found:?}");
}
