//! A hidden scene that succeeds only if tasks run concurrently: the slots of a mix task, or two independent tasks, wait for
//! one another through flags in device memory.
//!
//! With `mode=tasks`, the scene breaks the rules on purpose. Each of two tasks writes a flag that the other one polls. Both
//! declare the flags as inputs, so that no runtime sees a dependency and serializes them.

use std::time::{Duration, Instant};

use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, InOut, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Scene, TensorArg, kernel_entry, scene_facts,
};

use tensortap_scenes::inputs::dim;

/// A participant writes this value plus its index if all others arrived, and 0 otherwise.
const MET: u32 = 100;

/// Slots or tasks that wait for one another.
pub struct Rendezvous;

impl Scene for Rendezvous {
    scene_facts! {
        name: "rendezvous",
        about: "slots of a mix task, or two tasks, that wait for one another",
        hidden: true,
        params: &[
            ParamSpec::choice(
                "mode",
                "mix",
                &["mix", "tasks"],
                "participants: slots of a mix task, or two tasks",
            ),
            ParamSpec::int("patience_ms", "20000", 0, 600_000, "milliseconds for which a participant waits"),
        ],
        kernels: &[MEET_AIC, MEET_AIV, MEET_TASK],
    }

    fn args(&self, params: &Params) -> Vec<ArgSpec> {
        let shape = [dim(participants(params))];
        vec![ArgSpec::inout("flags", DType::UInt32, &shape), ArgSpec::output("met", DType::UInt32, &shape)]
    }

    fn fill(&self, _params: &Params, _args: &mut HostArgs) {}

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let (flags, met) = (o.arg("flags")?, o.arg("met")?);
        let patience_ms = params.int("patience_ms");
        if params.word("mode") == "mix" {
            let mix = o.task(&MEET_AIC).with(&MEET_AIV).with(&MEET_AIV);
            mix.inout(&flags).output(&met).scalar(patience_ms).submit()?;
            return Ok(());
        }
        for me in 0..2_u32 {
            let mine = met.slice(0, me.into(), 1)?;
            o.task(&MEET_TASK).input(&flags).output(&mine).scalar(patience_ms).scalar(me).submit()?;
        }
        Ok(())
    }

    fn golden(&self, params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let count = participants(params);
        let met: Vec<u32> = (MET..).take(count).collect();
        Some(vec![
            HostTensor::new("flags", &[dim(count)], &vec![1_u32; count]),
            HostTensor::new("met", &[dim(count)], &met),
        ])
    }
}

fn participants(params: &Params) -> usize {
    if params.word("mode") == "mix" { 3 } else { 2 }
}

const MEET_AIC: KernelDef = KernelDef {
    func_id: 0,
    name: "meet_aic",
    core_type: CoreType::Aic,
    signature: &[InOut("flags"), Out("met"), Scalar("patience_ms")],
    entry: kernel_entry::<MeetSlot>,
    reference: Some(&meet_slot_reference),
    tolerance: None,
    faults: &[],
};

const MEET_AIV: KernelDef = KernelDef { func_id: 1, name: "meet_aiv", core_type: CoreType::Aiv, ..MEET_AIC };

const MEET_TASK: KernelDef = KernelDef {
    func_id: 2,
    name: "meet_task",
    core_type: CoreType::Aiv,
    signature: &[In("flags"), Out("met"), Scalar("patience_ms"), Scalar("me")],
    entry: kernel_entry::<MeetTask>,
    reference: Some(&meet_task_reference),
    tolerance: None,
    faults: &[],
};

/// Sets its own flag and waits for all others. Returns whether they arrived in time.
fn meet(flags: &TensorArg, me: usize, patience_ms: u64) -> bool {
    flags.signal_u32(me, 1);
    let (start, patience) = (Instant::now(), Duration::from_millis(patience_ms));
    loop {
        if (0..flags.numel()).all(|other| flags.poll_u32(other) == 1) {
            return true;
        }
        if start.elapsed() >= patience {
            return false;
        }
        std::thread::yield_now();
    }
}

/// A slot of the mix task, identified by its subtask id. It writes its own element.
struct MeetSlot;

impl KernelBody for MeetSlot {
    fn run(args: &Args) {
        let subtask_id = args.subtask().subtask_id;
        let me = subtask_id as usize;
        let all_came = meet(&args.tensor(0), me, args.scalar(2));
        args.tensor(1).store_range(me, &[if all_came { MET + subtask_id } else { 0 }]);
    }
}

fn meet_slot_reference(task: &mut RefTask) {
    task.tensors[0].values = vec![1.0; 3];
    task.tensors[1].values = vec![100.0, 101.0, 102.0];
}

/// One of the two tasks, identified by a scalar.
struct MeetTask;

impl KernelBody for MeetTask {
    fn run(args: &Args) {
        let me = args.scalar::<u32>(3);
        let all_came = meet(&args.tensor(0), me as usize, args.scalar(2));
        args.tensor(1).store(&[if all_came { MET + me } else { 0 }]);
    }
}

/// The flags are declared as inputs, so the reference does not change them.
fn meet_task_reference(task: &mut RefTask) {
    task.tensors[1].values[0] = 100.0 + f64::from(task.scalar::<u32>(3));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tensortap_scene::SequentialGraph;
    use tensortap_scenes::checks::{self, ParamPairs, difference_from_golden, params, recorded};

    const HASTY: [ParamPairs<'static>; 2] =
        [&[("patience_ms", "0"), ("mode", "mix")], &[("patience_ms", "0"), ("mode", "tasks")]];

    #[test]
    fn participants_that_run_in_sequence_do_not_meet() {
        for given in HASTY {
            let mut graph = recorded(&Rendezvous, given);
            graph.run().unwrap();
            let wrong = difference_from_golden(&Rendezvous, given, &graph).expect("they do not meet");
            assert!(wrong.contains("`met`"), "{wrong}");
        }
    }

    #[test]
    fn participants_meet_if_the_flags_are_set() {
        for given in HASTY {
            let params = params(&Rendezvous, given);
            let mut inputs = Rendezvous.host_args(&params);
            inputs.get_mut("flags").set(&vec![1_u32; participants(&params)]);
            let mut graph = SequentialGraph::record(&Rendezvous, &params, &inputs).unwrap();
            graph.run().unwrap();
            assert_eq!(difference_from_golden(&Rendezvous, given, &graph), None);
        }
    }

    #[test]
    fn no_runtime_sees_a_dependency_between_the_tasks() {
        let given = HASTY[1];
        checks::edges_order_conflicts(&Rendezvous, given);
        assert_eq!(recorded(&Rendezvous, given).edges(), []);
    }

    #[test]
    fn rejects_parameters_out_of_range() {
        checks::refused(&Rendezvous, &[("mode", "alone")], "mode");
        checks::refused(&Rendezvous, &[("patience_ms", "600001")], "patience_ms");
    }
}
