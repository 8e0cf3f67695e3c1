//! Checks that every scene must pass, as functions for the tests of any crate with scenes.
//!
//! A failing check panics with the scene, the parameters and the problem.
//!
//! ```
//! use tensortap_scenes::checks;
//!
//! let scene = tensortap_scenes::builtin().find("vector_example").expect("a built-in scene");
//! checks::all(scene, &[&[], &[("n", "64")]]);
//! ```

mod conflicts;
mod ring_use;

use std::collections::HashSet;

use tensortap_abi::{ArgKind, DType, Role};
use tensortap_judge::{Depth, Outcome, Rule, Side, Verdict, compare, compare_bytes};
use tensortap_scene::{
    FaultKind, KernelDef, Params, RefTask, RefTensor, Scene, SequentialGraph, TaskObservation, Tolerance,
};

use conflicts::{ancestors, conflicts};
pub use ring_use::{RingUse, ring_use};

/// Parameters as on the command line. Other parameters have their defaults.
pub type ParamPairs<'a> = &'a [(&'a str, &'a str)];

/// The checked parameters of a scene.
pub fn params(scene: &dyn Scene, given: ParamPairs<'_>) -> Params {
    let params = Params::resolve(scene.name(), scene.params(), given.iter().copied()).unwrap();
    scene.check(&params).unwrap();
    params
}

/// The recorded graph of a scene with its own inputs, before it runs.
pub fn recorded(scene: &dyn Scene, given: ParamPairs<'_>) -> SequentialGraph {
    let params = params(scene, given);
    SequentialGraph::record(scene, &params, &scene.host_args(&params)).unwrap()
}

/// Limit on the intermediates of a default run, in bytes.
const MODEST_BYTES: u64 = 256 << 20;

/// Checks that kernels have unique names and ids, that the scene has a description, and that its defaults are
/// valid and small.
pub fn is_well_formed(scene: &dyn Scene) {
    let name = scene.name();
    assert!(!scene.about().is_empty(), "{name}");
    params(scene, &[]);
    let (mut ids, mut kernels) = (HashSet::new(), HashSet::new());
    for kernel in scene.kernels() {
        assert!(ids.insert(kernel.func_id) && kernels.insert(kernel.name), "{name}: {} twice", kernel.name);
        kernel.check_names().unwrap();
    }
    let held = ring_use(scene, &[]).total_bytes;
    assert!(held < MODEST_BYTES, "{name} holds {held} bytes");
}

/// Runs every check for scenes with a golden, for several sets of parameters. Faults are checked with the
/// defaults. The last set must be small, because all pairs of tasks are checked.
pub fn all(scene: &dyn Scene, cases: &[ParamPairs<'_>]) {
    for given in cases {
        graph_equals_golden(scene, given);
        tasks_equal_references(scene, given);
    }
    edges_order_conflicts(scene, cases.last().expect("at least one case"));
    listed_faults_show(scene);
}

/// Checks that running the tasks one after the other produces the golden.
pub fn graph_equals_golden(scene: &dyn Scene, given: ParamPairs<'_>) {
    let mut graph = recorded(scene, given);
    graph.run().unwrap();
    if let Some(wrong) = difference_from_golden(scene, given, &graph) {
        panic!("{} {given:?}: {wrong}", scene.name());
    }
}

/// Checks that the kernels of every task compute what their references compute, that they match their
/// signatures, and that they do not depend on the old content of their outputs.
pub fn tasks_equal_references(scene: &dyn Scene, given: ParamPairs<'_>) {
    let mut steps = 0;
    let context = format!("{} {given:?}", scene.name());
    recorded(scene, given)
        .run_observed(|step| {
            check_signatures(&context, step);
            check_references(&context, step);
            steps += 1;
        })
        .unwrap();
    assert!(steps > 0, "{context}: no task was checked");
}

/// Checks that each listed fault, except the scheduler's race, makes the default run differ from its golden.
pub fn listed_faults_show(scene: &dyn Scene) {
    for kernel in scene.kernels() {
        for &fault in kernel.faults.iter().filter(|f| **f != FaultKind::Race) {
            assert!(shows(scene, kernel, fault), "{}: {}={fault} does not show", scene.name(), kernel.name);
        }
    }
}

/// Checks that every fault that changes the result is listed. Skips `nan`, which not every dtype has, and
/// races, which the scheduler injects.
pub fn faults_that_show_are_listed(scene: &dyn Scene) {
    const TRIED: [FaultKind; 5] =
        [FaultKind::Sign, FaultKind::Last, FaultKind::Stale, FaultKind::Shift, FaultKind::Overflow];
    for kernel in scene.kernels() {
        for fault in TRIED.into_iter().filter(|f| !kernel.faults.contains(f)) {
            assert!(!shows(scene, kernel, fault), "{}: {}={fault} shows", scene.name(), kernel.name);
        }
    }
}

fn shows(scene: &dyn Scene, kernel: &KernelDef, fault: FaultKind) -> bool {
    let mut graph = recorded(scene, &[]);
    graph.run_with_fault(Some((kernel.func_id, fault))).unwrap();
    difference_from_golden(scene, &[], &graph).is_some()
}

/// Checks that any two tasks that access a common byte, one of them writing, are ordered by a path of
/// explicit edges.
pub fn edges_order_conflicts(scene: &dyn Scene, given: ParamPairs<'_>) {
    let graph = recorded(scene, given);
    let before = ancestors(&graph);
    for (first, second) in conflicts(&graph) {
        let ordered = before[second].contains(first);
        assert!(ordered, "{} {given:?}: task {second} must wait for task {first}", scene.name());
    }
}

/// Checks that these parameters are refused with an error that names one of them.
pub fn refused(scene: &dyn Scene, given: ParamPairs<'_>, naming: &str) {
    let resolved = Params::resolve(scene.name(), scene.params(), given.iter().copied());
    let error = match resolved.and_then(|params| scene.check(&params)) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("{} accepts {given:?}", scene.name()),
    };
    assert!(error.contains(&format!("`{naming}`")), "`{error}` does not name `{naming}`");
}

/// The first output that differs from the golden, or `None`.
pub fn difference_from_golden(
    scene: &dyn Scene,
    given: ParamPairs<'_>,
    graph: &SequentialGraph,
) -> Option<String> {
    let params = params(scene, given);
    let golden = scene.golden(&params, &scene.host_args(&params)).expect("the scene has a golden");
    let written: Vec<_> = scene.args(&params).into_iter().filter(|a| a.role.writes()).collect();
    assert_eq!(
        golden.iter().map(|g| (g.name.as_str(), g.dtype, &g.shape)).collect::<Vec<_>>(),
        written.iter().map(|a| (a.name, a.dtype, &a.shape)).collect::<Vec<_>>(),
        "the golden covers outputs and in-outs, in order"
    );
    golden.iter().find_map(|expected| {
        let rule = Rule::declared(expected.dtype, scene.tolerance(&expected.name));
        let actual = graph.arg_bytes(&expected.name).expect("the golden names an argument");
        let found = compare_bytes(expected.dtype, &expected.shape, &actual, &expected.bytes, &rule);
        (found.verdict != Verdict::Within)
            .then(|| format!("`{}` differs from the golden: {found:?}", expected.name))
    })
}

fn check_signatures(context: &str, step: &TaskObservation) {
    for kernel in &step.kernels {
        let (tensors, scalars) = kernel.signature.split_at(step.roles.len());
        let at = format!("{context}: task {} of {}", step.index, kernel.name);
        let scalars: Vec<_> = scalars.iter().map(|arg| arg.kind()).collect();
        assert_eq!(scalars, vec![ArgKind::Scalar; step.before.scalars.len()], "{at}");
        for (declared, role) in tensors.iter().zip(&step.roles) {
            let declared = match declared.kind() {
                ArgKind::In => Role::Input,
                ArgKind::Out => Role::Output,
                ArgKind::InOut => Role::InOut,
                ArgKind::Scalar => panic!("{at}: a scalar before a tensor"),
            };
            // The first step of an accumulation submits the accumulator as an output.
            assert!(declared == *role || declared == Role::InOut && *role == Role::Output, "{at}");
        }
    }
}

fn check_references(context: &str, step: &TaskObservation) {
    let expected = run_references(&step.kernels, &step.roles, &step.before);
    let tolerance = step.kernels.iter().find_map(|k| k.tolerance);
    for (arg_index, (actual, expected)) in step.after.tensors.iter().zip(&expected.tensors).enumerate() {
        let found = compare_with_reference(actual, expected, tolerance);
        let name = step.kernels[0].name;
        assert!(
            found.verdict == Verdict::Within,
            "{context}: task {} of {name}, argument {arg_index}: {found:?}",
            step.index
        );
    }
}

/// Compares a tensor with its reference in f64. Integers are compared as integers.
fn compare_with_reference(actual: &RefTensor, expected: &RefTensor, tolerance: Option<Tolerance>) -> Outcome {
    let shape: Vec<u64> = actual.shape.iter().map(|&size| size as u64).collect();
    let wide =
        |tensor: &RefTensor| -> Vec<u8> { tensor.values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let is_complex = actual.dtype.is_complex();
    let actual_side: Side<'_> = match actual.dtype.is_float() || is_complex {
        true => Side::of_bytes(actual.dtype, &shape, &actual.bytes),
        false => Side::of_bytes(DType::Float64, &shape, wide(actual)),
    };
    let wide_dtype = if is_complex { DType::Complex128 } else { DType::Float64 };
    let expected: Side<'_> = Side::of_bytes(wide_dtype, &shape, wide(expected));
    let rule = Rule::declared(actual.dtype, tolerance);
    let Ok(outcome) = compare(&actual_side, &expected, &rule, true, Depth::Full);
    outcome
}

/// Runs the references of a task. Its outputs start as NaN, and no result may depend on that.
fn run_references(kernels: &[&KernelDef], roles: &[Role], before: &RefTask) -> RefTask {
    let mut task = before.clone();
    for (tensor, role) in task.tensors.iter_mut().zip(roles) {
        if *role == Role::Output {
            tensor.values.fill(f64::NAN);
        }
    }
    for kernel in kernels {
        let reference = kernel.reference.expect("every kernel of these scenes has a reference");
        reference.run(&mut task).expect("references in Rust do not fail");
    }
    task
}
