//! Faults: what goes wrong in the faulty run, and who did it.

use clap::ValueEnum;

use crate::program::{Access, Action, Deviation, Form, HostWrite, Launch, Plan, Program, View};
use crate::waits::Uses;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fault {
    /// Both runs are right.
    None,
    /// Kernels compute with noise far within the tolerance.
    Noise,
    /// One element is wrong by less than the tolerance.
    Below,
    /// One element is wrong.
    Value,
    /// The last element is wrong.
    Last,
    /// One element is not a number.
    Nan,
    /// A kernel does not write.
    Stale,
    /// All launches of a kernel compute something else.
    Code,
    /// A launch gets another scalar.
    Scalar,
    /// A launch reads another buffer.
    WrongBuffer,
    /// A launch gets two inputs in the wrong order.
    Swapped,
    /// A launch writes to another buffer.
    WrongOutput,
    /// A launch is missing.
    Missing,
    /// There is one more launch.
    Extra,
    /// The host does not initialize an input.
    Uninitialized,
    /// The host provides other data.
    Host,
    /// The content that an input had before recording began differs. One of the dumps may not show it.
    External,
    /// A launch also writes after the end of its output.
    OutOfBounds,
    /// A launch runs before the launch that it must wait for.
    Race,
    /// Two launches are wrong.
    Two,
    /// A launch is wrong by less than the tolerance, and a launch that reads its result amplifies the error.
    Amplified,
}

impl Fault {
    pub const ALL: &[Fault] = Fault::VARIANTS;
    const VARIANTS: &'static [Fault] = &[
        Fault::None,
        Fault::Noise,
        Fault::Below,
        Fault::Value,
        Fault::Last,
        Fault::Nan,
        Fault::Stale,
        Fault::Code,
        Fault::Scalar,
        Fault::WrongBuffer,
        Fault::Swapped,
        Fault::WrongOutput,
        Fault::Missing,
        Fault::Extra,
        Fault::Uninitialized,
        Fault::Host,
        Fault::External,
        Fault::OutOfBounds,
        Fault::Race,
        Fault::Two,
        Fault::Amplified,
    ];

    /// Whether the faulty run counts as right.
    pub fn is_right(self) -> bool {
        matches!(self, Fault::None | Fault::Noise | Fault::Below)
    }

    /// Whether a fact that no task's recording shows decides: something wrote where only the next reader sees
    /// it. Dumps without all inputs cannot show it, so such faults get dumps without filters.
    pub fn needs_all_inputs(self) -> bool {
        matches!(self, Fault::OutOfBounds | Fault::Race | Fault::Host | Fault::Uninitialized)
    }

    /// Whether the two runs perform different launches, or in a different order.
    pub fn changes_structure(self) -> bool {
        matches!(self, Fault::Missing | Fault::Extra | Fault::Race | Fault::Uninitialized)
    }
}

/// The name of a fault on the command line and in the table.
pub fn name_of(fault: impl ValueEnum + Copy) -> String {
    fault.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The faults among `all` that the user wants; all of them without a choice.
pub fn chosen<F: ValueEnum + Copy>(all: &[F], only: &[String]) -> Vec<F> {
    all.iter().copied().filter(|&fault| only.is_empty() || only.contains(&name_of(fault))).collect()
}

/// Who is at fault.
#[derive(Clone, Debug, Default)]
pub struct Guilt {
    /// Launches and host writes that did something wrong.
    pub guilty: Vec<usize>,
    /// The launch that wrote and the one that read too early.
    pub race: Option<(usize, usize)>,
}

/// Applies a fault to a plan. None if the program has no place for it.
pub fn apply(fault: Fault, plan: &mut Plan, random: &mut fastrand::Rng) -> Option<Guilt> {
    let launches: Vec<usize> = positions(&plan.program, |action| matches!(action, Action::Launch { .. }));
    let at = *random.choice(launches.iter())?;
    let id = plan.program.actions[at].id()?;
    let by = if random.bool() { 0.5 } else { -2.0 };
    let guilty = |id: usize| Some(Guilt { guilty: vec![id], race: None });
    let wrong = Deviation::Value { element: random.usize(..1000), by };
    match fault {
        Fault::None => Some(Guilt::default()),
        Fault::Noise if !has_only_floats(&plan.program) => None,
        Fault::Noise => {
            plan.noise = Some(random.u64(..));
            Some(Guilt::default())
        }
        Fault::Below | Fault::Amplified => below(plan, id, random, fault),
        Fault::Value => deviate(plan, id, wrong),
        Fault::Nan => deviate(plan, id, Deviation::Value { element: random.usize(..1000), by: 0.0 }),
        Fault::Last => deviate(plan, id, Deviation::Last),
        Fault::Stale => deviate(plan, id, Deviation::Stale),
        Fault::Code => code(plan, at, random),
        Fault::Two => {
            let second = plan.program.actions[*random.choice(launches.iter())?].id()?;
            plan.deviations.push((id, wrong));
            plan.deviations.push((second, Deviation::Last));
            (second != id).then(|| Guilt { guilty: vec![id, second], race: None })
        }
        Fault::Scalar => scalar(plan, at).and_then(|()| guilty(id)),
        Fault::WrongBuffer => wrong_input(plan, at, random).and_then(|()| guilty(id)),
        Fault::Swapped => swap(plan, at).and_then(|()| guilty(id)),
        Fault::WrongOutput => wrong_output(plan, at, random).and_then(|()| guilty(id)),
        Fault::Missing => {
            plan.program.actions.remove(at);
            forget(&mut plan.program, id);
            guilty(id)
        }
        Fault::Extra => extra(plan, at, random),
        Fault::Uninitialized => host(plan, random, false),
        Fault::Host => host(plan, random, true),
        Fault::External => external(plan, random),
        Fault::OutOfBounds => deviate(plan, id, Deviation::OutOfBounds { elements: random.usize(1..=24) }),
        Fault::Race => race(plan, random),
    }
}

fn positions(program: &Program, is_wanted: impl Fn(&Action) -> bool) -> Vec<usize> {
    (0..program.actions.len()).filter(|&at| is_wanted(&program.actions[at])).collect()
}

fn launch_at(program: &mut Program, at: usize) -> Option<&mut Launch> {
    match &mut program.actions[at] {
        Action::Launch { launch, .. } => Some(launch),
        _ => None,
    }
}

fn deviate(plan: &mut Plan, id: usize, deviation: Deviation) -> Option<Guilt> {
    plan.deviations.push((id, deviation));
    Some(Guilt { guilty: vec![id], race: None })
}

/// Only floats have a tolerance. A kernel that reads floats as integers would leave the rule.
pub fn has_only_floats(program: &Program) -> bool {
    program.kernels.iter().flat_map(|kernel| &kernel.params).all(|param| param.element.is_float())
}

fn below(plan: &mut Plan, id: usize, random: &mut fastrand::Rng, fault: Fault) -> Option<Guilt> {
    if !has_only_floats(&plan.program) {
        return None;
    }
    let by = if plan.program.style.element_bytes == 4 { 2e-6 } else { 2e-8 };
    plan.deviations.push((id, Deviation::Value { element: random.usize(..1000), by }));
    let guilty = if fault == Fault::Amplified { vec![id] } else { Vec::new() };
    Some(Guilt { guilty, race: None })
}

/// Makes a kernel amplify errors. Returns whether the program has such a kernel.
pub fn amplify(program: &mut Program, random: &mut fastrand::Rng) -> bool {
    let is_float = has_only_floats(program);
    let kernel = random.usize(..program.kernels.len());
    program.kernels[kernel].form = Form::Amplify;
    is_float && program.kernels[kernel].params.iter().any(|param| param.access.reads())
}

/// Other content in a block from before recording began.
fn external(plan: &mut Plan, random: &mut fastrand::Rng) -> Option<Guilt> {
    let prefix = 0..plan.program.unrecorded_prefix;
    let hosts: Vec<usize> =
        prefix.filter(|&at| matches!(plan.program.actions[at], Action::Host { .. })).collect();
    let at = *random.choice(hosts.iter())?;
    let Action::Host { data, .. } = &mut plan.program.actions[at] else { return None };
    data.seed ^= 1 + random.u64(..u64::MAX);
    Some(Guilt::default())
}

fn code(plan: &mut Plan, at: usize, random: &mut fastrand::Rng) -> Option<Guilt> {
    let kernel = launch_at(&mut plan.program, at)?.kernel;
    let salt = random.u64(..);
    let of_kernel = plan.program.actions.iter().filter_map(|action| match action {
        Action::Launch { id, launch } if launch.kernel == kernel => Some(*id),
        _ => None,
    });
    let guilty: Vec<usize> = of_kernel.collect();
    plan.deviations.extend(guilty.iter().map(|&id| (id, Deviation::Code { salt })));
    Some(Guilt { guilty, race: None })
}

fn scalar(plan: &mut Plan, at: usize) -> Option<()> {
    let kernel = launch_at(&mut plan.program, at)?.kernel;
    let is_garbage = plan.program.kernels[kernel].garbage_scalar;
    let scalars = &mut launch_at(&mut plan.program, at)?.scalars;
    let meant = scalars.len().checked_sub(usize::from(is_garbage))?;
    *scalars[..meant].first_mut()? += 1000;
    Some(())
}

/// The blocks that are allocated before an action, other than one.
fn live_blocks(program: &Program, at: usize, except: usize) -> Vec<usize> {
    let mut live = vec![false; program.blocks.len()];
    for action in &program.actions[..at] {
        match action {
            Action::Alloc { block } => live[*block] = true,
            Action::Free { block } => live[*block] = false,
            Action::Host { .. } | Action::Launch { .. } => {}
        }
    }
    (0..live.len()).filter(|&block| live[block] && block != except).collect()
}

/// Another place for an argument: the same elements of another block.
fn elsewhere(program: &Program, at: usize, view: &View, random: &mut fastrand::Rng) -> Option<View> {
    let end = view.elements().iter().max()? + 1;
    let mut fits = live_blocks(program, at, view.block);
    fits.retain(|&block| program.blocks[block] >= end);
    Some(View { block: *random.choice(fits.iter())?, ..view.clone() })
}

fn wrong_input(plan: &mut Plan, at: usize, random: &mut fastrand::Rng) -> Option<()> {
    replace(plan, at, random, |access| access == Access::Read)
}

fn wrong_output(plan: &mut Plan, at: usize, random: &mut fastrand::Rng) -> Option<()> {
    replace(plan, at, random, |access| access == Access::Write)
}

fn replace(
    plan: &mut Plan,
    at: usize,
    random: &mut fastrand::Rng,
    is_wanted: impl Fn(Access) -> bool,
) -> Option<()> {
    let Action::Launch { launch, .. } = plan.program.actions[at].clone() else { return None };
    let params = &plan.program.kernels[launch.kernel].params;
    let position = params.iter().position(|param| is_wanted(param.access))?;
    let view = elsewhere(&plan.program, at, &launch.args[position].view, random)?;
    launch_at(&mut plan.program, at)?.args[position].view = view;
    Some(())
}

fn swap(plan: &mut Plan, at: usize) -> Option<()> {
    let kernel = launch_at(&mut plan.program, at)?.kernel;
    let params = plan.program.kernels[kernel].params.clone();
    let reads: Vec<usize> = (0..params.len()).filter(|&arg| params[arg].access == Access::Read).collect();
    let &[first, second, ..] = reads.as_slice() else { return None };
    let args = &mut launch_at(&mut plan.program, at)?.args;
    // Sizes stay, so that only the content tells.
    if args[first].view.shape != args[second].view.shape || params[first].element != params[second].element {
        return None;
    }
    let left = args[first].view.clone();
    args[first].view = args[second].view.clone();
    args[second].view = left;
    Some(())
}

/// Nothing waits for a launch that is not there.
fn forget(program: &mut Program, id: usize) {
    for at in 0..program.actions.len() {
        if let Some(launch) = launch_at(program, at) {
            launch.waits.retain(|&of| of != id);
            launch.feeds.retain(|&of| of != id);
        }
    }
}

/// One more launch like another one, right after it.
fn extra(plan: &mut Plan, at: usize, random: &mut fastrand::Rng) -> Option<Guilt> {
    let Action::Launch { mut launch, .. } = plan.program.actions[at].clone() else { return None };
    let id = 1 + plan.program.actions.iter().filter_map(Action::id).max()?;
    let params = plan.program.kernels[launch.kernel].params.clone();
    if random.bool() {
        let output = params.iter().position(|param| param.access == Access::Write)?;
        launch.args[output].view = elsewhere(&plan.program, at, &launch.args[output].view, random)?;
    }
    launch.name = launch.name.map(|name| format!("{name}x"));
    plan.program.actions.insert(at + 1, Action::Launch { id, launch });
    Some(Guilt { guilty: vec![id], race: None })
}

fn host(plan: &mut Plan, random: &mut fastrand::Rng, writes: bool) -> Option<Guilt> {
    let hosts = positions(&plan.program, |action| matches!(action, Action::Host { .. }));
    let at = *random.choice(hosts.iter())?;
    let Action::Host { id, data } = &mut plan.program.actions[at] else { return None };
    let (id, how) = (*id, data.how);
    if writes {
        data.seed ^= 1 + random.u64(..u64::MAX);
    } else {
        plan.program.actions.remove(at);
        plan.program.unrecorded_prefix -= usize::from(at < plan.program.unrecorded_prefix);
        forget(&mut plan.program, id);
    }
    let guilty = if how == HostWrite::Recorded { vec![id] } else { Vec::new() };
    Some(Guilt { guilty, race: None })
}

/// Moves a launch before one that it reads from. Everything else keeps its order and its inputs.
fn race(plan: &mut Plan, random: &mut fastrand::Rng) -> Option<Guilt> {
    let program = &plan.program;
    let launches = positions(program, |action| matches!(action, Action::Launch { .. }));
    let mut pairs = Vec::new();
    for &late in &launches {
        for &early in launches.iter().filter(|&&early| early < late) {
            if is_racy(program, early, late) {
                pairs.push((early, late));
            }
        }
    }
    let &(early, late) = random.choice(pairs.iter())?;
    let mut moved = plan.program.actions.remove(late);
    let (writer, reader) = (plan.program.actions[early].id()?, moved.id()?);
    if let Action::Launch { launch, .. } = &mut moved {
        launch.waits.retain(|&of| of != writer);
        launch.feeds.retain(|&of| of != writer);
    }
    plan.program.actions.insert(early, moved);
    Some(Guilt { guilty: Vec::new(), race: Some((writer, reader)) })
}

fn is_racy(program: &Program, early: usize, late: usize) -> bool {
    let (Action::Launch { launch: writer, .. }, Action::Launch { launch: reader, .. }) =
        (&program.actions[early], &program.actions[late])
    else {
        return false;
    };
    let [first, second] = [early, late].map(|at| Uses::of(program, &program.actions[at]));
    let reads = !second.reads.is_disjoint(&first.writes);
    let disturbs = second.writes.iter().any(|at| first.reads.contains(at) || first.writes.contains(at));
    let between = &program.actions[early + 1..late];
    let is_free = between.iter().all(|action| match action {
        Action::Alloc { .. } | Action::Free { .. } => false,
        Action::Launch { launch, .. } if launch.lane == reader.lane => false,
        Action::Host { .. } | Action::Launch { .. } => !Uses::of(program, action).conflict(&second),
    });
    writer.lane != reader.lane && reads && !disturbs && is_free
}
