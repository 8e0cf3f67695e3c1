//! What every scene promises, as functions that take a scene and parameters: for the tests of any crate with scenes.
//!
//! Each check panics with the scene, the parameters and what is wrong.
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
    FaultKind, KernelDef, Params, RefTask, RefTensor, Scene, SequentialGraph, StepView, Tolerance,
};

use conflicts::{ancestors, conflicts};
pub use ring_use::{RingUse, ring_use};

/// Parameters as on the command line; those not named have their defaults.
pub type Given<'a> = &'a [(&'a str, &'a str)];

/// The checked parameters of a scene.
pub fn params(scene: &dyn Scene, given: Given<'_>) -> Params {
    let params = Params::resolve(scene.name(), scene.params(), given.iter().copied()).unwrap();
    scene.check(&params).unwrap();
    params
}

/// The scene's graph over its own inputs, not yet run.
pub fn recorded(scene: &dyn Scene, given: Given<'_>) -> SequentialGraph {
    let params = params(scene, given);
    SequentialGraph::record(scene, &params, &scene.host_args(&params)).unwrap()
}

/// Bytes of intermediates that a default run may hold.
const MODEST_BYTES: u64 = 256 << 20;

/// Kernels have names and ids of their own, the scene says what it is about, and its defaults are accepted and modest.
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

/// Every check that fits every scene with a golden, for several parameters; the faults for the defaults.
/// The last parameters must be small: all pairs of tasks are looked at.
pub fn all(scene: &dyn Scene, cases: &[Given<'_>]) {
    for given in cases {
        graph_equals_golden(scene, given);
        tasks_equal_references(scene, given);
    }
    edges_order_conflicts(scene, cases.last().expect("at least one case"));
    listed_faults_show(scene);
}

/// Running the tasks one after the other gives the golden.
pub fn graph_equals_golden(scene: &dyn Scene, given: Given<'_>) {
    let mut graph = recorded(scene, given);
    graph.run().unwrap();
    if let Some(wrong) = difference_from_golden(scene, given, &graph) {
        panic!("{} {given:?}: {wrong}", scene.name());
    }
}

/// Every task's kernels compute what their references say, take what their signatures say, and depend on
/// nothing an output held before.
pub fn tasks_equal_references(scene: &dyn Scene, given: Given<'_>) {
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

/// Each fault a kernel lists, but for the scheduler's race, makes the default run miss its golden.
pub fn listed_faults_show(scene: &dyn Scene) {
    for kernel in scene.kernels() {
        for &fault in kernel.faults.iter().filter(|f| **f != FaultKind::Race) {
            assert!(shows(scene, kernel, fault), "{}: {}={fault} does not show", scene.name(), kernel.name);
        }
    }
}

/// No kernel hides a fault that would show. `nan` is for outputs that can hold it, and a race is the
/// scheduler's; neither is tried here.
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

/// Any two tasks that touch a common byte, one of them writing, are ordered by a path of explicit edges.
pub fn edges_order_conflicts(scene: &dyn Scene, given: Given<'_>) {
    let graph = recorded(scene, given);
    let before = ancestors(&graph);
    for (first, second) in conflicts(&graph) {
        let ordered = before[second].contains(first);
        assert!(ordered, "{} {given:?}: task {second} must wait for task {first}", scene.name());
    }
}

/// These parameters are refused by an error that names one of them.
pub fn refused(scene: &dyn Scene, given: Given<'_>, naming: &str) {
    let resolved = Params::resolve(scene.name(), scene.params(), given.iter().copied());
    let error = match resolved.and_then(|params| scene.check(&params)) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("{} accepts {given:?}", scene.name()),
    };
    assert!(error.contains(&format!("`{naming}`")), "`{error}` does not name `{naming}`");
}

/// What the outputs hold that the golden does not, `None` when all is well.
pub fn difference_from_golden(
    scene: &dyn Scene,
    given: Given<'_>,
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
            .then(|| format!("`{}` is not as expected: {found:?}", expected.name))
    })
}

fn check_signatures(context: &str, step: &StepView) {
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
            // A step that overwrites what others accumulate into is submitted as an output.
            assert!(declared == *role || declared == Role::InOut && *role == Role::Output, "{at}");
        }
    }
}

fn check_references(context: &str, step: &StepView) {
    let expected = referenced(&step.kernels, &step.roles, &step.before);
    let tolerance = step.kernels.iter().find_map(|k| k.tolerance);
    for (arg_index, (actual, expected)) in step.after.tensors.iter().zip(&expected.tensors).enumerate() {
        let found = against_reference(actual, expected, tolerance);
        let name = step.kernels[0].name;
        assert!(
            found.verdict == Verdict::Within,
            "{context}: task {} of {name}, argument {arg_index}: {found:?}",
            step.index
        );
    }
}

/// A tensor beside what its reference says, which is f64. Integers are compared as such too.
fn against_reference(actual: &RefTensor, expected: &RefTensor, tolerance: Option<Tolerance>) -> Outcome {
    let shape: Vec<u64> = actual.shape.iter().map(|&size| size as u64).collect();
    let wide =
        |tensor: &RefTensor| -> Vec<u8> { tensor.values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    let actual_side: Side<'_> = match actual.dtype.is_float() {
        true => Side::of_bytes(actual.dtype, &shape, &actual.bytes),
        false => Side::of_bytes(DType::Float64, &shape, wide(actual)),
    };
    let expected: Side<'_> = Side::of_bytes(DType::Float64, &shape, wide(expected));
    let rule = Rule::declared(actual.dtype, tolerance);
    let Ok(outcome) = compare(&actual_side, &expected, &rule, true, Depth::Full);
    outcome
}

/// The task as its references leave it. Outputs start as NaN, which nothing may depend on.
fn referenced(kernels: &[&KernelDef], roles: &[Role], before: &RefTask) -> RefTask {
    let mut task = before.clone();
    for (tensor, role) in task.tensors.iter_mut().zip(roles) {
        if *role == Role::Output {
            tensor.values.fill(f64::NAN);
        }
    }
    for kernel in kernels {
        let reference = kernel.reference.expect("every kernel of these scenes has one");
        reference.run(&mut task).expect("it runs here");
    }
    task
}
