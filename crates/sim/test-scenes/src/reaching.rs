//! A hidden scene with a task that does what kernels must not do. It opens a file, uses a socket or starts a program, which
//! a confined device denies, or it writes to its input. All of this is harmless.

use std::fs::OpenOptions;
use std::net::TcpStream;
use std::process::Command;

use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, kernel_entry, scene_facts,
};

/// Three tasks. The second one does what the parameter `what` says, the others do nothing.
pub struct ReachingScene;

impl Scene for ReachingScene {
    scene_facts! {
        name: "reaching",
        about: "a task opens /dev/null for writing, connects a socket, starts a program or writes to its input",
        hidden: true,
        params: &[ParamSpec::int("what", "0", 0, 4, "0 nothing, 1 a file, 2 a socket, 3 a program, 4 its input")],
        kernels: &[REACH],
    }

    fn args(&self, _params: &Params) -> Vec<ArgSpec> {
        vec![
            ArgSpec::input("given", DType::UInt32, &[16]),
            ArgSpec::output("reached", DType::UInt32, &[3, 1]),
        ]
    }

    fn fill(&self, _params: &Params, _args: &mut HostArgs) {}

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let (given, reached) = (o.arg("given")?, o.arg("reached")?);
        let what = u32::try_from(params.int("what")).unwrap_or(0);
        for (row, what) in (0..).zip([0, what, 0]) {
            o.task(&REACH).input(&given).output(&reached.select(0, row)?).scalar(what).submit()?;
        }
        Ok(())
    }

    fn golden(&self, _params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        None
    }
}

const REACH: KernelDef = KernelDef {
    func_id: 0,
    name: "reach",
    core_type: CoreType::Aiv,
    signature: &[In("given"), Out("reached"), Scalar("what")],
    entry: kernel_entry::<Reach>,
    reference: Some(&reach_reference),
    tolerance: None,
    faults: &[],
};

struct Reach;

impl KernelBody for Reach {
    fn run(args: &Args) {
        let what = args.scalar::<u32>(2);
        // No server is needed: only whether the attempt is allowed matters.
        let reached = match what {
            1 => OpenOptions::new().write(true).open("/dev/null").is_ok(),
            2 => {
                TcpStream::connect(("127.0.0.1", 9)).is_ok()
                    || std::net::UdpSocket::bind("127.0.0.1:0").is_ok()
            }
            3 => Command::new("true").status().is_ok(),
            4 => {
                let given = args.tensor(0);
                given.store_range(0, &[given.load::<u32>()[0].wrapping_add(1)]);
                true
            }
            _ => true,
        };
        args.tensor(1).store(&[if reached { what } else { u32::MAX }]);
    }
}

fn reach_reference(task: &mut RefTask) {
    let what = task.scalar::<u32>(2);
    task.tensors[1].values.fill(what.into());
}
