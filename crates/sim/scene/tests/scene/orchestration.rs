//! Tests what the orchestration API accepts and refuses, with a builder that only records its input.

use tensortap_abi::{CoreType, DType, Role, TaskId};
use tensortap_scene::{
    ArgSpec, Args, BufferTable, GraphBuilder, GraphError, KernelArg, KernelBody, KernelDef, Location,
    MAX_NAME_BYTES, Orch, PlacedArg, SceneError, TaskBuilder, TaskHandle, TaskSpec, Tensor, TensorUse,
    kernel_entry,
};

struct EmptyKernel;
impl KernelBody for EmptyKernel {
    fn run(_: &Args) {}
}

const fn kernel(func_id: u32, name: &'static str, core_type: CoreType) -> KernelDef {
    KernelDef {
        func_id,
        name,
        core_type,
        signature: &[],
        entry: kernel_entry::<EmptyKernel>,
        reference: None,
        tolerance: None,
        faults: &[],
    }
}

static MATRIX: KernelDef = kernel(0, "matrix", CoreType::Aic);
static VECTOR: KernelDef = kernel(1, "vector", CoreType::Aiv);

/// Records every task and edge. Gives a location to each buffer that a task writes first.
#[derive(Default)]
struct GraphLog {
    tasks: Vec<TaskSpec>,
    edges: Vec<(u32, u32)>,
    published: Vec<u32>,
    open_scopes: Vec<String>,
    scopes: Vec<String>,
}

impl GraphBuilder for GraphLog {
    fn add(&mut self, task: &TaskSpec, buffers: &mut BufferTable) -> Result<TaskHandle, GraphError> {
        for TensorUse { tensor, .. } in &task.tensors {
            buffers.get_mut(tensor.buffer()).unwrap().location.get_or_insert(Location::permanent(64));
        }
        self.tasks.push(task.clone());
        self.scopes.push(self.open_scopes.join("/"));
        let slot = u32::try_from(self.tasks.len() - 1).unwrap();
        Ok(TaskHandle { id: TaskId(slot.into()), slot })
    }
    fn add_edge(&mut self, from: TaskHandle, to: TaskHandle) -> Result<(), GraphError> {
        self.edges.push((from.slot, to.slot));
        Ok(())
    }
    fn publish(&mut self, task: TaskHandle) -> Result<(), GraphError> {
        self.published.push(task.slot);
        Ok(())
    }
    fn set_tensor_info(&mut self, _: TaskHandle, _: &[TensorUse], _: &BufferTable) -> Result<(), GraphError> {
        Ok(())
    }
    fn begin_scope(&mut self, name: &str) -> Result<(), GraphError> {
        self.open_scopes.push(name.into());
        Ok(())
    }
    fn end_scope(&mut self) -> Result<(), GraphError> {
        self.open_scopes.pop();
        Ok(())
    }
}

fn orchestrate(body: impl FnOnce(&mut Orch<'_>) -> Result<(), GraphError>) -> Result<GraphLog, GraphError> {
    let mut log = GraphLog::default();
    let arg = PlacedArg::new(ArgSpec::input("a", DType::Float32, &[4, 4]), Location::permanent(0));
    body(&mut Orch::new(&mut log, [arg])?)?;
    Ok(log)
}

#[test]
fn a_submission_keeps_roles_scalars_marks_and_order() {
    let log = orchestrate(|o| {
        let (a, out) = (o.arg("a")?, o.tensor(DType::Float32, &[4])?);
        let first =
            o.task(&VECTOR).input(&a.select(0, 1)?).output(&out).scalar(1.5_f32).scalar(true).submit()?;
        let late =
            o.task(&MATRIX).with(&VECTOR).inout(&out).dump([0]).dump([1]).blocks(3).after(first).add()?;
        o.publish(late)
    })
    .unwrap();
    let [first, late] = &log.tasks[..] else { panic!("two tasks") };
    assert_eq!(first.tensors.iter().map(|t| t.role).collect::<Vec<_>>(), [Role::Input, Role::Output]);
    assert_eq!(
        first.scalars.iter().map(|s| (s.bits, s.dtype)).collect::<Vec<_>>(),
        [(0x3fc0_0000, DType::Float32), (1, DType::Bool)]
    );
    assert_eq!((first.active(), late.active(), late.dispatches()), (0b010, 0b011, 6));
    assert_eq!((first.dump_marks, late.dump_marks), (0, 0b11));
    assert_eq!((log.edges, log.published), (vec![(0, 1)], vec![0, 1]));
}

#[test]
fn dump_of_everything_marks_every_argument() {
    let log = orchestrate(|o| {
        let a = o.arg("a")?;
        o.task(&VECTOR).input(&a).dump(..).submit().map(|_| ())
    });
    assert_eq!(log.unwrap().tasks[0].dump_marks, u64::MAX);
}

#[test]
fn more_tensors_scalars_or_kernels_than_fit_are_refused() {
    let too_many_tensors = orchestrate(|o| {
        let a = o.arg("a")?;
        (0..17).fold(o.task(&VECTOR), |task, _| task.input(&a)).submit().map(|_| ())
    });
    assert!(matches!(too_many_tensors.err(), Some(GraphError::TooManyTensors { count: 17, max: 16, .. })));
    let too_many_scalars =
        orchestrate(|o| (0..33).fold(o.task(&VECTOR), |task, i| task.scalar(i)).submit().map(|_| ()));
    assert!(matches!(too_many_scalars.err(), Some(GraphError::TooManyScalars { count: 33, max: 32, .. })));
    let two_matrices = orchestrate(|o| o.task(&MATRIX).with(&MATRIX).submit().map(|_| ()));
    assert!(matches!(two_matrices.err(), Some(GraphError::NoFreeSlot { kernel: "matrix", .. })));
    let no_blocks = orchestrate(|o| o.task(&VECTOR).blocks(0).submit().map(|_| ()));
    assert!(matches!(no_blocks.err(), Some(GraphError::NoBlocks { .. })));
}

#[test]
fn reading_unwritten_tensors_and_using_ended_scopes_are_refused() {
    let unwritten = orchestrate(|o| {
        let t = o.tensor(DType::Int32, &[2])?;
        o.task(&VECTOR).input(&t).submit().map(|_| ())
    });
    assert!(matches!(unwritten.err(), Some(GraphError::ReadBeforeWrite { arg_index: 0, .. })));
    let ended = orchestrate(|o| {
        let inner = o.scope("inner", |o| {
            let inner = o.tensor(DType::Int32, &[2])?;
            o.task(&VECTOR).output(&inner).submit()?;
            Ok(inner)
        })?;
        o.task(&VECTOR).input(&inner).submit().map(|_| ())
    });
    assert!(matches!(ended.err(), Some(GraphError::ScopeEnded { .. })));
    assert!(matches!(orchestrate(|o| o.arg("b").map(|_| ())).err(), Some(GraphError::NoSuchArg(_))));
}

#[test]
fn scope_names_nest_and_tasks_keep_their_names() {
    let log = orchestrate(|o| {
        let a = o.arg("a")?;
        for layer in 0..2 {
            o.scope(format_args!("layer {layer}"), |o| {
                o.task(&VECTOR).task_name("k_proj").input(&a).submit()?;
                o.scope("attention", |o| {
                    o.task(&VECTOR).task_name(format_args!("head {layer}")).input(&a).submit()
                })?;
                o.task(&VECTOR).input(&a).submit()
            })?;
        }
        o.task(&VECTOR).input(&a).submit().map(|_| ())
    })
    .unwrap();
    let names: Vec<_> = log.tasks.iter().map(|task| task.task_name.as_str()).collect();
    assert_eq!(names, ["k_proj", "head 0", "", "k_proj", "head 1", "", ""]);
    let scopes = ["layer 0", "layer 0/attention", "layer 0", "layer 1", "layer 1/attention", "layer 1", ""];
    assert_eq!(log.scopes, scopes);
}

#[test]
fn empty_and_too_long_names_are_refused_with_their_scope_or_task() {
    let fits = "é".repeat(MAX_NAME_BYTES / 2) + "/";
    let name_both =
        |name: &str| orchestrate(|o| o.scope(name, |o| o.task(&VECTOR).task_name(name).submit().map(|_| ())));
    assert_eq!(name_both(&fits).unwrap().tasks[0].task_name, fits);

    let long = fits + "x";
    let scope = orchestrate(|o| o.scope(&long, |_| Ok(()))).err().unwrap().to_string();
    assert!(
        scope.starts_with("invalid name \"éé")
            && scope.contains("of a scope")
            && scope.contains("has 256 bytes"),
        "{scope}"
    );
    let task =
        orchestrate(|o| o.task(&VECTOR).task_name(&long).submit().map(|_| ())).err().unwrap().to_string();
    assert!(task.starts_with("invalid name \"éé") && task.contains("of a task of kernel `vector`"), "{task}");
    let empty =
        orchestrate(|o| o.task(&MATRIX).task_name("").submit().map(|_| ())).err().unwrap().to_string();
    assert_eq!(empty, "invalid name \"\" of a task of kernel `matrix`: the name is empty");
}

#[test]
fn a_kernel_with_duplicate_argument_names_is_refused() {
    assert_eq!(VECTOR.check_names(), Ok(()));
    let twice = KernelDef { signature: &[KernelArg::In("x"), KernelArg::Scalar("x")], ..VECTOR };
    let error = twice.check_names().unwrap_err();
    assert!(matches!(error, SceneError::BadName { kernel: "vector", .. }), "{error}");
    let unnamed = KernelDef { signature: &[KernelArg::Out("")], ..VECTOR };
    assert!(unnamed.check_names().is_err());
}

#[test]
fn an_argument_that_does_not_match_its_declaration_is_refused_by_name() {
    use KernelArg::{In, InOut, Out, Scalar};
    static STEP: KernelDef =
        KernelDef { name: "step", signature: &[In("x"), Out("y"), InOut("state"), Scalar("rate")], ..VECTOR };
    static COUNT: KernelDef = KernelDef { name: "count", signature: &[In("x"), In("y")], ..MATRIX };
    let submit = |build: fn(TaskBuilder<'_, '_>, &Tensor) -> Result<TaskHandle, GraphError>| {
        let submitted = orchestrate(|o| {
            let a = o.arg("a")?;
            build(o.task(&STEP), &a).map(|_| ())
        });
        submitted.map(|_| ()).map_err(|error| error.to_string())
    };
    let good = |task: TaskBuilder<'_, '_>, a: &Tensor| task.input(a).output(a).inout(a).scalar(1).submit();
    assert_eq!(submit(good), Ok(()));
    // Additional arguments and broader access are allowed.
    assert_eq!(submit(|task, a| task.inout(a).inout(a).inout(a).scalar(1).scalar(2).submit()), Ok(()));
    for (refused, expected) in [
        (
            submit(|task, a| task.output(a).output(a).inout(a).scalar(1).submit()),
            "argument 0 (`x`) is declared as an input but submitted as an output",
        ),
        (
            submit(|task, a| task.input(a).input(a).inout(a).scalar(1).submit()),
            "argument 1 (`y`) is declared as an output but submitted as an input",
        ),
        (
            submit(|task, a| task.input(a).output(a).input(a).scalar(1).submit()),
            "argument 2 (`state`) is declared as an in-out but submitted as an input",
        ),
        (
            submit(|task, a| task.input(a).output(a).scalar(1).submit()),
            "argument 2 (`state`) is declared as an in-out but submitted as a scalar",
        ),
        (
            submit(|task, a| task.input(a).output(a).inout(a).submit()),
            "argument 3 (`rate`) is declared as a scalar but not submitted",
        ),
        (
            submit(|task, a| task.with(&COUNT).input(a).output(a).inout(a).scalar(1).submit()),
            "task of kernel `count`: argument 1 (`y`) is declared as an input but submitted as an output",
        ),
    ] {
        let error = refused.expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
}
