//! A hidden scene that wraps around the rings many times. Each scope has a producer, several readers and a task that gathers
//! their results, with intermediates in memory of earlier scopes. Every task adds its number to an order-dependent checksum,
//! so the golden shows that each task ran once and read the right data.

use tensortap_abi::{CoreType, DType};
use tensortap_scene::KernelArg::{In, InOut, Out, Scalar};
use tensortap_scene::{
    ArgSpec, Args, GraphError, HostArgs, HostTensor, KernelBody, KernelDef, Orch, ParamSpec, Params, RefTask,
    Runtimes, Scene, TaskHandle, Tensor, kernel_entry, scene_facts,
};

/// The largest prime below 2^26: products of two residues are exact in f64.
const MODULUS: u64 = 67_108_859;
/// Factor of the digest `(FACTOR * value + number) mod MODULUS`, which maps different values to different digests.
const FACTOR: u64 = 48_271;
/// Tasks of the smallest scope with readers: producer, reader, gatherer.
const LEAST_FAN: u64 = 3;

/// Many scopes with small graphs that reuse memory.
pub struct RingScopes;

impl Scene for RingScopes {
    scene_facts! {
        name: "ring_scopes",
        about: "many scopes over reused memory; a checksum shows that every task ran once and in order",
        hidden: true,
        params: &[
            ParamSpec::int("tasks", "100000", 1, 10_000_000, "tasks; runtimes with a task array hold 131072"),
            ParamSpec::int("scope", "32", 1, 4096, "tasks per scope; below 3 they form a chain"),
        ],
        kernels: &[PRODUCE, READ, GATHER, STEP],
    }

    fn runtimes(&self) -> Runtimes {
        Runtimes::DeviceBuilt
    }

    fn args(&self, _params: &Params) -> Vec<ArgSpec> {
        vec![ArgSpec::inout("checksum", DType::UInt32, &[1])]
    }

    fn fill(&self, _params: &Params, args: &mut HostArgs) {
        args.get_mut("checksum").set(&[1_u32]);
    }

    fn orchestrate(&self, o: &mut Orch<'_>, params: &Params) -> Result<(), GraphError> {
        let checksum = o.arg("checksum")?;
        let mut last = None;
        for (first, tasks) in scopes(params) {
            last = Some(o.scope(format_args!("tasks from {first}"), |o| match tasks {
                LEAST_FAN.. => fan(o, &checksum, first, tasks, last),
                _ => chain(o, &checksum, first, tasks, last),
            })?);
        }
        Ok(())
    }

    /// The same digests, computed in sequence.
    fn golden(&self, params: &Params, _inputs: &HostArgs) -> Option<Vec<HostTensor>> {
        let mut checksum = 1;
        for (first, tasks) in scopes(params) {
            let numbers = first..first + tasks;
            if tasks < LEAST_FAN {
                checksum = numbers.fold(checksum, |sum, number| (sum * FACTOR + number) % MODULUS);
                continue;
            }
            let produced = (checksum * FACTOR + first) % MODULUS;
            for number in first + 1..numbers.end - 1 {
                let read = (produced * FACTOR + number) % MODULUS;
                checksum = (checksum * FACTOR + read) % MODULUS;
            }
            checksum = (checksum * FACTOR + numbers.end - 1) % MODULUS;
        }
        let checksum = u32::try_from(checksum).expect("a remainder");
        Some(vec![HostTensor::new("checksum", &[1], &[checksum])])
    }
}

/// The number of the first task and the number of tasks in each scope. Numbers start at 1, because 0 would not change a
/// checksum.
fn scopes(params: &Params) -> impl Iterator<Item = (u64, u64)> + use<> {
    let (tasks, scope) = (params.int("tasks"), params.int("scope"));
    let scopes = tasks.div_ceil(scope);
    (0..scopes).map(move |i| (1 + i * scope, scope.min(tasks - i * scope)))
}

/// A producer, readers that write one element each, and a gatherer.
fn fan(
    o: &mut Orch<'_>,
    checksum: &Tensor,
    first: u64,
    tasks: u64,
    last: Option<TaskHandle>,
) -> Result<TaskHandle, GraphError> {
    let readers = tasks - 2;
    let produced = o.tensor(DType::UInt32, &[1])?;
    let read = o.tensor(DType::UInt32, &[readers])?;
    let producer =
        o.task(&PRODUCE).input(checksum).output(&produced).scalar(first).after_all(last).submit()?;
    let mut handles = Vec::new();
    for reader in 0..readers {
        let element = read.slice(0, reader, 1)?;
        let task = o.task(&READ).input(&produced).output(&element).scalar(first + 1 + reader);
        handles.push(task.after(producer).submit()?);
    }
    let gather = o.task(&GATHER).input(&read).inout(checksum).scalar(first + tasks - 1);
    gather.after_all(handles).submit()
}

fn chain(
    o: &mut Orch<'_>,
    checksum: &Tensor,
    first: u64,
    tasks: u64,
    last: Option<TaskHandle>,
) -> Result<TaskHandle, GraphError> {
    let mut last = last;
    for number in first..first + tasks {
        last = Some(o.task(&STEP).inout(checksum).scalar(number).after_all(last).submit()?);
    }
    last.ok_or_else(|| GraphError::Other("a scope without tasks".into()))
}

const PRODUCE: KernelDef = KernelDef {
    func_id: 0,
    name: "produce",
    core_type: CoreType::Aic,
    signature: &[In("value"), Out("digest"), Scalar("number")],
    entry: kernel_entry::<Digest>,
    reference: Some(&digest_reference),
    tolerance: None,
    faults: &[],
};

const READ: KernelDef = KernelDef { func_id: 1, name: "read", core_type: CoreType::Aiv, ..PRODUCE };

const GATHER: KernelDef = KernelDef {
    func_id: 2,
    name: "gather",
    core_type: CoreType::Aiv,
    signature: &[In("read"), InOut("checksum"), Scalar("number")],
    entry: kernel_entry::<Gather>,
    reference: Some(&gather_reference),
    tolerance: None,
    faults: &[],
};

const STEP: KernelDef = KernelDef {
    func_id: 3,
    name: "step",
    core_type: CoreType::Aiv,
    signature: &[InOut("checksum"), Scalar("number")],
    entry: kernel_entry::<Step>,
    reference: Some(&step_reference),
    tolerance: None,
    faults: &[],
};

/// The digest of `value` and `number`.
fn digest(value: u32, number: u64) -> u32 {
    u32::try_from((u64::from(value) * FACTOR + number) % MODULUS).expect("a remainder is small")
}

/// Writes the digest of its input.
struct Digest;

impl KernelBody for Digest {
    fn run(args: &Args) {
        let value = args.tensor(0).load_one(0);
        args.tensor(1).store(&[digest(value, args.scalar(2))]);
    }
}

fn digest_reference(task: &mut RefTask) {
    let number = to_f64(task.scalar(2));
    task.tensors[1].values[0] = (task.tensors[0].values[0] * 48_271.0 + number) % 67_108_859.0;
}

/// Adds all results of the readers, then its own number, to the checksum.
struct Gather;

impl KernelBody for Gather {
    fn run(args: &Args) {
        let (checksum, number) = (args.tensor(1), args.scalar::<u64>(2));
        let read = args.tensor(0).load::<u32>().into_iter().map(u64::from);
        let sum = read.chain([number]).fold(checksum.load_one(0), digest);
        checksum.store(&[sum]);
    }
}

fn gather_reference(task: &mut RefTask) {
    let number = to_f64(task.scalar(2));
    let mut sum = task.tensors[1].values[0];
    for value in &task.tensors[0].values {
        sum = (sum * 48_271.0 + value) % 67_108_859.0;
    }
    task.tensors[1].values[0] = (sum * 48_271.0 + number) % 67_108_859.0;
}

/// Adds its number to the checksum.
struct Step;

impl KernelBody for Step {
    fn run(args: &Args) {
        let checksum = args.tensor(0);
        checksum.store(&[digest(checksum.load_one(0), args.scalar(1))]);
    }
}

fn step_reference(task: &mut RefTask) {
    let number = to_f64(task.scalar(1));
    task.tensors[0].values[0] = (task.tensors[0].values[0] * 48_271.0 + number) % 67_108_859.0;
}

#[expect(clippy::cast_precision_loss, reason = "task numbers are far below 2^53")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tensortap_scenes::checks::{self, ring_use};

    #[test]
    fn meets_the_requirements_of_scenes() {
        checks::all(&RingScopes, &[&[("tasks", "1000")], &[("tasks", "101"), ("scope", "10")]]);
        checks::graph_equals_golden(&RingScopes, &[]);
    }

    #[test]
    fn needs_rings_for_one_scope() {
        let held = ring_use(&RingScopes, &[("tasks", "10000")]);
        assert_eq!((held.tasks, held.bytes), (32, 4 + 30 * 4));
    }

    #[test]
    fn rejects_parameters_out_of_range() {
        checks::refused(&RingScopes, &[("tasks", "0")], "tasks");
        checks::refused(&RingScopes, &[("scope", "0")], "scope");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_sizes_give_the_golden(tasks in 1_u64..200, scope in 1_u64..20) {
            let (tasks, scope) = (tasks.to_string(), scope.to_string());
            let given = [("tasks", tasks.as_str()), ("scope", scope.as_str())];
            checks::graph_equals_golden(&RingScopes, &given);
            checks::edges_order_conflicts(&RingScopes, &given);
        }
    }
}
